//! Pruning, while others change what it has looked at.

use std::sync::Arc;

use store::conformance::{NOW, Scene, attempts_of, later};
use store::keys::DeliveryKey;
use store::queue::{Done, NextState, Upkeep};

use super::fleet::WAITING;
use super::harness;
use super::server::Schema;

/// A scene with a delivered message whose time is over.
async fn arrange() -> (Scene, Arc<Schema>, DeliveryKey) {
    let schema = Arc::new(Schema::create().await);
    let (store, second) = (schema.open().await, schema.open().await);
    let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
    let endpoint = scene.endpoint().await;
    let mut accept = scene.message(&[&endpoint]).await;
    accept.message.retained_until = NOW;
    let key = scene.key(&endpoint, scene.accept_new(accept).await);
    scene.settle_one(scene.settling(key, 0, NextState::Delivered).await).await;
    (scene, schema, key)
}

/// Prunes while somebody else changes something; returns how many messages and deliveries are left.
async fn prune_beside(scene: &Scene, schema: &Schema, change: &str) -> (i64, i64) {
    let beside = schema.beside().await;
    beside.run(&format!("begin; {change}")).await;
    let (done, ()) =
        tokio::join!(scene.keep_up(Upkeep::Prune { now: later(60), most: 200 }), async {
            while schema.number(WAITING).await == 0 {
                tokio::task::yield_now().await;
            }
            beside.run("commit").await;
        });
    assert!(matches!(done, Done::Changed(_)), "{done:?}");
    let messages = schema.number("select count(*) from messages").await;
    (messages, schema.number("select count(*) from deliveries").await)
}

#[tokio::test]
async fn what_is_replayed_while_it_is_to_go_stays_with_its_message() {
    let (scene, schema, key) = arrange().await;
    let left = prune_beside(&scene, &schema, "update deliveries set state = 0").await;
    assert_eq!(left, (1, 1));
    assert_eq!(attempts_of(&scene.store().ledger, key).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_that_gets_a_delivery_while_it_is_to_go_stays() {
    let (scene, schema, _) = arrange().await;
    let change = "update messages set fan_out = fan_out || 99::bigint";
    assert_eq!(prune_beside(&scene, &schema, change).await, (1, 0));
}

#[tokio::test]
async fn a_message_that_is_expunged_while_it_is_to_go_goes() {
    let (scene, schema, _) = arrange().await;
    let change = "update messages set payload = null";
    assert_eq!(prune_beside(&scene, &schema, change).await, (0, 0));
}
