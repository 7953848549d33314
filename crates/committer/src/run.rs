//! The tasks that cut batches and commit them.

use std::sync::Arc;
use std::time::Duration;

use engine::commit::{Carried, Crowd, Cut, Pace, Quorum, Urgency, Which};
use store::queue::{Accepted, Batch, Committed, Done, Settled};

use super::weight::{rows_of_upkeep, weight_of_settle};
use super::{
    AcceptTicket, Counts, Last, Listener, Rejected, Reply, SettleTicket, Shared, Ticket,
    Transactions, UpkeepTicket,
};

/// The wait after a batch that failed; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The longest wait after a failed batch.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// About what goes into one write of a payload.
const PAGE_BYTES: usize = 4_096;

type Tickets = Cut<AcceptTicket, SettleTicket, UpkeepTicket>;

/// Runs until the committer is closed and nothing waits any more.
pub(super) async fn all(shared: Arc<Shared>) -> Counts {
    match shared.settings.transactions {
        Transactions::Together => lane(&shared, None).await,
        Transactions::Apart => {
            let (accepts, settles, upkeep) = tokio::join!(
                lane(&shared, Some(Which::Accepts)),
                lane(&shared, Some(Which::Settles)),
                lane(&shared, Some(Which::Upkeep)),
            );
            accepts.plus(settles).plus(upkeep)
        }
    }
}

/// Carries one lane, or all of them together.
async fn lane(shared: &Shared, which: Option<Which>) -> Counts {
    let mut counts = Counts::default();
    let mut wait = FIRST_WAIT;
    let (mut crowd, mut pace) = (Crowd::default(), Pace::default());
    loop {
        // Whoever is about to hand something in does so first: under load that makes fewer and
        // larger batches, and an idle server has nobody to wait for.
        tokio::task::yield_now().await;
        let now = shared.settings.clock.now();
        let (cut, closed) = {
            let mut state = shared.lock();
            let cut = match which {
                None if crowd.is_there() => state.lanes.cut(now, usize::MAX),
                None => state.lanes.cut(now, pace.settles()),
                Some(which) => state.lanes.cut_lane(which, now),
            };
            (cut, state.closed)
        };
        let Some(cut) = cut else {
            if closed {
                return counts;
            }
            // Whoever comes after a silence is not one of those who were here before it.
            crowd = Crowd::default();
            shared.notify_of(which.unwrap_or(Which::Accepts)).notified().await;
            continue;
        };
        let items = cut.accepts.len() + cut.settles.len() + cut.upkeep.len();
        let (callers, writes) = (callers_of(&cut, which), writes_of(&cut));
        counts.batches += 1;
        counts.items += u64::try_from(items).unwrap_or(u64::MAX);
        if let Some(upkeep) = commit(shared, cut).await {
            wait = FIRST_WAIT;
            let took = shared.settings.clock.now().since(now);
            let batch = Carried { callers, writes: writes.saturating_add(upkeep), took };
            pace.committed(batch);
            gather(shared, which, |waiting| crowd.committed(which, batch, waiting)).await;
        } else {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// Returns how many of a batch come back when they are answered.
fn callers_of(cut: &Tickets, which: Option<Which>) -> usize {
    match which {
        None | Some(Which::Accepts) => cut.accepts.len(),
        Some(Which::Settles) => cut.settles.len(),
        Some(Which::Upkeep) => cut.upkeep.len(),
    }
}

/// Returns about how many rows and pages a batch is, but for its upkeep.
fn writes_of(cut: &Tickets) -> u32 {
    let accepts = cut.accepts.iter().map(|ticket| {
        let pages = ticket.item.message.payload.len() / PAGE_BYTES;
        1 + u32::try_from(ticket.item.deliveries.len() + pages).unwrap_or(u32::MAX / 2)
    });
    let settles = u32::try_from(cut.settles.len()).unwrap_or(u32::MAX);
    accepts.fold(settles, u32::saturating_add)
}

/// Returns about how many rows upkeep has written. That is not what it might have been: a step that
/// only looks for what is to be removed would make a slow sync pass for many writes.
fn written(upkeep: &[Done]) -> u32 {
    let rows = upkeep.iter().map(|done| match done {
        Done::Changed(rows) | Done::Numbered { count: rows, .. } => (*rows).max(1),
        Done::Fenced | Done::Refused(_) => 1,
    });
    rows.fold(0, u32::saturating_add)
}

/// Waits behind a batch until enough of those who come back are there again, or it has been long.
async fn gather(shared: &Shared, which: Option<Which>, whom: impl FnOnce(usize) -> Quorum + Send) {
    let lane = which.unwrap_or(Which::Accepts);
    let quorum = {
        let mut state = shared.lock();
        let quorum = whom(state.lanes.callers(which));
        if state.closed || state.lanes.has_enough(which, quorum.callers) {
            return;
        }
        // Nobody wakes this task for less.
        state.enough[lane as usize] = quorum.callers;
        quorum
    };
    let is_there = || {
        let state = shared.lock();
        state.closed || state.lanes.has_enough(which, quorum.callers)
    };
    let gathered = async {
        while !is_there() {
            shared.notify_of(lane).notified().await;
        }
    };
    // Whoever is there by then goes along.
    drop(tokio::time::timeout(quorum.patience, gathered).await);
    shared.lock().enough[lane as usize] = 1;
}

/// Who gets the answers to a batch.
struct Replies {
    accepts: Vec<Reply<Accepted>>,
    settles: Vec<Reply<Settled>>,
    upkeep: Vec<Reply<Done>>,
}

/// Commits a batch and answers everybody in it; returns about how many rows its upkeep has written, if
/// that worked.
async fn commit(shared: &Shared, cut: Tickets) -> Option<u32> {
    let (accepts, for_accepts) = parted(cut.accepts);
    let (settles, for_settles) = parted(cut.settles);
    let (upkeep, for_upkeep) = parted(cut.upkeep);
    let replies = Replies { accepts: for_accepts, settles: for_settles, upkeep: for_upkeep };
    let batch = Arc::new(Batch { accepts, settles, upkeep });
    let issued_at = shared.settings.clock.now();
    let result = shared.settings.queue.commit(Arc::clone(&batch)).await;
    let tells = match shared.settings.transactions {
        Transactions::Together => true,
        Transactions::Apart => !batch.accepts.is_empty(),
    };
    if tells {
        let last = Last { at: shared.settings.clock.now(), written: result.is_ok() };
        shared.lock().last = Some(last);
    }
    // The store has let go of it by now; if not, that costs a copy.
    let batch = Arc::try_unwrap(batch).unwrap_or_else(|batch| Batch::clone(&batch));
    match result {
        Ok(committed) => {
            let listener = shared.settings.listener.as_ref();
            if !committed.accepts.is_empty() {
                listener.accepted(issued_at, batch.accepts, &committed.accepts);
            }
            let upkeep = written(&committed.upkeep);
            replies.answer(committed, listener);
            Some(upkeep)
        }
        Err(error) => {
            tracing::warn!(target: "redial::committer", %error, "a batch was not committed");
            replies.restore(shared, batch, &Rejected::Store(Arc::new(error)));
            None
        }
    }
}

impl Replies {
    fn answer(self, committed: Committed, listener: &dyn Listener) {
        answer(self.accepts, committed.accepts);
        let settles = answer(self.settles, committed.settles);
        let upkeep = answer(self.upkeep, committed.upkeep);
        if !settles.is_empty() || !upkeep.is_empty() {
            listener.answered(settles, upkeep);
        }
    }

    /// Puts back what the core handed in, oldest first, and tells the callers.
    fn restore(self, shared: &Shared, batch: Batch, rejected: &Rejected) {
        let mut state = shared.lock();
        for (item, reply) in batch.settles.into_iter().zip(self.settles).rev() {
            if let Some(reply) = reply.refuse(rejected) {
                let weight = weight_of_settle(&item);
                state.lanes.restore_settle(weight, Ticket { item, reply });
            }
        }
        for (item, reply) in batch.upkeep.into_iter().zip(self.upkeep).rev() {
            if let Some(reply) = reply.refuse(rejected) {
                let (urgency, rows) = (Urgency::of(&item), rows_of_upkeep(&item));
                state.lanes.restore_upkeep(urgency, rows, Ticket { item, reply });
            }
        }
        drop(state);
        for reply in self.accepts {
            reply.refuse(rejected);
        }
    }
}

impl<Answer> Reply<Answer> {
    /// Tells a caller that it was not written; the core is not told, and goes on waiting.
    fn refuse(self, rejected: &Rejected) -> Option<Self> {
        match self {
            Self::Core(number) => Some(Self::Core(number)),
            Self::Caller(caller) => {
                // A caller that stopped waiting need not know.
                let _heard = caller.send(Err(rejected.clone()));
                None
            }
        }
    }
}

fn parted<Item, Answer>(tickets: Vec<Ticket<Item, Answer>>) -> (Vec<Item>, Vec<Reply<Answer>>) {
    tickets.into_iter().map(|ticket| (ticket.item, ticket.reply)).unzip()
}

/// Answers the callers, and returns what is for the core.
fn answer<Answer>(
    replies: Vec<Reply<Answer>>,
    answers: Vec<Answer>,
) -> Vec<(engine::Number, Answer)> {
    let mut for_core = Vec::new();
    for (reply, answer) in replies.into_iter().zip(answers) {
        match reply {
            // A caller that stopped waiting has lost its answer, not its item.
            Reply::Caller(caller) => drop(caller.send(Ok(answer))),
            Reply::Core(number) => for_core.push((number, answer)),
        }
    }
    for_core
}

impl Counts {
    const fn plus(self, other: Self) -> Self {
        Self { batches: self.batches + other.batches, items: self.items + other.items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upkeep_counts_as_what_it_changed_and_not_as_what_it_might_have() {
        let done = [Done::Changed(0), Done::Changed(17), Done::Fenced, Done::Refused("no".into())];
        assert_eq!(written(&done), 1 + 17 + 1 + 1);
        assert_eq!(written(&[Done::Changed(u32::MAX), Done::Changed(7)]), u32::MAX);
        assert_eq!(written(&[]), 0);
    }
}
