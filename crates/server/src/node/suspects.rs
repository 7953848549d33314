//! Deliveries that make the engine panic when they come or end.
//!
//! An engine counts what panics while sending, and buries it. But if it panics itself, it takes its
//! counts with it: then they are kept here, beyond its life, and the delivery is buried under its
//! lease before that is given back.

use std::collections::VecDeque;

use domain::delivery::Cause;
use engine::{Announcement, Event, Number, Suspect};
use store::keys::{DeliveryKey, Lease};
use store::queue::{Bury, Done, Ending, Upkeep};

use super::World;
use super::effects::announce;

/// The most deliveries whose panics are counted; there are at most two panics a second.
const COUNTED: usize = 256;
/// What the burial is answered under: no engine ever gives out this number.
const BURIAL: Number = Number(u64::MAX);

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
    let bury =
        Bury { lease, application, endpoint, deliveries, ending: Ending::Dead(Cause::Poison), at };
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
    use store::keys::{ApplicationKey, EndpointKey, MessageKey};

    use super::*;

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
