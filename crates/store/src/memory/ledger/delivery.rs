//! Deliveries as they are looked at, and the cancel.

use domain::ids::DeliveryId;
use domain::time::Timestamp;

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{DeliveryEntry, DeliveryFilter, settled_at};
use crate::memory::State;
use crate::memory::page;
use crate::page::{Direction, Listed, Page};
use crate::queue::{Request, RequestKind};

impl State {
    /// Finds a delivery by its id.
    ///
    /// # Errors
    /// If the application has no such delivery.
    pub fn delivery(
        &self,
        application: ApplicationKey,
        id: DeliveryId,
    ) -> Result<DeliveryEntry, Error> {
        let (low, high) = id.message_range();
        let near = self.message_ids.range((application, low)..=(application, high));
        let fits = |(message_id, key): (&domain::ids::MessageId, MessageKey)| {
            let endpoint = EndpointKey(i64::try_from(id.endpoint_row(message_id)).ok()?);
            self.entry(DeliveryKey { application, endpoint, message: key })
        };
        let mut found = near.filter_map(|((_, message_id), key)| fits((message_id, *key)));
        found.next().ok_or(Error::Missing("delivery"))
    }

    /// Returns all deliveries of a message, by endpoint.
    #[must_use]
    pub fn deliveries_of(
        &self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Vec<DeliveryEntry> {
        let fan_out = self.messages.get(&message).map(|row| row.fan_out.clone());
        let mut endpoints = fan_out.unwrap_or_default();
        endpoints.sort_unstable();
        let key = |endpoint| DeliveryKey { application, endpoint, message };
        let entries = endpoints.into_iter().filter_map(|endpoint| self.entry(key(endpoint)));
        entries.map(DeliveryEntry::without_policy).collect()
    }

    /// Lists an endpoint's deliveries, newest message first.
    #[must_use]
    pub fn deliveries(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: &DeliveryFilter,
        page: &Page<MessageKey>,
    ) -> Listed<DeliveryEntry, MessageKey> {
        let theirs = (endpoint, MessageKey(i64::MIN))..=(endpoint, MessageKey(i64::MAX));
        let rows = self.deliveries.range(theirs).map(|((_, message), row)| (*message, row));
        let list = (Direction::Descending, DeliveryEntry::bytes as fn(&_) -> _);
        page::page(rows, list, page, |message, _| {
            let entry = self.entry(DeliveryKey { application, endpoint, message: *message })?;
            filter.takes(entry)
        })
    }

    /// Cancels a pending delivery, and leaves a request for its owner to forget it.
    ///
    /// # Errors
    /// If it is not there, or not pending.
    pub fn cancel(&mut self, key: DeliveryKey, at: Timestamp) -> Result<DeliveryEntry, Error> {
        let cancelled = self.change(key, |row| {
            row.state = row.state.cancel()?;
            row.settled_at = Some(at);
            Ok(row.partition)
        });
        let cancelled = cancelled.ok_or(Error::Missing("delivery"))?;
        let partition = cancelled.map_err(|refusal: domain::delivery::InvalidTransition| {
            Error::Refused(refusal.to_string())
        })?;
        let DeliveryKey { application, endpoint, message } = key;
        let kind = RequestKind::Cancel(message);
        self.ask(Request { number: 0, application, endpoint, partition, kind, at });
        self.entry(key).ok_or(Error::Missing("delivery"))
    }

    /// Makes a pending delivery due, and leaves a request for its owner to send it.
    ///
    /// # Errors
    /// If it is not there, or not pending.
    pub fn retry_now(&mut self, key: DeliveryKey, at: Timestamp) -> Result<DeliveryEntry, Error> {
        let row = self.delivery_row(key).ok_or(Error::Missing("delivery"))?;
        let partition = row.partition;
        row.state.retry_now(at).map_err(|refusal| Error::Refused(refusal.to_string()))?;
        let DeliveryKey { application, endpoint, message } = key;
        let kind = RequestKind::RetryNow(message);
        self.ask(Request { number: 0, application, endpoint, partition, kind, at });
        self.entry(key).ok_or(Error::Missing("delivery"))
    }

    pub(in crate::memory) fn entry(&self, key: DeliveryKey) -> Option<DeliveryEntry> {
        let row = self.delivery_row(key)?;
        let message = &self.messages.get(&key.message)?.message;
        let endpoint_row = u64::try_from(key.endpoint.0).ok()?;
        Some(DeliveryEntry {
            key,
            id: DeliveryId::derive(&message.id, endpoint_row),
            message: message.id,
            event_type: message.event_type.clone(),
            received_at: message.received_at,
            policy: message.policy.clone(),
            state: row.state,
            settled_at: settled_at(row.state, row.settled_at),
            recorded: row.recorded,
            last_attempt: row.last_attempt,
            last_status: row.last_status,
        })
    }
}
