//! Invariants 1 and 12: what a 202 means, and who gets a message.

use std::collections::BTreeSet;

use domain::delivery::Delivery;
use domain::endpoint::State as EndpointState;
use domain::ids::MessageId;
use store::catalog::Name;
use store::keys::{DeliveryKey, EndpointKey, MessageKey};
use store::memory::State;
use store::queue::{Accept, FirstState, turn};

use super::{Entry, Message, Watch};
use crate::senders::Letter;

impl Watch {
    /// Tells whether a message of this id was accepted.
    pub(crate) fn knows(&self, id: MessageId) -> bool {
        self.ids.contains_key(&id)
    }

    /// A message became durable.
    pub(crate) fn accepted(&mut self, accept: &Accept, key: MessageKey, state: &State) {
        self.check_name(accept, state);
        self.check_fan_out(accept);
        let application = accept.application;
        self.ids.insert(accept.message.id, key);
        if let Some(hash) = accept.idempotency {
            let first = self.keys.insert((application, hash), accept.message.id);
            if let Some(first) = first.filter(|first| *first != accept.message.id) {
                let text = format!("one key made {first} and {}", accept.message.id);
                self.complain(1, text);
            }
        }
        let message = Message {
            id: accept.message.id,
            event_type: accept.message.event_type.clone(),
            payload: accept.message.payload.clone(),
            policy: accept.message.policy.is_some(),
            expunged: false,
        };
        self.messages.insert(key, message);
        for delivery in &accept.deliveries {
            let place = DeliveryKey { application, endpoint: delivery.endpoint, message: key };
            let state = match delivery.state {
                FirstState::Pending(pending) => Delivery::Pending(pending),
                FirstState::Dead(cause) => Delivery::Dead(cause),
            };
            let turn = delivery.turn(accept.message.received_at);
            let scheduled = turn.and_then(turn::due_if_scheduled);
            let entry = Entry {
                state,
                recorded: 0,
                scheduled: scheduled.is_some(),
                turn: None,
                counted: 0,
                open: None,
                sent_after: Vec::new(),
                heard: None,
                taken: false,
                ended: None,
                panics: 0,
                max_attempts: None,
                most_attempts: Some(0),
            };
            self.deliveries.insert(place, entry);
            self.set_state(place, state);
        }
    }

    /// The endpoints that exist when a message becomes durable get it, by their filters as they
    /// are then. This compares with the watch's own books and its own reading of the filters.
    fn check_fan_out(&mut self, accept: &Accept) {
        let fits =
            |list: &[String], value: &str| list.is_empty() || list.iter().any(|it| it == value);
        let gets = |(key, place): (&EndpointKey, &super::Place)| {
            let settings = &place.member.view.endpoint.settings;
            let channels = &accept.message.channels;
            let heard = settings.channels.is_empty()
                || channels.iter().any(|it| fits(&settings.channels, it));
            let theirs = place.application == accept.application
                && place.state != EndpointState::Deleted
                && fits(&settings.event_types, &accept.message.event_type)
                && heard;
            theirs.then_some((*key, matches!(place.state, EndpointState::Disabled(_))))
        };
        let expected: BTreeSet<_> = self.endpoints.iter().filter_map(gets).collect();
        let made = accept
            .deliveries
            .iter()
            .map(|delivery| (delivery.endpoint, matches!(delivery.state, FirstState::Dead(_))));
        let made: BTreeSet<_> = made.collect();
        if expected != made {
            let text = format!("{} went to {made:?} instead of {expected:?}", accept.message.id);
            self.complain(12, text);
        }
    }

    /// A sender got its 202.
    pub(crate) fn acknowledged(&mut self, letter: &Letter, id: MessageId, state: &State) {
        if self.is_gone(letter.application) {
            return;
        }
        if let Some(first) = letter.acknowledged.filter(|first| *first != id) {
            // Without a key, a sender that asks twice has made two messages.
            if letter.key.is_some() {
                self.complain(1, format!("one request was acknowledged as {first} and {id}"));
            }
        }
        let Ok(message) = state.message(letter.application, Name::Id(id)) else {
            self.complain(1, format!("{id} was acknowledged and is not in the store"));
            return;
        };
        let named = letter.key.and_then(|key| self.keys.get(&(letter.application, key)));
        if letter.key.is_some() && named != Some(&id) {
            self.complain(1, format!("{id} was acknowledged without its idempotency key"));
        }
        let expected = self.deliveries_of(letter.application, message.key);
        let stored = state.deliveries_of(letter.application, message.key).len();
        if expected != stored {
            let text = format!("{id} was acknowledged with {stored} of {expected} deliveries");
            self.complain(1, text);
        }
    }

    fn deliveries_of(
        &self,
        application: store::keys::ApplicationKey,
        message: MessageKey,
    ) -> usize {
        let has = |endpoint: &&EndpointKey| {
            let key = DeliveryKey { application, endpoint: **endpoint, message };
            self.deliveries.contains_key(&key)
        };
        self.endpoints.keys().filter(has).count()
    }
}
