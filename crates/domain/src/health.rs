//! Endpoint health: when one that stays dead is disabled, and when its owner is warned.
//!
//! Two rules, each of which a preset may leave out: too many permanent failures in a row, and too
//! long without a success. The owner hears at 50, 70 and 90 % of the way, before anything happens:
//! an endpoint that fails so rarely that it passes the end without having been warned is warned
//! then, and disabled by a later failure.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::endpoint::Reason;
use crate::policy::Problem;
use crate::time::Timestamp;
use crate::verdict::Signal;

/// When an endpoint is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    permanent_streak: Option<NonZeroU32>,
    without_success: Option<Duration>,
}

impl Rule {
    /// Makes a rule: disabled after more than `permanent_streak` permanent failures in a row, or
    /// when an attempt fails `without_success` after the first failure since the last success.
    ///
    /// # Errors
    /// If one of them is zero.
    pub fn new(
        permanent_streak: Option<u32>,
        without_success: Option<Duration>,
    ) -> Result<Self, Problem> {
        let streak = match permanent_streak {
            None => None,
            Some(streak) => Some(NonZeroU32::new(streak).ok_or_else(|| {
                Problem::new("permanent_streak", "is 0; use 1 or more, or \"never\"")
            })?),
        };
        if without_success.is_some_and(|span| span.is_zero()) {
            return Err(Problem::new("without_success", "is zero; use 1h or more, or \"never\""));
        }
        Ok(Self { permanent_streak: streak, without_success })
    }

    /// Returns the number of permanent failures in a row that are still tolerated.
    #[must_use]
    pub const fn permanent_streak(&self) -> Option<NonZeroU32> {
        self.permanent_streak
    }

    /// Returns the time without a success that is still tolerated.
    #[must_use]
    pub const fn without_success(&self) -> Option<Duration> {
        self.without_success
    }
}

/// How an endpoint is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Permanent failures since the last success; transient failures neither count nor reset.
    pub permanent_streak: u32,
    /// The first failure since the last success.
    pub failing_since: Option<Timestamp>,
    /// The highest warning given since the last success, by whichever rule.
    pub warned: Option<Level>,
}

/// How far along the way to being disabled an endpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// 50 %
    Half,
    /// 70 %
    Most,
    /// 90 %
    Nearly,
}

impl Level {
    /// Returns the share of the way in percent.
    #[must_use]
    pub const fn percent(self) -> u8 {
        match self {
            Self::Half => 50,
            Self::Most => 70,
            Self::Nearly => 90,
        }
    }

    /// Returns the level that a share of the way has reached.
    fn reached(used: u128, whole: u128) -> Option<Self> {
        [Self::Nearly, Self::Most, Self::Half]
            .into_iter()
            .find(|level| used.saturating_mul(100) >= whole.saturating_mul(level.percent().into()))
    }
}

/// What an attempt changed about the endpoint's standing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Nothing.
    Unremarkable,
    /// The owner is to be warned that it will be disabled for this reason.
    Warn(Level, Reason),
    /// It is to be disabled.
    Disable(Reason),
}

impl Health {
    /// Takes in what an attempt said, and tells what follows.
    #[must_use]
    pub fn after(self, rule: &Rule, signal: Signal, now: Timestamp) -> (Self, Finding) {
        let streak = match signal {
            Signal::Nothing => return (self, Finding::Unremarkable),
            Signal::Success => return (Self::default(), Finding::Unremarkable),
            Signal::Permanent => self.permanent_streak.saturating_add(1),
            Signal::Failure => self.permanent_streak,
        };
        let failing_since = Some(self.failing_since.unwrap_or(now));
        let health = Self { permanent_streak: streak, failing_since, ..self };
        health.weigh(rule, now)
    }

    fn weigh(self, rule: &Rule, now: Timestamp) -> (Self, Finding) {
        let failing = self.failing_since.map_or(Duration::ZERO, |since| now.since(since));
        let over = if rule.permanent_streak.is_some_and(|most| self.permanent_streak > most.get()) {
            Some(Reason::PermanentStreak)
        } else if rule.without_success.is_some_and(|most| failing >= most) {
            Some(Reason::WithoutSuccess)
        } else {
            None
        };
        if let Some(reason) = over.filter(|_| self.warned == Some(Level::Nearly)) {
            return (self, Finding::Disable(reason));
        }
        let by_streak = rule
            .permanent_streak
            .and_then(|most| Level::reached(self.permanent_streak.into(), most.get().into()));
        let by_time = rule
            .without_success
            .and_then(|most| Level::reached(failing.as_micros(), most.as_micros()));
        let (level, reason) = if by_streak >= by_time {
            (by_streak, Reason::PermanentStreak)
        } else {
            (by_time, Reason::WithoutSuccess)
        };
        match level {
            Some(level) if self.warned < Some(level) => {
                (Self { warned: Some(level), ..self }, Finding::Warn(level, reason))
            }
            Some(_) | None => (self, Finding::Unremarkable),
        }
    }
}

#[cfg(test)]
mod tests;
