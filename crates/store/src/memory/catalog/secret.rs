//! Secrets: the last is the current one.

use domain::time::Timestamp;

use crate::catalog::{NewSecret, Secret};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::memory::State;
use crate::memory::rows::EndpointRow;
use crate::{Error, limits};

impl EndpointRow {
    /// Returns the secrets that sign at a moment, newest first.
    pub(in crate::memory) fn live_secrets(&self, at: Timestamp) -> Vec<Secret> {
        self.secrets.iter().rev().filter(|secret| is_live(secret, at)).cloned().collect()
    }

    /// Tells whether a secret is another one than the current one.
    pub(super) fn replaces(&self, new: &NewSecret) -> bool {
        self.secrets.last().is_none_or(|current| current.text != new.secret.text)
    }

    /// Tells whether too many old secrets sign at a moment for another one to join them.
    pub(super) fn is_full(&self, at: Timestamp) -> bool {
        let old = |old: &&Secret| old.expires_at.is_some() && is_live(old, at);
        self.secrets.iter().filter(old).count() >= limits::OLD_SECRETS
    }

    /// Makes a secret the current one.
    pub(super) fn push(&mut self, NewSecret { secret, grace_ends }: &NewSecret) {
        // A secret whose end is set already does not live longer because of another one.
        for old in &mut self.secrets {
            old.expires_at = Some(old.expires_at.map_or(*grace_ends, |end| end.min(*grace_ends)));
        }
        self.secrets.push(Secret { expires_at: None, ..secret.clone() });
    }
}

impl State {
    /// Returns the secrets that sign at a moment, newest first.
    ///
    /// # Errors
    /// If the endpoint is not there.
    pub fn secrets(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        at: Timestamp,
    ) -> Result<Vec<Secret>, Error> {
        Ok(self.living_endpoint(application, key)?.live_secrets(at))
    }
}

fn is_live(secret: &Secret, at: Timestamp) -> bool {
    secret.expires_at.is_none_or(|end| end > at)
}
