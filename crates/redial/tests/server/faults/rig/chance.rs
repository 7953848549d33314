//! Numbers that look like chance and are the same for the same seed (SplitMix64).

use std::time::Duration;

/// A source of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Begins with a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below a limit.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// Returns so many milliseconds, from the least to one below the most.
    pub(crate) fn millis(&mut self, (least, most): (u64, u64)) -> Duration {
        Duration::from_millis(least + self.below(most - least))
    }
}
