//! Per-minute sums of what was accepted, attempted and settled, kept in memory and written by upkeep.
//!
//! What attempts add is kept by lease and endpoint: what a partition's owner has not written when another
//! takes it is not written any more, and counted again from the attempts by the other. So an endpoint's
//! part in the sums of its application and of the whole is written with its own, or not at all.
//!
//! What is accepted is counted by the node that accepts it, which need not be the owner. It is written
//! with what the node's own attempts add, if it is the owner, and under no lease otherwise.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::partition::Partition;
use domain::time::Timestamp;
use engine::Number;
use futures_util::future::join_all;
use store::keys::{ApplicationKey, EndpointKey, Epoch, Lease};
use store::ledger::Within;
use store::queue::{
    Accept, Accepted, Done, FirstState, Minute, NextState, Once, Rollup, Settle, Settled, Subject,
    Upkeep,
};

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
/// How often a reader looks again because a step was being written meanwhile, and the wait before that.
const LOOKS: usize = 20;
const BEFORE_LOOKING_AGAIN: Duration = Duration::from_millis(10);

/// What gathers.
#[derive(Default)]
pub(crate) struct Sums {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    settling: BTreeMap<Number, Share>,
    sums: BTreeMap<Place, Gathered>,
    /// What was cut to be written and is not known to be: repeated as it is.
    cut: VecDeque<Cut>,
    /// How many of these, from the first on, are handed in and not answered.
    handed_in: usize,
    /// How often steps were answered.
    answered: u64,
}

/// Whose sums, of which minute, and under which lease: none if this node has accepted what they count,
/// whoever owns the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    application: ApplicationKey,
    endpoint: EndpointKey,
    minute: Minute,
    lease: Option<Lease>,
}

/// An endpoint's sums of a minute.
struct Gathered {
    partition: Partition,
    sum: Rollup,
}

/// Sums that are written together.
struct Cut {
    /// The lease that they stand under, if they have anything of attempts.
    lease: Option<Lease>,
    once: Once,
    sums: Vec<(Place, Gathered)>,
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
    place: Place,
    partition: Partition,
    succeeded: bool,
    is_first: bool,
    took: Duration,
    next: NextState,
    latency: Duration,
}

impl Sums {
    /// Counts the deliveries of messages that were accepted here.
    pub(super) fn accepted(&self, accepts: &[Accept], answers: &[Accepted]) {
        let mut state = self.lock();
        for (accept, answer) in accepts.iter().zip(answers) {
            if !matches!(answer, Accepted::New { .. }) {
                continue;
            }
            let (application, minute) =
                (accept.application, Minute::of(accept.message.received_at));
            for delivery in &accept.deliveries {
                let endpoint = delivery.endpoint;
                let is_dead = matches!(delivery.state, FirstState::Dead(_));
                let place = Place { application, endpoint, minute, lease: None };
                let sum = state.sum(place, delivery.partition);
                sum.into_iter().for_each(|sum| sum.accept(is_dead));
            }
        }
    }

    /// Forgets all attempts: whoever made them is no more, and the next one counts from the start.
    /// What is settled of them is counted again with the partitions that the next one takes.
    pub(super) fn forget_attempts(&self) {
        self.lock().settling.clear();
    }

    /// Remembers an attempt that is being settled.
    pub(super) fn settling(&self, attempt: Number, settle: &Settle) {
        let record = &settle.attempt;
        let place = Place {
            application: settle.key.application,
            endpoint: settle.key.endpoint,
            minute: Minute::of(record.ended_at),
            lease: Some(settle.lease),
        };
        let share = Share {
            place,
            partition: settle.lease.partition,
            succeeded: record.outcome.is_2xx(),
            is_first: settle.recorded == 0,
            took: record.ended_at.since(record.began_at),
            next: settle.next,
            latency: record.ended_at.since(settle.received_at),
        };
        self.lock().settling.insert(attempt, share);
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
        let sum = state.sum(share.place, share.partition);
        sum.into_iter().for_each(|sum| share.add_to(sum, ended));
    }

    /// Tells whether anything of a minute, or of an earlier one, is not written yet.
    pub(super) fn hold_anything_until(&self, minute: Minute) -> bool {
        let state = self.lock();
        let mut cut = state.cut.iter().flat_map(|cut| &cut.sums);
        state.settling.values().any(|share| share.place.minute <= minute)
            || state.sums.keys().any(|place| place.minute <= minute)
            || cut.any(|(place, _)| place.minute <= minute)
    }

    /// Returns the sums of some minutes, all together: what the store has, with what this node has not
    /// written yet. Who reads while steps are being written looks again, so that nothing counts twice; a
    /// node that is always writing answers with what it has seen last.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(super) async fn together(
        &self,
        world: &World,
        within: Within,
        minutes: Range<Minute>,
    ) -> Result<Rollup, store::Error> {
        let subject = Subject::from(within);
        let mut look = 1;
        loop {
            let (mut sum, seen) = self.unwritten(within, &minutes);
            let stored = world.ledger.rollups(subject, minutes.start, minutes.end).await?;
            if self.is_as_seen(seen) || look == LOOKS {
                stored.hours.iter().chain(&stored.minutes).for_each(|stored| sum.add(stored));
                return Ok(sum);
            }
            look += 1;
            tokio::time::sleep(BEFORE_LOOKING_AGAIN).await;
        }
    }

    /// Returns what is not written yet of some minutes, and which answers that was before; none while
    /// steps are handed in, which may be written or not.
    fn unwritten(&self, within: Within, minutes: &Range<Minute>) -> (Rollup, Option<u64>) {
        let mut sum = Rollup::empty(Subject::from(within), minutes.start);
        let is_meant = |place: &Place| {
            minutes.contains(&place.minute) && within.has(place.application, place.endpoint)
        };
        let state = self.lock();
        let cut = state.cut.iter().flat_map(|cut| &cut.sums).map(|(place, more)| (place, more));
        let theirs = state.sums_of(within).chain(cut).filter(|(place, _)| is_meant(place));
        theirs.for_each(|(_, more)| sum.add(&more.sum));
        (sum, (state.handed_in == 0).then_some(state.answered))
    }

    fn is_as_seen(&self, seen: Option<u64>) -> bool {
        let state = self.lock();
        state.handed_in == 0 && seen == Some(state.answered)
    }

    /// Writes what has gathered, one step after the other. What the store does not take is kept and
    /// repeated next time; a repetition of what it did take changes nothing.
    pub(super) async fn flush(&self, world: &World) {
        self.cut(world.timeline.rows(), &world.leases.borrow());
        while self.write(world, 1).await {
            tokio::time::sleep(BETWEEN_STEPS).await;
        }
    }

    /// Writes what has gathered as fast as the store takes it.
    pub(super) async fn flush_fast(&self, world: &World) {
        self.cut(world.timeline.rows(), &world.leases.borrow());
        while self.write(world, AT_ONCE).await {}
    }

    /// Writes so many steps together; tells whether there are more that the store would take.
    async fn write(&self, world: &World, most: usize) -> bool {
        let steps = self.hand_in(most);
        let answers = join_all(steps.into_iter().map(|it| world.committer.upkeep(it))).await;
        let mut state = self.lock();
        state.handed_in = 0;
        state.answered += 1;
        let handed_in = answers.len().min(state.cut.len());
        let handed_in: Vec<Cut> = state.cut.drain(..handed_in).collect();
        for (cut, answer) in handed_in.into_iter().zip(&answers).rev() {
            match answer {
                Ok(Done::Fenced) => state.keep_accepted(cut),
                Ok(Done::Changed(_) | Done::Numbered { .. } | Done::Refused(_)) => {}
                Err(_) => state.cut.push_front(cut),
            }
        }
        if let Some(Err(error)) = answers.iter().find(|answer| answer.is_err()) {
            tracing::warn!(%error, "sums were not written; they are tried again");
            return false;
        }
        !state.cut.is_empty()
    }

    fn hand_in(&self, most: usize) -> Vec<Upkeep> {
        let mut state = self.lock();
        let steps: Vec<Upkeep> = state.cut.iter().take(most).map(Cut::step).collect();
        state.handed_in = steps.len();
        steps
    }

    /// Cuts what has gathered into steps, unless earlier ones still wait.
    fn cut(&self, at: Timestamp, owned: &BTreeMap<Partition, Epoch>) {
        let mut state = self.lock();
        if !state.cut.is_empty() {
            return;
        }
        let mut sums: BTreeMap<(Option<Lease>, Place), Gathered> = BTreeMap::new();
        for (place, gathered) in std::mem::take(&mut state.sums) {
            // What was accepted for a partition of this node is written with what its attempts add.
            let partition = gathered.partition;
            let own = || owned.get(&partition).map(|epoch| Lease { partition, epoch: *epoch });
            let lease = place.lease.or_else(own);
            match sums.entry((lease, Place { lease, ..place })) {
                Entry::Vacant(free) => drop(free.insert(gathered)),
                Entry::Occupied(mut known) => known.get_mut().sum.add(&gathered.sum),
            }
        }
        let most = (sums.len() / STEPS).clamp(SMALL_STEP, LARGE_STEP);
        for ((lease, place), gathered) in sums {
            let last = state.cut.back_mut();
            match last.filter(|last| last.lease == lease && last.sums.len() < most) {
                Some(last) => last.sums.push((place, gathered)),
                None => {
                    let once = Once { at, id: dice::for_id() };
                    state.cut.push_back(Cut { lease, once, sums: vec![(place, gathered)] });
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the sums at a place, unless too many have gathered.
    fn sum(&mut self, place: Place, partition: Partition) -> Option<&mut Rollup> {
        if self.sums.len() >= MOST && !self.sums.contains_key(&place) {
            return None;
        }
        let empty = || {
            let sum = Rollup::empty(Subject::Endpoint(place.endpoint), place.minute);
            Gathered { partition, sum }
        };
        Some(&mut self.sums.entry(place).or_insert_with(empty).sum)
    }

    /// Returns what gathers of an endpoint, an application, or of all.
    fn sums_of(&self, within: Within) -> impl Iterator<Item = (&Place, &Gathered)> {
        let first = |application, endpoint| {
            let (application, endpoint) = (ApplicationKey(application), EndpointKey(endpoint));
            Place { application, endpoint, minute: Minute(i64::MIN), lease: None }
        };
        let range = match within {
            Within::Whole => first(i64::MIN, i64::MIN)..first(i64::MAX, i64::MIN),
            Within::Application(ApplicationKey(key)) => {
                first(key, i64::MIN)..first(key.saturating_add(1), i64::MIN)
            }
            Within::Endpoint(ApplicationKey(key), EndpointKey(endpoint)) => {
                first(key, endpoint)..first(key, endpoint.saturating_add(1))
            }
        };
        self.sums.range(range)
    }

    /// Keeps what was accepted of sums that were fenced, to be written under no lease: the rest is
    /// counted again by whoever owns the partition now.
    fn keep_accepted(&mut self, cut: Cut) {
        for (place, Gathered { partition, sum }) in cut.sums {
            let Some(accepted) = sum.accepted_part() else { continue };
            let sum = self.sum(Place { lease: None, ..place }, partition);
            sum.into_iter().for_each(|sum| sum.add(&accepted));
        }
    }
}

impl Cut {
    fn step(&self) -> Upkeep {
        let mut sheet = Sheet::new();
        self.sums.iter().for_each(|(place, it)| enter(&mut sheet, place.application, &it.sum));
        let rollups = sheet.into_values().collect();
        Upkeep::RollUp { lease: self.lease, once: self.once, rollups }
    }
}

impl Share {
    fn add_to(&self, sum: &mut Rollup, ended: bool) {
        sum.attempt(self.succeeded, self.is_first, self.took);
        if !ended {
            return;
        }
        match self.next {
            NextState::Pending { .. } => {}
            NextState::Dead(cause) => sum.die(cause),
            NextState::Delivered => sum.deliver(self.is_first, self.latency),
        }
    }
}

#[cfg(test)]
mod tests;
