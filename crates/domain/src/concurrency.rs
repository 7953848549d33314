//! How many attempts an endpoint may have in flight: slow start, doubling, halving.
//!
//! An endpoint begins at one. A round of successes, as many as are allowed at once, doubles the
//! number up to the cap; an answer that asks for less halves it. So an endpoint that never answers
//! holds one slot, and one that comes back after an outage is not met by everything at once.

use std::num::NonZeroU32;

use crate::verdict::Pressure;

/// The number in flight that is allowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    allowed: NonZeroU32,
    /// Successes since the number last changed or an attempt failed.
    round: u32,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { allowed: NonZeroU32::MIN, round: 0 }
    }
}

impl Concurrency {
    /// Returns how many may be in flight, given the endpoint's cap.
    #[must_use]
    pub fn allowed(self, cap: NonZeroU32) -> NonZeroU32 {
        self.allowed.min(cap)
    }

    /// Takes in what an attempt said.
    #[must_use]
    pub fn after(self, pressure: Pressure, cap: NonZeroU32) -> Self {
        match pressure {
            Pressure::Grow => self.grow(cap),
            Pressure::Keep => Self { round: 0, ..self },
            Pressure::Halve => {
                let half = NonZeroU32::new(self.allowed(cap).get() / 2);
                Self { allowed: half.unwrap_or(NonZeroU32::MIN), round: 0 }
            }
        }
    }

    fn grow(self, cap: NonZeroU32) -> Self {
        let allowed = self.allowed(cap);
        let round = self.round.saturating_add(1);
        if round < allowed.get() {
            return Self { allowed, round };
        }
        Self {
            allowed: allowed.saturating_mul(NonZeroU32::MIN.saturating_add(1)).min(cap),
            round: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pressures: &[Pressure], cap: u32) -> u32 {
        let cap = NonZeroU32::new(cap).unwrap();
        let start = Concurrency::default();
        pressures.iter().fold(start, |now, pressure| now.after(*pressure, cap)).allowed(cap).get()
    }

    #[test]
    fn it_starts_at_one_and_doubles_per_round_up_to_the_cap() {
        let grown: Vec<u32> = [0, 1, 2, 3, 6, 7, 14, 15, 100]
            .map(|successes| after(&vec![Pressure::Grow; successes], 10))
            .to_vec();
        assert_eq!(grown, [1, 2, 2, 4, 4, 8, 8, 10, 10]);
    }

    #[test]
    fn an_answer_that_asks_for_less_halves_it_down_to_one() {
        let mut pressures = vec![Pressure::Grow; 15];
        let halved: Vec<u32> = (0..5)
            .map(|_| {
                pressures.push(Pressure::Halve);
                after(&pressures, 10)
            })
            .collect();
        assert_eq!(halved, [5, 2, 1, 1, 1]);
    }

    #[test]
    fn any_other_failure_begins_the_round_anew() {
        use Pressure::{Grow, Keep};
        assert_eq!(after(&[Grow, Grow, Keep, Grow], 10), 2);
        assert_eq!(after(&[Grow, Grow, Keep, Grow, Grow], 10), 4);
    }

    #[test]
    fn a_cap_that_was_lowered_counts_at_once() {
        let ten = NonZeroU32::new(10).unwrap();
        let three = NonZeroU32::new(3).unwrap();
        let grown = (0..15).fold(Concurrency::default(), |now, _| now.after(Pressure::Grow, ten));
        assert_eq!(grown.allowed(three), three);
        assert_eq!(grown.after(Pressure::Halve, three).allowed(three), NonZeroU32::MIN);
    }
}
