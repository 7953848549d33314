//! The store in one SQLite file, for one process.
//!
//! One thread writes, a few read, one checkpoints; each has its own connection. A batch is one
//! transaction. Because nobody else writes, the writer keeps in memory what it would otherwise
//! have to read for each item: revisions, epochs, the next number of the sequence.
//!
//! # Layout
//! Outside of `io` each path is here as it is in the store in PostgreSQL.
//! - `queue`: accepting, settling, loading, leases, and the batch that carries the first two
//! - `upkeep`: the steps of upkeep, and what pruning removes
//! - `catalog`, `ledger`: what people set up and look at
//! - `row`, `page`: values and lists as they are stored; `failure`: errors
//! - `migrate`: what must be in the file; `plans`: how its statements are carried out
//! - [`Bare`]: the yardstick for benchmarks; [`inspect`]: a look from outside
//! - `io`: the file and the threads

mod bare;
mod catalog;
mod failure;
mod inspect;
mod io;
mod ledger;
mod migrate;
mod page;
#[cfg(test)]
mod plans;
mod queue;
mod row;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::time::Timestamp;

pub use self::bare::Bare;
pub use self::inspect::{Inspection, inspect};
use self::io::checkpoint::{self, Checkpointer, Syncs};
use self::io::connection::Place;
use self::io::directory;
use self::io::presence::Presence;
pub use self::io::reader::READERS;
use self::io::reader::{Readers, Reading};
use self::io::seats::{Seat, Seats};
use self::io::writer::{Writer, WriterThread, Writing};
#[cfg(all(test, feature = "postgres"))]
pub(crate) use self::migrate::steps;
use crate::damage::Notes;
use crate::vault::{Entropy, KEY_BYTES, Vault};
use crate::{Answer, Error, limits};

/// The name of the database in its directory.
const FILE: &str = "redial.db";

/// Tells the time of the rows' timeline.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How a store is opened.
pub struct Settings {
    /// The data directory; it is made if it is not there.
    pub directory: PathBuf,
    /// The master key; without one, the one in the data directory is used, or made.
    pub key: Option<[u8; KEY_BYTES]>,
    /// Where nonces, and a key that has to be made, come from.
    pub entropy: Entropy,
    /// The time of the rows' timeline.
    pub clock: Clock,
    /// How long dead letters are kept.
    pub dead_letters_kept: Duration,
    /// How much longer each sync is to take, for benchmarks.
    pub sync_delay: Duration,
    /// How many pages make the log so large that the writer begins it anew; fewer in tests.
    pub large_log: i32,
}

impl Settings {
    /// Makes settings with the usual numbers.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, entropy: Entropy, clock: Clock) -> Self {
        Self {
            directory: directory.into(),
            key: None,
            entropy,
            clock,
            dead_letters_kept: limits::DEAD_LETTERS,
            sync_delay: Duration::ZERO,
            large_log: checkpoint::LARGE,
        }
    }
}

/// A store in a file. Dropping it waits for what is being written, and closes the file.
pub struct Sqlite {
    // In the order in which they end. The lock is the last: then nobody has the file open.
    readers: Readers,
    /// For hearing of changes, which what is sent waits for, and for look-ups of one row that every request waits
    /// for. Neither may wait for lists.
    urgent: Readers,
    vault: Arc<Vault>,
    notes: Arc<Notes>,
    syncs: Arc<Syncs>,
    presence: Arc<Presence>,
    writer: WriterThread,
    _checkpointer: Checkpointer,
    _lock: directory::Lock,
}

impl Sqlite {
    /// Opens the store in a data directory, or makes one.
    ///
    /// # Errors
    /// If another process has it open, its key is another or missing, its schema is not ours, or
    /// the file cannot be used. The text says what to do.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        let file = settings.directory.join(FILE);
        Self::open_file(&file, settings).map_err(|error| failure::at_opening(&file, error))
    }

    fn open_file(file: &Path, settings: Settings) -> Result<Self, Error> {
        let Settings { directory, key, entropy, clock, .. } = settings;
        let Settings { dead_letters_kept, sync_delay, large_log, .. } = settings;
        directory::create(&directory)?;
        let lock = directory::Lock::take(&directory, clock())?;
        let place = Place { file: file.to_owned() };
        directory::prepare(&place.file)?;
        let mut connection = place.create()?;
        migrate::migrate(&mut connection)?;
        let vault = Arc::new(directory::vault(&directory, key, entropy, &connection)?);
        let notes = Arc::new(Notes::default());
        let seats = Arc::new(Seats::new(READERS + 1));
        let (checkpointer, wal) = Checkpointer::start(&place, &seats, large_log)?;
        // Nobody reads yet, so nobody is waited for. If it fails, it is tried again.
        wal.empty_if_asked(&connection, clock());
        let syncs = wal.syncs();
        let presence = Arc::new(Presence::new(&place.file, Arc::clone(&seats)));
        let writer = Writer {
            place: place.clone(),
            clock: clock.clone(),
            vault: vault.clone(),
            notes: notes.clone(),
            dead_letters_kept,
            sync_delay,
            wal,
            presence: Arc::clone(&presence),
        };
        let writer = WriterThread::start(writer, connection)?;
        let start = |seats: &[Seat]| Readers::start(seats, &place, (&vault, &notes), &clock);
        let (many, one) = seats.readers.split_at(READERS);
        let (readers, urgent) = (start(many)?, start(one)?);
        Ok(Self {
            readers,
            urgent,
            vault,
            notes,
            syncs,
            presence,
            writer,
            _checkpointer: checkpointer,
            _lock: lock,
        })
    }

    /// Returns what seals secrets.
    #[must_use]
    pub fn vault(&self) -> Arc<Vault> {
        Arc::clone(&self.vault)
    }

    /// Does something in a transaction of its own, on the thread that writes.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        self.writer.ask(work)
    }

    /// Reads something, on one of the threads that read.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reading<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        self.readers.ask(work)
    }

    /// Looks up a row, past all who read more than that.
    fn look_up<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reading<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        self.urgent.ask(work)
    }
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sqlite(…)")
    }
}
