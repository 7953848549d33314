//! A disk in memory that knows what has been synced, writes down all that happens to it, and fails
//! when it is told to.
//!
//! It is one directory of files, as SQLite sees it. What is read back is always what was written
//! last, as with a page cache; what would survive a power cut is worked out from the trace, by
//! [`super::platter`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::raw::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use super::locks::{FileLocks, Shared};

/// The files of a directory by name.
pub(super) type Image = BTreeMap<String, Vec<u8>>;

/// What happened to a disk, as far as it could matter after a power cut.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Create {
        name: String,
        file: usize,
    },
    /// With `synced`, the names of all files are on disk then.
    Delete {
        name: String,
        synced: bool,
    },
    Write {
        file: usize,
        offset: usize,
        bytes: Arc<[u8]>,
    },
    Truncate {
        file: usize,
        size: usize,
    },
    /// The file is on disk now; with `directory`, the names of all files are, too.
    Sync {
        file: usize,
        directory: bool,
    },
    /// The operating system could not write some of it, and will not try again.
    FailedSync {
        file: usize,
    },
}

/// What is to go wrong.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    /// The syncs that fail, counted from 1.
    pub(super) failing_syncs: Range<u64>,
    /// The syncs of anything but a log that fail, counted from 1.
    pub(super) failing_other_syncs: Range<u64>,
    /// The write that fails, counted from 1.
    pub(super) failing_write: Option<u64>,
    /// How many bytes all files may have together.
    pub(super) space: Option<usize>,
}

/// What has happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) log_syncs: u64,
    pub(super) other_syncs: u64,
    pub(super) failures: u64,
    /// How often the database was opened to be written to.
    pub(super) openings: u64,
    /// How often somebody was told that the disk is full.
    pub(super) refusals: u64,
}

/// A disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, usize>,
    files: Vec<File>,
    trace: Vec<Event>,
    faults: Faults,
    counts: Counts,
    normal: bool,
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    is_log: bool,
    /// The first sync of a journal or a log also writes the directory it is in.
    syncs_directory: bool,
    locks: FileLocks,
    shared: Shared,
}

impl Disk {
    /// Makes a disk with these files on it.
    pub(super) fn holding(image: &Image) -> Self {
        let disk = Self::default();
        let mut state = disk.lock();
        for (name, bytes) in image {
            let file = state.create(name);
            state.files[file].bytes.clone_from(bytes);
            state.files[file].syncs_directory = false;
        }
        drop(state);
        disk
    }

    /// Lets things go wrong from now on.
    pub(super) fn fail(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Makes connections sync as with `synchronous=NORMAL`, whatever they ask for.
    pub(super) fn be_normal(&self) {
        self.lock().normal = true;
    }

    pub(super) fn is_normal(&self) -> bool {
        self.lock().normal
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Returns how long the trace is: the place of the next event.
    pub(super) fn now(&self) -> usize {
        self.lock().trace.len()
    }

    pub(super) fn trace(&self) -> Vec<Event> {
        self.lock().trace.clone()
    }

    /// Returns how many bytes all files have together.
    pub(super) fn used(&self) -> usize {
        self.lock().used()
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        let state = self.lock();
        // SQLite's own file system counts empty files as missing, so that a log or journal that
        // was created and never written to is not looked at.
        state.names.get(name).is_some_and(|file| !state.files[*file].bytes.is_empty())
    }

    /// Finds a file, or makes it.
    pub(super) fn open(&self, name: &str, flags: c_int) -> Result<usize, c_int> {
        let mut state = self.lock();
        let writing = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_READWRITE;
        if flags & writing == writing {
            state.counts.openings += 1;
        }
        if let Some(file) = state.names.get(name) {
            return Ok(*file);
        }
        if flags & ffi::SQLITE_OPEN_CREATE == 0 {
            return Err(ffi::SQLITE_CANTOPEN);
        }
        let file = state.create(name);
        state.trace.push(Event::Create { name: name.to_owned(), file });
        Ok(file)
    }

    pub(super) fn delete(&self, name: &str, synced: bool) -> Result<(), c_int> {
        let mut state = self.lock();
        state.names.remove(name).ok_or(ffi::SQLITE_IOERR_DELETE_NOENT)?;
        state.trace.push(Event::Delete { name: name.to_owned(), synced });
        Ok(())
    }

    /// Reads what is there; answers how much that was.
    pub(super) fn read(&self, file: usize, offset: usize, into: &mut [u8]) -> usize {
        let state = self.lock();
        let bytes = state.files[file].bytes.get(offset..).unwrap_or_default();
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        length
    }

    pub(super) fn write(&self, file: usize, offset: usize, bytes: &[u8]) -> Result<(), c_int> {
        let mut state = self.lock();
        state.counts.writes += 1;
        if state.faults.failing_write == Some(state.counts.writes) {
            state.counts.failures += 1;
            return Err(ffi::SQLITE_IOERR_WRITE);
        }
        let end = offset + bytes.len();
        let growth = end.saturating_sub(state.files[file].bytes.len());
        if growth > 0 && state.faults.space.is_some_and(|space| state.used() + growth > space) {
            state.counts.refusals += 1;
            return Err(ffi::SQLITE_FULL);
        }
        write_into(&mut state.files[file].bytes, offset, bytes);
        state.trace.push(Event::Write { file, offset, bytes: bytes.into() });
        Ok(())
    }

    pub(super) fn truncate(&self, file: usize, size: usize) {
        let mut state = self.lock();
        state.files[file].bytes.resize(size, 0);
        state.trace.push(Event::Truncate { file, size });
    }

    pub(super) fn sync(&self, file: usize) -> Result<(), c_int> {
        let mut state = self.lock();
        let is_log = state.files[file].is_log;
        if is_log {
            state.counts.log_syncs += 1;
        } else {
            state.counts.other_syncs += 1;
        }
        let Counts { log_syncs, other_syncs, .. } = state.counts;
        let (faults, number) = (&state.faults, log_syncs + other_syncs);
        if faults.failing_syncs.contains(&number)
            || (!is_log && faults.failing_other_syncs.contains(&other_syncs))
        {
            state.counts.failures += 1;
            state.trace.push(Event::FailedSync { file });
            return Err(ffi::SQLITE_IOERR_FSYNC);
        }
        let directory = std::mem::take(&mut state.files[file].syncs_directory);
        state.trace.push(Event::Sync { file, directory });
        Ok(())
    }

    pub(super) fn size(&self, file: usize) -> usize {
        self.lock().files[file].bytes.len()
    }

    /// Does something with the locks of a file.
    pub(super) fn with_locks<T>(&self, file: usize, work: impl FnOnce(&mut FileLocks) -> T) -> T {
        work(&mut self.lock().files[file].locks)
    }

    /// Does something with the shared memory of a database.
    pub(super) fn with_shared<T>(&self, file: usize, work: impl FnOnce(&mut Shared) -> T) -> T {
        work(&mut self.lock().files[file].shared)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn create(&mut self, name: &str) -> usize {
        let is_log = name.ends_with("-wal");
        let syncs_directory = is_log || name.ends_with("-journal");
        self.files.push(File { is_log, syncs_directory, ..File::default() });
        self.names.insert(name.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }

    fn used(&self) -> usize {
        self.names.values().map(|file| self.files[*file].bytes.len()).sum()
    }
}

/// Writes at a place, and fills with zeros up to it.
pub(super) fn write_into(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}
