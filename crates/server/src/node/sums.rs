//! Per-minute sums of what was settled, kept in memory and written by upkeep.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::outcome::Outcome;
use domain::time::Timestamp;
use engine::Number;
use store::ledger::{BUCKETS, bucket};
use store::queue::{Minute, NextState, Once, Rollup, Settle, Settled, Subject, Upkeep};

use super::World;
use crate::dice;

/// The most sums in one step of upkeep.
const CHUNK: usize = 64;
/// The most sums that gather while the store does not take them; what is over is lost, and with it
/// a minute's figures, never a delivery.
const MOST: usize = 100_000;

/// What gathers.
#[derive(Default)]
pub(crate) struct Sums {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    received: BTreeMap<Number, Timestamp>,
    settling: BTreeMap<Number, Share>,
    sums: BTreeMap<(Subject, Minute), Rollup>,
    /// What was cut to be written and is not known to be: repeated as it is.
    cut: VecDeque<(Once, Vec<Rollup>)>,
}

/// What one attempt adds once its settle is on disk.
struct Share {
    subjects: [Subject; 3],
    minute: Minute,
    succeeded: bool,
    next: NextState,
    latency: std::time::Duration,
}

impl Sums {
    /// Remembers when the message of an attempt was received.
    pub(super) fn sending(&self, attempt: Number, received_at: Timestamp) {
        self.lock().received.insert(attempt, received_at);
    }

    /// Forgets an attempt that ended without anything to settle.
    pub(super) fn interrupted(&self, attempt: Number) {
        self.lock().received.remove(&attempt);
    }

    /// Remembers an attempt that is being settled.
    pub(super) fn settling(&self, attempt: Number, settle: &Settle) {
        let record = &settle.attempt;
        let mut state = self.lock();
        let Some(received_at) = state.received.remove(&attempt) else { return };
        let share = Share {
            subjects: [
                Subject::Whole,
                Subject::Application(settle.key.application),
                Subject::Endpoint(settle.key.endpoint),
            ],
            minute: Minute::of(record.ended_at),
            succeeded: matches!(record.outcome, Outcome::Answered { status: 200..=299, .. }),
            next: settle.next,
            latency: record.ended_at.since(received_at),
        };
        state.settling.insert(attempt, share);
    }

    /// Adds an attempt whose settle was answered.
    pub(super) fn settled(&self, attempt: Number, answer: Settled) {
        let mut state = self.lock();
        let Some(share) = state.settling.remove(&attempt) else { return };
        let ended = match answer {
            Settled::Applied { .. } => true,
            Settled::LeftAlone => false,
            Settled::Fenced | Settled::Missing | Settled::Refused => return,
        };
        for subject in share.subjects {
            if state.sums.len() >= MOST {
                return;
            }
            let sum = state.sums.entry((subject, share.minute)).or_insert_with(|| Rollup {
                subject,
                minute: share.minute,
                succeeded: 0,
                failed: 0,
                delivered: 0,
                dead: 0,
                latencies: Vec::new(),
            });
            share.add_to(sum, ended);
        }
    }

    /// Writes what has gathered. What the store does not take is kept and repeated next time; a
    /// repetition of what it did take changes nothing.
    pub(super) async fn flush(&self, world: &World) {
        self.cut(world.timeline.rows());
        loop {
            let Some((once, rollups)) = self.lock().cut.front().cloned() else { return };
            let step = Upkeep::RollUp { once, rollups };
            if let Err(error) = world.committer.upkeep(step).await {
                tracing::warn!(%error, "sums were not written; they are tried again");
                return;
            }
            self.lock().cut.pop_front();
        }
    }

    /// Cuts what has gathered into steps, unless earlier ones still wait.
    fn cut(&self, at: Timestamp) {
        let mut state = self.lock();
        if !state.cut.is_empty() {
            return;
        }
        let mut sums = std::mem::take(&mut state.sums).into_values();
        loop {
            let rollups: Vec<Rollup> = sums.by_ref().take(CHUNK).collect();
            if rollups.is_empty() {
                return;
            }
            state.cut.push_back((Once { at, id: dice::for_id() }, rollups));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn add_to(&self, sum: &mut Rollup, ended: bool) {
        if self.succeeded {
            sum.succeeded += 1;
        } else {
            sum.failed += 1;
        }
        if !ended {
            return;
        }
        match self.next {
            NextState::Pending { .. } => {}
            NextState::Dead(_) => sum.dead += 1,
            NextState::Delivered => {
                sum.delivered += 1;
                sum.latencies.resize(BUCKETS, 0);
                if let Some(count) = sum.latencies.get_mut(bucket(self.latency)) {
                    *count += 1;
                }
            }
        }
    }
}
