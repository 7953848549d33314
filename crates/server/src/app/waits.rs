//! What pending deliveries wait for, and until when: from the rows of their endpoints, which are read
//! together for all deliveries of a page.

use std::collections::{BTreeMap, BTreeSet};

use domain::breaker::{Breaker, WhileOpen};
use domain::delivery::Delivery;
use domain::hold::{Facts, wait};
pub use domain::hold::{Hold, Wait};
use domain::time::Timestamp;
use store::catalog::Endpoint;
use store::keys::{DeliveryKey, EndpointKey};
use store::ledger::DeliveryEntry;
use store::queue::{Order, Running};

use super::attempts::STEP;
use super::{App, Error, Scope};

/// What is stored about the endpoints of some deliveries.
pub(super) struct Waits {
    now: Timestamp,
    /// None of what follows is known of an endpoint without pending deliveries.
    endpoints: BTreeMap<EndpointKey, Facts>,
    /// Of each FIFO endpoint, the delivery that the others wait for.
    first_in_line: BTreeMap<EndpointKey, DeliveryKey>,
}

impl Waits {
    /// Returns what a delivery waits for, if it is pending.
    pub(super) fn of(&self, entry: &DeliveryEntry) -> Option<Wait> {
        let Delivery::Pending(pending) = entry.state else { return None };
        let endpoint = entry.key.endpoint;
        let first = self.first_in_line.get(&endpoint);
        let is_preceded = first.is_some_and(|first| *first != entry.key);
        let facts = Facts { is_preceded, ..*self.endpoints.get(&endpoint)? };
        Some(wait(&pending, &facts, self.now))
    }
}

impl App {
    /// Reads what tells what the pending ones of some deliveries wait for.
    pub(super) async fn waits(
        &self,
        scope: &Scope,
        entries: impl IntoIterator<Item = &DeliveryEntry>,
    ) -> Result<Waits, Error> {
        let pending = entries.into_iter().filter(|entry| is_pending(entry));
        let keys: BTreeSet<_> = pending.map(|entry| entry.key.endpoint).collect();
        let keys: Vec<EndpointKey> = keys.into_iter().collect();
        let mut waits = Waits {
            now: self.clock.now(),
            endpoints: BTreeMap::new(),
            first_in_line: BTreeMap::new(),
        };
        if keys.is_empty() {
            return Ok(waits);
        }
        let application = scope.application().key;
        let running = self.catalog.running(application, keys.clone()).await?;
        let running: BTreeMap<EndpointKey, Running> = running.into_iter().collect();
        let mut in_order = Vec::new();
        for step in keys.chunks(STEP) {
            for endpoint in self.catalog.endpoints_by_key(application, step.to_vec()).await? {
                // One that is deleted has no running state, and needs none.
                let running = running.get(&endpoint.key).copied().unwrap_or_default();
                waits.endpoints.insert(endpoint.key, self.facts(scope, &endpoint, running));
                in_order.extend(Some(endpoint.key).filter(|_| endpoint.order == Order::Fifo));
            }
        }
        if !in_order.is_empty() {
            let first = self.ledger.first_in_line(application, in_order).await?;
            waits.first_in_line.extend(first.into_iter().map(|first| (first.endpoint, first)));
        }
        Ok(waits)
    }

    fn facts(&self, scope: &Scope, endpoint: &Endpoint, running: Running) -> Facts {
        let Running { breaker, paused_until, .. } = running;
        let while_open = match breaker {
            // It holds nothing, whatever the policy says.
            Breaker::Closed { .. } => None,
            Breaker::Open { .. } | Breaker::HalfOpen { .. } => self.while_open(scope, endpoint),
        };
        Facts { state: endpoint.state, breaker, while_open, paused_until, is_preceded: false }
    }

    /// Returns what an endpoint's breaker does with deliveries while it is open, if its policy has one.
    fn while_open(&self, scope: &Scope, endpoint: &Endpoint) -> Option<WhileOpen> {
        let (_, preset) = self.applicable_policy(scope, endpoint);
        preset.endpoint.breaker.map(|settings| settings.while_open())
    }
}

/// Tells whether a delivery is still to be sent.
pub(super) const fn is_pending(entry: &DeliveryEntry) -> bool {
    matches!(entry.state, Delivery::Pending(_))
}
