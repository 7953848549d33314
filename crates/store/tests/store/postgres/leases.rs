//! Leases on a clock that is the database's, and nodes that are forgotten.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Cause;
use store::conformance::{NOW, Scene, later};
use store::keys::Node;
use store::limits;
use store::postgres::{Postgres, Settings};
use store::queue::{Done, NextState, Upkeep};

use super::fleet::WAITING;
use super::harness;
use super::server::{Schema, url};

async fn arrange() -> (Scene, Arc<Schema>) {
    let schema = Arc::new(Schema::create().await);
    let (store, second) = (schema.open().await, schema.open().await);
    (Scene::new(harness(Arc::clone(&schema), store, second)).await, schema)
}

#[tokio::test]
async fn a_node_that_is_named_as_an_owner_is_not_forgotten() {
    let (scene, schema) = arrange().await;
    schema.run("insert into nodes values ('gone', 0); update nodes set renewed_at = 0").await;
    scene.keep_up(Upkeep::Prune { now: NOW, most: 200 }).await;
    assert_eq!(schema.text("select string_agg(name, ' ') from nodes").await, scene.node.0);
    let other = &scene.harness.other.queue;
    assert_eq!(other.take(Node("other".to_owned()), 64).await.unwrap().len(), 64);
    // Once it owns nothing, it may go.
    scene.keep_up(Upkeep::Prune { now: NOW, most: 200 }).await;
    assert_eq!(schema.text("select string_agg(name, ' ') from nodes").await, "other");
}

#[tokio::test]
async fn what_an_owner_had_that_nobody_remembers_is_taken() {
    let (scene, schema) = arrange().await;
    schema.run("delete from nodes").await;
    let other = &scene.harness.other.queue;
    assert_eq!(other.take(Node("other".to_owned()), 64).await.unwrap().len(), 64);
}

#[tokio::test]
async fn a_renewal_follows_a_clock_that_was_set_back() {
    let (scene, schema) = arrange().await;
    let hour = "update nodes set renewed_at = renewed_at + 3600 * 1000000::bigint";
    schema.run(hour).await;
    scene.store().queue.renew(scene.node.clone()).await.unwrap();
    (scene.harness.pass)(limits::LEASE).await.unwrap();
    let other = &scene.harness.other.queue;
    assert_eq!(other.take(Node("other".to_owned()), 64).await.unwrap().len(), 64);
}

#[tokio::test]
async fn partitions_are_given_back_in_the_order_in_which_others_lock_them() {
    let (scene, schema) = arrange().await;
    let beside = schema.beside().await;
    let renewed = scene.store().queue.renew(scene.node.clone()).await.unwrap();
    let mut leases = renewed.owned;
    leases.reverse();
    beside.run("begin; select 1 from partitions where number = 0 for share").await;
    let releasing = scene.store().queue.release(scene.node.clone(), leases);
    let (released, ()) = tokio::join!(releasing, async {
        while schema.number(WAITING).await == 0 {
            tokio::task::yield_now().await;
        }
        let free = "select count(*) from ( \
                    select 1 from partitions where number > 0 for share skip locked) free";
        assert_eq!(beside.number(free).await, 63);
        beside.run("commit").await;
    });
    released.unwrap();
}

#[tokio::test]
async fn dead_letters_can_be_kept_for_ever() {
    let schema = Arc::new(Schema::create().await);
    let settings = Settings { dead_letters_kept: Duration::MAX, ..schema.settings(&url()) };
    let store = Postgres::connect(settings).await.unwrap();
    let second = schema.open().await;
    let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await;
    schema.run("update messages set retained_until = 0").await;
    let done = scene.keep_up(Upkeep::Prune { now: later(60), most: 200 }).await;
    assert!(matches!(done, Done::Changed(_)), "{done:?}");
    assert_eq!(scene.look(key).await.recorded, 1);
}
