//! Random bytes for the ids of attempts, fetched from the system a block at a time.
//!
//! One system call for each id would be felt at ten thousand attempts a second.

use std::sync::{Mutex, PoisonError};

use crate::dice;

const ID_BYTES: usize = 16;
const BLOCK_BYTES: usize = 256 * ID_BYTES;

/// Hands out random bytes, none of them twice.
pub(super) struct Chance(Mutex<Block>);

struct Block {
    bytes: [u8; BLOCK_BYTES],
    used: usize,
}

impl Chance {
    /// Makes one with an empty block.
    pub(super) fn new() -> Self {
        Self(Mutex::new(Block { bytes: [0; BLOCK_BYTES], used: BLOCK_BYTES }))
    }

    /// Returns the bytes for one id.
    pub(super) fn draw(&self) -> [u8; ID_BYTES] {
        let mut block = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if block.used == BLOCK_BYTES {
            dice::entropy(&mut block.bytes);
            block.used = 0;
        }
        let from = block.used;
        block.used += ID_BYTES;
        let mut drawn = [0; ID_BYTES];
        drawn.copy_from_slice(&block.bytes[from..from + ID_BYTES]);
        // What was handed out is not kept.
        block.bytes[from..from + ID_BYTES].fill(0);
        drawn
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nothing_is_drawn_twice_over_several_blocks() {
        let chance = Chance::new();
        let drawn: BTreeSet<_> = (0..1_000).map(|_| chance.draw()).collect();
        assert_eq!(drawn.len(), 1_000);
        assert!(!drawn.contains(&[0; ID_BYTES]));
    }
}
