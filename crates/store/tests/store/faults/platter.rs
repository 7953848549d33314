//! What is on a disk after a power cut.
//!
//! What was synced is there. Of everything else each sector's part of each write is there, or not,
//! or torn, and they got there in any order; names that were made or removed since the directory
//! was last synced are there up to some moment. A sync that failed has written some of its writes,
//! and those that it has not written are never written: later syncs succeed without them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::disk::{Event, Image, write_into};
use super::work::Chance;

/// What is written as a whole, if it is not torn.
pub(super) const SECTOR: usize = 512;

/// What is surely on disk, and what may be.
#[derive(Debug, Default)]
pub(super) struct Platter {
    names: BTreeMap<String, usize>,
    /// Later names of files, and none for those that were removed.
    unsynced_names: Vec<(String, Option<usize>)>,
    files: BTreeMap<usize, File>,
}

#[derive(Debug, Default)]
struct File {
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Arc<[u8]> },
    Truncate { size: usize },
}

/// How much of what was not synced there is.
#[derive(Debug, Clone, Copy)]
struct Luck {
    /// Of 8 sectors, how many were written.
    written: u64,
    /// Of 8 of those, how many were torn.
    torn: u64,
}

impl Platter {
    /// Begins with files that are on disk; they go by the numbers that a disk gives them.
    pub(super) fn holding(image: &Image) -> Self {
        let mut platter = Self::default();
        for (number, (name, bytes)) in image.iter().enumerate() {
            platter.names.insert(name.clone(), number);
            let file = File { synced: bytes.clone(), unsynced: Vec::new() };
            platter.files.insert(number, file);
        }
        platter
    }

    /// Takes in what happened next.
    pub(super) fn advance(&mut self, event: &Event, chance: &mut Chance) {
        match event {
            Event::Create { name, file } => {
                self.files.insert(*file, File::default());
                self.unsynced_names.push((name.clone(), Some(*file)));
            }
            Event::Delete { name, synced } => {
                self.unsynced_names.push((name.clone(), None));
                if *synced {
                    self.sync_names();
                }
            }
            Event::Write { file, offset, bytes } => {
                let change = Change::Write { offset: *offset, bytes: bytes.clone() };
                self.files.entry(*file).or_default().unsynced.push(change);
            }
            Event::Truncate { file, size } => {
                self.files
                    .entry(*file)
                    .or_default()
                    .unsynced
                    .push(Change::Truncate { size: *size });
            }
            Event::Sync { file, directory } => {
                let file = self.files.entry(*file).or_default();
                for change in file.unsynced.drain(..) {
                    change.apply(&mut file.synced);
                }
                if *directory {
                    self.sync_names();
                }
            }
            Event::FailedSync { file } => {
                let file = self.files.entry(*file).or_default();
                file.synced = file.after_a_cut(Luck::draw(chance), chance);
                file.unsynced.clear();
            }
        }
    }

    /// Returns the files as they are found after a power cut at this moment.
    pub(super) fn after_a_cut(&self, chance: &mut Chance) -> Image {
        let luck = Luck::draw(chance);
        let mut names = self.names.clone();
        let known = chance.below(self.unsynced_names.len() as u64 + 1);
        let known = usize::try_from(known).unwrap();
        rename(&mut names, self.unsynced_names[..known].iter().cloned());
        let after =
            |(name, file): (String, usize)| (name, self.files[&file].after_a_cut(luck, chance));
        names.into_iter().map(after).collect()
    }

    fn sync_names(&mut self) {
        rename(&mut self.names, self.unsynced_names.drain(..));
    }
}

fn rename(
    names: &mut BTreeMap<String, usize>,
    changes: impl Iterator<Item = (String, Option<usize>)>,
) {
    for (name, file) in changes {
        match file {
            Some(file) => names.insert(name, file),
            None => names.remove(&name),
        };
    }
}

impl Luck {
    fn draw(chance: &mut Chance) -> Self {
        // Nothing at all and everything are the cases that matter most, so they come often.
        let written = [0, 0, 1, 4, 7, 8][usize::try_from(chance.below(6)).unwrap()];
        Self { written, torn: chance.below(3) }
    }
}

impl File {
    fn after_a_cut(&self, luck: Luck, chance: &mut Chance) -> Vec<u8> {
        let mut changes: Vec<_> = self.unsynced.iter().flat_map(Change::by_sector).collect();
        shuffle(&mut changes, chance);
        let mut bytes = self.synced.clone();
        for change in changes {
            if chance.below(8) >= luck.written {
                continue;
            }
            let torn = chance.below(8) < luck.torn;
            if torn { change.torn(chance) } else { change }.apply(&mut bytes);
        }
        bytes
    }
}

fn shuffle<T>(list: &mut [T], chance: &mut Chance) {
    for end in (1..list.len()).rev() {
        list.swap(end, usize::try_from(chance.below(end as u64 + 1)).unwrap());
    }
}

impl Change {
    fn apply(self, file: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write_into(file, offset, &bytes),
            Self::Truncate { size } => file.truncate(size),
        }
    }

    /// Splits a write at the borders of sectors.
    fn by_sector(&self) -> Vec<Self> {
        let Self::Write { offset, bytes } = self else {
            return vec![self.clone()];
        };
        let (mut offset, mut rest) = (*offset, &bytes[..]);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, others) = rest.split_at(rest.len().min(SECTOR - offset % SECTOR));
            parts.push(Self::Write { offset, bytes: part.into() });
            (offset, rest) = (offset + part.len(), others);
        }
        parts
    }

    /// Leaves only the beginning or the end of a write, or something else in its place.
    fn torn(self, chance: &mut Chance) -> Self {
        let Self::Write { offset, bytes } = self else {
            return self;
        };
        let at = usize::try_from(chance.below(bytes.len() as u64 + 1)).unwrap();
        match chance.below(3) {
            0 => Self::Write { offset, bytes: bytes[..at].into() },
            1 => Self::Write { offset: offset + at, bytes: bytes[at..].into() },
            _ => {
                let mut noise = bytes.to_vec();
                for byte in &mut noise[at..] {
                    *byte ^= u8::try_from(chance.below(256)).unwrap();
                }
                Self::Write { offset, bytes: noise.into() }
            }
        }
    }
}
