//! Deliveries and attempts as they are looked at, and the cancel.

use bytes::Bytes;
use domain::delivery::Delivery;
use domain::ids::{AttemptId, DeliveryId};
use domain::replay::StatusClass;
use domain::time::Timestamp;

use super::State;
use super::rows::AttemptRow;
use super::settle::status;
use super::walk::{self, Direction};
use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{AttemptEntry, AttemptFilter, DeliveryEntry, DeliveryFilter, settled_at};
use crate::page::{Listed, Page};
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
        endpoints.into_iter().filter_map(|endpoint| self.entry(key(endpoint))).collect()
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
        walk::page(rows, Direction::Descending, page, |message, _| {
            let entry = self.entry(DeliveryKey { application, endpoint, message: *message })?;
            filter.wants(&entry).then_some(entry)
        })
    }

    /// Lists an application's dead letters, newest message first.
    #[must_use]
    pub fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: &DeliveryFilter,
        page: &Page<(MessageKey, EndpointKey)>,
    ) -> Listed<DeliveryEntry, (MessageKey, EndpointKey)> {
        let theirs = self.deliveries.iter().filter(|(_, row)| {
            row.application == application && matches!(row.state, Delivery::Dead(_))
        });
        let mut rows: Vec<_> =
            theirs.map(|((endpoint, message), row)| ((*message, *endpoint), row)).collect();
        rows.sort_by_key(|(key, _)| *key);
        walk::page(rows.into_iter(), Direction::Descending, page, |key, _| {
            let (message, endpoint) = *key;
            let entry = self.entry(DeliveryKey { application, endpoint, message })?;
            filter.wants(&entry).then_some(entry)
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

    /// Returns the attempts of a delivery, newest first.
    #[must_use]
    pub fn attempts_of(&self, key: DeliveryKey) -> Vec<AttemptEntry> {
        let mut next = self.delivery_row(key).and_then(|row| row.last_attempt);
        let mut found = Vec::new();
        while let Some(row) = next.and_then(|id| self.attempts.get(&(key.endpoint, id))) {
            found.extend(self.attempt_entry(key.application, key.endpoint, row));
            next = row.previous;
        }
        found
    }

    /// Removes what an attempt sent and got back.
    ///
    /// # Errors
    /// If the delivery has no such attempt.
    pub fn expunge_attempt(&mut self, key: DeliveryKey, id: AttemptId) -> Result<(), Error> {
        let missing = Error::Missing("attempt");
        let theirs = self.delivery_row(key).is_some();
        let row =
            self.attempts.get_mut(&(key.endpoint, id)).filter(|row| row.message == key.message);
        let row = row.filter(|_| theirs).ok_or(missing)?;
        row.record.request_headers = crate::Headers::default();
        row.record.response_headers = crate::Headers::default();
        row.record.response_body = Bytes::new();
        Ok(())
    }

    /// Lists an endpoint's attempts, newest first.
    #[must_use]
    pub fn attempts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: &AttemptFilter,
        page: &Page<AttemptId>,
    ) -> Listed<AttemptEntry, AttemptId> {
        let theirs = (endpoint, AttemptId::from_bytes([0; 20]))
            ..=(endpoint, AttemptId::from_bytes([0xff; 20]));
        let rows = self.attempts.range(theirs).map(|((_, id), row)| (*id, row));
        walk::page(rows, Direction::Descending, page, |_, row| {
            let entry = self.attempt_entry(application, endpoint, row)?;
            wanted_attempt(&entry, filter).then_some(entry)
        })
    }

    pub(super) fn entry(&self, key: DeliveryKey) -> Option<DeliveryEntry> {
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

    fn attempt_entry(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        row: &AttemptRow,
    ) -> Option<AttemptEntry> {
        let message = self.messages.get(&row.message)?;
        (message.application == application).then(|| AttemptEntry {
            key: DeliveryKey { application, endpoint, message: row.message },
            message: message.message.id,
            event_type: message.message.event_type.clone(),
            number: row.number,
            next_due: row.next_due,
            record: row.record.clone(),
        })
    }
}

fn wanted_attempt(entry: &AttemptEntry, filter: &AttemptFilter) -> bool {
    let class = StatusClass::of(status(&entry.record.outcome));
    let succeeded = class == StatusClass::Success;
    filter.succeeded.is_none_or(|wanted| wanted == succeeded)
        && filter.status_class.is_none_or(|wanted| wanted == class)
        && (filter.event_types.is_empty() || filter.event_types.contains(&entry.event_type))
        && filter.since.is_none_or(|since| entry.record.began_at >= since)
        && filter.until.is_none_or(|until| entry.record.began_at < until)
}
