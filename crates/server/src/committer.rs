//! The committer: carries waiting work to the store, batch by batch.
//!
//! Whoever wants something written hands it in and waits for its own answer. One task cuts what
//! has gathered into a batch, commits it, and answers everybody in it; meanwhile the next batch
//! gathers. What belongs into a batch is decided by [`engine::lanes`].
//!
//! An answer means "on disk". If the store fails, everybody in the batch gets its error: whether to
//! try again is theirs to say, and trying again is safe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::time::Timestamp;
use engine::lanes::{Crowded, Cut, Lanes, Limits, Weight};
use store::keys::ApplicationKey;
use store::queue::{Accept, Accepted, Batch, Committed, Done, Queue, Settle, Settled, Upkeep};
use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;

/// A handle on the committer. Clones share it.
#[derive(Clone)]
pub struct Committer {
    shared: Arc<Shared>,
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

/// An item on its way, with the caller who waits for its answer.
struct Ticket<Item, Answer> {
    item: Item,
    reply: oneshot::Sender<Result<Answer, Rejected>>,
}

type AcceptTicket = Ticket<Accept, Accepted>;
type SettleTicket = Ticket<Settle, Settled>;
type UpkeepTicket = Ticket<Upkeep, Done>;
type Waiting = Lanes<ApplicationKey, AcceptTicket, SettleTicket, UpkeepTicket>;

struct Shared {
    state: Mutex<State>,
    wake: Notify,
    clock: Arc<dyn Clock>,
}

struct State {
    lanes: Waiting,
    closed: bool,
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
    pub fn start(
        queue: Arc<dyn Queue>,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> (Self, tokio::task::JoinHandle<Counts>) {
        let lanes = Lanes::new(limits, clock.now());
        let state = Mutex::new(State { lanes, closed: false });
        let shared = Arc::new(Shared { state, wake: Notify::new(), clock });
        let task = tokio::spawn(run(Arc::clone(&shared), queue));
        (Self { shared }, task)
    }

    /// Accepts a message: returns when it is on disk.
    ///
    /// # Errors
    /// If too much waits, the store failed, or the server is stopping.
    pub async fn accept(&self, accept: Accept) -> Result<Accepted, Rejected> {
        let (application, weight) = (accept.application, weight_of_accept(&accept));
        let offer = |lanes: &mut Waiting, ticket| {
            lanes.offer_accept(application, weight, ticket).map_err(|full| full.what)
        };
        self.hand_in(accept, offer).await
    }

    /// Settles an attempt: returns when it is on disk.
    ///
    /// # Errors
    /// If too much waits, the store failed, or the server is stopping.
    pub async fn settle(&self, settle: Settle) -> Result<Settled, Rejected> {
        let weight = weight_of_settle(&settle);
        let offer = |lanes: &mut Waiting, ticket| {
            lanes.offer_settle(weight, ticket).map_err(|full| full.what)
        };
        self.hand_in(settle, offer).await
    }

    /// Does a step of upkeep: returns when it is on disk.
    ///
    /// # Errors
    /// If too much waits, the store failed, or the server is stopping.
    pub async fn upkeep(&self, upkeep: Upkeep) -> Result<Done, Rejected> {
        let rows = rows_of_upkeep(&upkeep);
        let offer = |lanes: &mut Waiting, ticket| {
            lanes.offer_upkeep(rows, ticket).map_err(|full| full.what)
        };
        self.hand_in(upkeep, offer).await
    }

    /// Takes in nothing more. What waits is still committed.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
    }

    async fn hand_in<Item, Answer>(
        &self,
        item: Item,
        offer: impl FnOnce(&mut Waiting, Ticket<Item, Answer>) -> Result<(), Crowded>,
    ) -> Result<Answer, Rejected> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if state.closed {
                return Err(Rejected::Closed);
            }
            offer(&mut state.lanes, Ticket { item, reply }).map_err(Rejected::Crowded)?;
        }
        self.shared.wake.notify_one();
        // The task drops a reply unanswered only if it was torn down with the runtime.
        answer.await.unwrap_or(Err(Rejected::Closed))
    }
}

impl Shared {
    /// Nothing panics while holding the lock, and lanes stay consistent between calls, so a
    /// poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self, now: Timestamp) -> Next {
        let mut state = self.lock();
        match state.lanes.cut(now) {
            Some(cut) => Next::Batch(cut),
            None if state.closed => Next::End,
            None => Next::Wait,
        }
    }
}

enum Next {
    Batch(Cut<AcceptTicket, SettleTicket, UpkeepTicket>),
    Wait,
    End,
}

async fn run(shared: Arc<Shared>, queue: Arc<dyn Queue>) -> Counts {
    let mut counts = Counts::default();
    loop {
        match shared.cut(shared.clock.now()) {
            Next::End => return counts,
            Next::Wait => shared.wake.notified().await,
            Next::Batch(cut) => {
                let items = cut.accepts.len() + cut.settles.len() + cut.upkeep.len();
                counts.batches += 1;
                counts.items += u64::try_from(items).unwrap_or(u64::MAX);
                commit(queue.as_ref(), cut).await;
            }
        }
    }
}

async fn commit(queue: &dyn Queue, cut: Cut<AcceptTicket, SettleTicket, UpkeepTicket>) {
    let (accepts, accept_replies) = parted(cut.accepts);
    let (settles, settle_replies) = parted(cut.settles);
    let (upkeep, upkeep_replies) = parted(cut.upkeep);
    match queue.commit(Arc::new(Batch { accepts, settles, upkeep })).await {
        Ok(Committed { accepts, settles, upkeep }) => {
            answer(accept_replies, accepts);
            answer(settle_replies, settles);
            answer(upkeep_replies, upkeep);
        }
        Err(error) => {
            let error = Arc::new(error);
            refuse(accept_replies, &error);
            refuse(settle_replies, &error);
            refuse(upkeep_replies, &error);
        }
    }
}

type Reply<Answer> = oneshot::Sender<Result<Answer, Rejected>>;

fn parted<Item, Answer>(tickets: Vec<Ticket<Item, Answer>>) -> (Vec<Item>, Vec<Reply<Answer>>) {
    tickets.into_iter().map(|ticket| (ticket.item, ticket.reply)).unzip()
}

fn answer<Answer>(replies: Vec<Reply<Answer>>, answers: Vec<Answer>) {
    for (reply, answer) in replies.into_iter().zip(answers) {
        // A caller that stopped waiting has lost its answer, not its item.
        let _ = reply.send(Ok(answer));
    }
}

fn refuse<Answer>(replies: Vec<Reply<Answer>>, error: &Arc<store::Error>) {
    for reply in replies {
        let _ = reply.send(Err(Rejected::Store(Arc::clone(error))));
    }
}

fn weight_of_accept(accept: &Accept) -> Weight {
    let deliveries = u32::try_from(accept.deliveries.len()).unwrap_or(u32::MAX);
    let own = 2 + u32::from(accept.idempotency.is_some());
    let bytes = u64::try_from(accept.message.payload.len()).unwrap_or(u64::MAX);
    Weight { rows: deliveries.saturating_mul(2).saturating_add(own), bytes: bytes + 256 }
}

fn weight_of_settle(settle: &Settle) -> Weight {
    let kept = u64::try_from(settle.attempt.response_body.len()).unwrap_or(u64::MAX);
    Weight { rows: 3, bytes: kept + 512 }
}

fn rows_of_upkeep(upkeep: &Upkeep) -> u32 {
    let rows = match upkeep {
        Upkeep::Bury(bury) => bury.messages.len(),
        Upkeep::Replay(replay) => replay.deliveries.len(),
        Upkeep::Consume { requests, .. } => requests.len(),
        Upkeep::RollUp { rollups, .. } => rollups.len(),
        Upkeep::Run { .. } | Upkeep::Ask { .. } => 1,
        Upkeep::Prune { most, .. } => return *most,
    };
    u32::try_from(rows).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
