//! Deliveries: look at one with its whole history, list, cancel, send now, send again.

use domain::delivery::{Cause, Delivery};
use domain::ids::EndpointId;
use store::catalog::Endpoint;
use store::keys::MessageKey;
pub use store::ledger::{AttemptEntry, DeliveryEntry, DeliveryFilter};
use store::page::Listed;

use super::attempts::told_to;
use super::pages::{Slice, Wanted};
use super::pauses::Pause;
use super::{App, Error, Nudge, Scope};

/// How often a delivery is looked at that changes while it is being sent again.
const LOOKS: usize = 3;

/// A delivery with its endpoint's id.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The delivery.
    pub entry: DeliveryEntry,
    /// Its endpoint's id, deleted or not; none if it was pruned just now.
    pub endpoint: Option<EndpointId>,
    /// Its endpoint's pause, while it waits for that. Lists over all endpoints do not say.
    pub pause: Option<Pause>,
}

impl App {
    /// Finds a delivery with its attempts, newest first.
    ///
    /// # Errors
    /// If there is no such delivery in this application.
    pub async fn delivery(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<(Shown, Vec<AttemptEntry>), Error> {
        let entry = self.delivery_entry(scope, id).await?;
        let attempts = self.ledger.attempts_of(entry.key).await?;
        let attempts = attempts.into_iter().map(|entry| told_to(scope.caller(), entry)).collect();
        Ok((self.shown(scope, entry).await?, attempts))
    }

    /// Lists an application's deliveries, newest message first: all of them, or an endpoint's.
    ///
    /// # Errors
    /// If there is no such endpoint, or the iterator is none.
    pub async fn all_deliveries(
        &self,
        scope: &Scope,
        endpoint: Option<&str>,
        filter: DeliveryFilter,
        wanted: &Wanted,
    ) -> Result<Slice<Shown>, Error> {
        if let Some(endpoint) = endpoint {
            return self.deliveries(scope, endpoint, filter, wanted).await;
        }
        let dead = Delivery::Dead(Cause::Exhausted).word();
        if filter.state == Some(dead) || filter.state.is_none() && filter.cause.is_some() {
            return self.dead_letters(scope, filter, wanted).await;
        }
        let slice = self.walk_deliveries(scope.application().key, &filter, wanted).await?;
        let directory = self.directory(scope, &slice.entries).await?;
        Ok(slice.map(|entry| {
            let endpoint = directory.get(&entry.key.endpoint).map(|endpoint| endpoint.id);
            Shown { entry, endpoint, pause: None }
        }))
    }

    /// Lists an endpoint's deliveries, newest message first.
    ///
    /// # Errors
    /// If there is no such endpoint, or the iterator is none.
    pub async fn deliveries(
        &self,
        scope: &Scope,
        endpoint: &str,
        filter: DeliveryFilter,
        wanted: &Wanted,
    ) -> Result<Slice<Shown>, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        let slice = self.deliveries_of_endpoint(&endpoint, filter, wanted).await?;
        let waits = slice.entries.iter().any(is_pending);
        let pause = match waits {
            true => self.pause_of((endpoint.application, endpoint.key)).await?,
            false => None,
        };
        Ok(slice.map(|entry| {
            let pause = pause.clone().filter(|_| is_pending(&entry));
            Shown { entry, endpoint: Some(endpoint.id), pause }
        }))
    }

    pub(super) async fn deliveries_of_endpoint(
        &self,
        endpoint: &Endpoint,
        filter: DeliveryFilter,
        wanted: &Wanted,
    ) -> Result<Slice<DeliveryEntry>, Error> {
        let parse = |text: &str| text.parse().ok().map(MessageKey);
        let page = wanted.by(parse, MessageKey(i64::MAX))?;
        let (application, key) = (endpoint.application, endpoint.key);
        let Listed { entries, reached, done } =
            self.ledger.deliveries(application, key, filter, page).await?;
        let listed = Listed { entries, reached: reached.map(|reached| reached.0), done };
        Ok(wanted.slice(listed, |entry| entry.key.message.0.to_string()))
    }

    /// Calls a pending delivery off. An attempt that has begun may still arrive.
    ///
    /// # Errors
    /// If there is no such delivery, or it is not pending.
    pub async fn cancel(&self, scope: &Scope, id: &str) -> Result<Shown, Error> {
        let entry = self.delivery_entry(scope, id).await?;
        let cancelled = self.ledger.cancel(entry.key, self.clock.now()).await?;
        self.nudge_owner(scope, &entry).await?;
        self.shown(scope, cancelled).await
    }

    /// Sends a pending delivery now. Its budget stays as it is.
    ///
    /// # Errors
    /// If there is no such delivery, or it is not pending.
    pub async fn retry_now(&self, scope: &Scope, id: &str) -> Result<Shown, Error> {
        let entry = self.delivery_entry(scope, id).await?;
        let hurried = self.hurry(scope, &entry).await?;
        self.shown(scope, hurried).await
    }

    pub(super) async fn hurry(
        &self,
        scope: &Scope,
        entry: &DeliveryEntry,
    ) -> Result<DeliveryEntry, Error> {
        let now = self.clock.now();
        entry.state.retry_now(now).map_err(|refusal| Error::Conflict(refusal.to_string()))?;
        let place = (entry.key.application, entry.key.endpoint);
        let paused = self.pause_of(place).await?.is_some();
        let hurried = self.ledger.retry_now(entry.key, now).await?;
        if paused {
            // This ends the endpoint's pause, so every delivery that the pause holds is sent now, too.
            self.hurry_paused(place).await?;
        }
        self.nudge_owner(scope, entry).await?;
        Ok(hurried)
    }

    /// Sends a delivery again, whatever became of it: a settled one as a replay, a pending one now.
    ///
    /// # Errors
    /// If there is no such delivery, or its payload is gone.
    pub async fn replay_one(&self, scope: &Scope, id: &str) -> Result<(), Error> {
        let entry = self.delivery_entry(scope, id).await?;
        self.send_again(scope, &entry).await
    }

    pub(super) async fn send_again(
        &self,
        scope: &Scope,
        entry: &DeliveryEntry,
    ) -> Result<(), Error> {
        let mut entry = entry.clone();
        for _ in 1..LOOKS {
            match self.send_as_it_stands(scope, &entry).await {
                // It was settled, or replayed, since it was read.
                Err(Error::Conflict(_)) => {
                    entry = self.ledger.delivery(scope.application().key, entry.id).await?;
                }
                done => return done,
            }
        }
        self.send_as_it_stands(scope, &entry).await
    }

    async fn send_as_it_stands(&self, scope: &Scope, entry: &DeliveryEntry) -> Result<(), Error> {
        match entry.state {
            Delivery::Pending(_) => self.hurry(scope, entry).await.map(|_| ()),
            Delivery::Delivered | Delivery::Dead(_) | Delivery::Cancelled => {
                self.replay_entry(scope, entry).await
            }
        }
    }

    pub(super) async fn delivery_entry(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<DeliveryEntry, Error> {
        let id = id.parse().map_err(|_| Error::Missing("delivery"))?;
        Ok(self.ledger.delivery(scope.application().key, id).await?)
    }

    async fn shown(&self, scope: &Scope, entry: DeliveryEntry) -> Result<Shown, Error> {
        let directory = self.directory(scope, std::slice::from_ref(&entry)).await?;
        let endpoint = directory.get(&entry.key.endpoint).map(|endpoint| endpoint.id);
        let place = (entry.key.application, entry.key.endpoint);
        let pause = if is_pending(&entry) { self.pause_of(place).await? } else { None };
        Ok(Shown { entry, endpoint, pause })
    }

    async fn nudge_owner(&self, scope: &Scope, entry: &DeliveryEntry) -> Result<(), Error> {
        let directory = self.directory(scope, std::slice::from_ref(entry)).await?;
        for endpoint in directory.values() {
            self.accepting.nudge(Nudge::Requests(endpoint.partition));
        }
        Ok(())
    }
}

const fn is_pending(entry: &DeliveryEntry) -> bool {
    matches!(entry.state, Delivery::Pending(_))
}
