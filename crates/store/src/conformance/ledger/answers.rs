//! Answers that are remembered for calls with an idempotency key, and steps that come again.

use bytes::Bytes;

use crate::catalog::Endpoint;
use crate::conformance::{Harness, MINUTE, NOW, Scene, later};
use crate::ledger::StoredAnswer;
use crate::limits;
use crate::queue::{Batch, Done, Minute, Once, Request, RequestKind, Rollup, Subject, Upkeep};

pub async fn an_answer_is_remembered_as_it_was_given(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    assert_eq!(ledger.answer([1; 32], NOW).await.unwrap(), None);
    let given = ledger.remember_answer([1; 32], answer(201, b"{}\0\xff"), NOW).await.unwrap();
    assert_eq!(given, answer(201, b"{}\0\xff"));
    assert_eq!(ledger.answer([1; 32], later(5)).await.unwrap(), Some(given));
    assert_eq!(ledger.answer([2; 32], later(5)).await.unwrap(), None);
    let elsewhere = &scene.harness.other.ledger;
    assert!(elsewhere.answer([1; 32], later(5)).await.unwrap().is_some());
}

pub async fn the_first_answer_stays(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    ledger.remember_answer([1; 32], answer(201, b"first"), NOW).await.unwrap();
    let second = ledger.remember_answer([1; 32], answer(409, b"second"), later(1)).await.unwrap();
    assert_eq!(second, answer(201, b"first"));
    assert_eq!(ledger.answer([1; 32], later(2)).await.unwrap(), Some(second));
}

pub async fn of_two_answers_at_once_both_callers_get_the_same(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (here, there) = (&scene.store().ledger, &scene.harness.other.ledger);
    for number in 0..10 {
        let (one, two) = tokio::join!(
            here.remember_answer([number; 32], answer(200, b"one"), NOW),
            there.remember_answer([number; 32], answer(200, b"two"), NOW),
        );
        assert_eq!(one.unwrap(), two.unwrap());
    }
}

pub async fn an_answer_is_forgotten_after_twelve_hours(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    ledger.remember_answer([1; 32], answer(201, b"first"), NOW).await.unwrap();
    let over = NOW.after(limits::IDEMPOTENCY);
    assert!(ledger.answer([1; 32], over.before(MINUTE)).await.unwrap().is_some());
    assert_eq!(ledger.answer([1; 32], over).await.unwrap(), None);
    let next = ledger.remember_answer([1; 32], answer(200, b"next"), over).await.unwrap();
    assert_eq!(next, answer(200, b"next"), "it takes the place of the old one");
    assert_eq!(ledger.answer([1; 32], over.after(MINUTE)).await.unwrap(), Some(next));
}

pub async fn an_answer_is_forgotten_unless_it_is_younger_than_was_meant(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (here, there) = (&scene.store().ledger, &scene.harness.other.ledger);
    here.remember_answer([1; 32], answer(201, b"first"), NOW).await.unwrap();
    here.remember_answer([2; 32], answer(201, b"other"), NOW).await.unwrap();
    there.forget_answer([1; 32], NOW.before(MINUTE)).await.unwrap();
    assert_eq!(here.answer([1; 32], NOW).await.unwrap(), Some(answer(201, b"first")));
    there.forget_answer([1; 32], NOW).await.unwrap();
    there.forget_answer([1; 32], NOW).await.unwrap();
    assert_eq!(here.answer([1; 32], NOW).await.unwrap(), None);
    let next = here.remember_answer([1; 32], answer(200, b"next"), later(1)).await.unwrap();
    assert_eq!(next, answer(200, b"next"));
    assert!(here.answer([2; 32], NOW).await.unwrap().is_some());
}

pub async fn answers_are_pruned_when_their_time_is_over(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    ledger.remember_answer([1; 32], answer(201, b"old"), NOW).await.unwrap();
    ledger.remember_answer([2; 32], answer(201, b"young"), NOW.after(MINUTE)).await.unwrap();
    let over = NOW.after(limits::IDEMPOTENCY);
    assert_eq!(prune(&scene, over, 100).await, Done::Changed(1));
    // Asked as of a moment when it still counted, so that only pruning can have removed it.
    assert_eq!(ledger.answer([1; 32], NOW).await.unwrap(), None);
    assert!(ledger.answer([2; 32], NOW).await.unwrap().is_some());
}

pub async fn sums_that_come_again_are_added_once(harness: Harness) {
    let scene = Scene::new(harness).await;
    let step = Upkeep::RollUp {
        lease: Some(scene.some_lease()),
        once: once(1),
        rollups: vec![rollup(Minute::of(NOW))],
    };
    for _ in 0..2 {
        assert_eq!(scene.keep_up(step.clone()).await, Done::Changed(1));
    }
    let twice = Batch { upkeep: vec![step.clone(), step], ..Batch::default() };
    assert_eq!(scene.commit(twice).await.upkeep, [Done::Changed(1), Done::Changed(1)]);
    assert_eq!(succeeded(&scene).await, [1]);
    let another = Upkeep::RollUp {
        lease: Some(scene.some_lease()),
        once: once(2),
        rollups: vec![rollup(Minute::of(NOW))],
    };
    scene.keep_up(another).await;
    assert_eq!(succeeded(&scene).await, [2]);
}

pub async fn a_request_that_comes_again_is_left_once(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let step = Upkeep::Ask { once: once(1), request: refresh(&endpoint) };
    for _ in 0..2 {
        assert_eq!(scene.keep_up(step.clone()).await, Done::Changed(1));
    }
    let left = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
    assert_eq!(left.len(), 1);
    // Consumed or not: what comes again does not come back.
    let lease = scene.lease(&endpoint);
    let requests = left.iter().map(|request| request.number).collect();
    scene.keep_up(Upkeep::Consume { lease, requests }).await;
    scene.keep_up(step).await;
    assert_eq!(scene.store().queue.requests(vec![endpoint.partition]).await.unwrap(), []);
}

pub async fn a_step_is_known_for_an_hour(harness: Harness) {
    let scene = Scene::new(harness).await;
    let step = Upkeep::RollUp {
        lease: Some(scene.some_lease()),
        once: once(1),
        rollups: vec![rollup(Minute::of(NOW))],
    };
    let young = Upkeep::RollUp {
        lease: Some(scene.some_lease()),
        once: Once { at: later(60), ..once(2) },
        rollups: vec![rollup(Minute::of(NOW))],
    };
    scene.keep_up(step.clone()).await;
    scene.keep_up(young.clone()).await;
    let over = NOW.after(limits::REMEMBERED);
    assert_eq!(prune(&scene, over.before(MINUTE), 100).await, Done::Changed(0));
    assert_eq!(prune(&scene, over, 100).await, Done::Changed(1));
    scene.keep_up(young).await;
    assert_eq!(succeeded(&scene).await, [2]);
    scene.keep_up(step).await;
    assert_eq!(succeeded(&scene).await, [3], "nobody remembers it any more");
}

pub async fn sums_go_after_ninety_days(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let own = Subject::Endpoint(endpoint.key);
    let (old, young) = (Minute::of(NOW), Minute::of(NOW.after(MINUTE)));
    let sums = [
        rollup(old),
        rollup(young),
        Rollup { subject: own, ..rollup(old) },
        Rollup { subject: own, ..rollup(young) },
        Rollup { subject: Subject::Application(endpoint.application), ..rollup(old) },
    ];
    scene
        .keep_up(Upkeep::RollUp {
            lease: Some(scene.some_lease()),
            once: once(1),
            rollups: sums.to_vec(),
        })
        .await;
    let over = NOW.after(limits::ROLLUPS + MINUTE);
    let mut removed = 0;
    for _ in 0..10 {
        let Done::Changed(rows) = prune(&scene, over, 1).await else { panic!("it is not fenced") };
        assert!(rows <= 1, "{rows} rows");
        removed += rows;
    }
    // The three sums and the step that brought them.
    assert_eq!(removed, 4);
    for subject in [Subject::Whole, own] {
        let kept = scene.store().ledger.rollups(subject, Minute(0), Minute(i64::MAX)).await;
        let kept: Vec<_> = kept.unwrap().minutes.iter().map(|sum| sum.minute).collect();
        assert_eq!(kept, [young], "{subject:?}");
    }
}

async fn prune(scene: &Scene, now: domain::time::Timestamp, most: u32) -> Done {
    scene.keep_up(Upkeep::Prune { now, most }).await
}

async fn succeeded(scene: &Scene) -> Vec<u64> {
    let sums = scene.store().ledger.rollups(Subject::Whole, Minute(0), Minute(i64::MAX)).await;
    sums.unwrap().minutes.iter().map(|sum| sum.succeeded).collect()
}

fn once(number: u8) -> Once {
    Once { at: NOW, id: [number; 16] }
}

fn answer(status: u16, body: &'static [u8]) -> StoredAnswer {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    StoredAnswer { status, headers, body: Bytes::from_static(body) }
}

fn rollup(minute: Minute) -> Rollup {
    Rollup { succeeded: 1, delivered: 1, ..Rollup::empty(Subject::Whole, minute) }
}

fn refresh(endpoint: &Endpoint) -> Request {
    Request {
        number: 0,
        application: endpoint.application,
        endpoint: endpoint.key,
        partition: endpoint.partition,
        kind: RequestKind::Refresh,
        at: NOW,
    }
}
