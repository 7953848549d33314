//! Answers that are given again to whoever asks again with the same key.
//!
//! A key counts together with the token and the address it was used with. What was done is
//! remembered with its answer, durably; what is still being done is waited for. Only what worked is
//! remembered: whoever failed may try again.
//!
//! What is made and what is answered are written one after the other. A [`Promise`] bridges a crash
//! between the two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::{Id, Noun};
use domain::time::Timestamp;
use sha2::{Digest as _, Sha256};
pub use store::ledger::StoredAnswer;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use super::{App, Caller, Error};
use crate::dice;

/// The longest key.
pub const LONGEST_KEY: usize = 255;

/// Which ids a request with a key makes, decided durably before it makes anything.
///
/// A request that is repeated because we crashed after doing it, and before its answer was on disk,
/// finds what it made by these ids, and makes nothing twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    hash: [u8; 32],
    at: Timestamp,
    seed: [u8; 16],
    again: bool,
}

impl Promise {
    /// Tells whether this request was begun before, so that what it makes may be there.
    #[must_use]
    pub const fn again(&self) -> bool {
        self.again
    }

    /// Returns the hash of the key.
    #[must_use]
    pub const fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// Returns the id of what the request makes.
    pub(super) fn id<N: Noun>(&self) -> Id<N> {
        let mut hasher = Sha256::new();
        hasher.update(self.seed);
        hasher.update(N::PREFIX.as_bytes());
        let digest: [u8; 32] = hasher.finalize().into();
        let mut random = [0; 16];
        random.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Id::new(self.at, random)
    }

    fn read(hash: [u8; 32], text: &[u8], again: bool) -> Option<Self> {
        let (at, seed) = text.split_first_chunk()?;
        let at = Timestamp::from_micros(i64::from_be_bytes(*at));
        Some(Self { hash, at, seed: seed.try_into().ok()?, again })
    }
}

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

    /// Decides which ids a request with this key makes, or finds what was decided before.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn promise(&self, hash: [u8; 32]) -> Result<Promise, Error> {
        let mut seed = [0; 16];
        dice::entropy(&mut seed);
        let own = [self.clock.wall().as_micros().to_be_bytes().as_slice(), &seed].concat();
        let own = StoredAnswer { status: 0, headers: Vec::new(), body: own.into() };
        let kept = self.remember_answer(hash_of_part(hash, usize::MAX), own.clone()).await?;
        let promise = Promise::read(hash, &kept.body, kept.body != own.body);
        promise.ok_or_else(|| Error::Internal("a promise does not read".to_owned()))
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
