//! How often and for how long a delivery is tried. At least one of the two must be limited.

use std::num::NonZeroU32;
use std::time::Duration;

use super::Problem;

/// The most attempts that a policy may allow; whoever wants more limits the time instead.
const MOST_ATTEMPTS: u32 = 10_000;

/// The attempts limit and the give-up time; either may be missing, not both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    max_attempts: Option<NonZeroU32>,
    give_up_after: Option<Duration>,
}

impl Limits {
    /// Makes limits.
    ///
    /// # Errors
    /// If neither attempts nor time are limited, or the limit is zero.
    pub fn new(
        max_attempts: Option<u32>,
        give_up_after: Option<Duration>,
    ) -> Result<Self, Problem> {
        let most = match max_attempts {
            None => None,
            Some(most) => Some(NonZeroU32::new(most).ok_or_else(|| {
                Problem::new("max_attempts", "is 0, so nothing would ever be sent; use 1 or more")
            })?),
        };
        if let Some(most) = most.filter(|most| most.get() > MOST_ATTEMPTS) {
            let text = format!(
                "is {most}; use {MOST_ATTEMPTS} or fewer, or \"unlimited\" and a give_up_after"
            );
            return Err(Problem::new("max_attempts", text));
        }
        if give_up_after.is_some_and(|span| span.is_zero()) {
            return Err(Problem::new(
                "give_up_after",
                "is zero; give it at least 1s, or \"never\"",
            ));
        }
        if most.is_none() && give_up_after.is_none() {
            let text = "is \"never\" while max_attempts is \"unlimited\"; limit one of them";
            return Err(Problem::new("give_up_after", text));
        }
        Ok(Self { max_attempts: most, give_up_after })
    }

    /// Returns the number of attempts in all, or none for as many as the time allows.
    #[must_use]
    pub const fn max_attempts(&self) -> Option<NonZeroU32> {
        self.max_attempts
    }

    /// Returns how long after its acceptance a delivery is given up, if it is.
    #[must_use]
    pub const fn give_up_after(&self) -> Option<Duration> {
        self.give_up_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_limit_is_enough_and_none_is_not() {
        let day = Duration::from_secs(86_400);
        assert!(Limits::new(Some(1), None).is_ok());
        assert!(Limits::new(None, Some(day)).is_ok());
        assert_eq!(Limits::new(None, None).unwrap_err().field(), "give_up_after");
    }

    #[test]
    fn zero_is_no_limit() {
        assert_eq!(Limits::new(Some(0), None).unwrap_err().field(), "max_attempts");
        assert_eq!(Limits::new(Some(10_001), None).unwrap_err().field(), "max_attempts");
        assert!(Limits::new(Some(10_000), None).is_ok());
        let zero = Limits::new(Some(1), Some(Duration::ZERO));
        assert_eq!(zero.unwrap_err().field(), "give_up_after");
    }
}
