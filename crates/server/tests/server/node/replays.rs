//! Replay tasks, from chunk to chunk.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::ids::{DeliveryId, MessageId};
use domain::time::Timestamp;
use serde_json::json;
use store::Ledger as _;
use store::ledger::{TaskKind, TaskState};

use super::damaged::Damaged;
use super::scene::{Scene, Step, Store, entry, selection, until};
use super::trouble::{Panics, obedient};

const MINUTE: Duration = Duration::from_secs(60);

fn delivery(scene: &Scene, message: &MessageId) -> DeliveryId {
    DeliveryId::derive(message, scene.endpoint().0.cast_unsigned())
}

#[tokio::test]
async fn a_damaged_row_among_those_that_a_replay_names_is_passed_over() {
    let first = Scene::begin(&[Step::Answer(200)]).await;
    let now = first.now();
    let messages = first.dead_letters([now; 3]).await;
    let ids: Vec<DeliveryId> = messages.iter().map(|message| delivery(&first, message)).collect();
    let store = first.end().await;
    let ledger = Damaged { memory: Arc::clone(store.memory()), delivery: ids[1] };
    let scene = Scene::reading(store, Arc::new(ledger), &[Step::Answer(200)]).await;
    let mut named = selection("dead");
    named["ids"] = json!(ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    let task = scene.start(TaskKind::BulkReplay, scene.endpoint(), named).await;
    assert_eq!(scene.done(task).await.replayed, 2);
    scene.end().await;
}

#[tokio::test]
async fn a_damaged_delivery_does_not_hold_up_what_an_endpoint_never_got() {
    let first = Scene::begin(&[Step::Answer(200)]).await;
    let now = first.now();
    let messages = first.dead_letters([now; 3]).await;
    let odd = delivery(&first, &messages[1]);
    let store = first.end().await;
    let ledger = Damaged { memory: Arc::clone(store.memory()), delivery: odd };
    let scene = Scene::reading(store, Arc::new(ledger), &[Step::Answer(200)]).await;
    let all = selection("undelivered");
    let task = scene.start(TaskKind::ReplayMissing, scene.endpoint(), all).await;
    assert_eq!(scene.done(task).await.replayed, 2);
    scene.end().await;
}

#[tokio::test]
async fn a_row_that_the_database_refuses_is_passed_over_and_the_others_are_sent() {
    for (count, unfit) in [(600, 123), (1, 0), (2, 1)] {
        let (scene, queue) = obedient(&[Step::Answer(200)]).await;
        let messages = scene.dead_letters(vec![scene.now(); count]).await;
        queue.refuse(scene.look(messages[unfit]).await.key.message);
        let task = scene.start(TaskKind::Recover, scene.endpoint(), selection("dead")).await;
        assert_eq!(scene.done(task).await.replayed, u64::try_from(count).unwrap() - 1);
        let refused = scene.look(messages[unfit]).await.state;
        assert_eq!(refused, Delivery::Dead(Cause::Permanent));
        scene.end().await;
    }
}

#[tokio::test]
async fn a_message_that_was_received_late_does_not_end_a_replay_before_its_time() {
    let scene = Scene::begin(&[Step::Answer(200)]).await;
    let now = scene.now();
    let since = now.before(5 * MINUTE);
    // Rows are in the order of their commits: the second one was long on its way.
    let mut moments: Vec<Timestamp> = vec![now; 501];
    moments[1] = since.before(MINUTE);
    let messages = scene.dead_letters(moments).await;
    let mut young = selection("dead");
    young["since"] = json!(since.as_micros());
    let task = scene.start(TaskKind::Recover, scene.endpoint(), young).await;
    assert_eq!(scene.done(task).await.replayed, 500);
    scene.becomes(messages[0], Delivery::Delivered).await;
    scene.end().await;
}

#[tokio::test]
async fn a_replay_reaches_an_endpoint_that_keeps_the_order_oldest_first() {
    for by_endpoint in [true, false] {
        let scene = Scene::begin_in_order(&[Step::Answer(200)]).await;
        let messages = scene.dead_letters([scene.now(); 1_200]).await;
        let endpoint = by_endpoint.then_some(scene.endpoint());
        let task = scene.start(TaskKind::BulkReplay, endpoint, selection("dead")).await;
        scene.arrived(1_200).await;
        assert!(scene.messages() == messages, "by endpoint: {by_endpoint}");
        assert_eq!(scene.done(task).await.replayed, 1_200);
        scene.end().await;
    }
}

#[tokio::test]
async fn what_a_replay_names_reaches_an_endpoint_that_keeps_the_order_oldest_first() {
    let scene = Scene::begin_in_order(&[Step::Answer(200)]).await;
    let messages = scene.dead_letters([scene.now(); 20]).await;
    let ids = messages.iter().rev().map(|message| delivery(&scene, message).to_string());
    let mut named = selection("dead");
    named["ids"] = json!(ids.collect::<Vec<_>>());
    scene.start(TaskKind::BulkReplay, scene.endpoint(), named).await;
    scene.arrived(20).await;
    assert_eq!(scene.messages(), messages);
    scene.end().await;
}

#[tokio::test]
async fn a_replay_of_a_time_passes_over_what_came_before_and_after_it() {
    for by_endpoint in [true, false] {
        let scene = Scene::begin(&[Step::Answer(200)]).await;
        let (now, hour) = (scene.now(), 60 * MINUTE);
        let moments = [now.before(3 * hour), now.before(2 * hour), now.before(hour), now];
        let messages = scene.dead_letters(moments.iter().flat_map(|at| [*at; 400])).await;
        let mut some = selection("dead");
        some["since"] = json!(now.before(2 * hour).as_micros());
        some["until"] = json!(now.as_micros());
        let endpoint = by_endpoint.then_some(scene.endpoint());
        let task = scene.start(TaskKind::BulkReplay, endpoint, some).await;
        scene.arrived(800).await;
        assert_eq!(scene.done(task).await.replayed, 800);
        let arrived: BTreeSet<MessageId> = scene.messages().into_iter().collect();
        assert!(arrived.iter().eq(&messages[400..1_200]), "by endpoint: {by_endpoint}");
        scene.end().await;
    }
}

/// Counts the deliveries that have arrived, and what was recorded of them.
async fn arrived(store: &Store, messages: &[MessageId]) -> (usize, u32) {
    let (mut delivered, mut recorded) = (0, 0);
    for message in messages {
        let entry = entry(store, *message).await;
        delivered += usize::from(entry.state == Delivery::Delivered);
        recorded += entry.recorded;
    }
    (delivered, recorded)
}

#[tokio::test]
async fn a_replay_that_a_restart_cuts_off_goes_on_and_sends_everything_once() {
    let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
    let queue = Panics::after_chunks(&store, 1);
    let first = Scene::over(store, Arc::new(queue), &[Step::Answer(200)]).await;
    let messages = first.dead_letters([first.now(); 1_200]).await;
    let task = first.start(TaskKind::Recover, first.endpoint(), selection("dead")).await;
    first.arrived(500).await;
    let store = first.end().await;
    let cut_off = store.memory().task(task).await.unwrap();
    assert_eq!((cut_off.state, cut_off.replayed), (TaskState::Running, 500));
    assert_eq!(arrived(&store, &messages).await, (500, 500));

    let second = Scene::on(store.clone(), &[Step::Answer(200)]).await;
    assert_eq!(second.done(task).await.replayed, 1_200);
    second.arrived(700).await;
    until(|| async { (arrived(&store, &messages).await.0 == 1_200).then_some(()) }).await;
    second.end().await;
    assert_eq!(arrived(&store, &messages).await, (1_200, 1_200), "none of them twice");
}
