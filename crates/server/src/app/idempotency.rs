//! Answers that are given again to whoever asks again with the same key.
//!
//! A key counts together with the token and the address it was used with. What was done is
//! remembered with its answer, durably; what is still being done is waited for. Only what worked is
//! remembered: whoever failed may try again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
pub use store::ledger::StoredAnswer;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use super::{App, Caller, Error};

/// The longest key.
pub const LONGEST_KEY: usize = 255;

/// Requests that are being answered, by the hash of their key.
#[derive(Default)]
pub(super) struct Running(Mutex<BTreeMap<[u8; 32], Arc<Turn<()>>>>);

/// The right to be the one who answers; others with the same key wait for its end.
pub struct Permit<'a> {
    app: &'a App,
    hash: [u8; 32],
    _turn: OwnedMutexGuard<()>,
}

/// Returns the hash of a key together with who used it and where.
#[must_use]
pub fn hash(caller: &Caller, key: &str, address: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(caller.hash);
    for part in [key, address] {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

/// Returns the hash for one message of a batch that has a key.
#[must_use]
pub fn hash_of_part(hash: [u8; 32], index: usize) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(hash);
    hasher.update(u64::try_from(index).unwrap_or(u64::MAX).to_be_bytes());
    hasher.finalize().into()
}

impl App {
    /// Waits until nobody else answers the same key.
    pub async fn take_turn(&self, hash: [u8; 32]) -> Permit<'_> {
        let turn = Arc::clone(self.running.lock().entry(hash).or_default());
        Permit { app: self, hash, _turn: turn.lock_owned().await }
    }

    /// Returns the answer that is remembered for a key.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn remembered_answer(&self, hash: [u8; 32]) -> Result<Option<StoredAnswer>, Error> {
        Ok(self.ledger.answer(hash, self.clock.now()).await?)
    }

    /// Remembers an answer for a key.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn remember_answer(
        &self,
        hash: [u8; 32],
        answer: StoredAnswer,
    ) -> Result<StoredAnswer, Error> {
        Ok(self.ledger.remember_answer(hash, answer, self.clock.now()).await?)
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Arc<Turn<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut running = self.app.running.lock();
        // The map's, and the one in the guard that is being dropped.
        let last = |turn: &Arc<Turn<()>>| Arc::strong_count(turn) <= 2;
        if running.get(&self.hash).is_some_and(last) {
            running.remove(&self.hash);
        }
    }
}
