//! The rate limit of an endpoint: evenly spaced, not so many per period.
//!
//! A generic cell rate: each attempt pushes the moment of the next one by the spacing. Timers wake
//! late, so a fast limiter may catch up on what it missed within [`CATCH_UP`]; beyond that, time in
//! which nothing was sent is lost. What it may catch up on is taken out of the rate, and so is the
//! time that attempts are [`ON_THE_WAY`]: no second ever holds more than the limit says, neither
//! where they begin nor where they arrive. A new owner goes on as if the one before had used what it
//! may until the last moment.
//!
//! That is right as long as no attempt takes much longer to leave than another. Where connecting
//! takes its time, the [`Gate`] keeps the rate at the moment of writing.

mod gate;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::policy::Problem;
use crate::time::Timestamp;

pub use gate::{FarEnd, Gate, Wait};

/// How far a limiter may lag behind its own spacing and still make up for it. At 1,000 attempts a
/// second that is at most ten at once; below 100 a second it is none.
pub const CATCH_UP: Duration = Duration::from_millis(10);

/// How much later one attempt may arrive than another that began with it, and its receiver still
/// sees no second with more of them than the limit says.
pub const ON_THE_WAY: Duration = Duration::from_millis(10);

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// The fastest rate that can be set; the timeline has microseconds.
const FASTEST: u32 = 1_000_000;
/// One spacing after the beginning, however long that is.
const ONE_SPACING: u64 = u64::MAX;

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

    /// The attempts of any second fit into that second, what was caught up on before it, and the
    /// time that the first of them was on its way.
    fn spacing(self) -> u64 {
        let on_the_way = u64::try_from(ON_THE_WAY.as_nanos()).unwrap_or(u64::MAX);
        (SECOND + self.catch_up() + on_the_way).div_ceil(u64::from(self.get()))
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

    /// Begins for a new owner. The one before may have begun an attempt at the moment of the
    /// take-over, so the first one goes a spacing later.
    #[must_use]
    pub const fn taken_over(at: Timestamp) -> Self {
        Self { began: at, next: ONE_SPACING }
    }

    /// Returns when the next attempt may begin; that may lie in the past.
    #[must_use]
    pub fn next(self, rate: Rate) -> Timestamp {
        let next = Duration::from_nanos(self.nanos(rate));
        self.began.after(next.saturating_add(Duration::from_nanos(999)))
    }

    fn nanos(self, rate: Rate) -> u64 {
        if self.next == ONE_SPACING { rate.spacing() } else { self.next }
    }

    /// Takes one attempt, or returns when it may be asked again.
    ///
    /// # Errors
    /// The moment from which on the next attempt may begin.
    pub fn take(self, rate: Rate, now: Timestamp) -> Result<Self, Timestamp> {
        let next = self.next(rate);
        if next > now {
            return Err(next);
        }
        let elapsed = u64::try_from(now.since(self.began).as_nanos()).unwrap_or(u64::MAX);
        let from = self.nanos(rate).max(elapsed.saturating_sub(rate.catch_up()));
        Ok(Self { next: from.saturating_add(rate.spacing()), ..self })
    }
}

#[cfg(test)]
mod tests;
