//! Answers that are given again to whoever asks again with the same key.
//!
//! A key counts together with the token and the address it was used with, and for the application that
//! the address led to: a uid may lead to another one later. What was done is remembered with its answer,
//! durably; what is still being done is waited for, also on another
//! node. Only what worked is remembered: whoever failed may try again.
//!
//! What is made and what is answered are written one after the other. A [`Promise`] bridges a crash
//! between the two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use domain::ids::{ApplicationId, Id, Noun};
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
/// The header of a remembered answer that names the application it was made in. No client sees it.
const APPLICATION: &str = "redial-application";
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
    /// The application that the request acts in, once it is known.
    application: Arc<OnceLock<ApplicationId>>,
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

    /// Returns bytes that nobody can guess, always the same ones for the same purpose in the same
    /// application.
    pub(super) fn bytes(&self, purpose: &str) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(&self.seed);
        hasher.update(purpose.as_bytes());
        if let Some(application) = self.application.get() {
            hasher.update(application.as_bytes());
        }
        hasher.finalize().into()
    }

    /// Notes which application the request acts in.
    ///
    /// # Errors
    /// If it began in another one: the name in its path leads elsewhere by now.
    pub(super) fn act_in(&self, application: ApplicationId) -> Result<(), Error> {
        if *self.application.get_or_init(|| application) == application {
            return Ok(());
        }
        let text = "the application's uid was given to another one meanwhile; send it again";
        Err(Error::Unavailable(text.to_owned()))
    }

    /// Names the application that the request has acted in, in the answer that is remembered.
    fn sign(&self, mut answer: StoredAnswer) -> StoredAnswer {
        let application = self.application.get().map(ToString::to_string);
        answer.headers.extend(application.map(|id| (APPLICATION.to_owned(), id)));
        answer
    }

    fn read(hash: [u8; 32], text: &[u8], again: bool) -> Option<Self> {
        let (at, seed) = text.split_first_chunk()?;
        let at = Timestamp::from_micros(i64::from_be_bytes(*at));
        let known = [SEED_BYTES, EARLIER_SEED_BYTES].contains(&seed.len());
        let application = Arc::default();
        known.then(|| Self { hash, at, seed: seed.to_vec(), again, application })
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
    /// When its promise was kept, if this request was the first.
    promised: Option<Timestamp>,
}

impl Held<'_> {
    /// Lets others try, because the request failed. One that was refused has made nothing, so that nothing
    /// is kept of it.
    ///
    /// # Errors
    /// If the store does not answer. Then the others have to wait until the claim has run out.
    pub async fn release(self, refused: bool) -> Result<(), Error> {
        let Permit { app, hash, .. } = &self.permit;
        let promised = self.promised.filter(|_| refused).map(|at| (PROMISE, at));
        let claimed = self.claimed.map(|at| (CLAIM, at));
        // The promise first: the next request must not find one that is about to go.
        for (part, at) in promised.into_iter().chain(claimed) {
            app.ledger.forget_answer(hash_of_part(*hash, part), at).await?;
        }
        Ok(())
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
    /// Begins a request with a key, whose path may name an application. An answer that was made in
    /// another application does not count: the uid led there then.
    ///
    /// # Errors
    /// If the store does not answer, another node does not come to an end, or the name leads nowhere.
    pub async fn begin(
        &self,
        caller: &Caller,
        hash: [u8; 32],
        named: Option<&str>,
    ) -> Result<Begun<'_>, Error> {
        let begun = self.begin_once(hash).await?;
        let Begun::Before(stored) = &begun else { return Ok(begun) };
        let made_in = stored.headers.iter().find(|(name, _)| name == APPLICATION);
        let (Some((_, made_in)), Some(named)) = (made_in, named) else { return Ok(begun) };
        if named == made_in {
            return Ok(begun);
        }
        let id = self.enter(caller, named).await?.application().id;
        if id.to_string() == *made_in {
            return Ok(begun);
        }
        let begun = self.begin_once(hash_in(hash, id)).await?;
        if let Begun::Now(_, promise) = &begun {
            promise.act_in(id)?;
        }
        Ok(begun)
    }

    /// Finds the answer to a key, or waits until no other request answers it.
    async fn begin_once(&self, hash: [u8; 32]) -> Result<Begun<'_>, Error> {
        let permit = self.take_turn(hash).await;
        for poll in 0..=MOST_POLLS {
            if let Some(stored) = self.remembered_answer(hash).await? {
                return Ok(Begun::Before(stored));
            }
            if !self.settings.shared || poll == MOST_POLLS {
                break;
            }
            if let Some(at) = self.claim(hash).await? {
                return self.hold(permit, Some(at)).await;
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        if self.settings.shared {
            let text = "another node has the same idempotency key in hand and does not answer";
            return Err(Error::Unavailable(text.to_owned()));
        }
        self.hold(permit, None).await
    }

    async fn hold<'a>(
        &'a self,
        permit: Permit<'a>,
        claimed: Option<Timestamp>,
    ) -> Result<Begun<'a>, Error> {
        let now = self.clock.now();
        let promise = self.promise_at(permit.hash, now).await?;
        let promised = Some(now).filter(|_| !promise.again());
        Ok(Begun::Now(Held { permit, claimed, promised }, promise))
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
        self.promise_at(hash, self.clock.now()).await
    }

    async fn promise_at(&self, hash: [u8; 32], now: Timestamp) -> Result<Promise, Error> {
        let seed: [u8; SEED_BYTES] = dice::unguessable();
        let own = [self.clock.wall().as_micros().to_be_bytes().as_slice(), &seed].concat();
        let own = StoredAnswer { status: 0, headers: Vec::new(), body: own.into() };
        let place = hash_of_part(hash, PROMISE);
        let kept = self.ledger.remember_answer(place, own.clone(), now).await?;
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

    /// Remembers the answer to a request that was promised.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn remember_answer(
        &self,
        promise: &Promise,
        answer: StoredAnswer,
    ) -> Result<StoredAnswer, Error> {
        let answer = promise.sign(answer);
        Ok(self.ledger.remember_answer(promise.hash, answer, self.clock.now()).await?)
    }
}

/// Returns the hash for a key whose first use was in another application than its path names now.
fn hash_in(hash: [u8; 32], application: ApplicationId) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(hash);
    hasher.update(application.as_bytes());
    hasher.finalize().into()
}

/// Returns the headers of a remembered answer that its client sees.
pub fn shown(answer: &StoredAnswer) -> impl Iterator<Item = &(String, String)> {
    answer.headers.iter().filter(|(name, _)| name != APPLICATION)
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
