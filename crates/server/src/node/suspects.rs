//! Deliveries that make the engine panic when they come or end.
//!
//! An engine counts what panics while sending, and buries it. But if it panics itself, it takes its
//! counts with it: then they are kept here, beyond its life, and the delivery is buried under its
//! lease before that is given back.

use std::collections::VecDeque;

use domain::delivery::Cause;
use domain::partition::Partition;
use engine::{Announcement, Event, Number};
use store::keys::{DeliveryKey, Lease};
use store::queue::{Bury, Done, Doomed, PendingDelivery, Upkeep};

use super::World;
use super::effects::announce;

/// The most deliveries whose panics are counted; there are at most two panics a second.
const COUNTED: usize = 256;
/// What the burial is answered under: no engine ever gives out this number.
const BURIAL: Number = Number(u64::MAX);

/// A delivery, and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) delivery: DeliveryKey,
    pub(super) partition: Partition,
    /// What it was like when it came, or when its attempt began.
    pub(super) doomed: Doomed,
}

impl Suspect {
    /// Suspects the one delivery of an attempt.
    pub(super) fn of(delivery: &PendingDelivery) -> Self {
        let PendingDelivery { key, partition, recorded, ended_before, .. } = *delivery;
        let doomed = Doomed { message: key.message, recorded, ended_before };
        Self { delivery: key, partition, doomed }
    }

    /// Suspects a delivery that has come alone. Among several, nobody knows which one it was; then the
    /// next engine has them come one by one.
    pub(super) fn only(deliveries: &[PendingDelivery]) -> Option<Self> {
        let (first, others) = deliveries.split_first()?;
        others.iter().all(|other| other.key == first.key).then(|| Self::of(first))
    }
}

/// How often each of them made an engine panic, those that did so last at the end.
#[derive(Debug, Default)]
pub(super) struct Suspects(VecDeque<(DeliveryKey, u32)>);

impl Suspects {
    /// Counts a panic; returns how many there were by now.
    pub(super) fn count(&mut self, delivery: DeliveryKey) -> u32 {
        let times = self.forget(delivery) + 1;
        if self.0.len() == COUNTED {
            self.0.pop_front();
        }
        self.0.push_back((delivery, times));
        times
    }

    /// Forgets one, because it is buried; returns how often it had panicked.
    pub(super) fn forget(&mut self, delivery: DeliveryKey) -> u32 {
        let place = self.0.iter().position(|(known, _)| *known == delivery);
        place.and_then(|place| self.0.remove(place)).map_or(0, |(_, times)| times)
    }
}

/// Hands in that a delivery is buried as poison; its answer comes as an event.
pub(super) fn bury(world: &World, suspect: Suspect, lease: Lease) {
    let DeliveryKey { application, endpoint, .. } = suspect.delivery;
    let (deliveries, at) = (vec![suspect.doomed], world.timeline.rows());
    let bury = Bury { lease, application, endpoint, deliveries, cause: Cause::Poison, at };
    world.committer.take_in([], [(BURIAL, Upkeep::Bury(bury))]);
}

/// Tells whether an event is the answer to a burial, and if so, whether the delivery is done with.
pub(super) fn burial_in(events: &[Event]) -> Option<bool> {
    events.iter().find_map(|event| {
        let Event::Upkept { step, answer } = event else { return None };
        (*step == BURIAL).then_some(matches!(answer, Done::Changed(_)))
    })
}

/// Tells whoever listens, as an engine does that lives on.
pub(super) fn announce_panic(world: &World, delivery: DeliveryKey, times: u32) {
    announce(world, Announcement::Panicked { delivery, times });
}

/// Tells whoever listens that a delivery was buried.
pub(super) fn announce_burial(world: &World, delivery: DeliveryKey) {
    let DeliveryKey { application, endpoint, .. } = delivery;
    announce(world, Announcement::Buried { application, endpoint, cause: Cause::Poison, count: 1 });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::delivery::{Budget, Pending};
    use domain::ids::MessageId;
    use domain::time::Timestamp;
    use store::keys::{ApplicationKey, EndpointKey, MessageKey};

    use super::*;

    fn pending(message: i64) -> PendingDelivery {
        let budget =
            Budget { attempts: 0, ambiguous: 0, last_wait: Duration::ZERO, expires_at: None };
        let at = Timestamp::EPOCH;
        PendingDelivery {
            key: delivery(message),
            partition: Partition::from_number(3).unwrap(),
            turn: 0,
            pending: Pending { due: at, budget },
            recorded: 2,
            ended_before: None,
            last_attempt_at: None,
            message: MessageId::new(at, [0; 16]),
            event_type: "suspect.made".to_owned(),
            received_at: at,
            policy: None,
            content_type: None,
            payload: None,
            expunged: false,
        }
    }

    #[test]
    fn a_delivery_is_suspected_if_it_has_come_alone() {
        let doomed = Doomed { message: MessageKey(1), recorded: 2, ended_before: None };
        let partition = Partition::from_number(3).unwrap();
        let suspect = Suspect { delivery: delivery(1), partition, doomed };
        assert_eq!(Suspect::only(&[pending(1)]), Some(suspect));
        assert_eq!(Suspect::only(&[pending(1), pending(1)]), Some(suspect), "twice the same");
        assert_eq!(Suspect::only(&[pending(1), pending(2)]), None);
        assert_eq!(Suspect::only(&[]), None);
    }

    fn delivery(message: i64) -> DeliveryKey {
        let message = MessageKey(message);
        DeliveryKey { application: ApplicationKey(1), endpoint: EndpointKey(1), message }
    }

    #[test]
    fn panics_are_counted_by_delivery_and_no_more_of_them_than_there_is_room_for() {
        let mut suspects = Suspects::default();
        let counts = [1, 2, 1, 1].map(|message| suspects.count(delivery(message)));
        assert_eq!(counts, [1, 1, 2, 3]);
        for message in 1_000..2_000 {
            suspects.count(delivery(message));
        }
        assert_eq!(suspects.0.len(), COUNTED);
        assert_eq!(suspects.count(delivery(1)), 1, "it was pushed out");
        assert_eq!(suspects.forget(delivery(1)), 1);
        assert_eq!(suspects.count(delivery(1)), 1);
    }
}
