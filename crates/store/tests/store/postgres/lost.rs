//! Connections that are lost: in the middle of a commit, and at rest.

use std::sync::Arc;
use std::time::Duration;

use domain::partition::Partition;
use store::conformance::{NOW, Scene, attempts_of, later};
use store::postgres::Postgres;
use store::queue::{
    Accept, Accepted, Batch, Done, Minute, NextState, Once, Request, RequestKind, Rollup, Settled,
    Subject, Upkeep,
};

use super::fleet::WAITING;
use super::harness;
use super::proxy::{Fault, Proxy};
use super::server::Schema;

/// How often whoever connects is turned away: more often than a conflict is tried again.
const REFUSED: u32 = 6;

/// A scene whose store is behind a proxy, with the proxy and a look past both.
async fn arrange() -> (Scene, Proxy, Arc<Schema>) {
    let (schema, proxy) = (Arc::new(Schema::create().await), Proxy::start().await);
    let store = Postgres::connect(schema.settings(&proxy.url())).await.unwrap();
    let other = schema.open().await;
    let scene = Scene::new(harness(Arc::clone(&schema), store, other)).await;
    (scene, proxy, schema)
}

#[tokio::test]
async fn an_accept_whose_commit_was_not_answered_is_accepted_once() {
    let (scene, proxy, schema) = arrange().await;
    let endpoint = scene.fifo_endpoint().await;
    for (number, fault) in (1..).zip([Fault::LoseAnswer, Fault::LoseQuestion]) {
        let mut accept = scene.message(&[&endpoint]).await;
        accept.idempotency = Some([u8::try_from(number).unwrap(); 32]);
        accept.message.event_id = Some(format!("event {number}"));
        proxy.strike(fault.clone());
        let answers = scene.accept(vec![accept]).await;
        proxy.struck().await;
        let [Accepted::New { message, turns }] = &answers[..] else {
            panic!("{fault:?}: {answers:?}");
        };
        assert_eq!(schema.number("select count(*) from messages").await, number);
        assert_eq!(schema.number("select count(*) from deliveries").await, number);
        let stored = format!("select turn from deliveries where message = {}", message.0);
        assert_eq!(turns[..], [schema.number(&stored).await]);
    }
}

#[tokio::test]
async fn what_became_of_a_commit_is_found_out_once_the_server_is_back() {
    let (scene, proxy, schema) = arrange().await;
    let endpoint = scene.endpoint().await;
    // Both lanes have their connection before there are none to be had.
    scene.settled(&endpoint, NextState::Delivered).await;
    let key = scene.pending(&endpoint).await;
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    for fault in [Fault::LoseAnswer, Fault::LoseQuestion] {
        let accept = scene.message(&[&endpoint]).await;
        proxy.refuse(REFUSED);
        proxy.strike(fault.clone());
        let answers = scene.accept(vec![accept]).await;
        assert!(matches!(answers[..], [Accepted::New { .. }]), "{fault:?}: {answers:?}");
    }
    assert_eq!(schema.number("select count(*) from messages").await, 4);
    proxy.refuse(REFUSED);
    proxy.strike(Fault::LoseAnswer);
    assert_eq!(scene.settle_one(settle).await, Settled::Applied { turn: None });
}

#[tokio::test]
async fn an_accept_that_is_repeated_while_its_first_try_commits_keeps_its_key() {
    let (scene, proxy, schema) = arrange().await;
    let endpoint = scene.endpoint().await;
    let accept = Accept { idempotency: Some([7; 32]), ..scene.message(&[&endpoint]).await };
    let repeated = Batch { accepts: vec![accept.clone()], ..Batch::default() };

    let thaw = Arc::default();
    proxy.strike(Fault::Freeze(Arc::clone(&thaw)));
    let second = async {
        proxy.struck().await;
        let committing = scene.harness.other.queue.commit(repeated.into());
        let (committed, ()) = tokio::join!(committing, async {
            while schema.number(WAITING).await == 0 {
                tokio::task::yield_now().await;
            }
            thaw.notify_one();
        });
        committed.unwrap().accepts
    };
    let (first, second) = tokio::join!(scene.accept(vec![accept.clone()]), second);
    assert!(matches!(first[..], [Accepted::New { .. }]), "{first:?}");
    assert_eq!(first, second);
    // Whoever asks once more is told so, and gets no second message.
    let answers = scene.accept(vec![scene.again(&accept)]).await;
    assert_eq!(answers, [Accepted::Repeated(accept.message.id)]);
}

#[tokio::test]
async fn a_settle_whose_commit_was_not_answered_is_recorded_once() {
    let (scene, proxy, _) = arrange().await;
    let endpoint = scene.endpoint().await;
    for fault in [Fault::LoseAnswer, Fault::LoseQuestion] {
        let key = scene.pending(&endpoint).await;
        let retry = scene.settling(key, 0, NextState::Pending { due: later(60) }).await;
        let end = scene.settling(key, 1, NextState::Delivered).await;
        proxy.strike(fault.clone());
        let answers = scene.settle(vec![retry, end]).await;
        proxy.struck().await;
        let applied = answers.iter().all(|answer| matches!(answer, Settled::Applied { .. }));
        assert!(applied, "{fault:?}: {answers:?}");
        assert_eq!(scene.look(key).await.recorded, 2, "{fault:?}");
        assert_eq!(attempts_of(&scene.store().ledger, key).await.unwrap().len(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn upkeep_whose_commit_was_not_answered_is_done_once() {
    let (scene, proxy, _) = arrange().await;
    let endpoint = scene.endpoint().await;
    let minute = Minute::of(NOW);
    let mut rollup = Rollup::empty(Subject::Whole, minute);
    rollup.attempt(true, true, Duration::ZERO);
    rollup.deliver(true, Duration::ZERO);
    let ask = Request {
        number: 0,
        application: endpoint.application,
        endpoint: endpoint.key,
        partition: endpoint.partition,
        kind: RequestKind::Refresh,
        at: NOW,
    };
    for (number, fault) in (1..).zip([Fault::LoseAnswer, Fault::LoseQuestion]) {
        let once = |id: u8| Once { at: NOW, id: [2 * number + id; 16] };
        let upkeep = vec![
            Upkeep::RollUp {
                lease: Some(scene.some_lease()),
                once: once(0),
                rollups: vec![rollup.clone()],
            },
            Upkeep::Ask { once: once(1), request: ask.clone() },
        ];
        proxy.strike(fault.clone());
        let done = scene.commit(Batch { upkeep, ..Batch::default() }).await.upkeep;
        proxy.struck().await;
        assert_eq!(done, [Done::Changed(1), Done::Changed(1)], "{fault:?}");
        let ledger = &scene.store().ledger;
        let sums = ledger.rollups(Subject::Whole, minute, Minute(minute.0 + 1)).await.unwrap();
        assert_eq!(sums.minutes[0].succeeded, u64::from(number), "{fault:?}");
        let asked = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
        assert_eq!(asked.len(), usize::from(number), "{fault:?}");
    }
}

#[tokio::test]
async fn after_its_connections_were_ended_a_store_goes_on_by_itself() {
    let (scene, _, schema) = arrange().await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    let accept = scene.message(&[&endpoint]).await;
    schema.terminate().await;
    // The lanes repeat what they lost.
    let batch = Batch { accepts: vec![accept], settles: vec![settle], ..Batch::default() };
    let committed = scene.commit(batch).await;
    assert!(matches!(committed.accepts[..], [Accepted::New { .. }]), "{committed:?}");
    assert_eq!(committed.settles, [Settled::Applied { turn: None }]);
    // Reads may fail once, and work within the time that was promised.
    let works = async {
        while scene.store().queue.waiting(Partition::all().collect()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(2), works).await.unwrap();
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_says_that_it_is_worth_another_try() {
    let schema = Schema::create().await;
    let nowhere = super::server::url_with_address("127.0.0.1:1");
    let failed = Postgres::connect(schema.settings(&nowhere)).await.unwrap_err();
    assert!(failed.is_retryable(), "{failed}");
}

#[tokio::test]
async fn a_call_that_is_given_up_half_way_leaves_no_transaction_behind() {
    let (scene, proxy, schema) = arrange().await;
    let endpoint = scene.endpoint().await;
    let (one, two) = (scene.message(&[&endpoint]).await, scene.message(&[&endpoint]).await);
    proxy.strike(Fault::Freeze(Arc::default()));
    let frozen = scene.accept(vec![one]);
    tokio::select! {
        answers = frozen => panic!("{answers:?}"),
        () = proxy.struck() => {}
    }
    // The frozen connection is closed; the next batch gets another one.
    let answers = scene.accept(vec![two]).await;
    assert!(matches!(answers[..], [Accepted::New { .. }]), "{answers:?}");
    assert_eq!(schema.number("select count(*) from messages").await, 1);
}
