//! What is known about endpoints, and about who owns them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::breaker::Breaker;
use domain::concurrency::Concurrency;
use domain::delivery::Delivery;
use domain::endpoint::State as EndpointState;
use domain::ids::EndpointId;
use domain::partition::Partition;
use domain::policy::Limits;
use engine::{Event, Member};
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, Lease, MessageKey};
use store::memory::State;
use store::queue::Running;

use super::catalog::Version;
use super::{Owner, Place, Violation, Watch};
use crate::agenda::WireId;
use crate::node::{BEGINNING, NodeRef};
use crate::plan;

/// How long an owner may believe in an old roster.
const ROSTER_AGE: Duration = Duration::from_secs(45);

impl Watch {
    /// An endpoint was created.
    pub(crate) fn created(&mut self, member: &Arc<Member>, now: Duration) {
        let endpoint = &member.view.endpoint;
        let place = Place {
            id: endpoint.id,
            application: endpoint.application,
            partition: endpoint.partition,
            member: Arc::clone(member),
            versions: vec![Version { since: now, member: Some(Arc::clone(member)) }],
            state: endpoint.state,
            changed: now,
            disabled: None,
            in_flight: BTreeSet::new(),
            starts: VecDeque::new(),
            running: Running::default(),
            written: Running::default(),
            probe: None,
            concurrency: vec![Concurrency::default()],
            ended: now,
            held: None,
        };
        self.endpoints.entry(endpoint.key).or_insert(place);
    }

    /// An endpoint's state changed.
    pub(crate) fn state_changed(&mut self, key: EndpointKey, state: EndpointState, now: Duration) {
        let Some(place) = self.endpoints.get_mut(&key) else { return };
        if place.state == EndpointState::Paused {
            // Its owner may go on believing in the pause until it reads the roster again.
            place.held = Some(now + ROSTER_AGE);
        }
        if matches!(place.state, EndpointState::Disabled(_)) {
            place.disabled = Some(now);
        }
        if place.state != state {
            place.state = state;
            place.changed = now;
        }
    }

    /// Returns the endpoints that are not deleted.
    pub(crate) fn living_endpoints(&self) -> Vec<EndpointKey> {
        let living = self.endpoints.iter().filter(|(_, it)| it.state != EndpointState::Deleted);
        living.map(|(key, _)| *key).collect()
    }

    /// Returns the endpoints that a person has paused.
    pub(crate) fn paused_endpoints(&self) -> Vec<EndpointKey> {
        let paused = self.endpoints.iter().filter(|(_, it)| it.state == EndpointState::Paused);
        paused.map(|(key, _)| *key).collect()
    }

    /// Returns an endpoint whose probe is in flight.
    pub(crate) fn some_probed(&self) -> Option<EndpointKey> {
        let living = |place: &Place| place.state != EndpointState::Deleted;
        let probed = |place: &Place| place.probe.is_some() && living(place);
        self.endpoints.iter().find(|(_, place)| probed(place)).map(|(key, _)| *key)
    }

    /// Returns an endpoint's application and partition.
    pub(crate) fn place_of(&self, key: EndpointKey) -> Option<(ApplicationKey, Partition)> {
        self.endpoints.get(&key).map(|place| (place.application, place.partition))
    }

    /// Returns an endpoint's id.
    pub(crate) fn endpoint_id(&self, key: EndpointKey) -> Option<EndpointId> {
        self.endpoints.get(&key).map(|place| place.id)
    }

    /// Returns what a replay needs to know about an endpoint.
    pub(crate) fn limits(&self, key: EndpointKey) -> Option<Limits> {
        let place = self.endpoints.get(&key)?;
        let policies = plan::policies();
        let policy = place.member.policy.as_ref().unwrap_or(&policies.server.policy);
        Some(policy.limits)
    }

    /// Picks a pending delivery.
    pub(crate) fn some_pending(&self, bits: u64) -> Option<DeliveryKey> {
        let count = u64::try_from(self.pending.len()).ok().filter(|count| *count > 0)?;
        self.pending.iter().nth(usize::try_from(bits % count).ok()?).copied()
    }

    /// Picks a few deliveries of an endpoint that are not pending.
    pub(crate) fn some_settled(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        bits: u64,
    ) -> Vec<DeliveryKey> {
        let key = |message| DeliveryKey { application, endpoint, message: MessageKey(message) };
        let theirs = self.deliveries.range(key(i64::MIN)..=key(i64::MAX));
        let settled = theirs.filter(|(_, it)| !matches!(it.state, Delivery::Pending(_)));
        let settled: Vec<_> = settled.map(|(key, _)| *key).collect();
        let skipped = usize::try_from(bits % 64).unwrap_or(0).min(settled.len());
        settled
            .into_iter()
            .skip(skipped)
            .take(1 + usize::try_from(bits >> 8 & 3).unwrap_or(0))
            .collect()
    }

    /// A process is about to be told something.
    pub(crate) fn told(&mut self, me: NodeRef, event: &Event) {
        if let Event::Requests(Ok(requests)) = event {
            self.reads(requests);
        }
        if let Event::Roster { answer: Ok(Some(roster)), .. } | Event::RosterSeen { roster, .. } =
            event
        {
            let known = self.rosters.get(&(me, roster.application));
            if known.is_none_or(|known| known.version <= roster.version) {
                self.rosters.insert((me, roster.application), Arc::clone(roster));
            }
        }
    }

    /// Returns what a process knows of an endpoint.
    pub(super) fn known_member(&self, me: NodeRef, key: DeliveryKey) -> Option<Arc<Member>> {
        self.rosters.get(&(me, key.application))?.member(key.endpoint).cloned()
    }

    /// A renewal took effect.
    pub(crate) fn renewed(&mut self, me: NodeRef, now: Duration) {
        self.renewals.insert(me, now);
    }

    /// Returns how long ago a process's last renewal took effect.
    pub(crate) fn since_renewal(&self, me: NodeRef, now: Duration) -> Duration {
        self.renewals.get(&me).map_or(Duration::MAX, |at| now.saturating_sub(*at))
    }

    /// Tells whether a partition has an owner that has not given it back.
    pub(crate) fn is_taken_over(&self, partition: Partition) -> bool {
        self.owners.get(&partition).is_some_and(|owner| !owner.released)
    }

    /// A process became a partition's owner.
    pub(crate) fn took(&mut self, me: NodeRef, lease: Lease, now: Duration, state: &State) {
        self.owners.insert(lease.partition, Owner { me, lease, released: false });
        for (key, place) in &mut self.endpoints {
            if place.partition != lease.partition {
                continue;
            }
            let running = state.running(place.application, *key).unwrap_or(place.written);
            if running != place.written {
                let text = format!("{} is {running:?}, written was {:?}", place.id, place.written);
                self.violations.push(Violation { invariant: 4, at: now, text });
            }
            // A probe that was on its way will never report.
            let breaker = match running.breaker {
                Breaker::HalfOpen { cooldown } => {
                    Breaker::Open { until: domain::time::Timestamp::EPOCH, cooldown }
                }
                Breaker::Closed { .. } | Breaker::Open { .. } => running.breaker,
            };
            place.set_running(Running { breaker, ..running }, now);
            place.probe = None;
            place.concurrency = vec![Concurrency::default()];
        }
    }

    /// An endpoint's running state was written.
    pub(crate) fn wrote(&mut self, endpoint: EndpointKey, running: Running) {
        if let Some(place) = self.endpoints.get_mut(&endpoint) {
            place.written = running;
        }
    }

    /// A process gave partitions back.
    pub(crate) fn released(&mut self, me: NodeRef, leases: &[Lease]) {
        for lease in leases {
            let owner = self.owners.get_mut(&lease.partition);
            let Some(owner) = owner.filter(|it| it.me == me && it.lease == *lease) else {
                continue;
            };
            owner.released = true;
            let busy = self.flights.values().find(|flight| flight.lease == Some(*lease));
            let unsettled = |(_, entry): &(&DeliveryKey, &super::Entry)| {
                entry.open.is_some_and(|open| open.lease == Some(*lease))
            };
            let problem = match (busy, self.deliveries.iter().find(unsettled)) {
                (Some(flight), _) => Some(format!("{:?} in flight", flight.key)),
                (None, Some((key, _))) => Some(format!("{key:?} unsettled")),
                (None, None) => None,
            };
            if let Some(problem) = problem {
                let number = lease.partition.number();
                self.complain(5, format!("{me:?} gave partition {number} back with {problem}"));
            }
        }
    }

    /// A process ended, however it did.
    pub(crate) fn died(&mut self, me: NodeRef) {
        for entry in self.deliveries.values_mut() {
            if entry.open.is_some_and(|open| open.me == me) {
                entry.open = None;
            }
        }
    }

    /// A process says that it has settled and released everything.
    pub(crate) fn stopped(&mut self, me: NodeRef) {
        let owned = self.owners.values().find(|owner| owner.me == me && !owner.released);
        let open = self.deliveries.iter().find(|(_, it)| it.open.is_some_and(|it| it.me == me));
        if let Some((key, _)) = open {
            self.complain(5, format!("{me:?} stopped with {key:?} unsettled"));
        } else if let Some(owner) = owned.filter(|_| self.calm) {
            self.complain(5, format!("{me:?} stopped and kept {:?}", owner.lease.partition));
        }
    }

    /// Attempts whose process ended are on their own.
    pub(crate) fn forgets(&mut self, wire: WireId) {
        if let Some(flight) = self.flights.remove(&wire)
            && let Some(place) = self.endpoints.get_mut(&flight.key.endpoint)
        {
            place.in_flight.remove(&wire);
        }
    }

    /// Attempts whose process was frozen past its lease are excused.
    pub(crate) fn excuses(&mut self, wires: &[WireId]) {
        for wire in wires {
            if let Some(flight) = self.flights.get_mut(wire) {
                flight.excused = true;
                if let Some(place) = self.endpoints.get_mut(&flight.key.endpoint) {
                    place.in_flight.remove(wire);
                }
            }
        }
    }
}

impl Place {
    /// Takes in what an owner has in mind, and until when the endpoint was held before.
    pub(super) fn set_running(&mut self, running: Running, now: Duration) {
        let paused = self.running.paused_until.map(|until| until.since(BEGINNING).min(now));
        let open = is_open(self.running.breaker).then_some(now);
        self.held = self.held.max(paused).max(open);
        self.running = running;
    }
}

/// Tells whether a breaker holds deliveries back.
pub(super) const fn is_open(breaker: Breaker) -> bool {
    match breaker {
        Breaker::Closed { .. } => false,
        Breaker::Open { .. } | Breaker::HalfOpen { .. } => true,
    }
}
