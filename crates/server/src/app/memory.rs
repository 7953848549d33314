//! What is remembered of the store so that accepting a message needs no read: tokens and
//! applications.
//!
//! Tokens are believed for two seconds at the most, and forgotten at once when they are revoked here.
//! What an application is called by is only a guess: the accept's own transaction checks that the
//! application is there and bears the uid, and an accept that is refused for it looks in the store.
//! So it does no harm that another node renames an application, or that a name is read before a
//! change and kept after it. Both are bounded, and begin again from nothing when full.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::ids::ApplicationId;
use domain::time::Timestamp;
use store::catalog::{Application, Name, Token};
use store::keys::ApplicationKey;

use super::Settings;

/// What accepting a message has to know about its application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// Its row.
    pub(super) key: ApplicationKey,
    /// Its id.
    pub(super) id: ApplicationId,
    /// The uid it was named by; none if it was named by its id.
    pub(super) named: Option<Arc<str>>,
}

impl Known {
    /// Notes what a name led to.
    pub(super) fn of(application: &Application, name: &Name<ApplicationId>) -> Self {
        let named = match name {
            Name::Id(_) => None,
            Name::Uid(uid) => Some(Arc::from(uid.as_str())),
        };
        Self { key: application.key, id: application.id, named }
    }
}

/// What is remembered.
pub(super) struct Remembered {
    tokens: Mutex<BTreeMap<String, (Arc<Token>, Timestamp)>>,
    /// How often tokens were forgotten here: what was read before is not kept afterwards.
    revocations: AtomicU64,
    applications: Mutex<BTreeMap<String, Known>>,
    most_tokens: usize,
    most_applications: usize,
    token_age: Duration,
}

impl Remembered {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            tokens: Mutex::default(),
            revocations: AtomicU64::default(),
            applications: Mutex::default(),
            most_tokens: settings.cached_tokens,
            most_applications: settings.cached_applications,
            token_age: settings.token_age,
        }
    }

    /// Returns a token that was read a short while ago.
    pub(super) fn token(&self, id: &str, now: Timestamp) -> Option<Arc<Token>> {
        let tokens = lock(&self.tokens);
        let (token, read_at) = tokens.get(id)?;
        (now.since(*read_at) < self.token_age).then(|| Arc::clone(token))
    }

    /// Tells whether a token was ever read, as far as it is remembered.
    pub(super) fn knows_token(&self, id: &str) -> bool {
        lock(&self.tokens).contains_key(id)
    }

    /// Returns how often tokens were forgotten. A reader asks before it reads, and keeps the token with the
    /// answer.
    pub(super) fn revocations(&self) -> u64 {
        self.revocations.load(Ordering::SeqCst)
    }

    /// Keeps a token that was read a moment ago, unless any was forgotten since.
    pub(super) fn keep_token(&self, token: Token, now: Timestamp, revocations: u64) -> Arc<Token> {
        let token = Arc::new(token);
        let mut tokens = lock(&self.tokens);
        if self.revocations() != revocations {
            return token;
        }
        if tokens.len() >= self.most_tokens {
            tokens.clear();
        }
        tokens.insert(token.id.clone(), (Arc::clone(&token), now));
        token
    }

    pub(super) fn forget_token(&self, id: &str) {
        let mut tokens = lock(&self.tokens);
        self.revocations.fetch_add(1, Ordering::SeqCst);
        tokens.remove(id);
    }

    pub(super) fn forget_tokens(&self) {
        let mut tokens = lock(&self.tokens);
        self.revocations.fetch_add(1, Ordering::SeqCst);
        tokens.clear();
    }

    /// Returns an application by the id or uid it was asked for by.
    pub(super) fn application(&self, name: &str) -> Option<Known> {
        lock(&self.applications).get(name).cloned()
    }

    pub(super) fn keep_application(&self, name: &str, known: Known) {
        let mut applications = lock(&self.applications);
        if applications.len() >= self.most_applications {
            applications.clear();
        }
        applications.insert(name.to_owned(), known);
    }

    pub(super) fn forget_name(&self, name: &str) {
        lock(&self.applications).remove(name);
    }

    pub(super) fn forget_application(&self, key: ApplicationKey) {
        lock(&self.applications).retain(|_, known| known.key != key);
    }
}

/// Nothing panics while holding these locks, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
