//! Sums of what was accepted, attempted and settled: of a minute, and of an hour once its minutes are old.
//!
//! Everything here adds up: sums of several minutes, endpoints or nodes are sums of the same form.

use std::time::Duration;

use domain::delivery::Cause;
use domain::time::Timestamp;

use crate::codes;
use crate::keys::{ApplicationKey, EndpointKey};
use crate::ledger::bucket;

/// How many single numbers sums have, and how many lists of counts.
pub(crate) const NUMBERS: usize = 8;
pub(crate) const LISTS: usize = 4;
/// The minutes of an hour.
const HOUR: i64 = 60;

/// The sums of one subject.
///
/// What a store kept before it had a column for it is zero, or empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// Whose sums.
    pub subject: Subject,
    /// Which minute; of an hour the first one.
    pub minute: Minute,
    /// Deliveries that were made when their message was accepted. One that died at once is among them.
    pub accepted: u64,
    /// Deliveries that were dead letters from the beginning, because their endpoint was disabled.
    pub dead_at_once: u64,
    /// Attempts answered with success.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts, of both kinds, that were the first of their delivery.
    pub first_attempts: u64,
    /// How long attempts took, counted by bucket; see [`crate::ledger::bucket`].
    pub attempt_times: Vec<u32>,
    /// Deliveries that ended delivered.
    pub delivered: u64,
    /// Those of them whose first attempt succeeded.
    pub delivered_at_first: u64,
    /// Times from acceptance to delivery, counted by bucket.
    pub latencies: Vec<u32>,
    /// Deliveries that ended dead with an attempt.
    pub dead: u64,
    /// Those of them, by the number of their cause.
    pub causes: Vec<u32>,
    /// Deliveries that were buried without an attempt, by the number of their cause. The step that buries
    /// writes it.
    pub buried: Vec<u32>,
}

/// Sums of a range of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rollups {
    /// By minute, ascending.
    pub minutes: Vec<Rollup>,
    /// Those of old minutes, by hour: an hour is among them if its first minute is in the range. Sums that
    /// came late may still be by minute; they are not in the hour's.
    pub hours: Vec<Rollup>,
}

/// Whose sums a rollup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Of everything.
    Whole,
    /// Of an application.
    Application(ApplicationKey),
    /// Of an endpoint.
    Endpoint(EndpointKey),
}

/// A minute since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minute(pub i64);

impl Minute {
    /// Returns the minute that a moment belongs to.
    #[must_use]
    pub const fn of(moment: Timestamp) -> Self {
        Self(moment.as_seconds().div_euclid(60))
    }

    /// Returns the moment at which it begins.
    #[must_use]
    pub const fn begins_at(self) -> Timestamp {
        Timestamp::from_seconds(self.0.saturating_mul(60))
    }

    /// Returns the first minute of its hour, by which the sums of the hour are kept.
    #[must_use]
    pub const fn hour(self) -> Self {
        Self(self.0.div_euclid(HOUR) * HOUR)
    }

    /// Returns the first minute of the hour that follows.
    #[must_use]
    pub const fn next_hour(self) -> Self {
        Self(self.hour().0 + HOUR)
    }
}

impl Rollup {
    /// Makes sums of nothing.
    #[must_use]
    pub const fn empty(subject: Subject, minute: Minute) -> Self {
        Self {
            subject,
            minute,
            accepted: 0,
            dead_at_once: 0,
            succeeded: 0,
            failed: 0,
            first_attempts: 0,
            attempt_times: Vec::new(),
            delivered: 0,
            delivered_at_first: 0,
            latencies: Vec::new(),
            dead: 0,
            causes: Vec::new(),
            buried: Vec::new(),
        }
    }

    /// Adds other sums to these, whoever's they are.
    pub fn add(&mut self, more: &Self) {
        for (sum, more) in self.numbers_mut().into_iter().zip(more.numbers()) {
            *sum = sum.saturating_add(more);
        }
        for (sums, more) in self.lists_mut().into_iter().zip(more.lists()) {
            sums.resize(sums.len().max(more.len()), 0);
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum = sum.saturating_add(*more);
            }
        }
    }

    /// Counts a delivery that is made with its message, pending or dead.
    pub fn accept(&mut self, is_dead: bool) {
        self.accepted = self.accepted.saturating_add(1);
        self.dead_at_once = self.dead_at_once.saturating_add(u64::from(is_dead));
    }

    /// Counts an attempt.
    pub fn attempt(&mut self, succeeded: bool, is_first: bool, took: Duration) {
        let ended = if succeeded { &mut self.succeeded } else { &mut self.failed };
        *ended = ended.saturating_add(1);
        self.first_attempts = self.first_attempts.saturating_add(u64::from(is_first));
        count(&mut self.attempt_times, bucket(took), 1);
    }

    /// Counts a delivery that has arrived, after so long.
    pub fn deliver(&mut self, at_first: bool, latency: Duration) {
        self.delivered = self.delivered.saturating_add(1);
        self.delivered_at_first = self.delivered_at_first.saturating_add(u64::from(at_first));
        count(&mut self.latencies, bucket(latency), 1);
    }

    /// Counts a delivery that an attempt ended for good.
    pub fn die(&mut self, cause: Cause) {
        self.dead = self.dead.saturating_add(1);
        count(&mut self.causes, place_of(cause), 1);
    }

    /// Counts deliveries that were buried without an attempt.
    pub fn bury(&mut self, cause: Cause, deliveries: u32) {
        count(&mut self.buried, place_of(cause), deliveries);
    }

    /// Returns how many deliveries became dead letters, with an attempt or without.
    #[must_use]
    pub fn all_dead(&self) -> u64 {
        let buried: u64 = self.buried.iter().copied().map(u64::from).sum();
        self.dead.saturating_add(self.dead_at_once).saturating_add(buried)
    }

    /// Returns how many of them did for a cause, as far as that was counted by cause.
    #[must_use]
    pub fn dead_of(&self, cause: Cause) -> u64 {
        let of = |list: &Vec<u32>| list.get(place_of(cause)).copied().map_or(0, u64::from);
        let at_once = if cause == Cause::EndpointDisabled { self.dead_at_once } else { 0 };
        of(&self.causes).saturating_add(of(&self.buried)).saturating_add(at_once)
    }

    /// Returns the part of these sums that the accepting node counts, if there is any.
    #[must_use]
    pub fn accepted_part(&self) -> Option<Self> {
        let Self { subject, minute, accepted, dead_at_once, .. } = *self;
        let empty = Self::empty(subject, minute);
        (accepted > 0).then_some(Self { accepted, dead_at_once, ..empty })
    }

    /// Returns what these sums have more than others, if they have.
    #[must_use]
    pub fn beyond(&self, known: &Self) -> Option<Self> {
        let mut lack = Self::empty(self.subject, self.minute);
        let numbers = self.numbers().into_iter().zip(known.numbers());
        for (sum, (mine, theirs)) in lack.numbers_mut().into_iter().zip(numbers) {
            *sum = mine.saturating_sub(theirs);
        }
        let lists = self.lists().into_iter().zip(known.lists());
        for (sums, (mine, theirs)) in lack.lists_mut().into_iter().zip(lists) {
            let theirs = theirs.iter().copied().chain(std::iter::repeat(0));
            *sums = mine.iter().zip(theirs).map(|(mine, it)| mine.saturating_sub(it)).collect();
        }
        lack.numbers().iter().any(|number| *number > 0).then_some(lack)
    }

    /// Returns all single numbers, always in this order.
    pub(crate) const fn numbers(&self) -> [u64; NUMBERS] {
        [
            self.accepted,
            self.dead_at_once,
            self.succeeded,
            self.failed,
            self.first_attempts,
            self.delivered,
            self.delivered_at_first,
            self.dead,
        ]
    }

    /// Returns all single numbers, in the order of [`Rollup::numbers`].
    pub(crate) const fn numbers_mut(&mut self) -> [&mut u64; NUMBERS] {
        [
            &mut self.accepted,
            &mut self.dead_at_once,
            &mut self.succeeded,
            &mut self.failed,
            &mut self.first_attempts,
            &mut self.delivered,
            &mut self.delivered_at_first,
            &mut self.dead,
        ]
    }

    /// Returns all lists of counts, always in this order.
    pub(crate) const fn lists(&self) -> [&Vec<u32>; LISTS] {
        [&self.attempt_times, &self.latencies, &self.causes, &self.buried]
    }

    /// Returns all lists of counts, in the order of [`Rollup::lists`].
    pub(crate) const fn lists_mut(&mut self) -> [&mut Vec<u32>; LISTS] {
        [&mut self.attempt_times, &mut self.latencies, &mut self.causes, &mut self.buried]
    }
}

/// Counts at a place of a list, which is as long as it must be.
fn count(list: &mut Vec<u32>, place: usize, more: u32) {
    list.resize(list.len().max(place + 1), 0);
    if let Some(sum) = list.get_mut(place) {
        *sum = sum.saturating_add(more);
    }
}

fn place_of(cause: Cause) -> usize {
    usize::try_from(codes::cause(cause)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::BUCKETS;

    fn sums(delivered: u64, latencies: &[u32]) -> Rollup {
        let latencies = latencies.to_vec();
        Rollup { delivered, latencies, ..Rollup::empty(Subject::Whole, Minute(1)) }
    }

    #[test]
    fn sums_add_up_bucket_by_bucket_and_never_wrap() {
        let mut sum = sums(1, &[1]);
        sum.add(&sums(2, &[u32::MAX, 5]));
        assert_eq!(sum, sums(3, &[u32::MAX, 5]));
        sum.add(&sums(u64::MAX, &[]));
        assert_eq!(sum.delivered, u64::MAX);
    }

    #[test]
    fn what_sums_have_beyond_others_is_what_those_lack() {
        let (known, counted) = (sums(2, &[2]), sums(5, &[2, 3]));
        let lack = counted.beyond(&known).unwrap();
        let mut mended = known.clone();
        mended.add(&lack);
        assert_eq!(mended, counted);
        assert_eq!(known.beyond(&counted), None);
    }

    #[test]
    fn a_delivery_is_counted_with_its_latency() {
        let mut sum = Rollup::empty(Subject::Whole, Minute(1));
        sum.deliver(true, Duration::from_millis(1));
        sum.deliver(false, Duration::MAX);
        assert_eq!((sum.delivered, sum.delivered_at_first), (2, 1));
        assert_eq!(sum.latencies.len(), BUCKETS);
        assert_eq!((sum.latencies.first(), sum.latencies.last()), (Some(&1), Some(&1)));
    }

    #[test]
    fn an_attempt_is_counted_with_its_end_and_its_time() {
        let mut sum = Rollup::empty(Subject::Whole, Minute(1));
        sum.attempt(true, true, Duration::ZERO);
        sum.attempt(false, false, Duration::from_millis(2));
        assert_eq!((sum.succeeded, sum.failed, sum.first_attempts), (1, 1, 1));
        assert_eq!(sum.attempt_times, [1, 0, 0, 0, 1]);
    }

    #[test]
    fn dead_letters_are_counted_by_cause_however_they_came_about() {
        let mut sum = Rollup::empty(Subject::Whole, Minute(1));
        sum.die(Cause::Permanent);
        sum.die(Cause::Expired);
        sum.bury(Cause::Expired, 3);
        sum.bury(Cause::EndpointDisabled, 2);
        sum.accept(true);
        sum.accept(false);
        let of = Cause::ALL.map(|cause| sum.dead_of(cause));
        // Permanent, expired, and disabled: two that waited, and one that came later.
        assert_eq!(of, [1, 0, 4, 3, 0, 0, 0, 0]);
        assert_eq!((sum.all_dead(), sum.accepted, sum.dead), (8, 2, 2));
        let accepted = sum.accepted_part().unwrap();
        assert_eq!((accepted.all_dead(), accepted.accepted), (1, 2));
        assert_eq!(Rollup::empty(Subject::Whole, Minute(1)).accepted_part(), None);
    }

    #[test]
    fn an_hour_is_named_by_its_first_minute() {
        for (minute, hour) in [(0, 0), (59, 0), (60, 60), (61, 60), (-1, -60)] {
            assert_eq!(Minute(minute).hour(), Minute(hour), "{minute}");
            assert_eq!(Minute(minute).next_hour(), Minute(hour + 60), "{minute}");
        }
        assert_eq!(Minute::of(Minute(7).begins_at()), Minute(7));
    }
}
