//! What becomes pending behind the engine's back: replayed, or written by another node. Whoever did
//! it wakes the owner, and nothing of it waits for the next walk.

use domain::delivery::Pending;
use domain::ids::TaskId;
use domain::outcome::Outcome;
use serde_json::Value;
use store::catalog::Endpoint;
use store::keys::{DeliveryKey, MessageKey};
use store::ledger::{NewTask, TaskKind};
use store::queue::{Batch, Call, Chosen, Done, Order, Replay, Upkeep};

use super::scene::{Kind, SECOND, Scene, policies};
use crate::Event;

const OK: Outcome = Outcome::answered(200);

/// Replays a delivery in the store, and wakes its owner.
pub(super) fn replay(scene: &mut Scene, endpoint: &Endpoint, message: MessageKey) {
    let at = scene.now.rows;
    let Endpoint { application, key, partition, .. } = *endpoint;
    let id = TaskId::new(at, [5; 16]);
    let kind = TaskKind::BulkReplay;
    let (selection, by) = (Value::Null, "scene".to_owned());
    let task = NewTask { id, application, endpoint: Some(key), kind, selection, by, at };
    scene.store.start_task(task).unwrap();
    let pending = Pending::fresh(&policies().server.policy.limits, at);
    let delivery = DeliveryKey { application, endpoint: key, message };
    let stored = scene.store.deliveries_of(application, message);
    let entry = stored.into_iter().find(|entry| entry.key == delivery).unwrap();
    let chosen = Chosen {
        key: delivery,
        partition,
        state: entry.state,
        ended_at: entry.settled_at,
        pending,
    };
    let chunk = Replay {
        lease: scene.lease(endpoint).unwrap(),
        task: id,
        cursor: None,
        next_cursor: None,
        deliveries: vec![chosen],
        missing: None,
        passed_over: 0,
        at,
    };
    let batch = Batch { upkeep: vec![Upkeep::Replay(chunk)], ..Batch::default() };
    assert_eq!(scene.store.commit(batch).upkeep, [Done::Changed(1)]);
    scene.tell(Event::Woken(Call::Work(vec![partition])));
}

fn replayed_before_the_settle_is_answered(order: Order) {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint_with(order, Default::default());
    let message = scene.send(&endpoint);
    scene.keep = vec![Kind::Settle];
    scene.end(OK);
    let settle = scene.kept.pop_front().unwrap();
    let answer = scene.answer(settle);
    scene.pass(SECOND / 1_000);
    replay(&mut scene, &endpoint, message);
    assert!(scene.flying.is_empty(), "as far as it knows, it is still being settled");
    scene.tell(answer);
    // Its rate lets it go a moment later, long before the next walk.
    scene.pass(SECOND / 50);
    assert_eq!(scene.flying.len(), 1, "without waiting for a walk");
    scene.keep.clear();
    scene.end(OK);
    scene.pass(20 * SECOND);
    assert_eq!((scene.flying.len(), scene.pending(&endpoint)), (0, 0));
}

#[test]
fn a_replay_is_sent_though_the_cancel_before_it_is_heard_after_it() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint_with(Order::Fifo, Default::default());
    scene.keep = vec![Kind::Requests];
    scene.send(&endpoint);
    let second = scene.accept(&endpoint).key;
    scene.store.cancel(second, scene.now.rows).unwrap();
    replay(&mut scene, &endpoint, second.message);
    scene.pass(6 * SECOND);
    // Only now the request to cancel it is read.
    while let Some(requests) = scene.kept.pop_front() {
        let requests = scene.answer(requests);
        scene.tell(requests);
    }
    scene.end(OK);
    let flying: Vec<_> = scene.flying.iter().map(|it| it.delivery.key).collect();
    assert_eq!(flying, [second], "without waiting for a walk");
}

#[test]
fn a_replay_keeps_its_place_though_an_older_cancel_is_heard_after_it() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint_with(Order::Fifo, Default::default());
    scene.keep = vec![Kind::Requests];
    scene.send(&endpoint);
    // It waits in memory, as it was before it was cancelled and replayed.
    let second = scene.send(&endpoint);
    let delivery =
        DeliveryKey { application: endpoint.application, endpoint: endpoint.key, message: second };
    scene.store.cancel(delivery, scene.now.rows).unwrap();
    replay(&mut scene, &endpoint, second);
    let third = scene.send(&endpoint);
    scene.pass(6 * SECOND);
    while let Some(requests) = scene.kept.pop_front() {
        let requests = scene.answer(requests);
        scene.tell(requests);
    }
    let mut arrived = Vec::new();
    while !scene.flying.is_empty() {
        arrived.push(scene.end(OK).delivery.key.message);
    }
    assert_eq!(arrived[1..], [second, third], "without waiting for a walk");
}

#[test]
fn a_replay_that_comes_before_the_answer_to_the_settle_is_sent_after_it() {
    replayed_before_the_settle_is_answered(Order::Due);
    replayed_before_the_settle_is_answered(Order::Fifo);
}

#[test]
fn a_replay_is_sent_although_an_earlier_one_is_in_flight() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let first = scene.send(&endpoint);
    scene.end(OK);
    scene.pass(SECOND);
    let other = scene.send(&endpoint);
    scene.pass(SECOND / 1_000);
    replay(&mut scene, &endpoint, first);
    // Two at a time after a success.
    let flying: Vec<_> = scene.flying.iter().map(|it| it.delivery.key.message).collect();
    assert_eq!(flying, [other, first]);
}

#[test]
fn what_another_node_wrote_behind_one_in_flight_is_sent_when_there_is_room() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.pass(SECOND / 100);
    // A new endpoint has one attempt at a time, so there is nothing to look for yet.
    let message = scene.accept(&endpoint).key.message;
    scene.tell(Event::Woken(Call::Work(vec![endpoint.partition])));
    assert_eq!((scene.flying.len(), scene.count("loads")), (1, 0));
    scene.end(OK);
    assert_eq!(scene.flying.first().map(|it| it.delivery.key.message), Some(message));
    scene.end(OK);
    scene.pass(SECOND / 100);
    assert_eq!((scene.flying.len(), scene.pending(&endpoint)), (0, 0));
}

#[test]
fn a_delivery_cancelled_and_replayed_in_flight_begins_anew_however_the_attempt_ends() {
    for end in [OK, Outcome::answered(503)] {
        let mut scene = Scene::new();
        let endpoint = scene.endpoint();
        scene.send(&endpoint);
        let key = scene.flying[0].delivery.key;
        scene.store.cancel(key, scene.now.rows).unwrap();
        scene.pass(2 * SECOND);
        replay(&mut scene, &endpoint, key.message);
        assert_eq!(scene.flying.len(), 1, "not twice at a time");
        scene.end(end);
        scene.pass(SECOND / 50);
        let anew = &scene.flying[0].delivery;
        assert_eq!((anew.key, anew.recorded, anew.pending.budget.attempts), (key, 1, 0));
        scene.end(OK);
        scene.pass(20 * SECOND);
        assert_eq!((scene.flying.len(), scene.pending(&endpoint)), (0, 0));
        assert_eq!(scene.settles.len(), 2);
    }
}

#[test]
fn a_delivery_cancelled_and_replayed_in_flight_is_sent_again_if_we_interrupt_it() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let key = scene.flying[0].delivery.key;
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(2 * SECOND);
    replay(&mut scene, &endpoint, key.message);
    // Also if our own code fails at it again and again; then it is buried.
    for _ in 0..3 {
        assert_eq!(scene.flying.len(), 1);
        scene.panic();
        scene.pass(2 * SECOND);
    }
    assert!(scene.flying.is_empty());
    assert_eq!(scene.pending(&endpoint), 0);
}
