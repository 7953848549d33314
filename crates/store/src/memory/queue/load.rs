//! What the engine reads: an endpoint's pending deliveries, who has any, and what was asked.

use std::collections::{BTreeMap, BTreeSet};

use domain::delivery::Delivery;
use domain::partition::Partition;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::limits;
use crate::memory::State;
use crate::queue::turn::{self, SCHEDULED};
use crate::queue::{Load, Loaded, PendingDelivery, Request, Waiting};

impl State {
    /// Returns an endpoint's pending deliveries from a turn on, earliest turn first.
    #[must_use]
    pub fn load(&self, load: Load) -> Loaded {
        let most = usize::try_from(load.most).unwrap_or(usize::MAX);
        let mut rows = self
            .pending
            .range((load.endpoint, load.from, MessageKey(i64::MIN))..)
            .take_while(|(endpoint, turn, _)| *endpoint == load.endpoint && *turn < load.until())
            .filter_map(|(_, _, message)| self.pending_delivery(&load, *message));
        let mut deliveries: Vec<_> = rows.by_ref().take(most).collect();
        let complete = rows.next().is_none();
        let mut bytes = 0;
        let mut full = false;
        for (place, delivery) in deliveries.iter_mut().enumerate() {
            let length = delivery.payload.as_ref().map_or(0, bytes::Bytes::len);
            bytes += u64::try_from(length).unwrap_or(u64::MAX);
            // The first always comes along: a payload over the limit must not stop its endpoint.
            full = full || (place > 0 && bytes > load.most_bytes);
            if full {
                delivery.payload = None;
            }
        }
        Loaded { deliveries, complete }
    }

    /// Returns every endpoint of these partitions that has pending deliveries.
    #[must_use]
    pub fn waiting(&self, partitions: &[Partition]) -> Vec<Waiting> {
        let mut found: Vec<Waiting> = Vec::new();
        for (endpoint, _, message) in &self.pending {
            if found.last().is_some_and(|last| last.endpoint == *endpoint) {
                continue;
            }
            found.extend(self.waiting_for(*endpoint, *message));
        }
        found.retain(|waiting| partitions.contains(&waiting.partition));
        found
    }

    /// Returns the requests for these partitions, as many as are read at once: first some of each
    /// application, then the oldest. They come oldest first.
    #[must_use]
    pub fn requests(&self, partitions: &[Partition]) -> Vec<Request> {
        let asking: BTreeSet<_> = self.requests.values().map(|one| one.application).collect();
        let share = limits::requests_of_each(asking.len());
        let theirs = self.requests.values().filter(|one| partitions.contains(&one.partition));
        let mut found = BTreeMap::new();
        let mut of_each = BTreeMap::<ApplicationKey, usize>::new();
        for request in theirs.clone() {
            let count = of_each.entry(request.application).or_default();
            *count += 1;
            if *count <= share && found.len() < limits::REQUESTS {
                found.insert(request.number, request.clone());
            }
        }
        for request in theirs {
            if found.len() < limits::REQUESTS {
                found.entry(request.number).or_insert_with(|| request.clone());
            }
        }
        found.into_values().collect()
    }

    fn waiting_for(&self, endpoint: EndpointKey, message: MessageKey) -> Option<Waiting> {
        let row = self.deliveries.get(&(endpoint, message))?;
        let Delivery::Pending(pending) = row.state else {
            return None;
        };
        let (application, partition) = (row.application, row.partition);
        let due = turn::due_if_scheduled(row.turn).is_none().then_some(pending.due);
        let scheduled = self.scheduled(endpoint).next().map(|one| one.0);
        Some(Waiting { application, endpoint, partition, due, scheduled })
    }

    /// Returns an endpoint's scheduled deliveries, by due time and then by acceptance.
    pub(in crate::memory) fn scheduled(
        &self,
        endpoint: EndpointKey,
    ) -> impl Iterator<Item = (Timestamp, MessageKey)> {
        self.pending
            .range((endpoint, SCHEDULED, MessageKey(i64::MIN))..)
            .take_while(move |(other, ..)| *other == endpoint)
            .filter_map(|(_, turn, message)| Some((turn::due_if_scheduled(*turn)?, *message)))
    }

    fn pending_delivery(&self, load: &Load, message: MessageKey) -> Option<PendingDelivery> {
        let Load { application, endpoint, .. } = *load;
        let key = DeliveryKey { application, endpoint, message };
        let row = self.delivery_row(key)?;
        let Delivery::Pending(pending) = row.state else {
            return None;
        };
        let message = self.messages.get(&message)?;
        Some(PendingDelivery {
            key,
            partition: row.partition,
            turn: row.turn,
            pending,
            recorded: row.recorded,
            ended_before: row.settled_at,
            last_attempt_at: row.last_attempt_at,
            message: message.message.id,
            event_type: message.message.event_type.clone(),
            received_at: message.message.received_at,
            policy: message.message.policy.clone(),
            content_type: message.message.content_type.clone(),
            payload: message.payload.clone(),
            expunged: message.payload.is_none(),
        })
    }
}
