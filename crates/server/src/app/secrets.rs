//! Signing secrets: shown to their owner, rotated with a time of grace.

use std::time::Duration;

use domain::time::Timestamp;
use signature::{SharedSecret, SigningSecret};
use store::catalog::{NewSecret, Secret};

use super::idempotency::Promise;
use super::{App, Error, Rollout, Scope};
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
            let random = promise.map_or_else(dice::unguessable, |it| it.bytes(field));
            let secret = SharedSecret::from_random(&random);
            secret.map_err(|error| Error::Internal(error.to_string()))?.reveal().to_string()
        }
    };
    Ok(Secret { text, created_at: at, expires_at: None })
}

/// Returns what the receiver is given: the secret itself, or the public key.
fn for_receiver(secret: &Secret) -> Result<String, Error> {
    let read: SigningSecret = secret
        .text
        .parse()
        .map_err(|error: signature::Error| Error::Internal(error.to_string()))?;
    Ok(read.for_receiver().reveal().to_string())
}

/// What became of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// What the receiver verifies with from now on.
    pub key: String,
    /// Whether every node has stopped to sign with what has no time of grace.
    pub rollout: Rollout,
}

impl App {
    /// Returns what the receiver verifies with.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn secret(&self, scope: &Scope, endpoint: &str) -> Result<String, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        let now = self.clock.now();
        let secrets = self.catalog.secrets(endpoint.application, endpoint.key, now).await?;
        let newest = secrets.first().ok_or(Error::Missing("secret"))?;
        for_receiver(newest)
    }

    /// Makes another secret the current one. The old one goes on signing for a while.
    ///
    /// # Errors
    /// If the given one cannot sign, the time of grace is too long, or too many old ones are live.
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
        let now = self.clock.now();
        let promise = scope.caller().promise.as_ref();
        let secret = make(key, "key", promise, now)?;
        let shown = for_receiver(&secret)?;
        if promise.is_some_and(Promise::again) {
            let endpoint = self.endpoint(scope, endpoint).await?;
            let live = self.catalog.secrets(endpoint.application, endpoint.key, now).await?;
            if live.iter().any(|known| known.text == secret.text) {
                return Ok(Rotated {
                    key: shown,
                    rollout: self.rolled_out_after(scope, grace).await?,
                });
            }
        }
        let new = NewSecret { secret, grace_ends: now.after(Duration::from_secs(grace)) };
        self.replace_secret(scope, endpoint, new).await?;
        Ok(Rotated { key: shown, rollout: self.rolled_out_after(scope, grace).await? })
    }

    /// Waits until the secrets that sign no more are out of use, if they had no time of grace.
    async fn rolled_out_after(&self, scope: &Scope, grace: u64) -> Result<Rollout, Error> {
        if grace == 0 { self.rolled_out(scope.caller()).await } else { Ok(Rollout::Complete) }
    }
}
