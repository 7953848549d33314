//! What processes use: their CPU time, their bytes on disk, as the kernel counts.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// The kernel counts CPU time in hundredths of a second, on every machine that Linux runs on.
const TICKS_PER_SECOND: u32 = 100;
/// The places of a process's times in `/proc/…/stat`, counted from after its name.
const OWN_TIMES: Range<usize> = 11..13;
/// And of the times of its children that have ended, with their own children.
const ENDED_TIMES: Range<usize> = 13..15;
/// And of its parent.
const PARENT: usize = 1;
/// How often all times are read again because a child has ended meanwhile.
const MOST_READS: u32 = 8;

/// Processes whose CPU time is added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Processes {
    ids: BTreeSet<u32>,
}

impl Processes {
    /// Begins with one process.
    pub(super) fn of(process: u32) -> Self {
        Self { ids: BTreeSet::from([process]) }
    }

    /// Adds others.
    pub(super) fn and(mut self, others: &Self) -> Self {
        self.ids.extend(&others.ids);
        self
    }

    /// Finds whoever listens on a port of this machine, with all its children. Empty if that is on
    /// another machine, or belongs to somebody else.
    pub(super) fn listening_on(port: u16) -> Self {
        let sockets = listening_sockets(port);
        let all = all_processes();
        let listens = |process: &&u32| open_sockets(**process).any(|it| sockets.contains(&it));
        let mut ids: BTreeSet<u32> = all.iter().filter(listens).copied().collect();
        let children = |id: &&u32| parent(**id).is_some_and(|it| ids.contains(&it));
        let children: Vec<u32> = all.iter().filter(children).copied().collect();
        ids.extend(children);
        Self { ids }
    }

    /// Returns the CPU time that they have used, and that of their children that have ended. A
    /// database's processes come and go; what one has used must not be lost with it.
    pub(super) fn cpu_time(&self) -> Duration {
        let all = |which: &Range<usize>| -> Duration {
            self.ids.iter().filter_map(|id| cpu_time(*id, which.clone())).sum()
        };
        let mut ended = all(&ENDED_TIMES);
        for _ in 0..MOST_READS {
            let own = all(&OWN_TIMES);
            // One that ends while times are read would be missed, or counted twice.
            let before = std::mem::replace(&mut ended, all(&ENDED_TIMES));
            if ended == before {
                return own + ended;
            }
        }
        all(&OWN_TIMES) + ended
    }

    /// Tells whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Returns the bytes of all files under a directory. One that vanishes meanwhile does not count.
pub(super) fn bytes_under(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_under(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(size).sum()
}

fn cpu_time(process: u32, which: Range<usize>) -> Option<Duration> {
    let stat = stat(process)?;
    let fields: Vec<&str> = stat.split_whitespace().collect();
    let ticks = fields.get(which)?.iter().filter_map(|it| it.parse::<u64>().ok()).sum::<u64>();
    Some(Duration::from_millis(ticks * 1_000) / TICKS_PER_SECOND)
}

fn parent(process: u32) -> Option<u32> {
    stat(process)?.split_whitespace().nth(PARENT)?.parse().ok()
}

/// Reads what follows the name, which may itself contain blanks and brackets.
fn stat(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')').map(|(_, rest)| rest.to_owned())
}

fn all_processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(Result::ok).filter_map(id).collect()
}

/// Returns the sockets that listen on a port, as links to them are written.
fn listening_sockets(port: u16) -> BTreeSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = fields.get(1)?.rsplit_once(':')?.1;
        let listens = fields.get(3) == Some(&"0A");
        let same = u16::from_str_radix(local, 16) == Ok(port);
        (listens && same).then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
    };
    lines.filter_map(socket).collect()
}

fn open_sockets(process: u32) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
    let link = |entry: fs::DirEntry| Some(fs::read_link(entry.path()).ok()?.display().to_string());
    entries.filter_map(Result::ok).filter_map(link)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use testkit::server::{most_resident_bytes, resident_bytes};

    use super::*;

    #[test]
    fn this_process_is_found_by_the_port_it_listens_on() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = Processes::listening_on(listener.local_addr().unwrap().port());
        assert!(found.ids.contains(&std::process::id()), "{found:?}");
    }

    #[test]
    fn this_process_has_memory_and_uses_time() {
        let own = std::process::id();
        assert!(resident_bytes(own).unwrap() > 100_000);
        // Memory that was given back still counts as the most.
        let touched = vec![1_u8; 64 << 20];
        drop(std::hint::black_box(touched));
        assert!(most_resident_bytes(own).unwrap() > 64 << 20);
        let before = Processes::of(own).cpu_time();
        let mut sum = 0_u64;
        while Processes::of(own).cpu_time() == before {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        assert!(Processes::of(own).cpu_time() > before, "{sum}");
    }

    #[test]
    fn what_a_child_has_used_still_counts_when_it_has_ended() {
        let before = Processes::of(std::process::id()).cpu_time();
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let enough = Duration::from_millis(100);
        while Processes::of(child.id()).cpu_time() < enough {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let own = cpu_time(std::process::id(), OWN_TIMES).unwrap();
        let used = Processes::of(std::process::id()).cpu_time();
        assert!(used >= own + enough && used >= before + enough, "{used:?}, {own:?} of it our own");
    }

    #[test]
    fn files_in_folders_count() {
        let directory = tempfile::TempDir::new().unwrap();
        fs::create_dir(directory.path().join("inner")).unwrap();
        fs::write(directory.path().join("inner/a"), [0; 100]).unwrap();
        fs::write(directory.path().join("b"), [0; 11]).unwrap();
        assert_eq!(bytes_under(directory.path()), 111);
        assert_eq!(bytes_under(&directory.path().join("nowhere")), 0);
    }
}
