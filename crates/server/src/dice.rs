//! The only place where dice are thrown.
//!
//! Decisions take a throw as an argument and never make one; what throws is a stream cipher with a
//! given seed, so that whoever knows the seed can have the same throws again. Ids, keys and nonces
//! need chance that nobody can have again: that comes from the operating system.

use domain::dice::Dice;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Fills a slice with bytes that nobody can guess.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
#[expect(clippy::expect_used, reason = "without chance no key, id or nonce may be made")]
pub(crate) fn entropy(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}

/// An endless row of throws.
#[derive(Debug)]
pub(crate) struct Throws(ChaCha8Rng);

impl Throws {
    /// Begins the row that belongs to a seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        // Spelt out instead of left to the generator's own stretching of small seeds: a printed
        // seed must mean the same row in every later version.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Makes the next throw.
    pub(crate) fn throw(&mut self) -> Dice {
        Dice::thrown(self.0.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_throws(seed: u64) -> Vec<Dice> {
        let mut throws = Throws::seeded(seed);
        (0..100).map(|_| throws.throw()).collect()
    }

    #[test]
    fn the_same_seed_throws_the_same() {
        assert_eq!(first_throws(7), first_throws(7));
        assert_ne!(first_throws(7), first_throws(8));
    }

    #[test]
    fn throws_spread_over_the_whole_range() {
        let shares: Vec<f64> = first_throws(1).into_iter().map(Dice::share).collect();
        assert!(shares.iter().any(|share| *share < 0.1));
        assert!(shares.iter().any(|share| *share > 0.9));
    }
}
