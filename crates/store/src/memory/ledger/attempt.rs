//! Attempts as they are looked at.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::ids::AttemptId;

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{AttemptEntry, AttemptFilter, DeliveriesOf, EXPUNGED};
use crate::memory::State;
use crate::memory::page;
use crate::memory::rows::AttemptRow;
use crate::page::{Direction, Listed, Page};

const NEWEST_FIRST: (Direction, fn(&AttemptEntry) -> usize) =
    (Direction::Descending, AttemptEntry::bytes);

impl State {
    /// Finds an attempt of a message.
    ///
    /// # Errors
    /// If the message has none of that id.
    pub fn attempt(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        id: AttemptId,
    ) -> Result<AttemptEntry, Error> {
        let endpoints = self.messages.get(&message).map(|row| row.fan_out.clone());
        let found = endpoints.unwrap_or_default().into_iter().find_map(|endpoint| {
            let row = self.attempts.get(&(endpoint, id)).filter(|row| row.message == message)?;
            self.attempt_entry(application, endpoint, row)
        });
        found.ok_or(Error::Missing("attempt"))
    }

    /// Lists the attempts of a message's deliveries, or of one of them, newest first.
    #[must_use]
    pub fn attempts_of(
        &self,
        of: DeliveriesOf,
        filter: &AttemptFilter,
        page: &Page<AttemptId>,
    ) -> Listed<AttemptEntry, AttemptId> {
        let DeliveriesOf { application, message, endpoint } = of;
        let endpoints = match endpoint {
            Some(endpoint) => vec![endpoint],
            None => self.messages.get(&message).map(|row| row.fan_out.clone()).unwrap_or_default(),
        };
        let mut rows = BTreeMap::new();
        for endpoint in endpoints {
            let key = DeliveryKey { application, endpoint, message };
            rows.extend(self.chain(key).map(|(id, row)| (id, (endpoint, row))));
        }
        page::page(rows.into_iter(), NEWEST_FIRST, page, |_, (endpoint, row)| {
            let entry = self.attempt_entry(application, endpoint, row)?;
            let AttemptEntry { record, event_type, .. } = &entry;
            filter.wants(record.outcome.status(), event_type, record.began_at).then_some(entry)
        })
    }

    /// Walks the attempts of a delivery, newest first.
    pub(in crate::memory) fn chain(
        &self,
        key: DeliveryKey,
    ) -> impl Iterator<Item = (AttemptId, &AttemptRow)> {
        let at = move |id: AttemptId| Some((id, self.attempts.get(&(key.endpoint, id))?));
        let last = self.delivery_row(key).and_then(|row| row.last_attempt);
        std::iter::successors(last.and_then(at), move |(_, row)| row.previous.and_then(at))
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
        row.record.response_body = Bytes::from_static(EXPUNGED.as_bytes());
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
        page::page(rows, NEWEST_FIRST, page, |_, row| {
            let entry = self.attempt_entry(application, endpoint, row)?;
            let AttemptEntry { record, event_type, .. } = &entry;
            filter.wants(record.outcome.status(), event_type, record.began_at).then_some(entry)
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
