//! How much room a file system has.

use std::io;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};

/// The room of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// How many bytes this user may still write.
    pub free: u64,
    /// How many bytes it has in all.
    pub total: u64,
    /// Whether nothing at all may be written.
    pub read_only: bool,
}

/// Looks at the file system that a path is on, or will be: where it is not there yet, the nearest
/// directory above it counts.
///
/// # Errors
/// If nothing on the way can be looked at.
pub fn room(path: &Path) -> io::Result<Room> {
    let whole = std::path::absolute(path)?;
    let there = whole.ancestors().find(|place| place.exists()).unwrap_or(&whole);
    let found = statvfs(there)?;
    Ok(Room {
        free: found.f_bavail.saturating_mul(found.f_frsize),
        total: found.f_blocks.saturating_mul(found.f_frsize),
        read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_there_has_the_room_of_what_is_above_it() {
        let above = std::env::temp_dir();
        let room = |path: &Path| room(path).unwrap();
        assert_eq!(room(&above.join("not/there/yet")).total, room(&above).total);
        assert!(room(&above).total >= room(&above).free);
        assert!(room(Path::new("neither/this")).total > 0, "a relative one");
    }
}
