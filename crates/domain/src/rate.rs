//! The rate limit of an endpoint: evenly spaced, not so many per period.
//!
//! A generic cell rate: each attempt pushes the moment of the next one by the spacing. Timers wake
//! late, so a fast limiter may catch up on what it missed within [`CATCH_UP`]; beyond that, time in
//! which nothing was sent is lost, and a new owner begins without any credit. What it may catch up
//! on is taken out of the rate: no second ever holds more attempts than the limit says.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::policy::Problem;
use crate::time::Timestamp;

/// How far a limiter may lag behind its own spacing and still make up for it. At 1,000 attempts a
/// second that is at most ten at once; below 100 a second it is none.
pub const CATCH_UP: Duration = Duration::from_millis(10);

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// The fastest rate that can be set; the timeline has microseconds.
const FASTEST: u32 = 1_000_000;

/// So many attempts per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(NonZeroU32);

impl Rate {
    /// Makes a rate.
    ///
    /// # Errors
    /// If it is zero or more than a million per second.
    pub fn per_second(count: u64) -> Result<Self, Problem> {
        let valid = u32::try_from(count).ok().filter(|count| *count <= FASTEST);
        valid.and_then(NonZeroU32::new).map(Self).ok_or_else(|| {
            let text = format!("is {count}; it must be between 1 and {FASTEST} per second");
            Problem::new("rate", text)
        })
    }

    /// Returns the attempts per second.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// A rate too slow to lag behind by a whole spacing has nothing to catch up on.
    fn catch_up(self) -> u64 {
        let catch_up = u64::try_from(CATCH_UP.as_nanos()).unwrap_or(u64::MAX);
        if SECOND / u64::from(self.get()) > catch_up { 0 } else { catch_up }
    }
}

/// When an endpoint's next attempt may begin.
///
/// Kept in nanoseconds since the limiter began: rates such as 3,000 a second have no whole number
/// of microseconds between two attempts, and rounding would add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limiter {
    began: Timestamp,
    next: u64,
}

impl Limiter {
    /// Begins without credit: one attempt may go at once, the second one spacing later.
    #[must_use]
    pub const fn begin(now: Timestamp) -> Self {
        Self { began: now, next: 0 }
    }

    /// Returns when the next attempt may begin; that may lie in the past.
    #[must_use]
    pub fn next(self) -> Timestamp {
        self.began.after(Duration::from_nanos(self.next).saturating_add(Duration::from_nanos(999)))
    }

    /// Takes one attempt, or returns when it may be asked again.
    ///
    /// # Errors
    /// The moment from which on the next attempt may begin.
    pub fn take(self, rate: Rate, now: Timestamp) -> Result<Self, Timestamp> {
        if self.next() > now {
            return Err(self.next());
        }
        let elapsed = u64::try_from(now.since(self.began).as_nanos()).unwrap_or(u64::MAX);
        let catch_up = rate.catch_up();
        let from = self.next.max(elapsed.saturating_sub(catch_up));
        // The attempts of any second fit into that second and what was caught up on before it.
        let spacing = (SECOND + catch_up).div_ceil(u64::from(rate.get()));
        Ok(Self { next: from.saturating_add(spacing), ..self })
    }
}

#[cfg(test)]
mod tests;
