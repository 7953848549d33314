//! Invariants 3, 5, 6 and 7, at the moment an attempt begins; and who may begin one at all.

use std::time::Duration;

use domain::concurrency::Concurrency;
use domain::delivery::Delivery;
use domain::endpoint::State as EndpointState;
use domain::partition::Partition;
use domain::time::Timestamp;
use engine::{Number, Sending};
use store::keys::{DeliveryKey, Lease};
use store::memory::State;
use store::queue::{Load, Loaded, Order, PendingDelivery, Trigger, turn};

use super::{Flight, Open, Owner, TRUSTED, Watch};
use crate::agenda::WireId;
use crate::counters::Path;
use crate::node::NodeRef;

const SECOND: Duration = Duration::from_secs(1);
/// An engine keeps an endpoint for a minute that has nothing to do, by its own clock.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(55);

impl Watch {
    /// An attempt begins.
    pub(crate) fn sends(
        &mut self,
        (wire, me): (WireId, NodeRef),
        (now, rows): (Duration, Timestamp),
        sending: &Sending,
        state: &State,
    ) {
        self.now = now;
        let key = sending.delivery.key;
        self.check_owner(me, sending);
        self.check_bytes(sending);
        self.check_version(me, sending);
        self.check_delivery(me, sending);
        self.check_due(sending, rows);
        self.check_order(sending, state);
        self.check_admission(wire, sending, rows);
        self.check_limits(sending);
        let lease = self.lease_on(sending.delivery.partition);
        if let Some(place) = self.endpoints.get_mut(&key.endpoint) {
            place.in_flight.insert(wire);
            place.starts.push_back((now, sending.member.rate().get()));
        }
        if let Some(entry) = self.deliveries.get_mut(&key) {
            entry.open = Some(Open { me, attempt: sending.attempt, lease });
            let most = sending.policy.limits.max_attempts().map(std::num::NonZero::get);
            entry.max_attempts = most;
            entry.most_attempts = most.zip(entry.most_attempts).map(|(one, other)| one.max(other));
        }
        self.flights.insert(wire, Flight { me, key, lease, excused: false });
    }

    /// A process stops an attempt although its lease can be believed in.
    pub(crate) fn aborts(&mut self, me: NodeRef, wire: WireId, now: Duration) {
        self.now = now;
        let Some(flight) = self.flights.get(&wire) else { return };
        let owner = flight.lease.and_then(|lease| self.owners.get(&lease.partition));
        let owns = |it: &Owner| it.me == me && Some(it.lease) == flight.lease && !it.released;
        if owner.is_some_and(owns) {
            let text = format!("{me:?} aborts {:?} without need: it may be sent twice", flight.key);
            self.complain(3, text);
        }
    }

    /// A process sends because time has passed, and did not wish to be woken for it.
    pub(crate) fn oversleeps(&mut self, me: NodeRef, now: Duration) {
        self.now = now;
        self.complain(2, format!("{me:?} has something to send and would have slept on"));
    }

    /// Only the owner sends, and only while its lease may be believed in.
    fn check_owner(&mut self, me: NodeRef, sending: &Sending) {
        let partition = sending.delivery.partition;
        let number = partition.number();
        match self.owners.get(&partition) {
            Some(owner) if owner.me != me => {
                let text = format!("{me:?} sends for partition {number}, which {:?} has", owner.me);
                self.complain(5, text);
            }
            Some(owner) if owner.released => {
                self.complain(5, format!("{me:?} sends for partition {number}, given back"));
            }
            Some(_) => {}
            None => self.complain(5, format!("{me:?} sends for partition {number} of nobody")),
        }
        let silent = self.since_renewal(me, self.now);
        if silent >= TRUSTED + Duration::from_millis(5) {
            self.complain(5, format!("{me:?} sends {silent:?} after its last renewal"));
        }
    }

    /// The bytes and ids are those that were accepted.
    fn check_bytes(&mut self, sending: &Sending) {
        let delivery = &sending.delivery;
        let Some(message) = self.messages.get(&delivery.key.message) else {
            return self.complain(6, format!("{:?} was never accepted", delivery.key));
        };
        let same = delivery.payload.as_ref() == Some(&message.payload)
            && delivery.message == message.id
            && delivery.event_type == message.event_type
            && delivery.policy.is_some() == message.policy
            && sending.member.key() == delivery.key.endpoint;
        if !same {
            let text = format!("{:?} is sent as {:?}", message.id, delivery);
            self.complain(6, text);
        }
    }

    /// A delivery is not sent twice at a time, nor again after its success was recorded.
    fn check_delivery(&mut self, me: NodeRef, sending: &Sending) {
        let key = sending.delivery.key;
        let lease = self.lease_on(sending.delivery.partition);
        let Some(entry) = self.deliveries.get_mut(&key) else {
            return self.complain(6, format!("{key:?} does not exist"));
        };
        if entry.open.is_some_and(|open| open.lease == lease) {
            let text = format!("{key:?} is sent while its last attempt is not settled");
            return self.complain(3, text);
        }
        match entry.state {
            Delivery::Pending(_) if entry.recorded != sending.delivery.recorded => {
                let text = format!(
                    "{key:?} has {} attempts and is sent with {}",
                    entry.recorded, sending.delivery.recorded
                );
                self.complain(3, text);
            }
            Delivery::Pending(_) => {}
            Delivery::Delivered => {
                self.complain(3, format!("{key:?} is delivered and sent again"));
            }
            Delivery::Dead(_) | Delivery::Cancelled => {
                // Whoever has acted on a cancel begins no attempt any more, whatever it had begun.
                if entry.heard == Some(me) {
                    let text = format!("{key:?} is sent by {me:?}, which has cancelled it");
                    return self.complain(3, text);
                }
                // What had been in memory may go once; that it goes again is too much.
                if entry.sent_after.contains(&me) {
                    let state = entry.state;
                    return self.complain(3, format!("{key:?} is {state:?} and sent twice since"));
                }
                entry.sent_after.push(me);
            }
        }
    }

    /// Nothing goes before it is due, but a first attempt is due at once whatever clocks say.
    fn check_due(&mut self, sending: &Sending, rows: Timestamp) {
        let delivery = &sending.delivery;
        let first = delivery.recorded == 0 && delivery.pending.due == delivery.received_at;
        let early = delivery.pending.due > rows && !first;
        if sending.trigger == Trigger::Manual {
            self.paths.push(Path::ManualSent);
        }
        if early && sending.trigger == Trigger::Scheduled {
            let by = delivery.pending.due.since(rows);
            self.complain(4, format!("{:?} is sent {by:?} before it is due", delivery.key));
        }
        if sending.member.view.endpoint.state != EndpointState::Active {
            let state = sending.member.view.endpoint.state;
            self.complain(4, format!("{:?} is sent to an endpoint {state:?}", delivery.key));
        }
    }

    /// FIFO endpoints receive in order, one at a time.
    fn check_order(&mut self, sending: &Sending, state: &State) {
        let PendingDelivery { key, turn, .. } = sending.delivery;
        if sending.member.view.endpoint.order == Order::Due {
            return;
        }
        self.paths.push(Path::FifoSent);
        if turn::due_if_scheduled(turn).is_some() {
            self.complain(7, format!("{key:?} is sent and has no place in the order"));
        }
        let (application, endpoint) = (key.application, key.endpoint);
        let first =
            state.load(Load { application, endpoint, from: i64::MIN, most: 1, most_bytes: 0 });
        let before = first.deliveries.first().filter(|head| head.turn < turn);
        if let Some(head) = before {
            let text = format!("{key:?} is sent before {:?}, which is pending", head.key);
            self.complain(7, text);
        }
        let mut others = self.deliveries.range(range_of(key));
        let lease = self.lease_on(sending.delivery.partition);
        let open = others.find(|(other, entry)| {
            **other != key && entry.open.is_some_and(|open| open.lease == lease)
        });
        if let Some((other, _)) = open {
            let text = format!("{key:?} is sent while {other:?} is not settled");
            self.complain(7, text);
        }
    }

    /// Returns the lease that is current. What was begun under another one cannot be settled.
    pub(super) fn lease_on(&self, partition: Partition) -> Option<Lease> {
        self.owners.get(&partition).map(|owner| owner.lease)
    }

    /// A process whose lease has run out binds nobody.
    fn is_bound(&self, me: NodeRef) -> bool {
        self.since_renewal(me, self.now) < store::limits::LEASE
    }

    /// In flight, rate and slow start.
    fn check_limits(&mut self, sending: &Sending) {
        let now = self.now;
        let key = sending.delivery.key;
        let Some(place) = self.endpoints.get_mut(&key.endpoint) else { return };
        while place.starts.front().is_some_and(|(at, _)| now.saturating_sub(*at) >= SECOND) {
            place.starts.pop_front();
        }
        let rate = place.starts.iter().map(|it| it.1).max().unwrap_or(0);
        let rate = rate.max(sending.member.rate().get());
        let started = u32::try_from(place.starts.len()).unwrap_or(u32::MAX) + 1;
        let cap = sending.member.in_flight();
        if now.saturating_sub(place.ended) >= FORGOTTEN_AFTER {
            place.concurrency.push(Concurrency::default());
            place.concurrency.dedup();
        }
        let allowed = place.concurrency.iter().map(|one| one.allowed(cap).get()).max().unwrap_or(1);
        let place = self.endpoints.get(&key.endpoint);
        let bound = |wire: &&WireId| {
            let flight = self.flights.get(wire);
            flight.is_some_and(|flight| !flight.excused && self.is_bound(flight.me))
        };
        let in_flight = place.map_or(0, |place| place.in_flight.iter().filter(bound).count());
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX) + 1;
        if in_flight > allowed {
            let text = format!("{in_flight} in flight to {key:?}, {allowed} allowed of {cap}");
            self.complain(5, text);
        }
        if started > rate {
            self.complain(5, format!("{started} attempts a second to {key:?}, {rate} allowed"));
        }
    }

    /// Tells whether a load brought deliveries that are in flight or not settled.
    pub(crate) fn any_unsettled(&self, loaded: &Loaded) -> bool {
        let open = |delivery: &PendingDelivery| {
            self.deliveries.get(&delivery.key).is_some_and(|entry| entry.open.is_some())
        };
        loaded.deliveries.iter().any(open)
    }

    /// Tells whether any of these has been sent or settled before.
    pub(crate) fn any_known(&self, deliveries: &[PendingDelivery]) -> bool {
        let known = |delivery: &PendingDelivery| {
            let entry = self.deliveries.get(&delivery.key);
            entry.is_some_and(|it| it.open.is_some() || it.recorded > 0)
        };
        deliveries.iter().any(known)
    }

    /// A receiver takes a delivery; true if it had taken it before.
    pub(crate) fn arrived(&mut self, what: &Option<(DeliveryKey, Number)>) -> bool {
        let entry = what.and_then(|(key, _)| self.deliveries.get_mut(&key));
        entry.is_some_and(|entry| std::mem::replace(&mut entry.taken, true))
    }
}

/// Returns the range of an endpoint's deliveries.
fn range_of(key: DeliveryKey) -> std::ops::RangeInclusive<DeliveryKey> {
    use store::keys::MessageKey;
    let low = DeliveryKey { message: MessageKey(i64::MIN), ..key };
    low..=DeliveryKey { message: MessageKey(i64::MAX), ..key }
}
