//! Missing deliveries: made by a replay task for messages that an endpoint did not get.

use domain::endpoint::State as EndpointState;
use domain::time::Timestamp;

use crate::memory::State;
use crate::queue::{FirstState, Missing, NewDelivery};

impl State {
    /// Makes deliveries that are missing; returns how many, and how many have nothing to send.
    pub(super) fn make(&mut self, missing: Option<&Missing>, at: Timestamp) -> (u64, u64) {
        let (mut made, mut skipped) = (0, 0);
        let missing = missing.into_iter();
        let theirs = missing.flat_map(|missing| {
            missing.deliveries.iter().filter(|(key, ..)| key.application == missing.application)
        });
        for (key, partition, order, pending) in theirs {
            let endpoint = self.endpoints.get(&key.endpoint).map(|row| &row.endpoint);
            let known = endpoint.is_some_and(|endpoint| {
                endpoint.application == key.application && endpoint.state != EndpointState::Deleted
            });
            let message = self.messages.get(&key.message);
            let message = message.filter(|row| row.application == key.application);
            let Some(message) = message.filter(|_| known) else { continue };
            let mut known = message.fan_out.iter().chain(&message.removed);
            if known.any(|known| *known == key.endpoint) {
                continue;
            }
            if message.payload.is_none() || message.message.retained_until < at {
                skipped += 1;
                continue;
            }
            let delivery = NewDelivery {
                endpoint: key.endpoint,
                partition: *partition,
                order: *order,
                state: FirstState::Pending(*pending),
            };
            let row = self.first_row(&delivery, key.application, at);
            self.pending.insert((key.endpoint, row.turn, key.message));
            self.deliveries.insert((key.endpoint, key.message), row);
            if let Some(row) = self.messages.get_mut(&key.message) {
                row.fan_out.push(key.endpoint);
            }
            made += 1;
        }
        (made, skipped)
    }
}
