//! A store whose hot path is counted: what was committed, how long it took, what came of it.
//!
//! It stands between the committer and the store, so that neither knows of it, and counts once per
//! batch.

use std::sync::Arc;

use domain::outcome::Outcome;
use domain::partition::Partition;
use domain::time::Timestamp;
use store::keys::{Lease, Node};
use store::queue::{
    Accepted, Batch, Committed, Done, Load, Loaded, NextState, Renewal, Request, Settle, Settled,
    Upkeep, Waiting,
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

    fn woken(&self) -> Answer<'_, Vec<Partition>> {
        self.queue.woken()
    }
}

impl Metrics {
    /// Counts a batch that is on disk.
    fn committed(&self, batch: &Batch, committed: &Committed) {
        let rows = batch.accepts.len() + batch.settles.len() + batch.upkeep.len();
        self.commits.inc();
        self.rows.inc_by(long(rows));
        self.spread.batch_rows.observe(f64::from(u32::try_from(rows).unwrap_or(u32::MAX)));
        let taken = committed.accepts.iter().filter_map(|answer| match answer {
            Accepted::New { turns, .. } => Some(turns.len()),
            Accepted::Repeated(_)
            | Accepted::EventIdTaken(_)
            | Accepted::Stale(_)
            | Accepted::ApplicationMissing
            | Accepted::Refused(_) => None,
        });
        let (messages, deliveries) = taken.fold((0, 0), |sum, each| (sum.0 + 1, sum.1 + each));
        self.accepted.inc_by(messages);
        self.fanned_out.inc_by(long(deliveries));
        for (settle, answer) in batch.settles.iter().zip(&committed.settles) {
            self.settled(settle, answer);
        }
        for (upkeep, answer) in batch.upkeep.iter().zip(&committed.upkeep) {
            if let (Upkeep::Bury(bury), Done::Changed(count)) = (upkeep, answer) {
                let cause = OfCause { cause: bury.cause.word() };
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
        if !matches!(attempt.outcome, Outcome::Answered { status: 200..=299, .. }) {
            self.failed.inc();
        }
        if !applied {
            return;
        }
        match settle.next {
            NextState::Pending { .. } => self.retried.inc(),
            NextState::Delivered => self.delivered.inc(),
            NextState::Dead(cause) => {
                self.dead.get_or_create(&OfCause { cause: cause.word() }).inc()
            }
        };
    }
}

fn long(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
