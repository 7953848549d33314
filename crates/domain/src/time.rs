//! A point on the one timeline that rows, due times and leases share.
//!
//! Microseconds since the Unix epoch, as a whole number: exact in both SQL dialects and cheap to
//! compare. There is no `now()` here. Whoever decides something is handed the time, so that a test
//! or a simulation can hand over any time it likes.

use std::time::Duration;

/// A moment, to the microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// Later than every moment that can be reached; a wait that would pass it ends here.
    pub const FAR_FUTURE: Self = Self(i64::MAX);

    /// Makes a timestamp from microseconds since the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Makes a timestamp from seconds since the Unix epoch.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Returns the microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns the whole milliseconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Adds a wait. A sum beyond the end of time is [`Timestamp::FAR_FUTURE`]: an absurd
    /// Retry-After must bury one delivery, not wrap around into the past.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(micros(wait)))
    }

    /// Subtracts a span, stopping at the beginning of time.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }

    /// Returns how long ago `earlier` was, or zero if it is still to come.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let elapsed = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(elapsed).unwrap_or(0))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_past_the_end_of_time_ends_there() {
        let late = Timestamp::from_micros(i64::MAX - 1);
        assert_eq!(late.after(Duration::from_secs(1)), Timestamp::FAR_FUTURE);
        assert_eq!(Timestamp::EPOCH.after(Duration::MAX), Timestamp::FAR_FUTURE);
        assert_eq!(Timestamp::from_micros(i64::MIN).before(Duration::MAX).as_micros(), i64::MIN);
    }

    #[test]
    fn the_past_is_no_time_ago_seen_from_before_it() {
        let (early, late) = (Timestamp::from_seconds(10), Timestamp::from_seconds(25));
        assert_eq!(late.since(early), Duration::from_secs(15));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn units_round_down_on_both_sides_of_the_epoch() {
        assert_eq!(Timestamp::from_micros(1_999_999).as_seconds(), 1);
        assert_eq!(Timestamp::from_micros(-1).as_seconds(), -1);
        assert_eq!(Timestamp::from_micros(1_999).as_millis(), 1);
        assert_eq!(Timestamp::from_micros(-1).as_millis(), -1);
        assert_eq!(Timestamp::from_seconds(7).as_micros(), 7_000_000);
        assert_eq!(
            Timestamp::from_seconds(7).before(Duration::from_secs(2)),
            Timestamp::from_seconds(5)
        );
    }
}
