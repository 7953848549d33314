//! How many redirects a policy allows an attempt to follow: none, unless it says otherwise.

use super::Problem;

/// The most hops that a policy may allow.
const MOST_HOPS: u8 = 20;

/// How many redirects one attempt follows. Each hop's address is vetted anew by whoever follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirects {
    most_hops: u8,
}

impl Redirects {
    /// Follows up to so many hops.
    ///
    /// # Errors
    /// If that is more than twenty.
    pub fn new(most_hops: u64) -> Result<Self, Problem> {
        match u8::try_from(most_hops) {
            Ok(most_hops) if most_hops <= MOST_HOPS => Ok(Self { most_hops }),
            _ => {
                let text = format!("is {most_hops}; follow at most {MOST_HOPS} hops");
                Err(Problem::new("redirects", text))
            }
        }
    }

    /// Returns the limit.
    #[must_use]
    pub const fn most_hops(self) -> u8 {
        self.most_hops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_hops_are_the_most() {
        assert_eq!(Redirects::new(20).unwrap().most_hops(), 20);
        assert!(Redirects::new(21).is_err() && Redirects::new(u64::MAX).is_err());
    }
}
