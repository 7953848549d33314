//! Whoever watches: what must hold, checked at every step against what really happened.
//!
//! The watch sees every effect of every engine at its moment, and every write at the moment it
//! takes effect. It keeps its own books about messages, deliveries and endpoints, and never asks
//! an engine what it thinks. Invariants are numbered as in the design.
//!
//! # Layout
//! - `accepting`: 1, 12
//! - `sending`: 3, 5, 6, 7, and who may send at all
//! - `breakers`: 4, what may pass a breaker or a pause, and what is written of both
//! - `numbering`: 7, when a scheduled delivery takes its place in a sequence
//! - `settling`: 3, 4, what becomes of a delivery and why
//! - `catalog`: 13, 14, names that move, and what a change replaces
//! - `endpoints`: what is known about endpoints and owners
//! - `ending`: 2, and whether the books agree with the store at the end

mod accepting;
mod breakers;
mod catalog;
mod ending;
mod endpoints;
mod numbering;
mod sending;
mod settling;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::concurrency::Concurrency;
use domain::delivery::{Budget, Delivery};
use domain::ids::{AttemptId, EndpointId, MessageId};
use domain::partition::Partition;
use domain::time::Timestamp;
use engine::{Member, Number, Roster};
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, Lease, MessageKey};
use store::queue::{NextState, Running};

use crate::agenda::WireId;
use crate::counters::Path;
use crate::node::NodeRef;
use crate::plan::Plan;

/// How long after its last renewal a process may start attempts.
pub(crate) const TRUSTED: Duration = Duration::from_secs(7);

/// Something that must not happen, and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The number of the invariant.
    pub invariant: u8,
    /// When, in the history's own time.
    pub at: Duration,
    /// What happened.
    pub text: String,
}

/// The books.
#[derive(Debug)]
pub(crate) struct Watch {
    now: Duration,
    violations: Vec<Violation>,
    /// Rare paths that were taken since they were last counted.
    pub(crate) paths: Vec<Path>,
    calm: bool,
    /// How old a roster may be that an engine believes in.
    roster_age: Duration,
    messages: BTreeMap<MessageKey, Message>,
    ids: BTreeMap<MessageId, MessageKey>,
    keys: BTreeMap<(ApplicationKey, [u8; 32]), MessageId>,
    deliveries: BTreeMap<DeliveryKey, Entry>,
    pending: BTreeSet<DeliveryKey>,
    endpoints: BTreeMap<EndpointKey, Place>,
    owners: BTreeMap<Partition, Owner>,
    renewals: BTreeMap<NodeRef, Duration>,
    /// The newest roster that each process has seen.
    rosters: BTreeMap<(NodeRef, ApplicationKey), Arc<Roster>>,
    flights: BTreeMap<WireId, Flight>,
    expected: BTreeMap<AttemptId, Expected>,
    recorded: BTreeSet<AttemptId>,
    /// Applications that were deleted.
    gone: BTreeSet<ApplicationKey>,
    /// Up to which moment each process has confirmed changes of the catalog.
    confirmed: BTreeMap<NodeRef, Timestamp>,
    /// Requests to cancel, by number, as far as a process has read them.
    cancels: BTreeMap<i64, DeliveryKey>,
    /// Requests to end a pause, by number, with its end when they were read.
    ending: BTreeMap<i64, (EndpointKey, Timestamp)>,
}

/// A message that was accepted.
#[derive(Debug)]
struct Message {
    id: MessageId,
    event_type: String,
    payload: Bytes,
    policy: bool,
    /// Whether its payload was expunged.
    expunged: bool,
}

/// A delivery.
#[derive(Debug)]
struct Entry {
    state: Delivery,
    recorded: u32,
    /// Whether it waits for its place in a sequence.
    scheduled: bool,
    /// Its place, as far as it was seen to have one.
    turn: Option<i64>,
    /// Attempts that count, since it was accepted or last replayed.
    counted: u32,
    /// The attempt that was begun last and whose settle has not taken effect.
    open: Option<Open>,
    /// Which processes have sent it since it stopped being pending.
    sent_after: Vec<NodeRef>,
    /// The process that was last told of its cancelling and acted on it.
    heard: Option<NodeRef>,
    /// Whether its receiver took it, since it was accepted or last replayed.
    taken: bool,
    /// When an attempt last ended, at its process.
    ended: Option<Duration>,
    panics: u32,
    /// How many attempts the policy of its last one allows.
    max_attempts: Option<u32>,
    /// The most that any policy allowed by which it was sent, since it was accepted or last replayed.
    most_attempts: Option<u32>,
}

/// An attempt that was begun, by whom and under which lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    me: NodeRef,
    attempt: Number,
    lease: Option<Lease>,
}

/// An endpoint.
#[derive(Debug)]
struct Place {
    id: EndpointId,
    application: ApplicationKey,
    partition: Partition,
    member: Arc<Member>,
    /// What it was, oldest first.
    versions: Vec<catalog::Version>,
    state: domain::endpoint::State,
    /// When its state last changed.
    changed: Duration,
    /// When it last ceased to be disabled.
    disabled: Option<Duration>,
    /// The attempts in flight, of processes that run.
    in_flight: BTreeSet<WireId>,
    /// When attempts began within the last second, and under which limit.
    starts: VecDeque<(Duration, u32)>,
    /// What its owner has in mind, as far as it has said.
    running: Running,
    /// What was last written of it.
    written: Running,
    probe: Option<WireId>,
    /// What its owner may have in mind: whoever had nothing to do for long may have been forgotten
    /// meanwhile, and then begins anew.
    concurrency: Vec<Concurrency>,
    /// When an attempt last ended.
    ended: Duration,
    /// When it was last held by a breaker or a pause.
    held: Option<Duration>,
}

/// Who owns a partition.
#[derive(Debug, Clone, Copy)]
struct Owner {
    me: NodeRef,
    lease: Lease,
    released: bool,
}

/// An attempt in flight.
#[derive(Debug)]
struct Flight {
    me: NodeRef,
    key: DeliveryKey,
    lease: Option<Lease>,
    /// Its process was frozen past its lease.
    excused: bool,
}

/// What a settle has to say.
#[derive(Debug)]
struct Expected {
    me: NodeRef,
    attempt: Number,
    recorded: u32,
    next: NextState,
    budget: Budget,
    breaker: domain::breaker::Breaker,
    counts: bool,
}

impl Watch {
    /// Opens the books.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            now: Duration::ZERO,
            violations: Vec::new(),
            paths: Vec::new(),
            calm: plan.is_calm(),
            roster_age: plan.settings.roster_age,
            messages: BTreeMap::new(),
            ids: BTreeMap::new(),
            keys: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            pending: BTreeSet::new(),
            endpoints: BTreeMap::new(),
            owners: BTreeMap::new(),
            renewals: BTreeMap::new(),
            rosters: BTreeMap::new(),
            flights: BTreeMap::new(),
            expected: BTreeMap::new(),
            recorded: BTreeSet::new(),
            gone: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            cancels: BTreeMap::new(),
            ending: BTreeMap::new(),
        }
    }

    /// Takes note of the time.
    pub(crate) fn passes(&mut self, now: Duration) {
        self.now = now;
    }

    /// Tells whether nothing is wrong so far.
    pub(crate) fn is_content(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns what went wrong.
    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// Returns how many deliveries were made.
    pub(crate) fn deliveries(&self) -> u64 {
        u64::try_from(self.deliveries.len()).unwrap_or(u64::MAX)
    }

    fn complain(&mut self, invariant: u8, text: String) {
        self.violations.push(Violation { invariant, at: self.now, text });
    }

    /// Moves a delivery in the books, and the set of pending ones with it.
    fn set_state(&mut self, key: DeliveryKey, state: Delivery) {
        let Some(entry) = self.deliveries.get_mut(&key) else { return };
        entry.state = state;
        match state {
            Delivery::Pending(_) => {
                !self.gone.contains(&key.application) && self.pending.insert(key)
            }
            Delivery::Delivered | Delivery::Dead(_) | Delivery::Cancelled => {
                self.pending.remove(&key)
            }
        };
    }
}
