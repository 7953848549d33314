//! The threads that read, each with its own connection and its own snapshot.
//!
//! A snapshot that stays open keeps the log from beginning anew. So no read may take longer than
//! [`LONGEST_READ`]: it is interrupted, and whoever wants much asks in pieces.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::damage::Notes;
use crate::sqlite::io::connection::Place;
use crate::sqlite::io::seats::{self, Seat};
use crate::sqlite::{Clock, failure};
use crate::{Answer, Error, Vault};

/// How many threads read, besides the one for look-ups. Their memory for pages is a part of the budget.
pub const READERS: usize = 5;
/// The most reads that wait; whoever comes later waits to be let in.
const WAITING_ERRANDS: usize = 64;
/// The longest that a read may take.
const LONGEST_READ: Duration = Duration::from_secs(1);
/// How many steps of SQLite's machine lie between two looks at the clock: well under a millisecond.
const STEPS_PER_LOOK: i32 = 20_000;

type Errand = Box<dyn FnOnce(&mut Desk) + Send>;

/// What a read works with.
pub(crate) struct Reading<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) vault: &'a Vault,
    pub(crate) notes: &'a Notes,
    watch: &'a Watch,
}

/// The way to the threads that read.
pub(crate) struct Readers {
    errands: Option<mpsc::Sender<Errand>>,
    threads: Vec<JoinHandle<()>>,
}

/// What a thread works with. Without a connection in its seat, the file is to be opened again.
struct Desk {
    place: Place,
    vault: Arc<Vault>,
    notes: Arc<Notes>,
    watch: Watch,
    seat: Seat,
}

/// When the running read must have ended.
#[derive(Clone)]
struct Watch {
    clock: Clock,
    ends_at: Arc<AtomicI64>,
}

impl Readers {
    /// Starts a thread for each seat.
    pub(crate) fn start(
        seats: &[Seat],
        place: &Place,
        (vault, notes): (&Arc<Vault>, &Arc<Notes>),
        clock: &Clock,
    ) -> Result<Self, Error> {
        let (errands, queue) = mpsc::channel::<Errand>(WAITING_ERRANDS);
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::with_capacity(seats.len());
        for (number, seat) in seats.iter().enumerate() {
            let watch = Watch { clock: clock.clone(), ends_at: Arc::default() };
            *seats::lock(seat) = Some(watch.open(place)?);
            let (place, vault, notes) = (place.clone(), vault.clone(), notes.clone());
            let mut desk = Desk { place, vault, notes, watch, seat: seat.clone() };
            let queue = queue.clone();
            let thread = Builder::new().name(format!("sqlite-reader-{number}"));
            let thread = thread.spawn(move || {
                while let Some(errand) = next(&queue) {
                    desk.carry_out(errand);
                }
            });
            threads.push(thread.map_err(|error| Error::unavailable("no thread to read", error))?);
        }
        Ok(Self { errands: Some(errands), threads })
    }

    /// Reads something.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reading<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let errand: Errand = Box::new(move |desk| {
                // A caller that has stopped waiting needs no answer.
                if !reply.is_closed() {
                    drop(reply.send(desk.read(work)));
                }
            });
            let errands = self.errands.as_ref().ok_or_else(failure::gone)?;
            errands.send(errand).await.map_err(|_| failure::gone())?;
            answer.await.map_err(|_| failure::gone())?
        })
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.errands = None;
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

/// Waits for the next errand; one thread waits in the queue, the others for their turn to.
fn next(queue: &Mutex<mpsc::Receiver<Errand>>) -> Option<Errand> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}

impl Desk {
    fn carry_out(&mut self, errand: Errand) {
        // A panic has closed the connection.
        let _panicked = catch_unwind(AssertUnwindSafe(|| errand(self)));
    }

    fn read<T>(&mut self, work: impl FnOnce(&Reading<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut seat = seats::lock(&self.seat);
        let connection = match seat.take() {
            Some(connection) => connection,
            None => self.watch.open(&self.place)?,
        };
        let (vault, notes, watch) = (&*self.vault, &*self.notes, &self.watch);
        watch.begin();
        let result = work(&Reading { connection: &connection, vault, notes, watch });
        if !result.as_ref().is_err_and(failure::is_doubtful) {
            *seat = Some(connection);
        }
        result
    }
}

impl Reading<'_> {
    /// Begins another piece of a long read. No statement may be open.
    pub(crate) fn next_piece(&self) {
        self.watch.begin();
    }

    /// Reads several things as of one moment.
    pub(crate) fn at_once<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let snapshot = self.connection.unchecked_transaction()?;
        let result = work()?;
        snapshot.commit()?;
        Ok(result)
    }
}

impl Watch {
    fn open(&self, place: &Place) -> Result<Connection, Error> {
        let mut connection = place.read()?;
        let watch = self.clone();
        connection.progress_handler(STEPS_PER_LOOK, Some(move || watch.is_over()))?;
        Ok(connection)
    }

    fn begin(&self) {
        let end = (self.clock)().after(LONGEST_READ);
        self.ends_at.store(end.as_micros(), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        (self.clock)().as_micros() > self.ends_at.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
