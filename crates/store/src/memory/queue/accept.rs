//! Accepting: each item is checked in the same order everywhere, then written as a whole.

use domain::delivery::Delivery;
use domain::ids::MessageId;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, MessageKey};
use crate::limits;
use crate::memory::State;
use crate::memory::rows::{DeliveryRow, IdempotencyRow, MessageRow};
use crate::queue::{Accept, Accepted, FirstState, NewDelivery};

impl State {
    pub(in crate::memory) fn accept(&mut self, accept: Accept) -> Accepted {
        let Some(application) = self.living(accept.application) else {
            return Accepted::ApplicationMissing;
        };
        let revision = application.revision;
        let moved = accept.named.is_some() && accept.named.as_deref() != application.uid.as_deref();
        // A batch that is given again finds its own message before it finds its own keys.
        if let Some(message) = self.message_ids.get(&(accept.application, accept.message.id)) {
            return Accepted::New { message: *message, turns: self.turns(&accept, *message) };
        }
        if moved {
            return Accepted::NameMoved;
        }
        if let Some(first) = self.same_key(&accept) {
            return Accepted::Repeated(first);
        }
        if let Some(first) = self.same_event_id(&accept) {
            return Accepted::EventIdTaken(first);
        }
        if accept.revision != revision {
            return Accepted::Stale(revision);
        }
        if let Some(unknown) = self.unknown_endpoint(&accept) {
            return Accepted::Refused(format!("endpoint {} is not there", unknown.endpoint.0));
        }
        self.insert(accept)
    }

    fn same_key(&self, accept: &Accept) -> Option<MessageId> {
        let row = self.idempotency.get(&(accept.application, accept.idempotency?))?;
        let age = accept.message.received_at.since(row.at);
        (age < limits::IDEMPOTENCY).then_some(row.message)
    }

    fn same_event_id(&self, accept: &Accept) -> Option<MessageId> {
        let event_id = accept.message.event_id.clone()?;
        let key = self.event_ids.get(&(accept.application, event_id))?;
        self.messages.get(key).map(|row| row.message.id)
    }

    fn unknown_endpoint<'a>(&self, accept: &'a Accept) -> Option<&'a NewDelivery> {
        accept.deliveries.iter().find(|delivery| {
            self.endpoints
                .get(&delivery.endpoint)
                .is_none_or(|row| row.endpoint.application != accept.application)
        })
    }

    fn turns(&self, accept: &Accept, message: MessageKey) -> Vec<i64> {
        let turn = |delivery: &NewDelivery| {
            self.deliveries.get(&(delivery.endpoint, message)).map_or(0, |row| row.turn)
        };
        accept.deliveries.iter().map(turn).collect()
    }

    fn insert(&mut self, accept: Accept) -> Accepted {
        let Accept { application, mut message, idempotency, deliveries, .. } = accept;
        let key = MessageKey(self.next_in_sequence());
        self.message_ids.insert((application, message.id), key);
        if let Some(event_id) = message.event_id.clone() {
            self.event_ids.insert((application, event_id), key);
        }
        if let Some(hash) = idempotency {
            let row = IdempotencyRow { message: message.id, at: message.received_at };
            self.idempotency.insert((application, hash), row);
        }
        let mut turns = Vec::with_capacity(deliveries.len());
        for delivery in &deliveries {
            let row = self.first_row(delivery, application, message.received_at);
            turns.push(row.turn);
            if let Delivery::Pending(_) = row.state {
                self.pending.insert((delivery.endpoint, row.turn, key));
            }
            self.deliveries.insert((delivery.endpoint, key), row);
        }
        let payload = Some(std::mem::take(&mut message.payload));
        let fan_out = deliveries.iter().map(|delivery| delivery.endpoint).collect();
        let row =
            MessageRow { application, message, payload, idempotency, fan_out, removed: Vec::new() };
        self.messages.insert(key, row);
        Accepted::New { message: key, turns }
    }

    pub(in crate::memory) fn first_row(
        &mut self,
        delivery: &NewDelivery,
        application: ApplicationKey,
        now: Timestamp,
    ) -> DeliveryRow {
        let turn = delivery.turn(now).unwrap_or_else(|| self.next_in_sequence());
        let (state, settled_at) = match delivery.state {
            FirstState::Dead(cause) => (Delivery::Dead(cause), Some(now)),
            FirstState::Pending(pending) => (Delivery::Pending(pending), None),
        };
        DeliveryRow {
            application,
            partition: delivery.partition,
            order: delivery.order,
            turn,
            state,
            settled_at,
            recorded: 0,
            last_attempt: None,
            last_attempt_at: None,
            last_status: None,
        }
    }
}
