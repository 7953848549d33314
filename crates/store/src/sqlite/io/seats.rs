//! The connections beside the writer's, and the doubt whether the file holds what it should.
//!
//! SQLite counts pages of the log as copied when it has written them to the file, and syncs the file
//! only once it has copied all of them. If a sync fails, pages that an earlier checkpoint had copied
//! may never reach the disk, later syncs succeed without them, and nothing would copy them again: the
//! count is in memory that all connections share. So after such an error nobody checkpoints, not even
//! by closing. The writer closes every connection, which ends that memory, and copies the whole log
//! once more, alone. Until then all of it is still in the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::Error;
use crate::sqlite::failure;
use crate::sqlite::io::checkpoint::truncate;
use crate::sqlite::io::connection::Place;

/// How long the writer waits for each of those who work when all are to close: longer than any read takes.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it is before a seat that is taken is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A connection that a thread works with. Whoever works holds the lock; the writer takes it to close
/// the connection, and the thread opens another when it needs one.
pub(crate) type Seat = Arc<Mutex<Option<Connection>>>;

/// All seats but the writer's own.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    pub(crate) readers: Vec<Seat>,
    checkpointer: Mutex<Option<Connection>>,
    doubtful: AtomicBool,
}

impl Seats {
    /// Makes empty seats.
    pub(crate) fn new(readers: usize) -> Self {
        let readers = std::iter::repeat_with(Seat::default).take(readers).collect();
        Self { readers, ..Self::default() }
    }

    /// Takes the seat of the checkpointer when nobody works.
    pub(crate) fn checkpointer(&self) -> MutexGuard<'_, Option<Connection>> {
        lock(&self.checkpointer)
    }

    /// Lets somebody checkpoint, unless another stays at it or the file is in doubt. What the other finds
    /// out about the file is known when this is had: without it the log could begin anew between a sync
    /// that failed and the doubt.
    pub(super) fn to_checkpoint(
        &self,
        patience: Duration,
    ) -> Option<MutexGuard<'_, Option<Connection>>> {
        lock_within(&self.checkpointer, patience).filter(|_| !self.is_doubtful())
    }

    /// Notes that nobody knows what is on disk, if an error says so.
    pub(super) fn doubt_after(&self, error: &Error) {
        if failure::is_doubtful(error) {
            self.doubt();
        }
    }

    /// Notes that nobody knows what of the file is on disk.
    pub(super) fn doubt(&self) {
        self.doubtful.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::SeqCst)
    }

    /// Ends the doubt: has everybody close their connections, and copies the whole log. The writer has
    /// closed its own.
    pub(super) fn copy_again(&self, place: &Place) -> Result<(), Error> {
        self.doubt();
        // Nobody opens another before it is done.
        let mut held = vec![wait_for(&self.checkpointer)?];
        for reader in &self.readers {
            held.push(wait_for(reader)?);
        }
        held.iter_mut().for_each(|seat| **seat = None);
        truncate(&place.alone()?)?;
        self.doubtful.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Closes all connections when nobody works any more. The last one copies the log and removes it,
    /// unless the file is in doubt: then whoever opens it next copies the whole log.
    pub(super) fn close(&self, place: &Place) {
        self.readers.iter().for_each(|reader| *lock(reader) = None);
        let last = self.checkpointer().take();
        if self.is_doubtful() {
            return;
        }
        if let Ok(last) = last.map_or_else(|| place.write(), Ok) {
            let _set = last.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        }
    }
}

/// Takes a seat. A panic of whoever had it has closed the connection.
pub(crate) fn lock(seat: &Mutex<Option<Connection>>) -> MutexGuard<'_, Option<Connection>> {
    seat.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a seat when it becomes free, if it soon does.
fn lock_within(
    seat: &Mutex<Option<Connection>>,
    patience: Duration,
) -> Option<MutexGuard<'_, Option<Connection>>> {
    let mut waited = Duration::ZERO;
    loop {
        match seat.try_lock() {
            Ok(seat) => return Some(seat),
            Err(TryLockError::Poisoned(seat)) => return Some(seat.into_inner()),
            Err(TryLockError::WouldBlock) if waited >= patience => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_EVERY),
        }
        waited += LOOK_EVERY;
    }
}

fn wait_for(seat: &Mutex<Option<Connection>>) -> Result<MutexGuard<'_, Option<Connection>>, Error> {
    lock_within(seat, PATIENCE).ok_or_else(|| {
        let text = "the file is in doubt, and still being read; try again".to_owned();
        Error::Unavailable { text, source: None }
    })
}
