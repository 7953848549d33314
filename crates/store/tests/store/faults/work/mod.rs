//! A load on a store, and what the store has promised by answering it.
//!
//! The power-cut tests run it on a disk in memory, the kill test and `examples/crash.rs` in a
//! process of its own. Everything about it follows from its seed and session.

mod chance;
mod kill;
mod postgres;
mod promises;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{Budget, Cause, Pending};
use domain::endpoint::State;
use domain::ids::{ApplicationId, EndpointId, Id, MessageId, Noun};
use domain::outcome::Outcome;
use domain::time::Timestamp;
use store::Error;
use store::catalog::{
    Application, ApplicationSettings, Confidential, Endpoint, EndpointSettings, Name,
    NewApplication, NewEndpoint, Secret,
};
use store::conformance::{Handle, NOW, fresh, success};
use store::keys::{Lease, Node};
use store::queue::{
    Accept, Accepted, AttemptRecord, Batch, FirstState, Load, NewDelivery, NewMessage, NextState,
    Order, PendingDelivery, Settle, Settled,
};

pub(crate) use chance::Chance;
pub(crate) use kill::{Backend, Cycles, LARGE_LOG, work_until_killed};
pub(crate) use postgres::POSTGRES;
pub(crate) use promises::{Promised, Promises};

/// How long the leases of a killed process may keep the next one waiting, in steps.
const LEASE_STEPS: u32 = 400;
const LEASE_STEP: Duration = Duration::from_millis(50);

/// Somebody who accepts messages and settles their deliveries.
pub(crate) struct Worker {
    pub(crate) store: Handle,
    application: Application,
    endpoints: Vec<Endpoint>,
    leases: Vec<Lease>,
    chance: Chance,
    session: u32,
    made: u64,
}

impl Worker {
    /// Begins a session on a store that is empty, or that sessions with other numbers worked on.
    pub(crate) async fn begin(store: Handle, session: u32, chance: Chance) -> Result<Self, Error> {
        let application = application(&store).await?;
        let mut endpoints = Vec::new();
        for (number, order) in [(1, Order::Due), (2, Order::Fifo)] {
            endpoints.push(endpoint(&store, &application, number, order).await?);
        }
        let node = Node(format!("session {session}"));
        store.queue.renew(node.clone()).await?;
        let mut leases = store.queue.take(node.clone(), u8::MAX).await?;
        for _ in 0..LEASE_STEPS {
            let mut partitions = endpoints.iter().map(|endpoint| endpoint.partition);
            if partitions.all(|wanted| leases.iter().any(|lease| lease.partition == wanted)) {
                break;
            }
            std::thread::sleep(LEASE_STEP);
            leases.extend(store.queue.take(node.clone(), u8::MAX).await?);
        }
        let name = Name::Id(application.id);
        let application = store.catalog.application(name).await?;
        Ok(Self { store, application, endpoints, leases, chance, session, made: 0 })
    }

    /// Describes what is to be done next: some messages to accept, and a settle for each of some
    /// deliveries that are pending.
    pub(crate) async fn batch(&mut self, accepts: u32) -> Result<Batch, Error> {
        let mut batch = self.accepts(accepts);
        for endpoint in self.endpoints.clone() {
            let application = self.application.key;
            let load = Load {
                application,
                endpoint: endpoint.key,
                from: i64::MIN,
                most: accepts,
                most_bytes: 0,
            };
            for delivery in self.store.queue.load(load).await?.deliveries {
                batch.settles.push(self.settle(&delivery));
            }
        }
        Ok(batch)
    }

    /// Describes messages to accept.
    pub(crate) fn accepts(&mut self, count: u32) -> Batch {
        Batch { accepts: (0..count).map(|_| self.accept()).collect(), ..Batch::default() }
    }

    /// Commits a batch, and returns what the store promised by answering.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<Vec<Promised>, Error> {
        let answers = self.store.queue.commit(batch.clone().into()).await?;
        let mut promised = Vec::new();
        for (accept, answer) in batch.accepts.iter().zip(&answers.accepts) {
            let Accepted::New { message, .. } = answer else {
                return Err(Error::Refused(format!("an accept was answered with {answer:?}")));
            };
            promised.push(Promised::Accepted { id: accept.message.id, key: *message });
        }
        for (settle, answer) in batch.settles.iter().zip(&answers.settles) {
            let Settled::Applied { .. } = answer else {
                return Err(Error::Refused(format!("a settle was answered with {answer:?}")));
            };
            promised.push(Promised::Settled {
                place: (settle.key.endpoint, settle.key.message),
                attempt: settle.attempt.id,
                next: settle.next.into(),
            });
        }
        Ok(promised)
    }

    /// Does something, and returns what the store promised by answering.
    pub(crate) async fn step(&mut self, accepts: u32) -> Result<Vec<Promised>, Error> {
        let batch = self.batch(accepts).await?;
        self.commit(batch).await
    }

    fn accept(&mut self) -> Accept {
        let id: MessageId = self.id();
        let delivery = |endpoint: &Endpoint| NewDelivery {
            endpoint: endpoint.key,
            partition: endpoint.partition,
            order: endpoint.order,
            state: FirstState::Pending(fresh(NOW)),
        };
        Accept {
            application: self.application.key,
            named: None,
            revision: self.application.revision,
            message: NewMessage {
                id,
                event_type: "invoice.paid".to_owned(),
                event_id: None,
                channels: Vec::new(),
                payload: payload_of(&id),
                content_type: None,
                policy: None,
                deliver_at: None,
                only: None,
                received_at: NOW,
                retained_until: NOW.after(Duration::from_secs(90 * 24 * 60 * 60)),
            },
            idempotency: Some(key_of(&id)),
            deliveries: self.endpoints.iter().map(delivery).collect(),
        }
    }

    fn settle(&mut self, delivery: &PendingDelivery) -> Settle {
        let PendingDelivery { key, partition, recorded, ended_before, pending, .. } = delivery;
        let lease = self.leases.iter().find(|lease| lease.partition == *partition);
        // Without a lease the answer is that it is not current, which ends the session.
        let epoch = lease.map_or(store::keys::Epoch(-1), |lease| lease.epoch);
        let next = match self.chance.below(8) {
            0 | 1 => NextState::Pending { due: later(*pending) },
            2 => NextState::Dead(Cause::Exhausted),
            _ => NextState::Delivered,
        };
        let status = if next == NextState::Delivered { 200 } else { 503 };
        Settle {
            lease: Lease { partition: *partition, epoch },
            key: *key,
            recorded: *recorded,
            ended_before: *ended_before,
            received_at: delivery.received_at,
            next,
            budget: Budget { attempts: recorded + 1, ..pending.budget },
            attempt: AttemptRecord { outcome: Outcome::answered(status), ..success(self.id()) },
            running: None,
        }
    }

    /// Makes an id that no other session makes.
    fn id<N: Noun>(&mut self) -> Id<N> {
        self.made += 1;
        let mut random = [0; 16];
        random[1..5].copy_from_slice(&self.session.to_be_bytes());
        random[5..13].copy_from_slice(&self.made.to_be_bytes());
        Id::new(NOW, random)
    }
}

/// Makes bytes that are never the same twice in a process; good enough for nonces in tests.
pub(crate) fn entropy(bytes: &mut [u8]) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for chunk in bytes.chunks_mut(8) {
        let number = Chance::new(NEXT.fetch_add(1, Ordering::Relaxed)).next().to_be_bytes();
        chunk.copy_from_slice(&number[..chunk.len()]);
    }
}

/// Returns the idempotency key of a message, by its id alone.
fn key_of(id: &MessageId) -> [u8; 32] {
    let mut key = [0; 32];
    key[..20].copy_from_slice(id.as_bytes());
    key
}

/// Returns the payload of a message, by its id alone. One in eight has pages of its own.
fn payload_of(id: &MessageId) -> Bytes {
    let mix = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    let mut chance = Chance::new(id.as_bytes().iter().fold(0, mix));
    let length = if chance.below(8) == 0 { 6_000 } else { 40 + chance.below(400) };
    (0..length).map(|_| b'a' + u8::try_from(chance.below(26)).unwrap_or(0)).collect()
}

fn later(pending: Pending) -> Timestamp {
    pending.due.after(Duration::from_secs(1))
}

async fn application(store: &Handle) -> Result<Application, Error> {
    let id = ApplicationId::new(NOW, [1; 16]);
    match store.catalog.application(Name::Id(id)).await {
        Err(Error::Missing(_)) => {}
        found => return found,
    }
    let settings = ApplicationSettings::default();
    store.catalog.create_application(NewApplication { id, uid: None, settings, at: NOW }).await
}

async fn endpoint(
    store: &Handle,
    application: &Application,
    number: u8,
    order: Order,
) -> Result<Endpoint, Error> {
    let id = EndpointId::new(NOW, [number; 16]);
    match store.catalog.endpoint(application.key, Name::Id(id)).await {
        Err(Error::Missing(_)) => {}
        found => return found,
    }
    let origin = "https://receiver.example".to_owned();
    let new = NewEndpoint {
        application: application.key,
        id,
        uid: None,
        state: State::Active,
        order,
        settings: EndpointSettings { origin, ..EndpointSettings::default() },
        confidential: Confidential::default(),
        secret: Secret { text: "whsec_one".to_owned(), created_at: NOW, expires_at: None },
        at: NOW,
    };
    store.catalog.create_endpoint(new).await
}
