//! How many messages a second go through a whole life on SQLite, and how many through a bare loop
//! of the same rows without anything around it.
//!
//! `cargo run --release -p redial-store --example sqlite_pace -- DIRECTORY [BATCH] [BATCHES]`

#![expect(clippy::disallowed_methods, reason = "it measures time, and nothing depends on it")]
#![expect(clippy::print_stdout, reason = "it prints what it measured")]
#![expect(clippy::unwrap_used, reason = "it stops at the first surprise")]

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::delivery::{Budget, Pending};
use domain::endpoint::State;
use domain::ids::{AttemptId, Id, Noun};
use domain::outcome::Outcome;
use domain::time::Timestamp;
use rusqlite::{Connection, params};
use store::catalog::{
    ApplicationSettings, Confidential, Endpoint, EndpointSettings, NewApplication, NewEndpoint,
    Secret,
};
use store::keys::{DeliveryKey, Lease, Node};
use store::queue::{
    Accept, Accepted, AttemptRecord, Batch, FirstState, NewDelivery, NewMessage, NextState, Order,
    Phases, Settle, Settled, Trigger,
};
use store::sqlite::{Settings, Sqlite};
use store::{Catalog, Queue};

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
const ENDPOINTS: usize = 64;
const PAYLOAD: [u8; 1_000] = [b'x'; 1_000];
const BODY: &[u8] = b"{\"received\":true}";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "/tmp/redial-pace".to_owned());
    let batch = arguments.next().map_or(128, |text| text.parse().unwrap());
    let batches = arguments.next().map_or(200, |text| text.parse().unwrap());
    let directory = Path::new(&directory);
    let _old = std::fs::remove_dir_all(directory);
    let bare = bare(&directory.join("bare"), batch, batches);
    let store = whole(&directory.join("store"), batch, batches);
    println!("batches of {batch}: bare {bare:.0}/s, store {store:.0}/s, {:.2}", store / bare);
}

/// Takes messages through their life: each batch accepts some and settles those of the last.
fn whole(directory: &Path, batch: usize, batches: usize) -> f64 {
    let settings = Settings::new(directory, |bytes| bytes.fill(7), Arc::new(|| NOW));
    let store = Sqlite::open(settings).unwrap();
    let (endpoints, revision) = wait(set_up(&store));
    let leases = wait(store.take(Node("pace".to_owned()), 64)).unwrap();
    let mut settles = Vec::new();
    let began = Instant::now();
    for _ in 0..=batches {
        let accepts: Vec<_> =
            (0..batch).map(|number| message(&endpoints[number % ENDPOINTS], revision)).collect();
        let endpoints: Vec<_> = accepts.iter().map(|accept| accept.deliveries[0]).collect();
        let given = Batch { accepts, settles, upkeep: Vec::new() };
        let committed = wait(store.commit(given)).unwrap();
        assert!(committed.settles.iter().all(|one| *one == Settled::Applied { turn: None }));
        let accepted = committed.accepts.iter().zip(&endpoints);
        settles = accepted.map(|(accepted, to)| settle(accepted, to, &leases)).collect();
    }
    per_second(batch * batches, began.elapsed())
}

/// Writes the same rows in the same transactions, and nothing else.
fn bare(directory: &Path, batch: usize, batches: usize) -> f64 {
    std::fs::create_dir_all(directory).unwrap();
    let connection = Connection::open(directory.join("bare.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL; PRAGMA cache_size = -40960;",
        )
        .unwrap();
    connection.execute_batch(include_str!("../migrations/sqlite/0001_first.sql")).unwrap();
    connection.set_prepared_statement_cache_capacity(64);
    let mut last = 0..0;
    let began = Instant::now();
    for round in 0..=batches {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let first = i64::try_from(round * batch).unwrap();
        let these = first..first + i64::try_from(batch).unwrap();
        these.clone().for_each(|number| bare_accept(&connection, number));
        last.for_each(|number| bare_settle(&connection, number));
        last = these;
        connection.execute_batch("COMMIT").unwrap();
    }
    per_second(batch * batches, began.elapsed())
}

fn bare_accept(connection: &Connection, number: i64) {
    let id = *id::<domain::ids::noun::Message>().as_bytes();
    let endpoint = number % i64::try_from(ENDPOINTS).unwrap();
    let now = NOW.as_micros();
    connection
        .prepare_cached(
            "INSERT INTO messages VALUES (?1, 1, ?2, 'invoice.paid', NULL, NULL, NULL,
            NULL, ?3, ?4, ?4, ?5, ?6)",
        )
        .unwrap()
        .execute(params![number, id, hash(), now, endpoint.to_be_bytes(), PAYLOAD])
        .unwrap();
    connection
        .prepare_cached("INSERT INTO idempotency VALUES (1, ?1, ?2, ?3)")
        .unwrap()
        .execute(params![hash(), id, now])
        .unwrap();
    connection
        .prepare_cached(
            "INSERT INTO deliveries VALUES (?1, ?2, 1, 1, 0, 0, NULL, ?3, ?3, 0, 0, 0,
            ?3, 0, NULL, NULL, NULL, NULL)",
        )
        .unwrap()
        .execute(params![endpoint, number, now])
        .unwrap();
}

fn bare_settle(connection: &Connection, number: i64) {
    let attempt = attempt();
    let endpoint = number % i64::try_from(ENDPOINTS).unwrap();
    let now = NOW.as_micros();
    connection
        .prepare_cached(
            "INSERT INTO attempts VALUES (?1, ?2, ?3, 1, NULL, 1, ?4, ?4, 0, 0, 200,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ?5, ?6, ?7)",
        )
        .unwrap()
        .execute(params![
            endpoint,
            attempt.id.as_bytes(),
            number,
            now,
            serde_json::to_string(&attempt.request_headers).unwrap(),
            serde_json::to_string(&attempt.response_headers).unwrap(),
            BODY
        ])
        .unwrap();
    connection
        .prepare_cached(
            "UPDATE deliveries SET state = 1, settled_at = ?1, recorded = 1,
            last_attempt = ?2, last_attempt_at = ?1, last_status = 200
            WHERE endpoint = ?3 AND message = ?4",
        )
        .unwrap()
        .execute(params![now, attempt.id.as_bytes(), endpoint, number])
        .unwrap();
}

async fn set_up(store: &Sqlite) -> (Vec<Endpoint>, i64) {
    let settings = ApplicationSettings::default();
    let new = NewApplication { id: id(), uid: None, settings, at: NOW };
    let application = store.create_application(new).await.unwrap();
    let mut endpoints = Vec::new();
    for _ in 0..ENDPOINTS {
        let new = NewEndpoint {
            application: application.key,
            id: id(),
            uid: None,
            state: State::Active,
            order: Order::Due,
            settings: EndpointSettings::default(),
            confidential: Confidential::default(),
            secret: Secret { text: "whsec_".to_owned(), created_at: NOW, expires_at: None },
            at: NOW,
        };
        endpoints.push(store.create_endpoint(new).await.unwrap());
    }
    (endpoints, store.fan_out(application.key, NOW).await.unwrap().revision)
}

fn message(endpoint: &Endpoint, revision: i64) -> Accept {
    let budget =
        Budget { attempts: 0, ambiguous: 0, last_wait: Duration::ZERO, expires_at: Some(NOW) };
    Accept {
        application: endpoint.application,
        revision,
        message: NewMessage {
            id: id(),
            event_type: "invoice.paid".to_owned(),
            event_id: None,
            channels: Vec::new(),
            payload: Bytes::from_static(&PAYLOAD),
            content_type: None,
            policy: None,
            received_at: NOW,
            retained_until: NOW,
        },
        idempotency: Some(hash()),
        deliveries: vec![NewDelivery {
            endpoint: endpoint.key,
            partition: endpoint.partition,
            order: Order::Due,
            state: FirstState::Pending(Pending { due: NOW, budget }),
        }],
    }
}

fn settle(accepted: &Accepted, to: &NewDelivery, leases: &[Lease]) -> Settle {
    let Accepted::New { message, .. } = *accepted else {
        unreachable!("each message is new");
    };
    let FirstState::Pending(pending) = to.state else {
        unreachable!("each delivery begins pending");
    };
    let application = store::keys::ApplicationKey(1);
    Settle {
        lease: leases[usize::from(to.partition.number())],
        key: DeliveryKey { application, endpoint: to.endpoint, message },
        recorded: 0,
        next: NextState::Delivered,
        budget: pending.budget,
        attempt: attempt(),
        running: None,
    }
}

fn attempt() -> AttemptRecord {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    AttemptRecord {
        id: id::<domain::ids::noun::Attempt>() as AttemptId,
        began_at: NOW,
        ended_at: NOW,
        trigger: Trigger::Scheduled,
        outcome: Outcome::answered(200),
        phases: Phases::default(),
        request_headers: vec![
            header("content-type", "application/json"),
            header("user-agent", "redial/0.1"),
            header("webhook-id", "msg_2rQ4Cq7dnFZ6oVgEUYIUVvXgeJ3"),
            header("webhook-timestamp", "1800000000"),
            header("webhook-signature", "v1,…"),
        ],
        response_headers: vec![
            header("content-type", "application/json"),
            header("date", "Fri, 15 Jan 2027 08:00:00 GMT"),
        ],
        response_body: Bytes::from_static(BODY),
        error: None,
    }
}

/// Makes an id that sorts behind those before it.
fn id<N: Noun>() -> Id<N> {
    let mut random = [7; 16];
    random[1..9].copy_from_slice(&next().to_be_bytes());
    Id::new(NOW, random)
}

/// Makes a hash that is anywhere among the others.
fn hash() -> [u8; 32] {
    let mut hash = [3; 32];
    let scattered = next().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash[..8].copy_from_slice(&scattered.to_be_bytes());
    hash
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn per_second(messages: usize, elapsed: Duration) -> f64 {
    f64::from(u32::try_from(messages).unwrap()) / elapsed.as_secs_f64()
}

/// Waits for an answer on this thread.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut answer = pin!(answer);
    loop {
        match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}
