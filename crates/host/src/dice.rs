//! The only place where dice are thrown.
//!
//! Decisions take a throw as an argument and never make one; what throws is a stream cipher with a
//! given seed, so that whoever knows the seed can have the same throws again. Ids, keys and nonces
//! need chance that nobody can have again: that comes from the operating system.

use std::cell::RefCell;

use domain::dice::Dice;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Fills a slice with bytes that nobody can guess.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
#[expect(clippy::expect_used, reason = "without chance no key, id or nonce may be made")]
pub fn entropy(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}

/// Returns bytes that nobody can guess.
pub fn unguessable<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    entropy(&mut bytes);
    bytes
}

const BLOCK_BYTES: usize = 4_096;

/// Random bytes that were fetched and not handed out yet.
struct Block {
    bytes: [u8; BLOCK_BYTES],
    used: usize,
}

/// Returns the random part of an id. It is fetched from the system a block at a time: one system
/// call for each id would be felt at ten thousand messages a second.
pub fn for_id<const N: usize>() -> [u8; N] {
    const { assert!(N <= BLOCK_BYTES, "a block holds at least one") };
    thread_local! {
        static BLOCK: RefCell<Block> =
            const { RefCell::new(Block { bytes: [0; BLOCK_BYTES], used: BLOCK_BYTES }) };
    }
    BLOCK.with_borrow_mut(|block| {
        if block.used + N > BLOCK_BYTES {
            entropy(&mut block.bytes);
            block.used = 0;
        }
        let drawn = &mut block.bytes[block.used..block.used + N];
        block.used += N;
        let mut id = [0; N];
        id.copy_from_slice(drawn);
        // What was handed out is not kept.
        drawn.fill(0);
        id
    })
}

/// An endless row of throws.
#[derive(Debug)]
pub struct Throws(ChaCha8Rng);

impl Throws {
    /// Begins the row that belongs to a seed.
    pub fn seeded(seed: u64) -> Self {
        // Spelt out instead of left to the generator's own stretching of small seeds: a printed
        // seed must mean the same row in every later version.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Makes the next throw.
    pub fn throw(&mut self) -> Dice {
        Dice::thrown(self.0.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_is_handed_out_twice_over_several_blocks() {
        let drawn: std::collections::BTreeSet<[u8; 16]> = (0..1_000).map(|_| for_id()).collect();
        assert_eq!(drawn.len(), 1_000);
        assert!(!drawn.contains(&[0; 16]));
    }

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
