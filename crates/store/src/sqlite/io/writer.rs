//! The one thread that writes.
//!
//! Whoever wants something written sends a closure and awaits its answer. Each closure is one
//! transaction: it is answered after COMMIT has returned, with everything on disk, or with an error
//! and nothing acknowledged. After an error that leaves the file in doubt, also one of a checkpoint, it
//! is closed, checkpointed and opened again before anything more is written; a panic counts as such
//! an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use domain::time::Timestamp;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::damage::Notes;
use crate::keys::Node;
use crate::queue::Renewal;
use crate::sqlite::io::checkpoint::Wal;
use crate::sqlite::io::connection::Place;
use crate::sqlite::io::memo::Memo;
use crate::sqlite::io::presence::Presence;
use crate::sqlite::queue::lease::Owners;
use crate::sqlite::{Clock, failure};
use crate::{Answer, Error, Vault};

/// The most errands that wait for the writer; whoever comes later waits to be let in.
const WAITING_ERRANDS: usize = 64;

type Errand = Box<dyn FnOnce(&mut Desk) + Send>;

/// What the writer is given once.
pub(crate) struct Writer {
    pub(crate) place: Place,
    pub(crate) clock: Clock,
    pub(crate) vault: Arc<Vault>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) dead_letters_kept: Duration,
    pub(crate) sync_delay: Duration,
    pub(crate) wal: Arc<Wal>,
    pub(crate) presence: Arc<Presence>,
}

/// A transaction, seen by whoever writes in it.
pub(crate) struct Writing<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) memo: &'a mut Memo,
    pub(crate) vault: &'a Vault,
    pub(crate) notes: &'a Notes,
    pub(crate) wal: &'a Wal,
    pub(crate) now: Timestamp,
    /// What tells whether a step has taken long enough; what is written is of `now`.
    pub(crate) clock: &'a Clock,
    pub(crate) dead_letters_kept: Duration,
}

/// The way to the thread that writes.
pub(crate) struct WriterThread {
    errands: Option<mpsc::Sender<Errand>>,
    thread: Option<JoinHandle<()>>,
    closed: Arc<AtomicBool>,
    owners: Arc<Owners>,
    clock: Clock,
}

/// What the thread works with. Without a connection, the file is to be opened again.
struct Desk {
    // It ends before the writer does, whose end lets the checkpointer go. Of two connections that
    // close at the same moment neither is the last, and nobody would tidy the log away.
    connection: Option<Connection>,
    memo: Memo,
    writer: Writer,
}

impl WriterThread {
    pub(crate) fn start(writer: Writer, mut connection: Connection) -> Result<Self, Error> {
        let memo = Memo::read(&connection)?;
        writer.wal.watch(&mut connection)?;
        let (owners, clock) = (Arc::clone(&memo.owners), Arc::clone(&writer.clock));
        let mut desk = Desk { connection: Some(connection), memo, writer };
        let (errands, mut queue) = mpsc::channel::<Errand>(WAITING_ERRANDS);
        let closed = Arc::new(AtomicBool::new(false));
        let closing = Arc::clone(&closed);
        let thread = Builder::new().name("sqlite-writer".to_owned()).spawn(move || {
            while let Some(errand) = queue.blocking_recv() {
                // Once the store is closed nobody waits for an answer: what has not begun is not
                // acknowledged, and would only keep the process.
                if closing.load(Ordering::Relaxed) {
                    break;
                }
                desk.carry_out(errand);
            }
        });
        let thread = thread.map_err(|error| Error::unavailable("no thread to write on", error))?;
        Ok(Self { errands: Some(errands), thread: Some(thread), closed, owners, clock })
    }

    /// Does something in a transaction of its own.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        self.send(|desk| desk.transact(work))
    }

    /// Looks at, or changes, what the writer remembers; nothing is written.
    pub(crate) fn recall<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Memo) -> T + Send + 'static,
    ) -> Answer<'_, T> {
        self.send(|desk| Ok(work(&desk.memo)))
    }

    /// Tells the time, without waiting for the thread.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Renews a lease, without waiting for the thread: a disk that is slow takes it from nobody.
    pub(crate) fn renew(&self, node: &Node) -> Renewal {
        self.owners.renew(node, &self.clock)
    }

    /// Returns who owns what, which is read without waiting for the thread.
    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }

    fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            // Whoever stopped waiting does not stop the work.
            let errand: Errand = Box::new(move |desk| drop(reply.send(work(desk))));
            let errands = self.errands.as_ref().ok_or_else(failure::gone)?;
            errands.send(errand).await.map_err(|_| failure::gone())?;
            answer.await.map_err(|_| failure::gone())?
        })
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.errands = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been answered for already.
            let _ended = thread.join();
        }
    }
}

impl Writing<'_> {
    /// Takes back all that was written, and begins the transaction anew.
    pub(crate) fn begin_again(&mut self) -> Result<(), Error> {
        self.memo.rolled_back();
        if !self.connection.is_autocommit() {
            self.connection.prepare_cached("ROLLBACK")?.execute([])?;
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.memo.begin();
        Ok(())
    }
}

impl Desk {
    fn carry_out(&mut self, errand: Errand) {
        if catch_unwind(AssertUnwindSafe(|| errand(self))).is_err() {
            self.connection = None;
            self.memo.rolled_back();
        }
        if let Some(connection) = &self.connection {
            self.writer.wal.restart_if_large(connection);
            self.writer.wal.empty_if_asked(connection, (self.writer.clock)());
        }
    }

    fn transact<T>(
        &mut self,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // What lies there now is another's: it is neither opened nor written to.
        self.writer.presence.remembered()?;
        let trusted = self.connection.take().filter(|_| !self.writer.wal.is_doubtful());
        let connection = trusted.map_or_else(|| self.open_again(), Ok)?;
        let result = self.transact_on(&connection, work);
        if let Err(error) = &result {
            self.writer.wal.doubt_after(error);
        }
        if !self.writer.wal.is_doubtful() {
            self.connection = Some(connection);
        }
        result
    }

    fn transact_on<T>(
        &mut self,
        connection: &Connection,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.memo.begin();
        let mut writing = Writing {
            connection,
            memo: &mut self.memo,
            vault: &self.writer.vault,
            notes: &self.writer.notes,
            wal: &self.writer.wal,
            now: (self.writer.clock)(),
            clock: &self.writer.clock,
            dead_letters_kept: self.writer.dead_letters_kept,
        };
        let result = work(&mut writing).and_then(|answer| {
            if !self.writer.sync_delay.is_zero() {
                std::thread::sleep(self.writer.sync_delay);
            }
            connection.prepare_cached("COMMIT")?.execute([])?;
            // Whoever hears of it must find it at the next start.
            self.writer.presence.check()?;
            Ok(answer)
        });
        if result.is_ok() {
            self.memo.committed();
        } else {
            self.memo.rolled_back();
            // Some errors have rolled back by themselves.
            if !connection.is_autocommit() {
                connection.prepare_cached("ROLLBACK")?.execute([])?;
            }
        }
        result
    }

    /// Opens the file again after an error that left it in doubt.
    ///
    /// What a failed fsync left in the log, or had left in the file, may be in the cache of the
    /// operating system alone, and no later fsync would write it. So everything in the log is written
    /// to the file anew, and the log begins from nothing.
    fn open_again(&mut self) -> Result<Connection, Error> {
        self.writer.wal.copy_again(&self.writer.place)?;
        let mut connection = self.writer.place.write()?;
        self.memo.refresh(&connection)?;
        self.writer.wal.watch(&mut connection)?;
        self.writer.presence.learn();
        Ok(connection)
    }
}

#[cfg(test)]
mod tests;
