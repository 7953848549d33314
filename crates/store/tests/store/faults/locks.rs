//! The locks of a file and the memory that connections share, for connections of one process.
//!
//! The rules are SQLite's own: any number of SHARED, one RESERVED beside them, PENDING that lets
//! no new SHARED in, EXCLUSIVE alone. The eight locks of the shared memory are plain
//! reader-writer locks.

use std::os::raw::c_int;
use std::ptr::NonNull;

use rusqlite::ffi;

/// The locks of the shared memory.
pub(super) const LOCKS: usize = ffi::SQLITE_SHM_NLOCK as usize;

/// Who holds which lock on a file. Handles go by a number that no other has.
#[derive(Debug, Default)]
pub(super) struct FileLocks {
    shared: Vec<u64>,
    reserved: Option<u64>,
    pending: Option<u64>,
    exclusive: Option<u64>,
}

impl FileLocks {
    /// Raises a handle's lock to a level.
    pub(super) fn raise(&mut self, handle: u64, level: c_int) -> Result<(), c_int> {
        let by_another = |holder: Option<u64>| holder.is_some_and(|holder| holder != handle);
        if level == ffi::SQLITE_LOCK_SHARED {
            if by_another(self.pending) || by_another(self.exclusive) {
                return Err(ffi::SQLITE_BUSY);
            }
            if !self.shared.contains(&handle) {
                self.shared.push(handle);
            }
            return Ok(());
        }
        if by_another(self.reserved) || by_another(self.pending) || by_another(self.exclusive) {
            return Err(ffi::SQLITE_BUSY);
        }
        if level == ffi::SQLITE_LOCK_RESERVED {
            self.reserved = Some(handle);
            return Ok(());
        }
        self.pending = Some(handle);
        if level == ffi::SQLITE_LOCK_EXCLUSIVE {
            if self.shared.iter().any(|holder| *holder != handle) {
                return Err(ffi::SQLITE_BUSY);
            }
            self.exclusive = Some(handle);
        }
        Ok(())
    }

    /// Lowers a handle's lock to SHARED or to nothing.
    pub(super) fn lower(&mut self, handle: u64, level: c_int) {
        for lock in [&mut self.reserved, &mut self.pending, &mut self.exclusive] {
            if *lock == Some(handle) {
                *lock = None;
            }
        }
        if level == ffi::SQLITE_LOCK_NONE {
            self.shared.retain(|holder| *holder != handle);
        }
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.reserved.is_some() || self.pending.is_some() || self.exclusive.is_some()
    }
}

/// The memory that all connections to one database share, and its locks.
#[derive(Debug, Default)]
pub(super) struct Shared {
    regions: Vec<Region>,
    /// Handles that have mapped it.
    users: Vec<u64>,
    readers: [Vec<u64>; LOCKS],
    writers: [Option<u64>; LOCKS],
}

/// A piece of memory whose address stays the same. It is only freed when nobody can use it.
#[derive(Debug)]
struct Region {
    words: Box<[std::sync::atomic::AtomicU64]>,
}

impl Shared {
    /// Returns a region, and makes it and those before it if that is wanted.
    pub(super) fn map(
        &mut self,
        handle: u64,
        (number, size): (usize, usize),
        extend: bool,
    ) -> Option<NonNull<u8>> {
        if !self.users.contains(&handle) {
            self.users.push(handle);
        }
        while extend && self.regions.len() <= number {
            // Atomics, because SQLite changes them through the pointer while others read.
            let words = (0..size.div_ceil(8)).map(|_| 0.into()).collect();
            self.regions.push(Region { words });
        }
        let region = self.regions.get(number)?;
        NonNull::new(region.words.as_ptr().cast_mut().cast())
    }

    /// Forgets a handle; the memory goes with the last one.
    pub(super) fn unmap(&mut self, handle: u64) {
        self.unlock(handle, 0, LOCKS);
        self.users.retain(|user| *user != handle);
        if self.users.is_empty() {
            self.regions.clear();
        }
    }

    /// Takes a run of locks, or none of them.
    pub(super) fn lock(
        &mut self,
        handle: u64,
        (first, count): (usize, usize),
        exclusive: bool,
    ) -> Result<(), c_int> {
        let run = first..first + count;
        let is_free = |lock: usize| {
            let written = self.writers[lock].is_some_and(|holder| holder != handle);
            let read = self.readers[lock].iter().any(|holder| *holder != handle);
            !(written || exclusive && read)
        };
        if !run.clone().all(is_free) {
            return Err(ffi::SQLITE_BUSY);
        }
        for lock in run {
            if exclusive {
                self.writers[lock] = Some(handle);
            } else {
                self.readers[lock].push(handle);
            }
        }
        Ok(())
    }

    /// Gives a run of locks back.
    pub(super) fn unlock(&mut self, handle: u64, first: usize, count: usize) {
        for lock in first..first + count {
            self.readers[lock].retain(|holder| *holder != handle);
            if self.writers[lock] == Some(handle) {
                self.writers[lock] = None;
            }
        }
    }
}
