//! Replay tasks, from chunk to chunk.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Delivery;
use domain::ids::DeliveryId;
use domain::time::Timestamp;
use serde_json::json;
use store::ledger::TaskKind;

use super::damaged::Damaged;
use super::scene::{Scene, Step, selection};

const MINUTE: Duration = Duration::from_secs(60);

fn delivery(scene: &Scene, message: &domain::ids::MessageId) -> DeliveryId {
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
