//! What one run is remembered by: a handful of numbers and a timeline.

use std::time::Duration;

use domain::delivery::Cause;
use domain::endpoint::Reason;
use domain::time::Timestamp;

use super::scenario::Scenario;
use super::timeline::Timeline;

/// The numbers of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Events that arrived.
    pub(crate) delivered: u64,
    /// Requests that were sent.
    pub(crate) attempts: u64,
    /// Those of them that were sent while the receiver was down.
    pub(crate) attempts_during_outage: u64,
    /// The most that were sent in one second after the recovery.
    pub(crate) peak_per_second_after_recovery: u64,
    /// When that second began.
    pub(crate) peak_at: Option<Timestamp>,
    /// When the last event of all arrived, counted from the recovery.
    pub(crate) last_delivered_after_recovery: Option<Duration>,
    /// When the last event arrived that had been accepted before the recovery, counted from it.
    pub(crate) backlog_delivered_after_recovery: Option<Duration>,
    /// When the endpoint was disabled, and why.
    pub(crate) disabled: Option<(Timestamp, Reason)>,
    /// All attempts over time.
    pub(crate) timeline: Timeline,
    dead: [u64; Cause::ALL.len()],
    recovery: Timestamp,
    outage_start: Timestamp,
    second: Second,
}

/// The second after the recovery that is being counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Second {
    number: u64,
    attempts: u64,
}

impl Tally {
    /// Begins to count.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            delivered: 0,
            attempts: 0,
            attempts_during_outage: 0,
            peak_per_second_after_recovery: 0,
            peak_at: None,
            last_delivered_after_recovery: None,
            backlog_delivered_after_recovery: None,
            disabled: None,
            timeline: Timeline::new(&scenario.outage),
            dead: [0; Cause::ALL.len()],
            recovery: scenario.outage.end(),
            outage_start: scenario.outage.start(),
            second: Second::default(),
        }
    }

    /// Counts an attempt that begins.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.attempts += 1;
        if now < self.recovery {
            self.attempts_during_outage += u64::from(now >= self.outage_start);
            return;
        }
        let number = now.since(self.recovery).as_secs();
        if number != self.second.number {
            self.second = Second { number, attempts: 0 };
        }
        self.second.attempts += 1;
        if self.second.attempts > self.peak_per_second_after_recovery {
            self.peak_per_second_after_recovery = self.second.attempts;
            self.peak_at = Some(self.recovery.after(Duration::from_secs(number)));
        }
    }

    /// Counts an event that arrived.
    pub(crate) fn deliver(&mut self, accepted: Timestamp, now: Timestamp) {
        self.delivered += 1;
        if now < self.recovery {
            return;
        }
        let after = Some(now.since(self.recovery));
        self.last_delivered_after_recovery = after;
        if accepted < self.recovery {
            self.backlog_delivered_after_recovery = after;
        }
    }

    /// Counts events that became dead letters.
    pub(crate) fn bury(&mut self, cause: Cause, events: u64) {
        if let Some(position) = Cause::ALL.iter().position(|each| *each == cause) {
            self.dead[position] += events;
        }
    }

    /// Returns how many events became dead letters.
    pub(crate) fn dead(&self) -> u64 {
        self.dead.iter().sum()
    }

    /// Returns how many became dead letters for each cause.
    pub(crate) fn dead_by_cause(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().zip(self.dead)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::{Answer, Outage};
    use super::*;

    /// Down from second 10 to second 20.
    fn tally() -> Tally {
        let ten = Duration::from_secs(10);
        let outage = Outage { starts: ten, lasts: ten, answer: Answer::Unavailable };
        Tally::new(&Scenario { events: 1, over: ten, outage, seed: 1 })
    }

    fn at(second: f64) -> Timestamp {
        Timestamp::EPOCH.after(Duration::from_secs_f64(second))
    }

    #[test]
    fn attempts_count_as_wasted_only_while_the_receiver_is_down() {
        let mut tally = tally();
        for second in [9.9, 10.0, 15.0, 19.9, 20.0] {
            tally.begin(at(second));
        }
        assert_eq!((tally.attempts, tally.attempts_during_outage), (5, 3));
    }

    #[test]
    fn the_peak_is_the_busiest_second_after_the_recovery() {
        let mut tally = tally();
        for second in [1.0, 1.1, 1.2, 1.3, 20.0, 20.9, 21.0, 21.5, 21.999, 30.0] {
            tally.begin(at(second));
        }
        assert_eq!(tally.peak_per_second_after_recovery, 3);
        assert_eq!(tally.peak_at, Some(at(21.0)));
    }

    #[test]
    fn the_backlog_is_what_was_accepted_before_the_recovery() {
        let mut tally = tally();
        tally.deliver(at(1.0), at(1.0));
        assert_eq!(tally.last_delivered_after_recovery, None);
        tally.deliver(at(12.0), at(25.0));
        tally.deliver(at(60.0), at(61.0));
        assert_eq!(tally.backlog_delivered_after_recovery, Some(Duration::from_secs(5)));
        assert_eq!(tally.last_delivered_after_recovery, Some(Duration::from_secs(41)));
        assert_eq!(tally.delivered, 3);
    }

    #[test]
    fn dead_letters_are_counted_by_cause() {
        let mut tally = tally();
        tally.bury(Cause::Expired, 2);
        tally.bury(Cause::BreakerOpen, 3);
        let of = |wanted| tally.dead_by_cause().find(|(cause, _)| *cause == wanted);
        assert_eq!(of(Cause::Expired), Some((Cause::Expired, 2)));
        assert_eq!(tally.dead(), 5);
    }
}
