//! Signing secrets: shown to their owner, rotated with a time of grace.

use std::time::Duration;

use domain::signing;
use domain::time::Timestamp;
use signature::{Profiles, SharedSecret, Signer, SigningSecret, VerifyingSecret};
use store::catalog::{Endpoint, Secret};

use super::idempotency::Promise;
use super::{App, Error, RefusalKind, Rollout, Scope};
use crate::dice;

/// How long the old secret goes on signing if nobody says.
pub(super) const USUAL_GRACE: u64 = 86_400;
/// The longest it may.
const LONGEST_GRACE: u64 = 604_800;

/// Makes a secret, from the text its owner gave, from what was promised, or from chance.
///
/// # Errors
/// If the text is no secret that can sign.
pub(super) fn make(
    text: Option<&str>,
    field: &str,
    promise: Option<&Promise>,
    at: Timestamp,
) -> Result<Secret, Error> {
    let text = match text {
        Some(text) => {
            let secret: SigningSecret = text
                .parse()
                .map_err(|error: signature::Error| Error::field(field, error.to_string()))?;
            secret.reveal().to_string()
        }
        None => {
            let random = promise.map_or_else(dice::unguessable, |it| it.bytes("secret"));
            let secret = SharedSecret::from_random(&random);
            secret.map_err(|error| Error::Internal(error.to_string()))?.reveal().to_string()
        }
    };
    Ok(Secret { text, created_at: at, expires_at: None })
}

/// What a receiver verifies with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The secret as it was given, or the public key.
    pub text: String,
    /// Of a plain secret: what libraries of Standard Webhooks take for it.
    pub standard_webhooks: Option<String>,
}

impl Key {
    fn of(secret: &Secret) -> Result<Self, Error> {
        let read: SigningSecret = secret
            .text
            .parse()
            .map_err(|error: signature::Error| Error::Internal(error.to_string()))?;
        let key = read.for_receiver();
        let standard_webhooks = match &key {
            VerifyingSecret::Shared(secret) if secret.is_plain() => {
                Some(secret.reveal_encoded().to_string())
            }
            VerifyingSecret::Shared(_) | VerifyingSecret::Public(_) => None,
        };
        Ok(Self { text: key.reveal().to_string(), standard_webhooks })
    }
}

/// Checks that a secret can sign in each of these profiles by itself: those before it end.
pub(super) fn check(secret: &Secret, profiles: &Profiles, field: &str) -> Result<(), Error> {
    // One that does not read is refused where it is given, and not here.
    let Ok(read) = secret.text.parse::<SigningSecret>() else { return Ok(()) };
    let signer = Signer::new(&[read], profiles);
    signer
        .map(drop)
        .map_err(|error| Error::field(field, signing::Unusable::from(error).to_string()))
}

/// What became of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// What the receiver verifies with from now on.
    pub key: Key,
    /// Whether every node has stopped to sign with what has no time of grace.
    pub rollout: Rollout,
}

impl App {
    /// Returns what the receiver verifies with.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn secret(&self, scope: &Scope, endpoint: &str) -> Result<Key, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        let newest = self.newest_secret(&endpoint).await?;
        Key::of(&newest.ok_or(Error::Missing("secret"))?)
    }

    pub(super) async fn newest_secret(&self, endpoint: &Endpoint) -> Result<Option<Secret>, Error> {
        let now = self.clock.now();
        let secrets = self.catalog.secrets(endpoint.application, endpoint.key, now).await?;
        Ok(secrets.into_iter().next())
    }

    /// Makes another secret the current one. The old one goes on signing for a while.
    ///
    /// # Errors
    /// If the given one cannot sign in the endpoint's profiles, the time of grace is too long, or too many
    /// old ones are live.
    pub async fn rotate_secret(
        &self,
        scope: &Scope,
        endpoint: &str,
        key: Option<&str>,
        grace_seconds: Option<u64>,
    ) -> Result<Rotated, Error> {
        let grace = grace_seconds.unwrap_or(USUAL_GRACE);
        if grace > LONGEST_GRACE {
            let text = format!("must be at most {LONGEST_GRACE}");
            return Err(Error::field("gracePeriodSeconds", text));
        }
        let endpoint = self.endpoint(scope, endpoint).await?;
        let now = self.clock.now();
        let promise = scope.caller().promise.as_ref();
        let secret = make(key, "key", promise, now)?;
        if let Ok(profiles) = self.surroundings(scope).profiles(&endpoint.settings) {
            check(&secret, &profiles, "key")?;
        }
        let shown = Key::of(&secret)?;
        if promise.is_some_and(Promise::again) {
            let live = self.catalog.secrets(endpoint.application, endpoint.key, now).await?;
            if live.iter().any(|known| known.text == secret.text) {
                return Ok(Rotated { key: shown, rollout: self.rolled_out_after(grace).await? });
            }
        }
        let ends = now.after(Duration::from_secs(grace));
        let rotated = self.catalog.rotate_secret(endpoint.application, endpoint.key, secret, ends);
        rotated.await.map_err(|error| match error {
            store::Error::Refused(text) => Error::refused(RefusalKind::LimitReached, text),
            store::Error::Unavailable { .. }
            | store::Error::Taken { .. }
            | store::Error::Missing(_)
            | store::Error::Declined(_)
            | store::Error::CannotOpen(_)
            | store::Error::Damaged { .. } => Error::from(error),
        })?;
        self.accepting.changed();
        Ok(Rotated { key: shown, rollout: self.rolled_out_after(grace).await? })
    }

    /// Waits until the secrets that sign no more are out of use, if they had no time of grace.
    async fn rolled_out_after(&self, grace: u64) -> Result<Rollout, Error> {
        if grace == 0 { self.rolled_out().await } else { Ok(Rollout::Complete) }
    }
}
