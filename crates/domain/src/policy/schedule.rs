//! The nominal wait before each retry, before the dice are thrown.

use std::time::Duration;

use super::Problem;
use crate::span;

/// The shortest wait: what comes sooner is no retry but a second blow.
const SHORTEST: Duration = Duration::from_millis(100);
/// The most waits a fixed schedule may list.
const MOST_WAITS: usize = 100;
/// The largest factor by which waits may grow.
const LARGEST_FACTOR: f64 = 100.0;

/// Waits that grow by a factor, or a list of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// `base × factor^(n-1)` before retry n, at most `cap`.
    Exponential(Exponential),
    /// The waits in order; the last one repeats if the policy allows more retries.
    Fixed(Fixed),
}

/// An exponential schedule whose numbers make sense together.
#[derive(Debug, Clone, PartialEq)]
pub struct Exponential {
    base: Duration,
    factor: f64,
    cap: Option<Duration>,
}

/// A list of at least one wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Fixed {
    waits: Vec<Duration>,
}

impl Schedule {
    /// Makes an exponential schedule.
    ///
    /// # Errors
    /// If the base is under 100 ms, the factor shrinks the waits, or the cap lies below the base.
    pub fn exponential(
        base: Duration,
        factor: f64,
        cap: Option<Duration>,
    ) -> Result<Self, Problem> {
        if base < SHORTEST {
            return Err(Problem::new("base", too_short(base)));
        }
        if !(1.0..=LARGEST_FACTOR).contains(&factor) {
            let text = format!("is {factor}; it must be between 1 and {LARGEST_FACTOR}");
            return Err(Problem::new("factor", text));
        }
        if let Some(cap) = cap.filter(|cap| *cap < base) {
            let (cap, base) = (span::format(cap), span::format(base));
            let text = format!("is {cap}, below the base of {base}; raise it to {base} or more");
            return Err(Problem::new("cap", text));
        }
        Ok(Self::Exponential(Exponential { base, factor, cap }))
    }

    /// Makes a fixed schedule.
    ///
    /// # Errors
    /// If the list is empty or too long, or a wait is under 100 ms.
    pub fn fixed(waits: Vec<Duration>) -> Result<Self, Problem> {
        if waits.is_empty() {
            return Err(Problem::new("waits", "is empty; list at least one wait, such as \"5s\""));
        }
        if waits.len() > MOST_WAITS {
            let text = format!("lists {} waits; at most {MOST_WAITS} are allowed", waits.len());
            return Err(Problem::new("waits", text));
        }
        if let Some(short) = waits.iter().find(|wait| **wait < SHORTEST) {
            return Err(Problem::new("waits", too_short(*short)));
        }
        Ok(Self::Fixed(Fixed { waits }))
    }

    /// Returns the nominal wait before retry `n`, which is counted from 1.
    #[must_use]
    pub fn wait(&self, n: u32) -> Duration {
        match self {
            Self::Exponential(exponential) => exponential.wait(n),
            Self::Fixed(Fixed { waits }) => {
                let last = waits.len() - 1;
                let index = usize::try_from(n.saturating_sub(1)).unwrap_or(last);
                waits[index.min(last)]
            }
        }
    }

    /// Returns the shortest wait it begins with: the floor of decorrelated jitter.
    #[must_use]
    pub fn base(&self) -> Duration {
        self.wait(1)
    }

    /// Returns the longest nominal wait it can reach.
    #[must_use]
    pub fn cap(&self) -> Duration {
        match self {
            Self::Exponential(Exponential { cap, .. }) => cap.unwrap_or(span::LONGEST),
            Self::Fixed(Fixed { waits }) => waits.iter().copied().max().unwrap_or(span::LONGEST),
        }
    }
}

fn too_short(wait: Duration) -> String {
    format!("has a wait of {}; it must be at least {}", span::format(wait), span::format(SHORTEST))
}

impl Exponential {
    /// Returns base, factor and cap.
    #[must_use]
    pub fn parts(&self) -> (Duration, f64, Option<Duration>) {
        (self.base, self.factor, self.cap)
    }

    fn wait(&self, n: u32) -> Duration {
        let cap = self.cap.unwrap_or(span::LONGEST);
        let growth = self.factor.powi(i32::try_from(n.saturating_sub(1)).unwrap_or(i32::MAX));
        let seconds = self.base.as_secs_f64() * growth;
        // Compared as a number first: the power may be too large for any duration.
        if seconds >= cap.as_secs_f64() { cap } else { Duration::from_secs_f64(seconds) }
    }
}

impl Fixed {
    /// Returns the listed waits.
    #[must_use]
    pub fn waits(&self) -> &[Duration] {
        &self.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn exponential_waits_grow_to_the_cap_and_stay_there() {
        let schedule = Schedule::exponential(seconds(30), 3.0, Some(seconds(21_600))).unwrap();
        let waits: Vec<_> = (1..=9).map(|n| schedule.wait(n).as_secs()).collect();
        assert_eq!(waits, [30, 90, 270, 810, 2_430, 7_290, 21_600, 21_600, 21_600]);
        assert_eq!(schedule.wait(u32::MAX), seconds(21_600));
        assert_eq!((schedule.base(), schedule.cap()), (seconds(30), seconds(21_600)));
    }

    #[test]
    fn without_a_cap_the_longest_span_is_the_end() {
        let schedule = Schedule::exponential(seconds(1), 10.0, None).unwrap();
        assert_eq!(schedule.wait(9), seconds(100_000_000));
        assert_eq!(schedule.wait(400), span::LONGEST);
        assert_eq!(schedule.cap(), span::LONGEST);
    }

    #[test]
    fn a_fixed_schedule_repeats_its_last_wait() {
        let schedule = Schedule::fixed(vec![seconds(5), seconds(300), seconds(60)]).unwrap();
        let waits: Vec<_> = [0, 1, 2, 3, 4, 1_000].map(|n| schedule.wait(n).as_secs()).to_vec();
        assert_eq!(waits, [5, 5, 300, 60, 60, 60]);
        assert_eq!((schedule.base(), schedule.cap()), (seconds(5), seconds(300)));
    }

    #[test]
    fn numbers_that_contradict_each_other_are_refused() {
        let base = seconds(60);
        let refused = [
            Schedule::exponential(Duration::ZERO, 2.0, None),
            Schedule::exponential(base, 0.99, None),
            Schedule::exponential(base, 100.1, None),
            Schedule::exponential(base, f64::NAN, None),
            Schedule::exponential(base, 2.0, Some(seconds(59))),
            Schedule::exponential(Duration::from_millis(99), 2.0, None),
            Schedule::fixed(vec![base, Duration::ZERO]),
            Schedule::fixed(vec![]),
            Schedule::fixed(vec![base; 101]),
        ];
        for schedule in refused {
            assert!(schedule.is_err(), "{schedule:?}");
        }
        assert!(Schedule::exponential(base, 1.0, Some(base)).is_ok());
        assert!(Schedule::exponential(base, 100.0, None).is_ok());
        assert!(Schedule::fixed(vec![base; 100]).is_ok());
        assert!(Schedule::fixed(vec![Duration::from_millis(100)]).is_ok());
    }
}
