//! Per-minute sums of what was settled, kept in memory and written by upkeep.
//!
//! They are kept by lease and endpoint: what a partition's owner has not written when another takes
//! it is not written any more, and counted again from the attempts by the other. So an endpoint's
//! part in the sums of its application and of the whole is written with its own, or not at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::time::Timestamp;
use engine::Number;
use futures_util::future::join_all;
use store::keys::{ApplicationKey, EndpointKey, Lease};
use store::queue::{Minute, NextState, Once, Rollup, Settle, Settled, Subject, Upkeep};

use super::World;
use crate::dice;

/// The fewest endpoints' sums that fill a step of upkeep. It shares its batch with messages, which wait
/// for it: each is a page that may be cold, and as many take about as long as a sync.
const SMALL_STEP: usize = 4;
/// The most, if there are more than [`STEPS`] small steps to do.
const LARGE_STEP: usize = 16;
/// How many steps should be enough, so that most are written when the next ones come.
const STEPS: usize = 1_000;
/// The most steps that are handed in together by a node that stops.
const AT_ONCE: usize = 64;
/// The wait between two steps otherwise: thousands of them in a row would make every batch late that
/// they share with messages. What a node writes so is the sums of some 150,000 endpoints in each minute.
const BETWEEN_STEPS: Duration = Duration::from_millis(5);
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
    sums: BTreeMap<(Lease, ApplicationKey, EndpointKey, Minute), Rollup>,
    /// What was cut to be written and is not known to be: repeated as it is.
    cut: VecDeque<Cut>,
}

/// Sums of one lease that are written together.
struct Cut {
    lease: Lease,
    once: Once,
    sums: Sheet,
}

/// Sums by whose they are.
pub(super) type Sheet = BTreeMap<(Subject, Minute), Rollup>;

/// Adds an endpoint's sums to its own, its application's and those of the whole.
pub(super) fn enter(sheet: &mut Sheet, application: ApplicationKey, sum: &Rollup) {
    for subject in [sum.subject, Subject::Application(application), Subject::Whole] {
        let known = sheet.entry((subject, sum.minute));
        known.or_insert_with(|| Rollup::empty(subject, sum.minute)).add(sum);
    }
}

/// What one attempt adds once its settle is on disk.
struct Share {
    lease: Lease,
    application: ApplicationKey,
    endpoint: EndpointKey,
    minute: Minute,
    succeeded: bool,
    next: NextState,
    latency: Duration,
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

    /// Forgets all attempts: whoever made them is no more, and the next one counts from the start.
    /// What is settled of them is counted again with the partitions that the next one takes.
    pub(super) fn forget_attempts(&self) {
        let mut state = self.lock();
        state.received.clear();
        state.settling.clear();
    }

    /// Remembers an attempt that is being settled.
    pub(super) fn settling(&self, attempt: Number, settle: &Settle) {
        let record = &settle.attempt;
        let mut state = self.lock();
        let Some(received_at) = state.received.remove(&attempt) else { return };
        let share = Share {
            lease: settle.lease,
            application: settle.key.application,
            endpoint: settle.key.endpoint,
            minute: Minute::of(record.ended_at),
            succeeded: record.outcome.is_2xx(),
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
        if state.sums.len() >= MOST {
            return;
        }
        let Share { lease, application, endpoint, minute, .. } = share;
        let sum = state.sums.entry((lease, application, endpoint, minute));
        let empty = || Rollup::empty(Subject::Endpoint(endpoint), minute);
        share.add_to(sum.or_insert_with(empty), ended);
    }

    /// Tells whether anything of a minute, or of an earlier one, is not written yet.
    pub(super) fn hold_anything_until(&self, minute: Minute) -> bool {
        let state = self.lock();
        let mut cut = state.cut.iter().flat_map(|cut| cut.sums.keys());
        state.settling.values().any(|share| share.minute <= minute)
            || state.sums.values().any(|sum| sum.minute <= minute)
            || cut.any(|(_, other)| *other <= minute)
    }

    /// Writes what has gathered, one step after the other. What the store does not take is kept and
    /// repeated next time; a repetition of what it did take changes nothing.
    pub(super) async fn flush(&self, world: &World) {
        self.cut(world.timeline.rows());
        while self.write(world, 1).await {
            tokio::time::sleep(BETWEEN_STEPS).await;
        }
    }

    /// Writes what has gathered as fast as the store takes it.
    pub(super) async fn flush_fast(&self, world: &World) {
        self.cut(world.timeline.rows());
        while self.write(world, AT_ONCE).await {}
    }

    /// Writes so many steps together; tells whether there are more that the store would take.
    async fn write(&self, world: &World, most: usize) -> bool {
        let steps: Vec<Upkeep> = self.lock().cut.iter().take(most).map(Cut::step).collect();
        let answers = join_all(steps.into_iter().map(|it| world.committer.upkeep(it))).await;
        let mut state = self.lock();
        let handed_in = answers.len().min(state.cut.len());
        let handed_in: Vec<Cut> = state.cut.drain(..handed_in).collect();
        for (cut, answer) in handed_in.into_iter().zip(&answers).rev() {
            if answer.is_err() {
                state.cut.push_front(cut);
            }
        }
        if let Some(Err(error)) = answers.iter().find(|answer| answer.is_err()) {
            tracing::warn!(%error, "sums were not written; they are tried again");
            return false;
        }
        !state.cut.is_empty()
    }

    /// Cuts what has gathered into steps, unless earlier ones still wait.
    fn cut(&self, at: Timestamp) {
        let mut state = self.lock();
        if !state.cut.is_empty() {
            return;
        }
        let sums = std::mem::take(&mut state.sums);
        let most = (sums.len() / STEPS).clamp(SMALL_STEP, LARGE_STEP);
        let mut entered = 0;
        for ((lease, application, ..), sum) in sums {
            let fits = entered < most && state.cut.back().is_some_and(|it| it.lease == lease);
            if !fits {
                let once = Once { at, id: dice::for_id() };
                state.cut.push_back(Cut { lease, once, sums: Sheet::new() });
                entered = 0;
            }
            if let Some(last) = state.cut.back_mut() {
                enter(&mut last.sums, application, &sum);
                entered += 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cut {
    fn step(&self) -> Upkeep {
        let rollups = self.sums.values().cloned().collect();
        Upkeep::RollUp { lease: self.lease, once: self.once, rollups }
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
            NextState::Delivered => sum.deliver(self.latency),
        }
    }
}

#[cfg(test)]
mod tests;
