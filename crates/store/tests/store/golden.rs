//! A store of the first version, with data in it, is still what it was after it was migrated.
//!
//! The files in `golden` hold what the first version of the schema and of its rows looks like, one
//! for each dialect: an application, two endpoints, messages in every state, attempts, a token, a
//! task and a sum. They are never changed: a later version has to be able to read them.

use bytes::Bytes;
use domain::delivery::{Cause, Delivery};
use domain::endpoint::State;
use domain::partition::Partition;
use store::catalog::{Application, Name};
use store::conformance::{Handle, NOW, attempts_of, later};
use store::keys::{DeliveryKey, Node};
use store::ledger::{DeliveryEntry, NewTask, StoredAnswer, TaskKind};
use store::page::{From, Page};
use store::queue::{
    Accept, Accepted, Batch, Done, FirstState, Load, Minute, Missing, NewDelivery, NewMessage,
    Replay, RequestKind, Subject, Upkeep,
};

/// Looks at everything that is in the golden store, and works on with it.
pub(crate) async fn check(store: &Handle) {
    let application = application(store).await;
    let (catalog, ledger) = (&store.catalog, &store.ledger);
    let endpoints = catalog.endpoints(application.key, page()).await.unwrap().entries;
    let [fifo, due] = &endpoints[..] else { unreachable!("{endpoints:?}") };
    assert_eq!(due.confidential.path_and_query, "/hooks?token=1");
    assert_eq!((due.state, fifo.state), (State::Active, State::Active));
    let secrets = catalog.secrets(application.key, due.key, NOW).await.unwrap();
    let secrets: Vec<_> = secrets.iter().map(|secret| secret.text.as_str()).collect();
    assert_eq!(secrets, ["whsec_two", "whsec_one"]);
    assert_eq!(catalog.token("tok_1".to_owned()).await.unwrap().name, "golden");
    assert_eq!(catalog.event_type("invoice.paid".to_owned()).await.unwrap().created_at, NOW);

    let states = |entries: Vec<DeliveryEntry>| {
        entries.iter().map(|entry| entry.state.word()).collect::<Vec<_>>()
    };
    let listed = ledger.deliveries(application.key, due.key, Default::default(), page()).await;
    let entries = listed.unwrap().entries;
    let dead = entries.iter().find(|entry| entry.state == Delivery::Dead(Cause::Exhausted));
    let attempts = attempts_of(ledger, dead.unwrap().key).await.unwrap();
    assert_eq!(attempts.iter().map(|entry| entry.number).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(states(entries), ["cancelled", "dead", "delivered", "pending"]);
    let dead = ledger.dead_letters(application.key, Default::default(), page()).await.unwrap();
    assert_eq!(dead.entries.len(), 1);
    let sums = ledger.rollups(Subject::Whole, Minute::of(NOW), Minute(i64::MAX)).await.unwrap();
    let sum = &sums.minutes[0];
    assert_eq!((sum.succeeded, &sum.latencies[..2]), (2, &[1, 2][..]));
    // What that version did not sum up is nothing.
    assert_eq!((sum.accepted, sum.all_dead(), sum.attempt_times.len()), (0, 1, 0));
    assert_eq!(ledger.tasks(None, page()).await.unwrap().entries[0].by, "golden");
    let asked = store.queue.requests(Partition::all().collect()).await.unwrap();
    assert!(matches!(asked[..], [ref one] if matches!(one.kind, RequestKind::Cancel(_))));
    assert_eq!(store.queue.waiting(Partition::all().collect()).await.unwrap().len(), 2);
    let dead = dead.entries[0].key;
    sends_what_was_missing(store, &application, fifo, dead).await;
    works_on(store, &application, due).await;
}

/// Sends a message of the first version to an endpoint that did not get it.
async fn sends_what_was_missing(
    store: &Handle,
    application: &Application,
    late: &store::catalog::Endpoint,
    known: DeliveryKey,
) {
    let (ledger, node) = (&store.ledger, Node("replaying".to_owned()));
    let listed = ledger.messages(application.key, Default::default(), page()).await.unwrap();
    assert!(listed.entries.iter().all(|it| it.deliver_at.is_none() && it.only.is_none()));
    store.queue.renew(node.clone()).await.unwrap();
    let lease = store.queue.take(node.clone(), 64).await.unwrap()[0];
    let task = NewTask {
        id: domain::ids::Id::new(later(60), [9; 16]),
        application: application.key,
        endpoint: Some(late.key),
        kind: TaskKind::ReplayMissing,
        selection: serde_json::json!({}),
        by: "golden".to_owned(),
        at: later(60),
    };
    let task = ledger.start_task(task).await.unwrap();
    let key = DeliveryKey { endpoint: late.key, ..known };
    let made = (key, late.partition, late.order, store::conformance::fresh(later(60)));
    let (application, revision) = (application.key, application.revision);
    let missing = Missing { application, revision, deliveries: vec![made] };
    let chunk = Replay {
        lease,
        task: task.id,
        cursor: None,
        next_cursor: None,
        deliveries: Vec::new(),
        missing: Some(missing),
        passed_over: 0,
        at: later(60),
    };
    let batch = Batch { upkeep: vec![Upkeep::Replay(chunk)], ..Batch::default() };
    assert_eq!(store.queue.commit(batch.into()).await.unwrap().upkeep, [Done::Changed(1)]);
    let of = ledger.deliveries_of(application, key.message).await.unwrap();
    assert_eq!(of.iter().map(|entry| entry.key).collect::<Vec<_>>(), [known, key]);
    store.ledger.cancel(key, later(61)).await.unwrap();
    let leases = store.queue.renew(node.clone()).await.unwrap().owned;
    store.queue.release(node, leases).await.unwrap();
}

/// Does what the first version could do, and what only later ones can.
async fn works_on(store: &Handle, application: &Application, due: &store::catalog::Endpoint) {
    let load = Load {
        application: application.key,
        endpoint: due.key,
        from: i64::MIN,
        most: 9,
        most_bytes: 999,
    };
    let loaded = store.queue.load(load).await.unwrap().deliveries;
    assert_eq!(loaded[0].payload.as_deref(), Some(&br#"{"paid":true}"#[..]));
    let node = Node("after".to_owned());
    store.queue.renew(node.clone()).await.unwrap();
    let repeated = Accept { idempotency: Some([4; 32]), ..accept(application, due, 1) };
    let new = accept(application, due, 2);
    let batch = Batch { accepts: vec![repeated, new], ..Batch::default() };
    let answers = store.queue.commit(batch.into()).await.unwrap().accepts;
    let [Accepted::Repeated(_), Accepted::New { message, .. }] = answers[..] else {
        unreachable!("{answers:?}");
    };
    assert!(message > loaded[0].key.message);
    let DeliveryKey { application, .. } = loaded[0].key;
    let key = DeliveryKey { application, endpoint: due.key, message };
    store.ledger.retry_now(key, later(9)).await.unwrap();
    let answer = StoredAnswer { status: 201, headers: Vec::new(), body: Bytes::new() };
    store.ledger.remember_answer([1; 32], answer, NOW).await.unwrap();
    assert!(store.ledger.answer([1; 32], NOW).await.unwrap().is_some());
}

async fn application(store: &Handle) -> Application {
    let listed = store.catalog.applications(page()).await.unwrap();
    let id = listed.entries[0].id;
    store.catalog.application(Name::Id(id)).await.unwrap()
}

fn accept(application: &Application, endpoint: &store::catalog::Endpoint, number: u8) -> Accept {
    Accept {
        application: application.key,
        named: None,
        revision: application.revision,
        message: NewMessage {
            id: domain::ids::Id::new(later(60), [number; 16]),
            event_type: "invoice.paid".to_owned(),
            event_id: None,
            channels: Vec::new(),
            payload: Bytes::new(),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: later(60),
            retained_until: later(600),
        },
        idempotency: None,
        deliveries: vec![NewDelivery {
            endpoint: endpoint.key,
            partition: endpoint.partition,
            order: endpoint.order,
            state: FirstState::Pending(store::conformance::fresh(later(60))),
        }],
    }
}

fn page<Id>() -> Page<Id> {
    Page { from: From::Start, limit: 20 }
}
