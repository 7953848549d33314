//! All chance of a history, from one seed. Whatever is random is drawn here, in the order in which
//! it is needed, so that the seed alone decides what happens.

use std::time::Duration;

use domain::dice::Dice;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// A row of draws.
#[derive(Debug)]
pub(crate) struct Chance(ChaCha8Rng);

impl Chance {
    /// Begins the row that belongs to a seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        // Spelt out, so that a printed seed means the same history in every later version.
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Draws 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number below a limit; zero if the limit is zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let bits = self.bits();
        if limit == 0 { 0 } else { bits % limit }
    }

    /// Draws a number between two, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Draws a small number between two, both included.
    pub(crate) fn count(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.between(low.into(), high.into())).unwrap_or(high)
    }

    /// Comes true in so many of a thousand draws.
    pub(crate) fn permille(&mut self, of_thousand: u32) -> bool {
        self.below(1_000) < u64::from(of_thousand)
    }

    /// Comes true in so many of a hundred draws.
    pub(crate) fn percent(&mut self, of_hundred: u32) -> bool {
        self.permille(of_hundred.saturating_mul(10))
    }

    /// Draws a time between two numbers of milliseconds.
    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low * 1_000, high * 1_000))
    }

    /// Draws a place in a list; none if it is empty.
    pub(crate) fn place(&mut self, length: usize) -> Option<usize> {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let place = usize::try_from(self.below(length)).unwrap_or(0);
        (length > 0).then_some(place)
    }

    /// Draws an element of a list.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        self.place(from.len()).and_then(|place| from.get(place))
    }

    /// Draws what an id needs.
    pub(crate) fn id_bytes(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.bits().to_le_bytes());
        bytes[8..].copy_from_slice(&self.bits().to_le_bytes());
        bytes
    }

    /// Throws the dice for a decision.
    pub(crate) fn dice(&mut self) -> Dice {
        Dice::thrown(self.bits())
    }
}
