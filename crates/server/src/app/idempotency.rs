//! Answers that are given again to whoever asks again with the same key.
//!
//! A key counts together with the token and the address it was used with. What was done is
//! remembered with its answer, durably; what is still being done is waited for, also on another
//! node. Only what worked is remembered: whoever failed may try again.
//!
//! What is made and what is answered are written one after the other. A [`Promise`] bridges a crash
//! between the two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::ids::{Id, Noun};
use domain::time::Timestamp;
use sha2::{Digest as _, Sha256};
pub use store::ledger::StoredAnswer;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use super::{App, Caller, Error};
use crate::dice;

/// The longest key.
pub const LONGEST_KEY: usize = 255;
/// How often it is looked whether another node has answered, and how many times.
const POLL_EVERY: Duration = Duration::from_millis(200);
const MOST_POLLS: u32 = 25;
/// How long a node has a key in hand. One that has not answered by then is taken for dead; should it
/// be alive, what it makes is what the next one makes, because both are promised the same.
const CLAIM_LASTS: Duration = Duration::from_secs(15);
/// Under which parts of a key's hash its promise and the claim to it are kept. No batch is as long.
const PROMISE: usize = usize::MAX;
const CLAIM: usize = usize::MAX - 1;
/// How many random bytes everything that is promised comes from. Earlier versions had fewer.
const SEED_BYTES: usize = 32;
const EARLIER_SEED_BYTES: usize = 16;

/// Which ids and secrets a request with a key makes, decided durably before it makes anything.
///
/// A request that is repeated because we crashed after doing it, and before its answer was on disk,
/// finds what it made by these, and makes nothing twice.
#[derive(Clone, PartialEq, Eq)]
pub struct Promise {
    hash: [u8; 32],
    at: Timestamp,
    seed: Vec<u8>,
    again: bool,
}

/// Whoever knows the seed knows the secrets, so that it does not show itself.
impl std::fmt::Debug for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promise").field("again", &self.again).finish_non_exhaustive()
    }
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
        let mut random = [0; 16];
        random.iter_mut().zip(self.bytes(N::PREFIX)).for_each(|(to, from)| *to = from);
        Id::new(self.at, random)
    }

    /// Returns bytes that nobody can guess, always the same ones for the same purpose.
    pub(super) fn bytes(&self, purpose: &str) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(&self.seed);
        hasher.update(purpose.as_bytes());
        hasher.finalize().into()
    }

    fn read(hash: [u8; 32], text: &[u8], again: bool) -> Option<Self> {
        let (at, seed) = text.split_first_chunk()?;
        let at = Timestamp::from_micros(i64::from_be_bytes(*at));
        let known = [SEED_BYTES, EARLIER_SEED_BYTES].contains(&seed.len());
        known.then(|| Self { hash, at, seed: seed.to_vec(), again })
    }
}

/// How a request with a key begins.
pub enum Begun<'a> {
    /// It was answered before.
    Before(StoredAnswer),
    /// It is to be answered now, by whoever holds it.
    Now(Held<'a>, Promise),
}

/// A request that nobody else answers meanwhile, in this process or on another node.
pub struct Held<'a> {
    permit: Permit<'a>,
    /// Since when other nodes know of it, if there are any.
    claimed: Option<Timestamp>,
}

impl Held<'_> {
    /// Lets others try, because the request failed.
    ///
    /// # Errors
    /// If the store does not answer. Then the others have to wait until the claim has run out.
    pub async fn release(self) -> Result<(), Error> {
        let Permit { app, hash, .. } = self.permit;
        match self.claimed {
            Some(at) => Ok(app.ledger.forget_answer(hash_of_part(hash, CLAIM), at).await?),
            None => Ok(()),
        }
    }
}

/// Requests that are being answered, by the hash of their key.
#[derive(Default)]
pub(super) struct Running(Mutex<BTreeMap<[u8; 32], Arc<Turn<()>>>>);

/// The right to be the one who answers; others with the same key wait for its end.
struct Permit<'a> {
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
    /// Begins a request with a key: finds the answer, or waits until nobody else answers it.
    ///
    /// # Errors
    /// If the store does not answer, or another node does not come to an end.
    pub async fn begin(&self, hash: [u8; 32]) -> Result<Begun<'_>, Error> {
        let permit = self.take_turn(hash).await;
        for poll in 0..=MOST_POLLS {
            if let Some(stored) = self.remembered_answer(hash).await? {
                return Ok(Begun::Before(stored));
            }
            if !self.settings.shared || poll == MOST_POLLS {
                break;
            }
            if let Some(at) = self.claim(hash).await? {
                let held = Held { permit, claimed: Some(at) };
                return Ok(Begun::Now(held, self.promise(hash).await?));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        if self.settings.shared {
            let text = "another node has the same idempotency key in hand and does not answer";
            return Err(Error::Unavailable(text.to_owned()));
        }
        Ok(Begun::Now(Held { permit, claimed: None }, self.promise(hash).await?))
    }

    /// Takes a key in hand, so that all nodes know; returns since when, or nothing if another has it.
    async fn claim(&self, hash: [u8; 32]) -> Result<Option<Timestamp>, Error> {
        let place = hash_of_part(hash, CLAIM);
        loop {
            let now = self.clock.now();
            let mark: [u8; 16] = dice::unguessable();
            let own = [now.as_micros().to_be_bytes().as_slice(), &mark].concat();
            let own = StoredAnswer { status: 0, headers: Vec::new(), body: own.into() };
            let kept = self.ledger.remember_answer(place, own.clone(), now).await?;
            if kept == own {
                return Ok(Some(now));
            }
            let since = kept.body.first_chunk().map(|at| i64::from_be_bytes(*at));
            let since = Timestamp::from_micros(since.unwrap_or_default());
            if now.since(since) < CLAIM_LASTS {
                return Ok(None);
            }
            // Of several who find it abandoned one takes it; the others see that it is young again.
            self.ledger.forget_answer(place, since).await?;
        }
    }

    /// Waits until nobody else in this process answers the same key.
    async fn take_turn(&self, hash: [u8; 32]) -> Permit<'_> {
        let turn = Arc::clone(self.running.lock().entry(hash).or_default());
        Permit { app: self, hash, _turn: turn.lock_owned().await }
    }

    /// Decides which ids and secrets a request with this key makes, or finds what was decided before.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn promise(&self, hash: [u8; 32]) -> Result<Promise, Error> {
        let seed: [u8; SEED_BYTES] = dice::unguessable();
        let own = [self.clock.wall().as_micros().to_be_bytes().as_slice(), &seed].concat();
        let own = StoredAnswer { status: 0, headers: Vec::new(), body: own.into() };
        let kept = self.remember_answer(hash_of_part(hash, PROMISE), own.clone()).await?;
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
