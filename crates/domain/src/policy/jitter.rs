//! Six ways to spread retries out, so that receivers do not get them all at once.

use std::time::Duration;

use super::Problem;

/// How chance changes a nominal wait d.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// d itself.
    None,
    /// [0, d]
    Full,
    /// [d/2, d]
    Equal,
    /// [d(1-p), d(1+p)]
    Around(Share),
    /// [d, d(1+p)]
    UpTo(Share),
    /// Between the first wait and three times the wait before, capped. It ignores d.
    Decorrelated,
}

/// A share of the nominal wait, above 0 and at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// Returns the share as a number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    fn new(share: f64) -> Result<Self, Problem> {
        if share > 0.0 && share <= 1.0 {
            return Ok(Self(share));
        }
        let text = format!("is {share}; it must be above 0 and at most 1, such as 0.2 for 20 %");
        Err(Problem::new("share", text))
    }
}

/// What is known when a wait is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nominal {
    /// d, the schedule's wait before this retry.
    pub(super) wait: Duration,
    /// The schedule's first wait.
    pub(super) base: Duration,
    /// The schedule's longest wait.
    pub(super) cap: Duration,
}

impl Jitter {
    /// Makes [`Jitter::Around`].
    ///
    /// # Errors
    /// If the share is not above 0 and at most 1.
    pub fn around(share: f64) -> Result<Self, Problem> {
        Share::new(share).map(Self::Around)
    }

    /// Makes [`Jitter::UpTo`].
    ///
    /// # Errors
    /// If the share is not above 0 and at most 1.
    pub fn up_to(share: f64) -> Result<Self, Problem> {
        Share::new(share).map(Self::UpTo)
    }

    /// Returns the shortest and the longest wait that can be drawn. `before` is the longest wait
    /// that may have been drawn before this one; only [`Jitter::Decorrelated`] looks at it.
    pub(super) fn range(self, nominal: Nominal, before: Duration) -> (Duration, Duration) {
        let wait = nominal.wait;
        match self {
            Self::None => (wait, wait),
            Self::Full => (Duration::ZERO, wait),
            Self::Equal => (wait / 2, wait),
            Self::Around(Share(share)) => (wait.mul_f64(1.0 - share), wait.mul_f64(1.0 + share)),
            Self::UpTo(Share(share)) => (wait, wait.mul_f64(1.0 + share)),
            Self::Decorrelated => {
                let high = before.max(nominal.base).saturating_mul(3).min(nominal.cap);
                (nominal.base.min(high), high)
            }
        }
    }

    /// Returns the word that names this kind.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Full => "full",
            Self::Equal => "equal",
            Self::Around(_) => "around",
            Self::UpTo(_) => "up_to",
            Self::Decorrelated => "decorrelated",
        }
    }

    /// The words of all kinds.
    pub const WORDS: [&'static str; 6] =
        ["none", "full", "equal", "around", "up_to", "decorrelated"];
}

impl std::fmt::Display for Jitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None | Self::Full | Self::Equal | Self::Decorrelated => f.write_str(self.word()),
            Self::Around(share) => write!(f, "around {} %", percent(*share)),
            Self::UpTo(share) => write!(f, "up to {} %", percent(*share)),
        }
    }
}

/// 0.2 as a double is a little more than a fifth; nobody wants to read that.
fn percent(Share(share): Share) -> f64 {
    (share * 100_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOMINAL: Nominal = Nominal {
        wait: Duration::from_secs(100),
        base: Duration::from_secs(10),
        cap: Duration::from_secs(500),
    };

    #[test]
    fn each_kind_has_its_range() {
        let before = Duration::from_secs(40);
        let cases = [
            (Jitter::None, 100, 100),
            (Jitter::Full, 0, 100),
            (Jitter::Equal, 50, 100),
            (Jitter::around(0.25).unwrap(), 75, 125),
            (Jitter::up_to(0.25).unwrap(), 100, 125),
            (Jitter::Decorrelated, 10, 120),
        ];
        for (jitter, low, high) in cases {
            let expected = (Duration::from_secs(low), Duration::from_secs(high));
            assert_eq!(jitter.range(NOMINAL, before), expected, "{jitter}");
        }
    }

    #[test]
    fn decorrelated_waits_start_from_the_base_and_end_at_the_cap() {
        let seconds = Duration::from_secs;
        assert_eq!(Jitter::Decorrelated.range(NOMINAL, Duration::ZERO), (seconds(10), seconds(30)));
        assert_eq!(Jitter::Decorrelated.range(NOMINAL, seconds(300)), (seconds(10), seconds(500)));
    }

    #[test]
    fn a_share_lies_above_zero_and_at_most_at_one() {
        for share in [0.0, -0.1, 1.01, f64::NAN, f64::INFINITY] {
            assert!(Jitter::around(share).is_err(), "{share}");
            assert!(Jitter::up_to(share).is_err(), "{share}");
        }
        assert!(Jitter::around(1.0).is_ok());
    }

    #[test]
    fn words_and_texts_name_the_kind() {
        let all = [
            Jitter::None,
            Jitter::Full,
            Jitter::Equal,
            Jitter::around(0.2).unwrap(),
            Jitter::up_to(0.125).unwrap(),
            Jitter::Decorrelated,
        ];
        assert_eq!(all.map(Jitter::word), Jitter::WORDS);
        let texts = all.map(|jitter| jitter.to_string());
        assert_eq!(texts, ["none", "full", "equal", "around 20 %", "up to 12.5 %", "decorrelated"]);
    }
}
