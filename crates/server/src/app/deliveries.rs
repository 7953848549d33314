//! Deliveries: look at one with its whole history, list, cancel, send now, send again.

use domain::delivery::{Cause, Delivery};
use domain::ids::EndpointId;
use domain::partition::Partition;
use store::catalog::Endpoint;
use store::keys::MessageKey;
use store::ledger::AttemptFilter;
pub use store::ledger::{AttemptEntry, DeliveryEntry, DeliveryFilter};
use store::page::Listed;

use super::pages::{Order, Slice, Wanted};
use super::pauses::Pause;
use super::waits::{Wait, is_pending};
use super::{App, Error, Nudge, Scope};

/// The most attempts that are shown with their delivery.
const SHOWN_ATTEMPTS: u64 = 50;
/// How often a delivery is looked at that changes while it is being sent again.
const LOOKS: usize = 3;

/// A delivery with its endpoint's id.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The delivery.
    pub entry: DeliveryEntry,
    /// Its endpoint's id, deleted or not; none if it was pruned just now.
    pub endpoint: Option<EndpointId>,
    /// What it waits for, while it is pending.
    pub wait: Option<Wait>,
    /// Its endpoint's pause, while it waits for that. Lists over all endpoints do not say.
    pub pause: Option<Pause>,
}

impl App {
    /// Finds a delivery with its newest attempts. The others follow in the list of its message's
    /// attempts, if that is asked for this endpoint.
    ///
    /// # Errors
    /// If there is no such delivery in this application.
    pub async fn delivery(
        &self,
        scope: &Scope,
        id: &str,
    ) -> Result<(Shown, Slice<AttemptEntry>), Error> {
        let entry = self.delivery_entry(scope, id).await?;
        let wanted = Wanted::read(Some(SHOWN_ATTEMPTS), None)?;
        let (of, page) = (entry.key.into(), wanted.by_id(Order::Descending)?);
        let listed = self.ledger.attempts_of(of, AttemptFilter::default(), page).await?;
        let attempts = wanted.slice(listed, |attempt| attempt.record.id.to_string());
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
        let waits = self.waits(scope, &slice.entries).await?;
        Ok(slice.map(|entry| {
            let endpoint = directory.get(&entry.key.endpoint).copied();
            Shown { endpoint, wait: waits.of(&entry), pause: None, entry }
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
        let pause = match slice.entries.iter().any(is_pending) {
            true => self.pause_of((endpoint.application, endpoint.key)).await?,
            false => None,
        };
        let id = endpoint.id;
        let waits = self.waits(scope, &slice.entries).await?;
        Ok(slice.map(|entry| {
            let pause = pause.clone().filter(|_| is_pending(&entry));
            Shown { endpoint: Some(id), wait: waits.of(&entry), pause, entry }
        }))
    }

    pub(super) async fn deliveries_of_endpoint(
        &self,
        endpoint: &Endpoint,
        filter: DeliveryFilter,
        wanted: &Wanted,
    ) -> Result<Slice<DeliveryEntry>, Error> {
        let (application, key) = (endpoint.application, endpoint.key);
        let places = self.places("deliveries", application, Some(key));
        let read = |text: &str| places.read(text).map(|(message, _)| message);
        let page = wanted.by(read, MessageKey(0))?;
        let Listed { entries, reached, done } =
            self.ledger.deliveries(application, key, filter, page).await?;
        let reached = reached.map(|message| places.write((message, key)));
        let listed = Listed { entries, reached, done };
        Ok(wanted.slice(listed, |entry| places.write((entry.key.message, key))))
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
        entry.state.retry_now(now).map_err(|refusal| {
            let (application, delivery) = (scope.application().id, entry.id);
            Error::Conflict(format!(
                "{refusal}: use POST /api/v1/app/{application}/delivery/{delivery}/replay"
            ))
        })?;
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
        let endpoint = directory.get(&entry.key.endpoint).copied();
        let place = (entry.key.application, entry.key.endpoint);
        let pause = if is_pending(&entry) { self.pause_of(place).await? } else { None };
        let wait = self.waits(scope, [&entry]).await?.of(&entry);
        Ok(Shown { entry, endpoint, wait, pause })
    }

    async fn nudge_owner(&self, scope: &Scope, entry: &DeliveryEntry) -> Result<(), Error> {
        let directory = self.directory(scope, std::slice::from_ref(entry)).await?;
        for endpoint in directory.values() {
            self.accepting.nudge(Nudge::Requests(Partition::of(endpoint)));
        }
        Ok(())
    }
}
