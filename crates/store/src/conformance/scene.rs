//! What a case arranges with: an application, endpoints, messages, leases, and the verbs of their
//! life in one line each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{Budget, Pending};
use domain::endpoint::State;
use domain::ids::{ApplicationId, AttemptId, Id, Noun};
use domain::outcome::Outcome;
use domain::partition::Partition;
use domain::time::Timestamp;

use super::{Handle, Harness};
use crate::catalog::{
    Application, ApplicationSettings, Confidential, Edit, Endpoint, EndpointEdit, EndpointSettings,
    Name, NewApplication, NewEndpoint, Secret,
};
use crate::keys::{ApplicationKey, DeliveryKey, Lease, MessageKey, Node};
use crate::ledger::DeliveryEntry;
use crate::queue::{
    Accept, Accepted, AttemptRecord, Batch, Committed, Done, Doomed, FirstState, Load, Loaded,
    NewDelivery, NewMessage, NextState, Once, Order, Phases, Request, Rollup, Settle, Settled,
    Trigger, Upkeep,
};
use crate::{Error, Headers, limits};

/// The moment at which every case begins.
pub const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
/// A minute.
pub const MINUTE: Duration = Duration::from_secs(60);

/// Returns a moment so long before [`NOW`] that what was deleted then may be removed now.
#[must_use]
pub fn long_ago() -> Timestamp {
    NOW.before(limits::CHANGING)
}

/// Returns a moment some seconds after [`NOW`].
#[must_use]
pub fn later(seconds: u64) -> Timestamp {
    NOW.after(Duration::from_secs(seconds))
}

/// An application in a store, and everything that a case does with it.
pub struct Scene {
    /// The store.
    pub harness: Harness,
    /// The application, as it was created.
    pub application: Application,
    /// The node that owns all partitions.
    pub node: Node,
    leases: Vec<Lease>,
    made: AtomicU64,
}

impl Scene {
    /// Creates an application, and takes all partitions.
    pub async fn new(harness: Harness) -> Self {
        let node = Node("first".to_owned());
        harness.store.queue.renew(node.clone()).await.unwrap();
        let leases = harness.store.queue.take(node.clone(), 64).await.unwrap();
        let new = new_application(ApplicationId::new(NOW, [1; 16]));
        let application = harness.store.catalog.create_application(new).await.unwrap();
        Self { harness, application, node, leases, made: AtomicU64::new(0) }
    }

    /// Returns the store.
    pub fn store(&self) -> &Handle {
        &self.harness.store
    }

    /// Makes an id that sorts behind all those made before it.
    pub fn id<N: Noun>(&self) -> Id<N> {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let mut random = [7; 16];
        random[1..9].copy_from_slice(&number.to_be_bytes());
        Id::new(NOW, random)
    }

    /// Creates another application.
    pub async fn another_application(&self) -> Application {
        self.store().catalog.create_application(new_application(self.id())).await.unwrap()
    }

    /// Describes an endpoint.
    pub fn new_endpoint(&self, order: Order) -> NewEndpoint {
        NewEndpoint {
            application: self.application.key,
            id: self.id(),
            uid: None,
            state: State::Active,
            order,
            settings: EndpointSettings {
                origin: "https://receiver.example".to_owned(),
                ..EndpointSettings::default()
            },
            confidential: Confidential {
                path_and_query: "/hooks?token=1".to_owned(),
                ..Confidential::default()
            },
            secret: Secret { text: "whsec_one".to_owned(), created_at: NOW, expires_at: None },
            at: NOW,
        }
    }

    /// Creates an endpoint whose deliveries go by due time.
    pub async fn endpoint(&self) -> Endpoint {
        self.create(self.new_endpoint(Order::Due)).await
    }

    /// Creates an endpoint whose deliveries go in order.
    pub async fn fifo_endpoint(&self) -> Endpoint {
        self.create(self.new_endpoint(Order::Fifo)).await
    }

    /// Creates an endpoint.
    pub async fn create(&self, new: NewEndpoint) -> Endpoint {
        self.store().catalog.create_endpoint(new).await.unwrap()
    }

    /// Leaves an endpoint as `wanted` says, whatever it was.
    pub async fn change(&self, wanted: Endpoint) -> Result<Endpoint, Error> {
        let Endpoint { application, key, updated_at, .. } = wanted;
        let change = EndpointEdit::of(move |_| Ok(wanted.clone()));
        let catalog = &self.store().catalog;
        let changed = catalog.change_endpoint(application, key, change, updated_at).await;
        changed.map(|changed| changed.after)
    }

    /// Leaves an application with a uid and settings, whatever it had.
    pub async fn change_application(
        &self,
        key: ApplicationKey,
        uid: Option<String>,
        settings: ApplicationSettings,
        at: Timestamp,
    ) -> Result<Application, Error> {
        let change: Edit<Application> = Box::new(move |row| {
            let (uid, settings) = (uid.clone(), settings.clone());
            Ok(Application { uid, settings, ..row.clone() })
        });
        let changed = self.store().catalog.change_application(key, change, at).await;
        changed.map(|changed| changed.after)
    }

    /// Returns the application's revision now.
    pub async fn revision(&self) -> i64 {
        let name = Name::Id(self.application.id);
        self.store().catalog.application(name).await.unwrap().revision
    }

    /// Describes a message to some endpoints, due at once, with the current revision.
    pub async fn message(&self, endpoints: &[&Endpoint]) -> Accept {
        let due = |endpoint: &&Endpoint| delivery(endpoint, NOW);
        Accept {
            application: self.application.key,
            named: None,
            revision: self.revision().await,
            message: NewMessage {
                id: self.id(),
                event_type: "invoice.paid".to_owned(),
                event_id: None,
                channels: Vec::new(),
                payload: Bytes::from_static(br#"{"paid":true}"#),
                content_type: None,
                policy: None,
                deliver_at: None,
                only: None,
                received_at: NOW,
                retained_until: NOW.after(MINUTE * 60 * 24 * 90),
            },
            idempotency: None,
            deliveries: endpoints.iter().map(due).collect(),
        }
    }

    /// Describes a message to one endpoint, due at a moment.
    pub async fn message_due(&self, endpoint: &Endpoint, due: Timestamp) -> Accept {
        let deliveries = vec![delivery(endpoint, due)];
        Accept { deliveries, ..self.message(&[endpoint]).await }
    }

    /// Describes the same message again, as a caller does who asks twice.
    pub fn again(&self, accept: &Accept) -> Accept {
        let message = NewMessage { id: self.id(), ..accept.message.clone() };
        Accept { message, ..accept.clone() }
    }

    /// Accepts messages in one batch.
    pub async fn accept(&self, accepts: Vec<Accept>) -> Vec<Accepted> {
        self.commit(Batch { accepts, ..Batch::default() }).await.accepts
    }

    /// Accepts a message that must be new.
    pub async fn accept_new(&self, accept: Accept) -> MessageKey {
        let answers = self.accept(vec![accept]).await;
        let [Accepted::New { message, .. }] = answers[..] else {
            panic!("not new: {answers:?}");
        };
        message
    }

    /// Accepts a message to an endpoint, due at once.
    pub async fn pending(&self, endpoint: &Endpoint) -> DeliveryKey {
        self.pending_due(endpoint, NOW).await
    }

    /// Accepts a message to an endpoint, due at a moment.
    pub async fn pending_due(&self, endpoint: &Endpoint, due: Timestamp) -> DeliveryKey {
        let message = self.accept_new(self.message_due(endpoint, due).await).await;
        self.key(endpoint, message)
    }

    /// Accepts a message to an endpoint and settles it at once.
    pub async fn settled(&self, endpoint: &Endpoint, next: NextState) -> DeliveryKey {
        let key = self.pending(endpoint).await;
        self.settle_one(self.settling(key, 0, next).await).await;
        key
    }

    /// Names a delivery.
    pub fn key(&self, endpoint: &Endpoint, message: MessageKey) -> DeliveryKey {
        DeliveryKey { application: self.application.key, endpoint: endpoint.key, message }
    }

    /// Returns the lease on an endpoint's partition.
    pub fn lease(&self, endpoint: &Endpoint) -> Lease {
        self.lease_on(endpoint.partition)
    }

    /// Returns the lease on a partition.
    pub fn lease_on(&self, partition: Partition) -> Lease {
        *self.leases.iter().find(|lease| lease.partition == partition).unwrap()
    }

    /// Returns a lease, whichever.
    pub fn some_lease(&self) -> Lease {
        *self.leases.first().unwrap()
    }

    /// Describes a settle of a delivery as it would be loaded now, whose attempt ended a second
    /// after [`NOW`].
    pub async fn settling(&self, key: DeliveryKey, recorded: u32, next: NextState) -> Settle {
        let fan_out = self.store().catalog.fan_out(key.application, NOW).await.unwrap();
        let view = fan_out.endpoints.iter().find(|view| view.endpoint.key == key.endpoint);
        let attempt = match next {
            NextState::Delivered => success(self.id()),
            NextState::Pending { .. } | NextState::Dead(_) => failure(self.id()),
        };
        let endpoint = &view.unwrap().endpoint;
        let loaded = self.load_most(endpoint, 1_000, 0).await.deliveries;
        let row = loaded.iter().find(|one| one.key == key);
        let ended_before = row.and_then(|one| one.ended_before);
        let lease = self.lease(endpoint);
        let budget = Budget { attempts: recorded + 1, ..fresh(NOW).budget };
        Settle { lease, key, recorded, ended_before, next, budget, attempt, running: None }
    }

    /// Names a delivery to be buried, as it would be loaded now.
    pub async fn doomed(&self, key: DeliveryKey) -> Doomed {
        let DeliveryKey { application, endpoint, message } = key;
        let load = Load { application, endpoint, from: i64::MIN, most: 1_000, most_bytes: 0 };
        let loaded = self.store().queue.load(load).await.unwrap().deliveries;
        let row = loaded.iter().find(|one| one.key == key);
        let (recorded, ended_before) =
            row.map(|one| (one.recorded, one.ended_before)).unwrap_or_default();
        Doomed { message, recorded, ended_before }
    }

    /// Settles in one batch.
    pub async fn settle(&self, settles: Vec<Settle>) -> Vec<Settled> {
        self.commit(Batch { settles, ..Batch::default() }).await.settles
    }

    /// Settles one attempt.
    pub async fn settle_one(&self, settle: Settle) -> Settled {
        self.settle(vec![settle]).await[0]
    }

    /// Does a step of upkeep.
    pub async fn keep_up(&self, step: Upkeep) -> Done {
        let batch = Batch { upkeep: vec![step], ..Batch::default() };
        self.commit(batch).await.upkeep.remove(0)
    }

    /// Leaves a request, as if for the first time.
    pub async fn ask(&self, request: Request) -> Done {
        self.keep_up(Upkeep::Ask { once: self.once(), request }).await
    }

    /// Adds to sums, as if for the first time.
    pub async fn roll_up(&self, rollups: Vec<Rollup>) -> Done {
        let (lease, once) = (self.some_lease(), self.once());
        self.keep_up(Upkeep::RollUp { lease, once, rollups }).await
    }

    /// Returns what makes a step one of its own.
    pub fn once(&self) -> Once {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let mut id = [9; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        Once { at: NOW, id }
    }

    /// Commits a batch.
    pub async fn commit(&self, batch: Batch) -> Committed {
        self.store().queue.commit(Arc::new(batch)).await.unwrap()
    }

    /// Loads all pending deliveries of an endpoint.
    pub async fn load(&self, endpoint: &Endpoint) -> Loaded {
        self.load_most(endpoint, 1_000, 1 << 30).await
    }

    /// Loads some pending deliveries of an endpoint.
    pub async fn load_most(&self, endpoint: &Endpoint, most: u32, most_bytes: u64) -> Loaded {
        let application = self.application.key;
        let load = Load { application, endpoint: endpoint.key, from: i64::MIN, most, most_bytes };
        self.store().queue.load(load).await.unwrap()
    }

    /// Loads the messages of an endpoint's pending deliveries.
    pub async fn loaded(&self, endpoint: &Endpoint) -> Vec<MessageKey> {
        self.load(endpoint).await.deliveries.iter().map(|delivery| delivery.key.message).collect()
    }

    /// Looks at a delivery.
    pub async fn look(&self, key: DeliveryKey) -> DeliveryEntry {
        let of = self.store().ledger.deliveries_of(key.application, key.message).await.unwrap();
        of.into_iter().find(|entry| entry.key == key).unwrap()
    }
}

/// Describes an application.
#[must_use]
pub(super) fn new_application(id: ApplicationId) -> NewApplication {
    NewApplication { id, uid: None, settings: ApplicationSettings::default(), at: NOW }
}

/// Describes a delivery that is due at a moment.
fn delivery(endpoint: &Endpoint, due: Timestamp) -> NewDelivery {
    NewDelivery {
        endpoint: endpoint.key,
        partition: endpoint.partition,
        order: endpoint.order,
        state: FirstState::Pending(fresh(due)),
    }
}

/// Makes a pending state with an unused budget.
#[must_use]
pub fn fresh(due: Timestamp) -> Pending {
    let expires_at = Some(due.after(MINUTE * 60 * 96));
    let budget = Budget { attempts: 0, ambiguous: 0, last_wait: Duration::ZERO, expires_at };
    Pending { due, budget }
}

/// Makes the record of an attempt that was answered with 200.
#[must_use]
pub fn success(id: AttemptId) -> AttemptRecord {
    AttemptRecord {
        id,
        began_at: NOW,
        ended_at: later(1),
        trigger: Trigger::Scheduled,
        outcome: Outcome::answered(200),
        retry_after_kept: None,
        phases: Phases::default(),
        request_headers: [("webhook-id", "msg_1")].into_iter().collect(),
        response_headers: Headers::default(),
        response_body: Bytes::from_static(b"ok"),
        error: None,
        refusal: None,
        hops: Vec::new(),
    }
}

/// Makes the record of an attempt that was answered with 503.
#[must_use]
pub fn failure(id: AttemptId) -> AttemptRecord {
    AttemptRecord { outcome: Outcome::answered(503), ..success(id) }
}
