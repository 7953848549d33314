//! The committer: carries waiting work to the store, batch by batch.
//!
//! Whoever wants something written hands it in and waits for its own answer. A task cuts what has
//! gathered into a batch, commits it, and answers everybody in it; meanwhile the next batch
//! gathers. What belongs into a batch is decided by [`engine::commit`]. A store whose lanes are
//! transactions of their own gets one such task for each.
//!
//! An answer means "on disk". If the store fails, callers get its error and may try again. What
//! the node's core handed in is repeated until it is answered: the core has nobody to give an error
//! to, and a settle that were dropped would be an attempt made twice.
//!
//! A message whose lane is full waits beside it, see [`parked`].

mod parked;
mod run;
mod weight;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::time::Timestamp;
use engine::Number;
use engine::commit::{Crowded, Entered, Lanes, Limits, Urgency, Which};
use host::clock::Clock;
use store::keys::ApplicationKey;
use store::queue::{Accept, Accepted, Done, Queue, Settle, Settled, Upkeep};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use self::parked::Parked;
use self::weight::{rows_of_upkeep, weight_of_accept, weight_of_settle};

/// A handle on the committer. Clones share it.
#[derive(Clone)]
pub struct Committer {
    shared: Arc<Shared>,
}

/// How a committer is started.
pub struct Settings {
    /// Where to.
    pub queue: Arc<dyn Queue>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The limits of lanes and batches.
    pub limits: Limits,
    /// Whether the store writes the lanes in one transaction.
    pub transactions: Transactions,
    /// Who is told what was committed.
    pub listener: Arc<dyn Listener>,
}

/// How a store writes the lanes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transactions {
    /// All in one, as SQLite does: one fsync for everything that waits.
    Together,
    /// Each in its own, as PostgreSQL does: none waits for another.
    Apart,
}

/// Hears of what was committed, before the callers do.
pub trait Listener: Send + Sync {
    /// These messages are on disk, or were refused; their commit was issued at that moment.
    fn accepted(&self, issued_at: Timestamp, accepts: Vec<Accept>, answers: &[Accepted]);
    /// These settles and steps of upkeep of the node's core were answered.
    fn answered(&self, settles: Vec<(Number, Settled)>, upkeep: Vec<(Number, Done)>);
}

/// Nobody listens.
pub struct Nobody;

impl Listener for Nobody {
    fn accepted(&self, _: Timestamp, _: Vec<Accept>, _: &[Accepted]) {}
    fn answered(&self, _: Vec<(Number, Settled)>, _: Vec<(Number, Done)>) {}
}

/// Why something was not written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Rejected {
    /// Too much waits already; try again later.
    #[error("too much is waiting to be written")]
    Crowded(Crowded),
    /// The store said no to the whole batch.
    #[error(transparent)]
    Store(Arc<store::Error>),
    /// The server is stopping.
    #[error("the server is stopping")]
    Closed,
}

/// An item on its way, and who gets its answer.
struct Ticket<Item, Answer> {
    item: Item,
    reply: Reply<Answer>,
}

enum Reply<Answer> {
    /// Somebody who waits.
    Caller(oneshot::Sender<Result<Answer, Rejected>>),
    /// The node's core, under a number.
    Core(Number),
}

type AcceptTicket = Ticket<Accept, Accepted>;
type SettleTicket = Ticket<Settle, Settled>;
type UpkeepTicket = Ticket<Upkeep, Done>;
type Waiting = Lanes<ApplicationKey, AcceptTicket, SettleTicket, UpkeepTicket>;

type Offered<Ticket> = Result<Entered<ApplicationKey, Ticket>, Crowded>;

struct Shared {
    state: Mutex<State>,
    /// One for each lane; with all lanes in one transaction only the first is used.
    wakes: [Notify; 3],
    settings: Settings,
}

struct State {
    lanes: Waiting,
    /// How many callers must wait for a lane's task to be woken; with all lanes in one transaction
    /// only the first counts, for all of them.
    enough: [usize; 3],
    closed: bool,
    last: Option<Last>,
}

/// How the last batch ended that tells whether messages can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    /// When it ended.
    pub at: Timestamp,
    /// Whether it was written.
    pub written: bool,
}

/// What is counted about commits, for benchmarks and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Batches committed.
    pub batches: u64,
    /// Items in them.
    pub items: u64,
}

impl Committer {
    /// Starts a committer on a store. The returned task ends when the committer is closed and
    /// everything that was waiting has been answered, and tells what it did.
    #[must_use]
    pub fn start(settings: Settings) -> (Self, JoinHandle<Counts>) {
        let lanes = Lanes::new(settings.limits, settings.clock.now());
        let state = State { lanes, enough: [1; 3], closed: false, last: None };
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { state, wakes: Default::default(), settings });
        let task = tokio::spawn(run::all(Arc::clone(&shared)));
        (Self { shared }, task)
    }

    /// Accepts a message: returns when it is on disk. It waits if its lane is full.
    ///
    /// # Errors
    /// If too much waits for too long, the store failed, or the server is stopping.
    pub async fn accept(&self, accept: Accept) -> Result<Accepted, Rejected> {
        let (application, weight) = (accept.application, weight_of_accept(&accept));
        let offer = |lanes: &mut Waiting, ticket| {
            lanes.offer_accept(application, weight, ticket).map_err(|full| full.what)
        };
        self.hand_in(Which::Accepts, accept, offer).await
    }

    /// Leaves a request for the owner of an endpoint: returns when it is on disk. It waits if too many do.
    ///
    /// # Errors
    /// If too much waits for too long, the store failed, or the server is stopping.
    pub async fn ask(&self, application: ApplicationKey, ask: Upkeep) -> Result<Done, Rejected> {
        let rows = rows_of_upkeep(&ask);
        let offer = |lanes: &mut Waiting, ticket| {
            lanes.offer_request(application, rows, ticket).map_err(|full| full.what)
        };
        self.hand_in(Which::Upkeep, ask, offer).await
    }

    /// Settles an attempt: returns when it is on disk.
    ///
    /// # Errors
    /// If too much waits, the store failed, or the server is stopping.
    pub async fn settle(&self, settle: Settle) -> Result<Settled, Rejected> {
        let weight = weight_of_settle(&settle);
        let offer = |lanes: &mut Waiting, ticket| {
            let offered = lanes.offer_settle(weight, ticket);
            offered.map(|()| Entered::Lane).map_err(|full| full.what)
        };
        self.hand_in(Which::Settles, settle, offer).await
    }

    /// Does a step of upkeep: returns when it is on disk.
    ///
    /// # Errors
    /// If too much waits, the store failed, or the server is stopping.
    pub async fn upkeep(&self, upkeep: Upkeep) -> Result<Done, Rejected> {
        let (urgency, rows) = (Urgency::of(&upkeep), rows_of_upkeep(&upkeep));
        let offer = |lanes: &mut Waiting, ticket| {
            let offered = lanes.offer_upkeep(urgency, rows, ticket);
            offered.map(|()| Entered::Lane).map_err(|full| full.what)
        };
        self.hand_in(Which::Upkeep, upkeep, offer).await
    }

    /// Takes in what the node's core wants written; the listener hears the answers. The core keeps
    /// within limits of its own, far below the lanes', so that there is always room.
    pub fn take_in(
        &self,
        settles: impl IntoIterator<Item = (Number, Settle)>,
        upkeep: impl IntoIterator<Item = (Number, Upkeep)>,
    ) {
        let mut state = self.shared.lock();
        for (number, item) in settles {
            let weight = weight_of_settle(&item);
            let ticket = Ticket { item, reply: Reply::Core(number) };
            state.lanes.append_settle(weight, ticket);
        }
        for (number, item) in upkeep {
            let (urgency, rows) = (Urgency::of(&item), rows_of_upkeep(&item));
            let ticket = Ticket { item, reply: Reply::Core(number) };
            state.lanes.append_upkeep(urgency, rows, ticket);
        }
        let wakes = self.shared.enough(&state, Which::Settles);
        let upkeep = self.shared.enough(&state, Which::Upkeep);
        drop(state);
        if wakes {
            self.shared.wake(Which::Settles);
        }
        if upkeep {
            self.shared.wake(Which::Upkeep);
        }
    }

    /// Returns how the last batch ended that had messages, or shared its transaction with them.
    #[must_use]
    pub fn last(&self) -> Option<Last> {
        self.shared.lock().last
    }

    /// Takes in nothing more from callers. What waits is still committed.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.wakes.iter().for_each(Notify::notify_one);
    }

    async fn hand_in<Item, Answer>(
        &self,
        lane: Which,
        item: Item,
        offer: impl FnOnce(&mut Waiting, Ticket<Item, Answer>) -> Offered<Ticket<Item, Answer>>,
    ) -> Result<Answer, Rejected> {
        let (reply, answer) = oneshot::channel();
        let entered = {
            let mut state = self.shared.lock();
            if state.closed {
                return Err(Rejected::Closed);
            }
            let ticket = Ticket { item, reply: Reply::Caller(reply) };
            let entered = offer(&mut state.lanes, ticket).map_err(Rejected::Crowded)?;
            if self.shared.enough(&state, lane) {
                drop(state);
                self.shared.wake(lane);
            }
            entered
        };
        match entered {
            // The task drops a reply unanswered only if it was torn down with the runtime.
            Entered::Lane => answer.await.unwrap_or(Err(Rejected::Closed)),
            Entered::Waits { waiter, refused } => {
                let parked = Parked { shared: &self.shared, lane, waiter };
                refused.into_iter().for_each(parked::tell);
                parked.answered(answer).await
            }
        }
    }
}

impl Shared {
    /// Nothing panics while holding the lock, and lanes stay consistent between calls, so a
    /// poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether enough waits for a lane's task to be woken.
    fn enough(&self, state: &State, lane: Which) -> bool {
        let (lane, which) = match self.settings.transactions {
            Transactions::Together => (Which::Accepts, None),
            Transactions::Apart => (lane, Some(lane)),
        };
        state.lanes.has_enough(which, state.enough[lane as usize])
    }

    fn wake(&self, lane: Which) {
        self.notify_of(lane).notify_one();
    }

    fn notify_of(&self, lane: Which) -> &Notify {
        let [first, settles, upkeep] = &self.wakes;
        match (self.settings.transactions, lane) {
            (Transactions::Together, _) | (Transactions::Apart, Which::Accepts) => first,
            (Transactions::Apart, Which::Settles) => settles,
            (Transactions::Apart, Which::Upkeep) => upkeep,
        }
    }
}

#[cfg(test)]
mod tests;
