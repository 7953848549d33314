//! 64 callers who accept a message and settle its one delivery, over and over, and what gathers
//! their wishes into batches while the one before is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::ids::{AttemptId, MessageId};
use store::Error;
use store::catalog::Endpoint;
use store::conformance::{Handle, fresh, success};
use store::keys::{DeliveryKey, Lease, Node};
use store::queue::{
    Accept, Accepted, Batch, FirstState, NewDelivery, NewMessage, NextState, Order, Settle, Settled,
};
use tokio::sync::{mpsc, oneshot};

use super::fill::Site;
use super::{moment, now};

const CALLERS: u64 = 64;
static MADE: AtomicU64 = AtomicU64::new(1);

enum Wish {
    Accept(Box<Accept>, oneshot::Sender<Accepted>),
    Settle(Box<Settle>, oneshot::Sender<Settled>),
}

/// Where the callers go: to one endpoint after the other.
struct Targets {
    endpoints: Vec<(Endpoint, Lease)>,
    revision: i64,
}

/// Lets the callers do so many lifecycles between them, on all endpoints of a site; returns how many
/// a second these were.
pub(crate) async fn run(store: &Handle, site: &Site, lifecycles: u64) -> Result<f64, Error> {
    let targets = Arc::new(targets(store, site).await?);
    let (wishes, waiting) = mpsc::channel(1_024);
    let committer = tokio::spawn(commit(store.clone(), waiting));
    let next = Arc::new(AtomicU64::new(0));
    let began = now();
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let (targets, wishes, next) = (Arc::clone(&targets), wishes.clone(), Arc::clone(&next));
        callers.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= lifecycles {
                    break;
                }
                let place = usize::try_from(number).unwrap_or(0) % targets.endpoints.len();
                let (endpoint, lease) = &targets.endpoints[place];
                let target = Target { endpoint, revision: targets.revision, lease: *lease };
                live(target, &wishes).await?;
            }
            Ok::<_, Error>(())
        }));
    }
    for caller in callers {
        caller.await.map_err(|error| Error::unavailable("a caller ended", error))??;
    }
    let elapsed = now().duration_since(began);
    drop(wishes);
    committer.await.map_err(|error| Error::unavailable("it ended", error))??;
    Ok(float(lifecycles) / elapsed.as_secs_f64())
}

/// Commits whatever waits, batch by batch.
async fn commit(store: Handle, mut waiting: mpsc::Receiver<Wish>) -> Result<(), Error> {
    while let Some(first) = waiting.recv().await {
        let (mut batch, mut accepts, mut settles) = (Batch::default(), Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(wish) = next {
            match wish {
                Wish::Accept(accept, reply) => {
                    batch.accepts.push(*accept);
                    accepts.push(reply);
                }
                Wish::Settle(settle, reply) => {
                    batch.settles.push(*settle);
                    settles.push(reply);
                }
            }
            next = waiting.try_recv().ok();
        }
        let done = store.queue.commit(Arc::new(batch)).await?;
        for (reply, answer) in accepts.into_iter().zip(done.accepts) {
            let _heard = reply.send(answer);
        }
        for (reply, answer) in settles.into_iter().zip(done.settles) {
            let _heard = reply.send(answer);
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Target<'a> {
    endpoint: &'a Endpoint,
    revision: i64,
    lease: Lease,
}

async fn live(target: Target<'_>, wishes: &mpsc::Sender<Wish>) -> Result<(), Error> {
    let gone = || Error::Refused("the committer is gone".to_owned());
    let (reply, answer) = oneshot::channel();
    let wish = Wish::Accept(Box::new(accept(target)), reply);
    wishes.send(wish).await.map_err(|_| gone())?;
    let answer = answer.await.map_err(|_| gone())?;
    let Accepted::New { message, .. } = answer else {
        return Err(Error::Refused(format!("not accepted: {answer:?}")));
    };
    let (reply, settled) = oneshot::channel();
    let Endpoint { application, key: endpoint, .. } = *target.endpoint;
    let key = DeliveryKey { application, endpoint, message };
    let wish = Wish::Settle(Box::new(settle(target, key)), reply);
    wishes.send(wish).await.map_err(|_| gone())?;
    let settled = settled.await.map_err(|_| gone())?;
    if settled != (Settled::Applied { turn: None }) {
        return Err(Error::Refused(format!("not settled: {settled:?}")));
    }
    Ok(())
}

fn accept(target: Target<'_>) -> Accept {
    let (at, random) = (moment(), random());
    let mut hash = [3; 32];
    hash[..16].copy_from_slice(&random);
    Accept {
        application: target.endpoint.application,
        named: None,
        revision: target.revision,
        message: NewMessage {
            id: MessageId::new(at, random),
            event_type: "bench.lifecycle".to_owned(),
            event_id: None,
            channels: Vec::new(),
            payload: Bytes::from(vec![b'x'; 512]),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: at,
            retained_until: at.after(Duration::from_secs(30 * 86_400)),
        },
        idempotency: Some(hash),
        deliveries: vec![NewDelivery {
            endpoint: target.endpoint.key,
            partition: target.endpoint.partition,
            order: Order::Due,
            state: FirstState::Pending(fresh(at)),
        }],
    }
}

fn settle(target: Target<'_>, key: DeliveryKey) -> Settle {
    let at = moment();
    let headers = |names: &[&str]| names.iter().map(|name| (name, "0123456789abcdef")).collect();
    let mut attempt = success(AttemptId::new(at, random()));
    (attempt.began_at, attempt.ended_at) = (at, at);
    attempt.request_headers = headers(&["webhook-id", "webhook-timestamp", "webhook-signature"]);
    attempt.response_headers = headers(&["content-type", "date"]);
    attempt.response_body = Bytes::from_static(b"{\"received\":true}");
    Settle {
        lease: target.lease,
        key,
        recorded: 0,
        ended_before: None,
        received_at: at,
        next: NextState::Delivered,
        budget: fresh(at).budget,
        attempt,
        running: None,
    }
}

/// Takes all partitions.
async fn targets(store: &Handle, site: &Site) -> Result<Targets, Error> {
    let node = Node("figures".to_owned());
    store.queue.renew(node.clone()).await?;
    let mut leases = store.queue.take(node.clone(), u8::MAX).await?;
    leases.extend(store.queue.renew(node).await?.owned);
    let mut endpoints = Vec::new();
    for endpoint in &site.endpoints {
        let lease = leases.iter().find(|lease| lease.partition == endpoint.partition);
        let lease = lease.ok_or_else(|| Error::Refused("a partition is not free".to_owned()))?;
        endpoints.push((endpoint.clone(), *lease));
    }
    let revision = store.catalog.fan_out(site.application, moment()).await?.revision;
    Ok(Targets { endpoints, revision })
}

/// Bytes that look like chance and differ each time.
fn random() -> [u8; 16] {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
