//! Deliveries of a FIFO endpoint that are to be sent later: they take their places when they are due.

use domain::partition::Partition;
use domain::time::Timestamp;

use crate::Error;
use crate::catalog::Endpoint;
use crate::conformance::missing::missing;
use crate::conformance::replays::start;
use crate::conformance::{Harness, NOW, Scene, fresh, later};
use crate::keys::{DeliveryKey, MessageKey, Node};
use crate::queue::turn::{SCHEDULED, scheduled};
use crate::queue::{
    Accepted, Done, Load, NewDelivery, NextState, Number, Order, PendingDelivery, Request,
    RequestKind, Upkeep, Waiting,
};

pub async fn a_scheduled_delivery_has_no_place_until_it_is_due(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (fifo, due) = (scene.fifo_endpoint().await, scene.endpoint().await);
    let mut accept = scene.message_due(&fifo, later(40)).await;
    accept.deliveries.push(NewDelivery {
        endpoint: due.key,
        partition: due.partition,
        order: Order::Due,
        ..accept.deliveries[0]
    });
    let answer = scene.accept(vec![accept.clone()]).await.remove(0);
    let Accepted::New { message, turns } = answer.clone() else { panic!("{answer:?}") };
    assert_eq!(turns, [scheduled(later(40)), later(40).as_micros()]);
    assert_eq!(scene.accept(vec![accept]).await, [answer]);
    let loaded = scene.load(&fifo).await;
    assert!(loaded.deliveries.is_empty() && loaded.complete, "{loaded:?}");
    assert_eq!(scene.loaded(&due).await, [message], "others are not concerned");
    let [row] = &later_ones(&scene, &fifo).await[..] else { panic!("it is to be found") };
    assert_eq!((row.key.message, row.turn, row.pending), (message, turns[0], fresh(later(40))));
    assert_eq!(later_ones(&scene, &due).await, []);
}

pub async fn what_is_due_takes_its_place_by_due_time_then_by_acceptance(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let before = scene.pending(&endpoint).await.message;
    let mut made = Vec::new();
    for seconds in [30, 10, 10, 50] {
        made.push(scene.pending_due(&endpoint, later(seconds)).await.message);
    }
    let between = scene.pending(&endpoint).await.message;
    assert_eq!(number(&scene, &endpoint, later(30), 9).await, (3, Some(later(50))));
    let after = scene.pending(&endpoint).await.message;
    let line = [before, between, made[1], made[2], made[0], after];
    assert_eq!(scene.loaded(&endpoint).await, line);
    let loaded = scene.load(&endpoint).await.deliveries;
    assert_eq!(loaded[4].pending, fresh(later(30)), "its time counts from when it is due");
    assert_eq!(messages(&later_ones(&scene, &endpoint).await), [made[3]]);
    assert_eq!(number(&scene, &endpoint, later(49), 9).await, (0, Some(later(50))));
    assert_eq!(number(&scene, &endpoint, later(50), 9).await, (1, None));
    assert_eq!(number(&scene, &endpoint, later(99), 9).await, (0, None));
}

pub async fn a_step_that_comes_again_gives_no_second_place(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    for _ in 0..3 {
        scene.pending_due(&endpoint, later(10)).await;
    }
    assert_eq!(number(&scene, &endpoint, later(10), 2).await, (2, Some(later(10))));
    let places = scene.load(&endpoint).await;
    let waiting = scene.pending(&endpoint).await.message;
    assert_eq!(number(&scene, &endpoint, later(10), 1).await, (1, None));
    assert_eq!(number(&scene, &endpoint, later(10), 2).await, (0, None));
    let again = scene.load(&endpoint).await;
    assert_eq!(again.deliveries[..2], places.deliveries);
    assert_eq!(again.deliveries[2].key.message, waiting);
}

pub async fn whoever_has_only_scheduled_ones_waits_for_the_first_of_them(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    for seconds in [40, 20] {
        scene.pending_due(&endpoint, later(seconds)).await;
    }
    assert_eq!(waiting(&scene, &endpoint).await, (None, Some(later(20))));
    let first = scene.pending(&endpoint).await;
    let settle = scene.settling(first, 0, NextState::Pending { due: later(90) }).await;
    scene.settle_one(settle).await;
    assert_eq!(waiting(&scene, &endpoint).await, (Some(later(90)), Some(later(20))));
    number(&scene, &endpoint, later(60), 9).await;
    assert_eq!(waiting(&scene, &endpoint).await, (Some(later(90)), None));
}

pub async fn what_is_cancelled_or_of_another_endpoint_takes_no_place(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.fifo_endpoint().await, scene.fifo_endpoint().await);
    let first = scene.pending_due(&one, later(10)).await;
    let second = scene.pending_due(&one, later(10)).await;
    scene.pending_due(&two, later(10)).await;
    scene.store().ledger.cancel(first, later(5)).await.unwrap();
    assert_eq!(number(&scene, &one, later(10), 9).await, (1, None));
    assert_eq!(scene.loaded(&one).await, [second.message]);
    assert_eq!(scene.loaded(&two).await, []);
}

pub async fn a_scheduled_delivery_that_is_hurried_is_due_and_has_no_place_yet(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let scheduled_for = scene.pending_due(&endpoint, later(100)).await;
    let hurried = scene.pending_due(&endpoint, later(500)).await;
    let waiting = scene.pending(&endpoint).await;
    let entry = scene.store().ledger.retry_now(hurried, later(20)).await.unwrap();
    assert_eq!(entry, scene.look(hurried).await);
    let request = Request {
        number: 0,
        application: endpoint.application,
        endpoint: endpoint.key,
        partition: endpoint.partition,
        kind: RequestKind::RetryNow(hurried.message),
        at: later(30),
    };
    scene.ask(request).await;
    let rows = later_ones(&scene, &endpoint).await;
    assert_eq!(messages(&rows), [hurried, scheduled_for].map(|key| key.message));
    assert_eq!((rows[0].turn, rows[0].pending.due), (scheduled(later(20)), later(20)));
    assert_eq!(number(&scene, &endpoint, later(20), 9).await, (1, Some(later(100))));
    assert_eq!(scene.loaded(&endpoint).await, [waiting, hurried].map(|key| key.message));
}

pub async fn what_is_made_for_a_message_of_later_waits_for_its_time(harness: Harness) {
    let scene = Scene::new(harness).await;
    let message = scene.accept_new(scene.message(&[]).await).await;
    let endpoint = scene.fifo_endpoint().await;
    let task = start(&scene).await;
    let key = scene.key(&endpoint, message);
    let mut chunk = missing(&scene, &task, &endpoint, &[key]).await;
    chunk.at = later(20);
    let made = chunk.missing.as_mut().unwrap();
    made.deliveries[0].3 = fresh(later(70));
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(1));
    assert_eq!(scene.loaded(&endpoint).await, []);
    assert_eq!(number(&scene, &endpoint, later(70), 9).await, (1, None));
    assert_eq!(scene.loaded(&endpoint).await, [message]);
}

pub async fn what_is_scheduled_keeps_the_order_from_being_switched(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let key = scene.pending_due(&endpoint, later(10)).await;
    let switched = Endpoint { order: Order::Due, ..endpoint };
    let refused = scene.change(switched.clone()).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    scene.store().ledger.cancel(key, later(1)).await.unwrap();
    scene.change(switched).await.unwrap();
}

pub async fn only_the_owner_gives_places(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    scene.pending_due(&endpoint, later(10)).await;
    let step = step(&scene, &endpoint, later(10), 9);
    scene.store().queue.release(scene.node.clone(), vec![scene.lease(&endpoint)]).await.unwrap();
    scene.store().queue.take(Node("second".to_owned()), 64).await.unwrap();
    assert_eq!(scene.keep_up(step).await, Done::Fenced);
    assert_eq!(scene.loaded(&endpoint).await, []);
}

pub async fn what_is_scheduled_for_a_deleted_endpoint_is_buried(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let key = scene.pending_due(&endpoint, later(100)).await;
    let catalog = &scene.store().catalog;
    catalog.delete_endpoint(endpoint.application, endpoint.key, later(3)).await.unwrap();
    while scene.keep_up(Upkeep::Prune { now: later(9), most: 100 }).await != Done::Changed(0) {}
    assert_eq!(scene.look(key).await.state.word(), "dead");
}

fn step(scene: &Scene, endpoint: &Endpoint, until: Timestamp, most: u32) -> Upkeep {
    let (lease, application) = (scene.lease(endpoint), endpoint.application);
    Upkeep::Number(Number { lease, application, endpoint: endpoint.key, until, most })
}

/// Numbers what is due at a moment; returns how many, and when the next is due.
async fn number(
    scene: &Scene,
    endpoint: &Endpoint,
    until: Timestamp,
    most: u32,
) -> (u32, Option<Timestamp>) {
    match scene.keep_up(step(scene, endpoint, until, most)).await {
        Done::Numbered { count, next } => (count, next),
        done @ (Done::Changed(_) | Done::Fenced | Done::Refused(_)) => panic!("{done:?}"),
    }
}

/// Loads what is scheduled for an endpoint.
async fn later_ones(scene: &Scene, endpoint: &Endpoint) -> Vec<PendingDelivery> {
    let (application, endpoint) = (endpoint.application, endpoint.key);
    let load = Load { application, endpoint, from: SCHEDULED, most: 100, most_bytes: 1_000 };
    scene.store().queue.load(load).await.unwrap().deliveries
}

fn messages(rows: &[PendingDelivery]) -> Vec<MessageKey> {
    rows.iter().map(|PendingDelivery { key: DeliveryKey { message, .. }, .. }| *message).collect()
}

/// Returns when the first in the order is due, and the first of the scheduled ones.
async fn waiting(scene: &Scene, of: &Endpoint) -> (Option<Timestamp>, Option<Timestamp>) {
    let waiting = scene.store().queue.waiting(Partition::all().collect()).await.unwrap();
    let [Waiting { endpoint, due, scheduled, .. }] = waiting[..] else { panic!("{waiting:?}") };
    assert_eq!(
        (endpoint, waiting[0].first_due()),
        (of.key, due.into_iter().chain(scheduled).min())
    );
    assert!(waiting[0].first_due().is_some_and(|due| due > NOW));
    (due, scheduled)
}
