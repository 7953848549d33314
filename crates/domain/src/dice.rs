//! One throw of the dice, made before a decision and handed to it.
//!
//! A decision that drew its own randomness could not be repeated. This one can: the same throw
//! gives the same verdict, in the server, in the policy lab and in the simulator.

/// A throw: 64 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dice(u64);

impl Dice {
    /// Takes random bits as a throw.
    #[must_use]
    pub const fn thrown(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the throw as a share: at least 0, less than 1, in steps of 2^-53.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn share(self) -> f64 {
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_at_least_zero_and_below_one() {
        assert_eq!(Dice::thrown(0).share(), 0.0);
        assert_eq!(Dice::thrown(1 << 63).share(), 0.5);
        let highest = Dice::thrown(u64::MAX).share();
        assert!(highest < 1.0 && highest > 0.999_999);
    }
}
