//! What is allowed but unwise. Nobody is stopped; everybody is told.

use std::fmt;
use std::time::Duration;

use super::{Jitter, Policy};
use crate::span;

const SHORT_TIMEOUT: Duration = Duration::from_secs(10);
const SHORT_SPAN: Duration = Duration::from_secs(2 * 3_600);
const LONG_SPAN: Duration = Duration::from_secs(30 * 86_400);

/// An unwise choice in a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// Receivers that work are cut off.
    ShortTimeout(Duration),
    /// A short outage of the receiver loses deliveries.
    ShortSpan(Duration),
    /// After an outage everything arrives at once.
    NoJitter,
    /// Deliveries arrive that nobody expects any more.
    LongSpan(Duration),
    /// The last attempt is lost if those before it take as long as they may: the waits leave so much too
    /// little of the give-up time.
    TightEnd(Duration),
}

impl Policy {
    /// Returns what is unwise about it.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let timeout = self.timeouts.whole();
        let span = self.span();
        let mut warnings = Vec::new();
        if timeout < SHORT_TIMEOUT {
            warnings.push(Warning::ShortTimeout(timeout));
        }
        if span < SHORT_SPAN {
            warnings.push(Warning::ShortSpan(span));
        }
        if self.backoff.jitter() == Jitter::None {
            warnings.push(Warning::NoJitter);
        }
        if span > LONG_SPAN {
            warnings.push(Warning::LongSpan(span));
        }
        warnings.extend(self.missing_time().map(Warning::TightEnd));
        warnings
    }

    /// Returns by how much the give-up time is too short for all attempts of a policy whose waits fit.
    fn missing_time(&self) -> Option<Duration> {
        let (most, end) = (self.limits.max_attempts()?.get(), self.limits.give_up_after()?);
        let table = self.timetable();
        let fits = table.turns.last().is_some_and(|last| last.attempt == most);
        let attempting = self.timeouts.whole().saturating_mul(most - 1);
        let missing = table.span().saturating_add(attempting).saturating_sub(end);
        (fits && !missing.is_zero()).then_some(missing)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortTimeout(timeout) => write!(
                f,
                "an attempt may take only {}; receivers that do some work before they answer need \
                 10s or more",
                span::format(*timeout)
            ),
            Self::ShortSpan(is) => write!(
                f,
                "all attempts are over after {}; an outage of more than that loses deliveries, so \
                 span 2h or more",
                span::format(*is)
            ),
            Self::NoJitter => f.write_str(
                "there is no jitter; after an outage all retries arrive at once, so add some, for \
                 example jitter = { kind = \"around\", share = 0.2 }",
            ),
            Self::LongSpan(is) => write!(
                f,
                "attempts go on for {}; after 30d nobody expects the message any more",
                span::format(*is)
            ),
            Self::TightEnd(missing) => write!(
                f,
                "the last attempt is lost if those before it take as long as they may; give up {} \
                 later, or more",
                span::format(*missing)
            ),
        }
    }
}
