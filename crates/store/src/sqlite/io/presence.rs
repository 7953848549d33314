//! Whether the files that are open are still those in the data directory.
//!
//! A file that was removed, or replaced by another, goes on taking what is written to it, and nothing of
//! that is found at the next start. So each commit looks once more before it is acknowledged, and the
//! server looks every second. What has gone stays gone: nothing is written any more, neither here nor to
//! what lies there now.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::Error;
use crate::sqlite::io::seats::Seats;

/// Which file a path leads to: its device and its number there.
type Identity = (u64, u64);

/// The files of a store, as they were when they were opened.
#[derive(Debug)]
pub(crate) struct Presence {
    database: PathBuf,
    log: PathBuf,
    known: Mutex<[Option<Identity>; 2]>,
    /// What is said once they are gone.
    gone: OnceLock<String>,
    seats: Arc<Seats>,
}

impl Presence {
    /// Knows the files as they are now; they have just been opened.
    pub(crate) fn new(database: &Path, seats: Arc<Seats>) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let (database, gone) = (database.to_owned(), OnceLock::new());
        let presence = Self { database, log: log.into(), known: Mutex::default(), gone, seats };
        presence.learn();
        presence
    }

    /// Gets to know the files anew: they have just been opened again.
    pub(super) fn learn(&self) {
        *self.known() = [identity(&self.database), identity(&self.log)];
    }

    /// Returns an error if one of the files was gone when it was last looked for.
    pub(super) fn remembered(&self) -> Result<(), Error> {
        self.gone.get().map_or(Ok(()), |text| Err(unavailable(text)))
    }

    /// Looks for the files, and returns an error if one of them is gone.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.remembered()?;
        for (path, known) in [&self.database, &self.log].into_iter().zip(self.known().iter_mut()) {
            let found = identity(path);
            // The log is made by the first transaction.
            *known = known.or(found);
            if found != *known {
                let text = self.gone.get_or_init(|| told(path, found));
                // Nobody opens what lies there now, or tidies it away.
                self.seats.doubt();
                return Err(unavailable(text));
            }
        }
        Ok(())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, [Option<Identity>; 2]> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

fn told(path: &Path, found: Option<Identity>) -> String {
    let what = if found.is_none() { "has gone" } else { "was replaced by another file" };
    format!(
        "{} {what} while the server was running, and what it writes would be lost; put the data \
         directory back as it was, or restore a backup, and start the server again",
        path.display()
    )
}

fn unavailable(text: &str) -> Error {
    Error::Unavailable { text: text.to_owned(), source: None }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A directory with both files, and who watches them.
    fn watched() -> (tempfile::TempDir, PathBuf, Presence) {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("redial.db");
        fs::write(&database, "").unwrap();
        fs::write(directory.path().join("redial.db-wal"), "").unwrap();
        let presence = Presence::new(&database, Arc::default());
        presence.check().unwrap();
        (directory, database, presence)
    }

    #[test]
    fn a_file_that_is_removed_or_replaced_is_gone_for_good() {
        type Take = fn(&Path) -> std::io::Result<()>;
        let ways: [(Take, &str); 4] = [
            (|database| fs::remove_file(database), "redial.db has gone"),
            (
                |database| fs::remove_file(database.with_extension("db-wal")),
                "redial.db-wal has gone",
            ),
            (|database| fs::remove_dir_all(database.parent().unwrap()), "redial.db has gone"),
            (
                |database| {
                    let other = database.with_extension("other");
                    fs::write(&other, "").and_then(|()| fs::rename(other, database))
                },
                "redial.db was replaced",
            ),
        ];
        for (remove, words) in ways {
            let (directory, database, presence) = watched();
            remove(&database).unwrap();
            let text = presence.check().unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
            assert!(presence.seats.is_doubtful());
            fs::create_dir_all(directory.path()).unwrap();
            fs::write(&database, "").unwrap();
            assert_eq!(presence.check().unwrap_err().to_string(), text);
            assert!(presence.remembered().is_err());
        }
    }

    #[test]
    fn files_that_were_opened_again_are_known_anew() {
        let (_directory, database, presence) = watched();
        let other = database.with_extension("other");
        fs::write(&other, "").and_then(|()| fs::rename(other, &database)).unwrap();
        presence.learn();
        presence.check().unwrap();
    }
}
