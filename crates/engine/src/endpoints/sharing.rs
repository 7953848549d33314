//! Payloads that several deliveries share: a message that goes to many endpoints is in memory once,
//! and counts once, for as long as any of its deliveries is there.
//!
//! Windows count what they hold, each by itself. What they count more than once is summed up here.
//! A message with one delivery, which most are, has nothing to do with this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use store::queue::PendingDelivery;

/// What windows count more than once, in bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sharing {
    excess: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Payload {
    bytes: u64,
    holders: AtomicU32,
    excess: Arc<AtomicU64>,
}

/// The part that one delivery in memory has in a payload.
#[derive(Debug)]
pub(crate) struct Share(Arc<Payload>);

impl Sharing {
    /// Returns the bytes that are counted more than once.
    pub(crate) fn excess(&self) -> u64 {
        self.excess.load(Ordering::Relaxed)
    }

    /// Gives each of some deliveries its share in what it has in common with its neighbours: those
    /// of one message are handed over side by side.
    pub(crate) fn among(
        &self,
        deliveries: Vec<PendingDelivery>,
    ) -> impl Iterator<Item = (PendingDelivery, Option<Share>)> {
        let mut last: Option<(store::keys::MessageKey, Arc<Payload>)> = None;
        let mut rest = deliveries.into_iter().peekable();
        std::iter::from_fn(move || {
            let delivery = rest.next()?;
            let message = delivery.key.message;
            let known = last.take().filter(|(known, _)| *known == message);
            let goes_on = rest.peek().is_some_and(|next| next.key.message == message);
            let payload = match known {
                Some((_, payload)) => Some(payload),
                None if goes_on => Some(self.payload(&delivery)),
                None => None,
            };
            let share = payload.as_ref().map(|payload| Share::of(Arc::clone(payload)));
            last = payload.map(|payload| (message, payload));
            Some((delivery, share))
        })
    }

    fn payload(&self, delivery: &PendingDelivery) -> Arc<Payload> {
        let bytes = delivery.payload.as_ref().map_or(0, bytes::Bytes::len);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Arc::new(Payload { bytes, holders: AtomicU32::new(0), excess: Arc::clone(&self.excess) })
    }
}

impl Share {
    fn of(payload: Arc<Payload>) -> Self {
        if payload.holders.fetch_add(1, Ordering::Relaxed) > 0 {
            payload.excess.fetch_add(payload.bytes, Ordering::Relaxed);
        }
        Self(payload)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.0.holders.fetch_sub(1, Ordering::Relaxed) > 1 {
            self.0.excess.fetch_sub(self.0.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::scene::{SECOND, Scene};
    use crate::{End, Event};
    use domain::dice::Dice;
    use domain::outcome::Outcome;
    use proptest::prelude::*;

    /// Lets one message go to so many endpoints, and returns what is handed over of it.
    fn fan_out(scene: &mut Scene, endpoints: usize) -> Vec<PendingDelivery> {
        let endpoints: Vec<_> = (0..endpoints).map(|_| scene.endpoint()).collect();
        let mut deliveries: Vec<_> = endpoints.iter().map(|one| scene.accept(one)).collect();
        // The store in memory makes a message of its own for each; here they are one.
        let (message, payload) = (deliveries[0].key.message, deliveries[0].payload.clone());
        for delivery in &mut deliveries {
            (delivery.key.message, delivery.payload) = (message, payload.clone());
        }
        deliveries
    }

    proptest! {
        #[test]
        fn a_payload_counts_once_until_its_last_delivery_is_gone(
            endpoints in 1_usize..6,
            ends in proptest::collection::vec(0_usize..6, 0..6),
        ) {
            let mut scene = Scene::new();
            let deliveries = fan_out(&mut scene, endpoints);
            let issued_at = scene.now.elapsed;
            scene.tell(Event::HandedOver { issued_at, deliveries });
            scene.pass(SECOND / 10);
            prop_assert_eq!(scene.flying.len(), endpoints);
            prop_assert_eq!(scene.engine.payload_bytes, 2 * endpoints as u64);
            for end in ends {
                prop_assert_eq!(scene.engine.held_bytes(), if scene.flying.is_empty() { 0 } else { 2 });
                if scene.flying.is_empty() {
                    break;
                }
                let sending = scene.flying.remove(end % scene.flying.len());
                let record = scene.record(&sending, Outcome::answered(200));
                let end = End::Recorded(Box::new(record));
                let attempt = sending.attempt;
                scene.tell(Event::Ended { attempt, end, dice: Dice::thrown(0) });
            }
        }
    }

    #[test]
    fn neighbours_of_different_messages_share_nothing() {
        let mut scene = Scene::new();
        let endpoint = scene.endpoint();
        let deliveries = vec![scene.accept(&endpoint), scene.accept(&endpoint)];
        let sharing = Sharing::default();
        let shares: Vec<_> = sharing.among(deliveries).collect();
        assert!(shares.iter().all(|(_, share)| share.is_none()));
    }
}
