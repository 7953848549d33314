//! What a receiver's Retry-After changes about the wait.

use std::time::Duration;

use super::{Problem, Statuses};

/// The longest that a Retry-After counts where the policy does not say: a receiver's mistake, such as an
/// epoch time, must not silence its endpoint for longer.
const LONGEST: Duration = Duration::from_secs(86_400);

/// How Retry-After is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patience {
    /// It is ignored.
    Ignored,
    /// The longer of it and the backoff is waited.
    Longer(Honoured),
    /// It takes the place of the backoff, be it longer or shorter.
    Replacing(Honoured),
}

/// Where Retry-After is honoured, and up to which length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Honoured {
    /// The answers on which it counts; none means every failing answer.
    pub on: Option<Statuses>,
    /// What is waited at most.
    pub cap: Duration,
}

impl Patience {
    /// Makes the reading that waits the longer of both; without a cap, a day at most.
    ///
    /// # Errors
    /// If the cap is zero.
    pub fn longer(on: Option<Statuses>, cap: Option<Duration>) -> Result<Self, Problem> {
        Ok(Self::Longer(Honoured::new(on, cap)?))
    }

    /// Makes the reading that replaces the backoff.
    ///
    /// # Errors
    /// If there is no cap: a receiver could then put a delivery off for as long as it likes.
    pub fn replacing(on: Option<Statuses>, cap: Option<Duration>) -> Result<Self, Problem> {
        if cap.is_none() {
            let text =
                "is missing; a Retry-After that replaces the backoff needs one, such as \"1h\"";
            return Err(Problem::new("cap", text));
        }
        Ok(Self::Replacing(Honoured::new(on, cap)?))
    }

    /// Returns the wait that is honoured, or none where this status's Retry-After does not count.
    #[must_use]
    pub fn honoured(&self, status: u16, asked: Duration) -> Option<Duration> {
        match self {
            Self::Ignored => None,
            Self::Longer(rule) | Self::Replacing(rule) => {
                let counts = rule.on.as_ref().is_none_or(|on| on.contains(status));
                counts.then(|| asked.min(rule.cap))
            }
        }
    }

    /// Combines an honoured wait with the backoff's.
    #[must_use]
    pub fn combine(&self, asked: Duration, drawn: Duration) -> Duration {
        match self {
            Self::Ignored => drawn,
            Self::Longer(_) => asked.max(drawn),
            Self::Replacing(_) => asked,
        }
    }
}

impl Honoured {
    fn new(on: Option<Statuses>, cap: Option<Duration>) -> Result<Self, Problem> {
        if cap.is_some_and(|cap| cap.is_zero()) {
            return Err(Problem::new("cap", "is zero; write honour = \"ignored\" instead"));
        }
        Ok(Self { on, cap: cap.unwrap_or(LONGEST) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn on_429() -> Option<Statuses> {
        Some(Statuses::new(vec![Pattern::Code(429)]).unwrap())
    }

    #[test]
    fn only_the_listed_answers_are_heard() {
        let patience = Patience::longer(on_429(), None).unwrap();
        assert_eq!(patience.honoured(429, seconds(9)), Some(seconds(9)));
        assert_eq!(patience.honoured(503, seconds(9)), None);
        let any = Patience::longer(None, None).unwrap();
        assert_eq!(any.honoured(503, seconds(9)), Some(seconds(9)));
        assert_eq!(Patience::Ignored.honoured(429, seconds(9)), None);
    }

    #[test]
    fn the_two_readings_differ_when_the_receiver_asks_for_less() {
        let longer = Patience::longer(None, None).unwrap();
        let replacing = Patience::replacing(None, Some(seconds(3_840))).unwrap();
        assert_eq!(longer.combine(seconds(10), seconds(60)), seconds(60));
        assert_eq!(longer.combine(seconds(90), seconds(60)), seconds(90));
        assert_eq!(replacing.combine(seconds(10), seconds(60)), seconds(10));
        assert_eq!(replacing.combine(seconds(90), seconds(60)), seconds(90));
        assert_eq!(Patience::Ignored.combine(seconds(90), seconds(60)), seconds(60));
    }

    #[test]
    fn the_cap_limits_what_is_asked_for() {
        let replacing = Patience::replacing(None, Some(seconds(3_840))).unwrap();
        assert_eq!(replacing.honoured(429, seconds(86_400)), Some(seconds(3_840)));
    }

    #[test]
    fn without_a_cap_it_is_a_day() {
        let day = seconds(86_400);
        let any = Patience::longer(None, None).unwrap();
        for asked in [86_400, 86_401, 99_999_999, 1_794_000_000, u64::MAX] {
            assert_eq!(any.honoured(503, seconds(asked)), Some(day), "{asked}");
        }
        let week = Patience::longer(None, Some(7 * day)).unwrap();
        assert_eq!(week.honoured(503, 3 * day), Some(3 * day));
    }

    #[test]
    fn replacing_needs_a_cap() {
        assert_eq!(Patience::replacing(None, None).unwrap_err().field(), "cap");
        assert!(Patience::replacing(None, Some(Duration::ZERO)).is_err());
        assert!(Patience::longer(None, Some(Duration::ZERO)).is_err());
    }
}
