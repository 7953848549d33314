//! Attempts as they are looked at.

use bytes::Bytes;
use domain::ids::AttemptId;

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey};
use crate::ledger::{AttemptEntry, AttemptFilter, EXPUNGED};
use crate::memory::State;
use crate::memory::page;
use crate::memory::rows::AttemptRow;
use crate::page::{Direction, Listed, Page};

impl State {
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
        page::page(rows, Direction::Descending, page, |_, row| {
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
