//! Whether an attempt follows a redirect. Following is off unless a policy asks for it.

use super::Problem;

/// The most hops that a policy may allow.
const MOST_HOPS: u8 = 20;

/// How many redirects one attempt follows. Each hop's address is vetted anew by whoever follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirects {
    most_hops: u8,
}

impl Redirects {
    /// Follows none: a 3xx is an answer like any other.
    pub const NONE: Self = Self { most_hops: 0 };

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

    /// Tells whether an answer is followed after `hops` hops. The request stays the same POST with
    /// the same body; a 303 asks for a GET without one and is therefore never followed.
    #[must_use]
    pub const fn follows(self, status: u16, hops: u8) -> bool {
        matches!(status, 301 | 302 | 307 | 308) && hops < self.most_hops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_followed_up_to_the_limit_and_not_beyond() {
        let five = Redirects::new(5).unwrap();
        for status in [301, 302, 307, 308] {
            assert!(five.follows(status, 0) && five.follows(status, 4), "{status}");
            assert!(!five.follows(status, 5), "{status}");
            assert!(!Redirects::NONE.follows(status, 0), "{status}");
        }
    }

    #[test]
    fn answers_that_do_not_repeat_the_post_are_not_followed() {
        let five = Redirects::new(5).unwrap();
        for status in [200, 300, 303, 304, 305, 306, 309, 404] {
            assert!(!five.follows(status, 0), "{status}");
        }
    }

    #[test]
    fn twenty_hops_are_the_most() {
        assert_eq!(Redirects::new(20).unwrap().most_hops(), 20);
        assert!(Redirects::new(21).is_err() && Redirects::new(u64::MAX).is_err());
    }
}
