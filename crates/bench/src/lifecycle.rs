//! Many callers at once, each of whom accepts a message and settles its one delivery, over and
//! over: what a busy server does to its store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use committer::Committer;
use domain::delivery::{Budget, Pending};
use domain::ids::{AttemptId, EndpointId, MessageId};
use domain::outcome::Outcome;
use domain::partition::Partition;
use domain::policy::Limits;
use domain::time::Timestamp;
use host::clock::Clock;
use store::Headers;
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, Lease};
use store::queue::{
    Accept, Accepted, AttemptRecord, FirstState, NewDelivery, NewMessage, NextState, Order, Phases,
    Settle, Settled, Trigger,
};

/// How large the payload is.
pub(super) const PAYLOAD_BYTES: usize = 512;

/// For whom messages are accepted, and by what right they are settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) application: ApplicationKey,
    pub(super) revision: i64,
    pub(super) endpoint: EndpointKey,
    pub(super) endpoint_id: EndpointId,
    pub(super) lease: Lease,
}

/// Lets some callers do so many lifecycles between them.
///
/// # Errors
/// If the store refuses one: a benchmark of errors would be worth nothing.
pub(super) async fn run(
    committer: &Committer,
    clock: &Arc<dyn Clock>,
    target: Target,
    callers: u64,
    lifecycles: u64,
) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let payload = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (committer, clock) = (committer.clone(), Arc::clone(clock));
            let (next, payload) = (Arc::clone(&next), payload.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= lifecycles {
                        return anyhow::Ok(());
                    }
                    live(&committer, clock.as_ref(), target, number, payload.clone()).await?;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn live(
    committer: &Committer,
    clock: &dyn Clock,
    target: Target,
    number: u64,
    payload: Bytes,
) -> anyhow::Result<()> {
    let now = clock.now();
    let accepted = committer.accept(accept(target, number, payload, now)?).await?;
    let Accepted::New { message, .. } = accepted else {
        anyhow::bail!("message {number} was not accepted: {accepted:?}")
    };
    let key = DeliveryKey { application: target.application, endpoint: target.endpoint, message };
    let settled = committer.settle(settle(target, key, number, clock.now())).await?;
    anyhow::ensure!(
        settled == Settled::Applied { turn: None },
        "message {number} was not settled: {settled:?}"
    );
    Ok(())
}

fn accept(target: Target, number: u64, payload: Bytes, now: Timestamp) -> anyhow::Result<Accept> {
    let limits = Limits::new(Some(10), Some(Duration::from_secs(96 * 3_600)))?;
    let message = NewMessage {
        id: MessageId::new(now, random(number)),
        event_type: "bench.lifecycle".to_owned(),
        event_id: None,
        channels: Vec::new(),
        payload,
        content_type: None,
        policy: None,
        deliver_at: None,
        only: None,
        received_at: now,
        retained_until: now.after(Duration::from_secs(30 * 86_400)),
    };
    let mut hash = [0; 32];
    hash[..16].copy_from_slice(&random(number));
    hash[16..24].copy_from_slice(&now.as_micros().to_be_bytes());
    Ok(Accept {
        application: target.application,
        named: None,
        revision: target.revision,
        message,
        idempotency: Some(hash),
        deliveries: vec![NewDelivery {
            endpoint: target.endpoint,
            partition: Partition::of(&target.endpoint_id),
            order: Order::Due,
            state: FirstState::Pending(Pending::fresh(&limits, now)),
        }],
    })
}

fn settle(target: Target, key: DeliveryKey, number: u64, now: Timestamp) -> Settle {
    Settle {
        lease: target.lease,
        key,
        recorded: 0,
        ended_before: None,
        next: NextState::Delivered,
        budget: Budget {
            attempts: 1,
            ambiguous: 0,
            last_wait: Duration::ZERO,
            expires_at: Some(now.after(Duration::from_secs(96 * 3_600))),
        },
        attempt: AttemptRecord {
            id: AttemptId::new(now, random(number)),
            began_at: now,
            ended_at: now,
            trigger: Trigger::Scheduled,
            outcome: Outcome::answered(200),
            retry_after_kept: None,
            phases: Phases { first_byte: Some(Duration::from_micros(850)), ..Phases::default() },
            request_headers: headers(&["webhook-id", "webhook-timestamp", "webhook-signature"]),
            response_headers: headers(&["content-type", "date"]),
            response_body: Bytes::from_static(b"{\"received\":true}"),
            error: None,
            refusal: None,
            hops: Vec::new(),
        },
        running: None,
    }
}

fn headers(names: &[&str]) -> Headers {
    names.iter().map(|name| (name, "0123456789abcdef")).collect()
}

/// Bytes that look like chance and differ for each number, without the cost of real chance.
fn random(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mixed.to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes
}
