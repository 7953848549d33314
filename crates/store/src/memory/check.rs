//! What must hold between any two calls, whatever was called before.

use std::collections::BTreeSet;

use domain::delivery::Delivery;
use domain::ids::MessageId;

use crate::keys::{DeliveryKey, EndpointKey, MessageKey};
use crate::memory::State;
use crate::memory::rows::DeliveryRow;

impl State {
    /// Returns what is wrong with the state, in words; nothing if all is well.
    #[must_use]
    pub fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.check_pending(&mut found);
        for ((endpoint, message), row) in &self.deliveries {
            self.check_delivery(*endpoint, *message, row, &mut found);
        }
        self.check_messages(&mut found);
        self.check_attempts(&mut found);
        found
    }

    /// The index of pending deliveries holds exactly those that are.
    fn check_pending(&self, found: &mut Vec<String>) {
        let pending = self.deliveries.iter().filter_map(|((endpoint, message), row)| {
            matches!(row.state, Delivery::Pending(_)).then_some((*endpoint, row.turn, *message))
        });
        let pending: BTreeSet<_> = pending.collect();
        let differing: Vec<_> = pending.symmetric_difference(&self.pending).collect();
        if !differing.is_empty() {
            found.push(format!("the index of pending deliveries is wrong at {differing:?}"));
        }
    }

    /// A delivery has its message, its endpoint, as many attempts as it says, and is settled at a
    /// known moment or not at all.
    fn check_delivery(
        &self,
        endpoint: EndpointKey,
        message: MessageKey,
        row: &DeliveryRow,
        found: &mut Vec<String>,
    ) {
        let place = format!("the delivery of {} to {}", message.0, endpoint.0);
        let known = self.messages.get(&message);
        if known.is_none_or(|known| !known.fan_out.contains(&endpoint)) {
            found.push(format!("{place} has no message"));
        }
        if !self.endpoints.contains_key(&endpoint) {
            found.push(format!("{place} has no endpoint"));
        }
        let pending = matches!(row.state, Delivery::Pending(_));
        if !pending && row.settled_at.is_none() {
            found.push(format!("{place} is {} since nobody knows when", row.state.word()));
        }
        let key = DeliveryKey { application: row.application, endpoint, message };
        let numbers: Vec<_> = self.chain(key).map(|(_, row)| row.number).collect();
        if !numbers.iter().copied().eq((1..=row.recorded).rev()) {
            found.push(format!("{place} recorded {} attempts, not {numbers:?}", row.recorded));
        }
    }

    /// Ids, event ids and idempotency keys lead to the messages that have them, and to no other.
    fn check_messages(&self, found: &mut Vec<String>) {
        for (key, row) in &self.messages {
            if self.message_ids.get(&(row.application, row.message.id)) != Some(key) {
                found.push(format!("the message {} is not found by its id", key.0));
            }
            let event_id = row.message.event_id.clone();
            let by_event_id = event_id.map(|id| self.event_ids.get(&(row.application, id)));
            if by_event_id.is_some_and(|leads_to| leads_to != Some(key)) {
                found.push(format!("the message {} is not found by its event id", key.0));
            }
            for endpoint in &row.fan_out {
                if !self.deliveries.contains_key(&(*endpoint, *key)) {
                    found.push(format!("the message {} lost a delivery", key.0));
                }
            }
        }
        if self.message_ids.len() != self.messages.len() {
            found.push("an id leads to no message".to_owned());
        }
        let with_event_id = self.messages.values().filter(|row| row.message.event_id.is_some());
        if self.event_ids.len() != with_event_id.count() {
            found.push("an event id leads to no message".to_owned());
        }
        let is_there = |id: MessageId| self.messages.values().any(|row| row.message.id == id);
        if self.idempotency.values().any(|row| !is_there(row.message)) {
            found.push("an idempotency key leads to no message".to_owned());
        }
    }

    /// Every attempt belongs to a delivery that counts it.
    fn check_attempts(&self, found: &mut Vec<String>) {
        let counted = self.deliveries.values().map(|row| u64::from(row.recorded)).sum::<u64>();
        if u64::try_from(self.attempts.len()) != Ok(counted) {
            found.push(format!("{} attempts, {counted} counted", self.attempts.len()));
        }
    }
}
