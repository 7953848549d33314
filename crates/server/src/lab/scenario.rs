//! The question that the lab answers: so many events, over so long, and a receiver that is down
//! for a while.

use std::time::Duration;

use domain::span;
use domain::time::Timestamp;

/// The beginning of every run.
pub(crate) const START: Timestamp = Timestamp::EPOCH;

/// What happens, whatever the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scenario {
    /// How many events are accepted.
    pub(crate) events: u32,
    /// They come evenly spaced over this time.
    pub(crate) over: Duration,
    /// When the receiver is down.
    pub(crate) outage: Outage,
    /// The seed of the dice.
    pub(crate) seed: u64,
}

/// A time in which the receiver does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage {
    /// How long after the first event it begins.
    pub(crate) starts: Duration,
    /// How long it lasts.
    pub(crate) lasts: Duration,
    /// What an attempt meets meanwhile.
    pub(crate) answer: Answer,
}

/// How a receiver that is down looks from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A proxy in front of it answers 503.
    Unavailable,
    /// It takes the request and never answers.
    Silent,
    /// Nothing listens.
    Refused,
}

impl Answer {
    /// All of them, in the order in which they are listed to people.
    pub(crate) const ALL: [Self; 3] = [Self::Unavailable, Self::Silent, Self::Refused];

    /// Returns the word that the command line and JSON use.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Unavailable => "503",
            Self::Silent => "timeout",
            Self::Refused => "refused",
        }
    }
}

impl Outage {
    /// Returns the first moment of the outage.
    pub(crate) fn start(&self) -> Timestamp {
        START.after(self.starts)
    }

    /// Returns the first moment after it.
    pub(crate) fn end(&self) -> Timestamp {
        self.start().after(self.lasts)
    }

    /// Tells whether the receiver is down.
    pub(crate) fn covers(&self, moment: Timestamp) -> bool {
        (self.start()..self.end()).contains(&moment)
    }

    /// Tells whether there is none: the receiver works all the time.
    pub(crate) fn is_none(&self) -> bool {
        self.lasts.is_zero()
    }

    /// Returns where an outage begins unless somebody says otherwise: late enough that the picture
    /// has a before, or at once if nothing would come after it. Without an outage it is the first
    /// moment too, so that what is counted after the recovery is counted of everything.
    pub(crate) fn usual_start(over: Duration, lasts: Duration) -> Duration {
        if lasts >= over || lasts.is_zero() { Duration::ZERO } else { over / 10 }
    }
}

/// Says when the receiver is down, as both the table and the picture do.
impl std::fmt::Display for Outage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_none() {
            return f.write_str("the receiver is never down");
        }
        let ends = span::format(self.starts + self.lasts);
        let (starts, answer) = (span::format(self.starts), self.answer.word());
        write!(f, "the receiver is down from {starts} to {ends} ({answer})")
    }
}

impl Scenario {
    /// Returns when an event is accepted; events are counted from 0.
    pub(crate) fn accepted(&self, event: u32) -> Timestamp {
        let micros = self.over.as_micros() * u128::from(event) / u128::from(self.events.max(1));
        START.after(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(starts: u64, lasts: u64) -> Outage {
        let seconds = Duration::from_secs;
        Outage { starts: seconds(starts), lasts: seconds(lasts), answer: Answer::Unavailable }
    }

    #[test]
    fn events_come_evenly_spaced() {
        let over = Duration::from_secs(10);
        let scenario = Scenario { events: 4, over, outage: outage(0, 1), seed: 1 };
        let accepted = [0, 1, 2, 3].map(|event| scenario.accepted(event).as_micros());
        assert_eq!(accepted, [0, 2_500_000, 5_000_000, 7_500_000]);
    }

    #[test]
    fn the_largest_scenario_does_not_overflow() {
        let over = Duration::from_secs(365 * 86_400);
        let scenario = Scenario { events: 10_000_000, over, outage: outage(0, 1), seed: 1 };
        let last = scenario.accepted(9_999_999);
        assert!(last < START.after(over));
        assert!(last > START.after(over - Duration::from_secs(4)));
    }

    #[test]
    fn an_outage_covers_its_first_moment_and_not_its_last() {
        let outage = outage(5, 10);
        assert!(!outage.covers(Timestamp::from_micros(4_999_999)));
        assert!(outage.covers(Timestamp::from_seconds(5)));
        assert!(outage.covers(Timestamp::from_micros(14_999_999)));
        assert!(!outage.covers(Timestamp::from_seconds(15)));
    }

    #[test]
    fn an_outage_is_told_in_words_and_so_is_none() {
        assert_eq!(outage(60, 30).to_string(), "the receiver is down from 1m to 1m30s (503)");
        assert_eq!(outage(60, 0).to_string(), "the receiver is never down");
        assert!(!outage(0, 0).covers(START));
    }

    #[test]
    fn an_outage_begins_after_a_tenth_or_at_once_if_it_covers_everything() {
        let hour = Duration::from_secs(3_600);
        assert_eq!(Outage::usual_start(10 * hour, 2 * hour), hour);
        assert_eq!(Outage::usual_start(hour, hour), Duration::ZERO);
        assert_eq!(Outage::usual_start(hour, 2 * hour), Duration::ZERO);
        assert_eq!(Outage::usual_start(hour, Duration::ZERO), Duration::ZERO);
    }
}
