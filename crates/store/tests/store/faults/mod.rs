//! Power cuts, failing disks and killed processes: what was acknowledged is there afterwards.
//!
//! SQLite runs on a disk in memory ([`disk`]) that remembers which writes were synced. A load is
//! run once and traced; then the power is cut after every single event of the trace, and a store
//! is opened on what a disk might hold then.
//!
//! Longer than in `./check`, as before a release: a load of 5,000 events with some 25,000 cuts,
//! every write of the load failing once, and 200 processes killed:
//!
//! ```text
//! REDIAL_POWER_STEPS=80 REDIAL_POWER_CUTS=4 cargo nextest run -p redial-store power::nothing
//! REDIAL_WRITE_STRIDE=1 cargo nextest run -p redial-store a_write_that_fails
//! cargo run --release -p redial-store --example crash -- --cycles 200
//! ```
//!
//! # Layout
//! - `disk`, `locks`: the disk; `vfs`: the way to it; `platter`: what survives a power cut
//! - `work`: a load, what the store promised by answering it, and killing whoever runs it
//! - `power`, `failing`, `syncs`, `killing`: the tests

mod disk;
mod failing;
mod killing;
mod locks;
mod platter;
mod power;
mod syncs;
mod vfs;
mod work;

use std::path::Path;
use std::sync::Arc;

use store::Error;
use store::conformance::{Handle, NOW};
use store::sqlite::{Settings, Sqlite};
use tempfile::TempDir;

use disk::{Disk, Image};
use vfs::Mount;

/// A directory on a disk of ours. Its lock file is on the real one.
struct Place {
    disk: Arc<Disk>,
    _mount: Mount,
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self::holding(&Image::default())
    }

    fn holding(image: &Image) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(Disk::holding(image));
        let mount = Mount::new(directory.path(), disk.clone());
        Self { disk, _mount: mount, directory }
    }

    /// Opens the store there.
    fn open(&self) -> Result<Handle, Error> {
        open(self.directory.path(), None)
    }

    /// Opens the store there; so many pages make its log large.
    fn open_with_log(&self, large: i32) -> Result<Handle, Error> {
        open(self.directory.path(), Some(large))
    }

    /// Opens the database there beside the store, as its own tools would.
    fn connect(&self) -> rusqlite::Connection {
        let directory = self.directory.path().canonicalize().unwrap();
        rusqlite::Connection::open(directory.join("redial.db")).unwrap()
    }
}

/// Opens a store whose clock stands still and whose key is known.
fn open(directory: &Path, large_log: Option<i32>) -> Result<Handle, Error> {
    let mut settings =
        Settings::new(directory.canonicalize().unwrap(), work::entropy, Arc::new(|| NOW));
    settings.key = Some([7; 32]);
    settings.large_log = large_log.unwrap_or(settings.large_log);
    Ok(Handle::new(Arc::new(Sqlite::open(settings)?)))
}

/// Asks SQLite whether a database is whole.
fn damage(connection: &rusqlite::Connection) -> Vec<String> {
    let mut statement = connection.prepare("PRAGMA integrity_check").unwrap();
    let lines = statement.query_map([], |row| row.get(0)).unwrap();
    lines.map(Result::unwrap).filter(|line: &String| line != "ok").collect()
}

/// Reads a number from the environment: how much longer than usual a test is to be.
#[expect(clippy::disallowed_methods, reason = "the test's own setting, not the server's")]
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}
