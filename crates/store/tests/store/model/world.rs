//! One store in a history: does what is told, and answers in words that do not depend on the
//! numbers which the store gives to its rows.

use std::time::Duration;

use domain::ids::{Id, MessageId, Noun, TaskId};
use domain::partition::Partition;
use domain::time::Timestamp;
use store::Error;
use store::catalog::{Application, Endpoint, Name};
use store::conformance::{Handle, Harness, NOW};
use store::keys::{DeliveryKey, EndpointKey, Lease, MessageKey, Node};
use store::ledger::DeliveryEntry;
use store::queue::{Batch, Done, Doomed, Load, Once, Order, Upkeep};

use super::operation::SetUp;

/// A store, and what a history has done to it so far.
pub(super) struct World {
    pub(super) harness: Harness,
    pub(super) notes: Notes,
}

/// What a history has done so far. Nothing is ever taken off these lists, so that numbers mean the
/// same in both worlds.
#[derive(Debug, Clone)]
pub(super) struct Notes {
    pub(super) applications: Vec<Application>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) messages: Vec<(Application, MessageKey, MessageId)>,
    pub(super) deliveries: Vec<DeliveryKey>,
    pub(super) tasks: Vec<TaskId>,
    pub(super) leases: Vec<Lease>,
    /// Seconds since the beginning.
    pub(super) seconds: u64,
    /// How long the leases' clock has been moved on.
    pub(super) passed: Duration,
    made: u64,
    nodes: u32,
}

impl World {
    /// Begins a history: a node takes all partitions, and two applications get endpoints.
    pub(super) async fn begin(harness: Harness) -> Self {
        let notes = Notes {
            applications: Vec::new(),
            endpoints: Vec::new(),
            messages: Vec::new(),
            deliveries: Vec::new(),
            tasks: Vec::new(),
            leases: Vec::new(),
            seconds: 0,
            passed: Duration::ZERO,
            made: 0,
            nodes: 0,
        };
        let mut world = Self { harness, notes };
        world.take_over().await;
        for application in 0..2 {
            world.set_up(&SetUp::CreateApplication { uid: None }).await;
            for fifo in [false, true] {
                world.set_up(&SetUp::CreateEndpoint { application, fifo, uid: None }).await;
            }
        }
        world
    }

    pub(super) fn store(&self) -> &Handle {
        &self.harness.store
    }

    pub(super) fn now(&self) -> Timestamp {
        NOW.after(Duration::from_secs(self.notes.seconds))
    }

    pub(super) fn id<N: Noun>(&mut self) -> Id<N> {
        self.notes.made += 1;
        let mut random = [3; 16];
        random[1..9].copy_from_slice(&self.notes.made.to_be_bytes());
        Id::new(self.now(), random)
    }

    /// Lets the lease of the node lapse, and another one take everything.
    pub(super) async fn take_over(&mut self) -> usize {
        let by = Duration::from_secs(60);
        (self.harness.pass)(by).await.unwrap();
        self.notes.passed += by;
        self.notes.nodes += 1;
        self.take().await
    }

    /// Gives everything back, and takes it again.
    pub(super) async fn release(&mut self) -> usize {
        let leases = self.notes.leases.clone();
        self.store().queue.release(self.node(), leases).await.unwrap();
        self.take().await
    }

    async fn take(&mut self) -> usize {
        self.store().queue.renew(self.node()).await.unwrap();
        let leases = self.store().queue.take(self.node(), 64).await.unwrap();
        self.notes.leases = leases;
        self.notes.leases.len()
    }

    fn node(&self) -> Node {
        Node(format!("node {}", self.notes.nodes))
    }

    pub(super) fn lease(&self, partition: Partition) -> Lease {
        *self.notes.leases.iter().find(|lease| lease.partition == partition).unwrap()
    }

    /// Returns the applications that are still there.
    pub(super) async fn living(&self) -> Vec<Application> {
        let mut living = Vec::new();
        for application in &self.notes.applications {
            let found = self.store().catalog.application(Name::Id(application.id)).await;
            living.extend(found.ok());
        }
        living
    }

    /// Returns the deliveries whose application is still there, and which were not pruned.
    pub(super) async fn living_deliveries(&self) -> Vec<DeliveryEntry> {
        let living = self.living().await;
        let mut found = Vec::new();
        for key in &self.notes.deliveries {
            if living.iter().any(|application| application.key == key.application) {
                found.extend(self.look(*key).await);
            }
        }
        found
    }

    pub(super) async fn look(&self, key: DeliveryKey) -> Option<DeliveryEntry> {
        let of = self.store().ledger.deliveries_of(key.application, key.message).await;
        of.unwrap_or_default().into_iter().find(|entry| entry.key == key)
    }

    /// Returns when a pending delivery had ended before it was replayed.
    pub(super) async fn ended_before(&self, key: DeliveryKey) -> Option<Timestamp> {
        self.doomed(key).await.ended_before
    }

    /// Names a delivery to be buried, as it would be loaded now.
    pub(super) async fn doomed(&self, key: DeliveryKey) -> Doomed {
        let DeliveryKey { application, endpoint, message } = key;
        let load = Load { application, endpoint, from: i64::MIN, most: 1_000, most_bytes: 0 };
        let loaded = self.store().queue.load(load).await.unwrap().deliveries;
        let row = loaded.iter().find(|one| one.key == key);
        let (recorded, ended_before) =
            row.map(|one| (one.recorded, one.ended_before)).unwrap_or_default();
        Doomed { message, recorded, ended_before }
    }

    pub(super) fn endpoint(&self, key: EndpointKey) -> &Endpoint {
        self.notes.endpoints.iter().find(|endpoint| endpoint.key == key).unwrap()
    }

    /// Names an endpoint by its id.
    pub(super) fn named(&self, key: EndpointKey) -> String {
        self.endpoint(key).id.to_string()
    }

    /// Names a message by its id.
    pub(super) fn message_named(&self, key: MessageKey) -> String {
        let known = self.notes.messages.iter().find(|(_, known, _)| *known == key);
        known.map_or_else(|| "unknown".to_owned(), |(_, _, id)| id.to_string())
    }

    /// Marks a step as one that was never done before.
    pub(super) fn once(&mut self) -> Once {
        let (id, at) = (self.id::<domain::ids::noun::Message>(), self.now());
        let mut mark = [0; 16];
        mark.copy_from_slice(&id.as_bytes()[4..]);
        Once { at, id: mark }
    }

    pub(super) async fn keep_up(&self, step: Upkeep) -> Done {
        let batch = Batch { upkeep: vec![step], ..Batch::default() };
        self.store().queue.commit(batch.into()).await.unwrap().upkeep.remove(0)
    }

    /// Prunes until nothing more goes. Which rows go first is each store's own matter.
    pub(super) async fn prune(&self, most: u32) {
        let mut idle = 0;
        for _ in 0..2_000 {
            let done = self.keep_up(Upkeep::Prune { now: self.now(), most }).await;
            idle = if done == Done::Changed(0) { idle + 1 } else { 0 };
            if idle == 3 {
                return;
            }
        }
        unreachable!("pruning does not end");
    }

    /// Folds until nothing more is to be folded. Which minutes go first is each store's own matter.
    pub(super) async fn fold(&self, most: u32) {
        let mut idle = 0;
        while idle < 3 {
            let done = self.keep_up(Upkeep::Fold { now: self.now(), most }).await;
            idle = if done == Done::Changed(0) { idle + 1 } else { 0 };
        }
    }
}

/// Chooses one of what is there.
pub(super) fn choose<T>(from: &[T], number: usize) -> Option<&T> {
    from.get(number.checked_rem(from.len())?)
}

/// Words an answer: what was answered, or what kind of error.
pub(super) fn word<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(Error::Taken { what, name }) => format!("{what} {name} is taken"),
        Err(Error::Missing(what)) => format!("no {what}"),
        Err(Error::Refused(_)) => "refused".to_owned(),
        Err(other) => format!("failed: {other}"),
    }
}

/// Words a turn: the number of one in a line is the store's own matter.
pub(super) fn turn(order: Order, turn: i64) -> String {
    match order {
        Order::Due => turn.to_string(),
        Order::Fifo => "in line".to_owned(),
    }
}
