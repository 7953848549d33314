//! A store whose hot path is counted: what was committed, how long it took, what came of it.
//!
//! It stands between the committer and the store, so that neither knows of it, and counts once per
//! batch.

use std::sync::Arc;

use domain::partition::Partition;
use domain::time::Timestamp;
use store::keys::{Lease, Node};
use store::queue::{
    Accepted, Batch, Call, Committed, Confirmed, Done, Ending, Load, Loaded, NextState, Renewal,
    Request, Settle, Settled, Upkeep, Waiting,
};
use store::{Answer, Queue};

use super::metrics::{Metrics, OfCause};
use crate::clock::Clock;

/// A store whose hot path is counted.
pub(crate) struct Measured {
    /// The store.
    pub(crate) queue: Arc<dyn Queue>,
    /// Where it is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Queue for Measured {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        Box::pin(async move {
            let began = self.clock.now();
            let result = self.queue.commit(Arc::clone(&batch)).await;
            match &result {
                Ok(committed) => {
                    let seconds = self.clock.now().since(began).as_secs_f64();
                    self.metrics.spread.commit_seconds.observe(seconds);
                    self.metrics.committed(&batch, committed);
                }
                Err(_) => {
                    self.metrics.commit_errors.inc();
                }
            }
            result
        })
    }

    fn load(&self, load: Load) -> Answer<'_, Loaded> {
        Box::pin(async move {
            let loaded = self.queue.load(load).await;
            if let Ok(loaded) = &loaded {
                self.metrics.loaded.inc_by(long(loaded.deliveries.len()));
            }
            loaded
        })
    }

    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>> {
        self.queue.waiting(partitions)
    }

    fn syncs(&self) -> Option<u64> {
        self.queue.syncs()
    }

    fn missing_files(&self) -> Option<String> {
        self.queue.missing_files()
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.queue.probe()
    }

    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        self.queue.requests(partitions)
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        self.queue.now()
    }

    fn renew(&self, node: Node) -> Answer<'_, Renewal> {
        self.queue.renew(node)
    }

    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>> {
        self.queue.take(node, most)
    }

    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()> {
        self.queue.release(node, leases)
    }

    fn woken(&self) -> Answer<'_, Call> {
        self.queue.woken()
    }

    fn call(&self) -> Answer<'_, Timestamp> {
        self.queue.call()
    }

    fn confirm(&self, node: Node, heard: Timestamp) -> Answer<'_, ()> {
        self.queue.confirm(node, heard)
    }

    fn confirmed(&self) -> Answer<'_, Confirmed> {
        self.queue.confirmed()
    }
}

impl Metrics {
    /// Counts a batch that is on disk.
    fn committed(&self, batch: &Batch, committed: &Committed) {
        self.commits.inc();
        let rows = rows(batch, committed);
        self.rows.inc_by(rows);
        self.spread.batch_rows.observe(f64::from(u32::try_from(rows).unwrap_or(u32::MAX)));
        let taken = committed.accepts.iter().filter_map(deliveries);
        let (messages, deliveries) = taken.fold((0, 0), |sum, each| (sum.0 + 1, sum.1 + each));
        self.accepted.inc_by(messages);
        self.fanned_out.inc_by(deliveries);
        for (settle, answer) in batch.settles.iter().zip(&committed.settles) {
            self.settled(settle, answer);
        }
        for (upkeep, answer) in batch.upkeep.iter().zip(&committed.upkeep) {
            if let (Upkeep::Bury(bury), Done::Changed(count)) = (upkeep, answer)
                && let Ending::Dead(cause) = bury.ending
            {
                let cause = OfCause { cause: cause.word() };
                self.dead.get_or_create(&cause).inc_by(u64::from(*count));
            }
        }
    }

    fn settled(&self, settle: &Settle, answer: &Settled) {
        let applied = match answer {
            Settled::Applied { .. } => true,
            Settled::LeftAlone => false,
            Settled::Fenced | Settled::Missing | Settled::Refused => return,
        };
        let attempt = &settle.attempt;
        let seconds = attempt.ended_at.since(attempt.began_at).as_secs_f64();
        self.spread.attempt_seconds.observe(seconds);
        self.attempts.inc();
        if !attempt.outcome.is_2xx() {
            self.failed.inc();
        }
        if !applied {
            return;
        }
        match settle.next {
            NextState::Pending { .. } => self.retried.inc(),
            NextState::Delivered => {
                let latency = attempt.ended_at.since(settle.received_at);
                self.spread.delivery_seconds.observe(latency.as_secs_f64());
                self.delivered_at_first.inc_by(u64::from(settle.recorded == 0));
                self.delivered.inc()
            }
            NextState::Dead(cause) => {
                self.dead.get_or_create(&OfCause { cause: cause.word() }).inc()
            }
        };
    }
}

/// Returns how many rows a batch wrote or changed: messages, idempotency keys, deliveries when they
/// are accepted and again when they are settled, attempts, and whatever upkeep changed. What a store
/// keeps beside them, such as its indexes, does not count.
fn rows(batch: &Batch, committed: &Committed) -> u64 {
    let accepts = batch.accepts.iter().zip(&committed.accepts);
    let accepted = accepts.filter_map(|(accept, answer)| {
        let key = u64::from(accept.idempotency.is_some());
        Some(1 + key + deliveries(answer)?)
    });
    let settled = committed.settles.iter().map(|answer| match answer {
        Settled::Applied { .. } => 2,
        Settled::LeftAlone => 1,
        Settled::Fenced | Settled::Missing | Settled::Refused => 0,
    });
    let changed = committed.upkeep.iter().map(|answer| match answer {
        Done::Changed(count) | Done::Numbered { count, .. } => u64::from(*count),
        Done::Fenced | Done::Refused(_) => 0,
    });
    accepted.chain(settled).chain(changed).sum()
}

/// Returns how many deliveries a message has that was accepted now.
fn deliveries(answer: &Accepted) -> Option<u64> {
    match answer {
        Accepted::New { turns, .. } => Some(long(turns.len())),
        Accepted::Repeated(_)
        | Accepted::EventIdTaken(_)
        | Accepted::Stale(_)
        | Accepted::ApplicationMissing
        | Accepted::NameMoved
        | Accepted::Refused(_) => None,
    }
}

fn long(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::ids::MessageId;
    use store::keys::{ApplicationKey, MessageKey};
    use store::queue::{Accept, NewMessage};

    use super::*;

    fn accept(idempotency: Option<[u8; 32]>) -> Accept {
        let now = Timestamp::from_seconds(1);
        let message = NewMessage {
            id: MessageId::new(now, [0; 16]),
            event_type: "a".to_owned(),
            event_id: None,
            channels: Vec::new(),
            payload: Bytes::new(),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: now,
            retained_until: now,
        };
        let deliveries = Vec::new();
        Accept {
            application: ApplicationKey(1),
            named: None,
            revision: 1,
            message,
            idempotency,
            deliveries,
        }
    }

    #[test]
    fn rows_are_counted_and_not_what_was_asked_for() {
        let new = |turns| Accepted::New { message: MessageKey(1), turns };
        let accepts = vec![accept(None), accept(Some([0; 32])), accept(Some([0; 32]))];
        let batch = Batch { accepts, ..Batch::default() };
        let of = |accepts| rows(&batch, &Committed { accepts, ..Committed::default() });
        assert_eq!(of(vec![new(vec![1, 2, 3])]), 4, "a message and its deliveries");
        assert_eq!(of(vec![new(vec![1]), new(vec![1])]), 2 + 3, "and an idempotency key");
        let repeated = Accepted::Repeated(MessageId::new(Timestamp::from_seconds(1), [0; 16]));
        assert_eq!(of(vec![Accepted::ApplicationMissing, repeated, Accepted::Stale(2)]), 0);
        let settles = vec![Settled::Applied { turn: None }, Settled::LeftAlone, Settled::Fenced];
        let upkeep = vec![Done::Changed(7), Done::Fenced];
        let committed = Committed { accepts: Vec::new(), settles, upkeep };
        assert_eq!(rows(&batch, &committed), 2 + 1 + 7);
    }
}
