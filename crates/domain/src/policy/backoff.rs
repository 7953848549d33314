//! The wait before a retry: a schedule, a jitter, and a limit on what was drawn.

use std::time::Duration;

use super::jitter::Nominal;
use super::{Jitter, Problem, Schedule};
use crate::dice::Dice;
use crate::span;

/// Draws the waits between attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    schedule: Schedule,
    jitter: Jitter,
    longest_drawn: Option<Duration>,
}

impl Backoff {
    /// Puts a backoff together. A schedule's cap limits the nominal wait, and jitter may go beyond
    /// it; `longest_drawn` limits what comes out of the dice.
    ///
    /// # Errors
    /// If the limit on drawn waits lies below the first wait.
    pub fn new(
        schedule: Schedule,
        jitter: Jitter,
        longest_drawn: Option<Duration>,
    ) -> Result<Self, Problem> {
        let base = schedule.base();
        if let Some(longest) = longest_drawn.filter(|longest| *longest < base) {
            let (longest, base) = (span::format(longest), span::format(base));
            let text = format!("is {longest}, below the first wait of {base}; raise it");
            return Err(Problem::new("longest_drawn", text));
        }
        Ok(Self { schedule, jitter, longest_drawn })
    }

    /// Returns the schedule of nominal waits.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns how chance changes them.
    #[must_use]
    pub const fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// Returns the limit on drawn waits.
    #[must_use]
    pub const fn longest_drawn(&self) -> Option<Duration> {
        self.longest_drawn
    }

    /// Returns the shortest and the longest wait before retry `n`, given the longest wait that may
    /// have come before it.
    #[must_use]
    pub fn range(&self, n: u32, before: Duration) -> (Duration, Duration) {
        let (low, high) = self.jitter.range(self.nominal(n), before);
        let longest = self.longest_drawn.unwrap_or(Duration::MAX);
        (low.min(longest), high.min(longest))
    }

    /// Draws the wait before retry `n`, which is also the number of attempts made so far.
    #[must_use]
    pub fn draw(&self, n: u32, before: Duration, dice: Dice) -> Duration {
        let (low, high) = self.jitter.range(self.nominal(n), before);
        let drawn = low + (high - low).mul_f64(dice.share());
        drawn.min(self.longest_drawn.unwrap_or(Duration::MAX))
    }

    fn nominal(&self, n: u32) -> Nominal {
        let schedule = &self.schedule;
        Nominal { wait: schedule.wait(n), base: schedule.base(), cap: schedule.cap() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_dice_choose_within_the_range() {
        let schedule = Schedule::fixed(vec![seconds(100)]).unwrap();
        let backoff = Backoff::new(schedule, Jitter::Equal, None).unwrap();
        let draw = |bits| backoff.draw(1, Duration::ZERO, Dice::thrown(bits));
        assert_eq!(draw(0), seconds(50));
        assert_eq!(draw(1 << 63), seconds(75));
        assert!(draw(u64::MAX) <= seconds(100) && draw(u64::MAX) > seconds(99));
    }

    #[test]
    fn the_limit_applies_after_the_dice() {
        let schedule = Schedule::exponential(seconds(60), 2.0, None).unwrap();
        let backoff = Backoff::new(schedule, Jitter::Full, Some(seconds(3_600))).unwrap();
        assert_eq!(backoff.range(7, Duration::ZERO), (Duration::ZERO, seconds(3_600)));
        // Half of the undiminished 3,840 s: the draw comes first, then the limit.
        assert_eq!(backoff.draw(7, Duration::ZERO, Dice::thrown(1 << 63)), seconds(1_920));
        assert_eq!(backoff.draw(7, Duration::ZERO, Dice::thrown(u64::MAX)), seconds(3_600));
    }

    #[test]
    fn a_limit_below_the_first_wait_is_refused() {
        let schedule = Schedule::exponential(seconds(60), 2.0, None).unwrap();
        assert!(Backoff::new(schedule.clone(), Jitter::Full, Some(seconds(59))).is_err());
        assert!(Backoff::new(schedule, Jitter::Full, Some(seconds(60))).is_ok());
    }
}
