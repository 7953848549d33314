//! A database that takes longer over a batch than a statement may.

use std::sync::Arc;
use std::time::Duration;

use store::conformance::Scene;
use store::postgres::{Postgres, Settings};
use store::queue::{Accepted, NextState, Settled};

use super::harness;
use super::server::{Schema, url};

/// How many items a batch has, each of which takes a fifth of a second: together more than the
/// patience, and in parts, behind a try as a whole, less than the time in which to answer.
const ITEMS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(2);

/// A scene with a store of little patience.
async fn arrange() -> (Scene, Arc<Schema>) {
    let schema = Arc::new(Schema::create().await);
    let settings = Settings { patience: PATIENCE, ..schema.settings(&url()) };
    let store = Postgres::connect(settings).await.unwrap();
    let second = schema.open().await;
    (Scene::new(harness(Arc::clone(&schema), store, second)).await, schema)
}

/// Has each new row of a table take its time.
async fn slow_down(schema: &Schema, table: &str) {
    let statements = format!(
        "create function slow() returns trigger language plpgsql as \
             'begin perform pg_sleep(0.2); return new; end'; \
         create trigger slow before insert on {table} for each row execute function slow()"
    );
    schema.run(&statements).await;
}

#[tokio::test]
async fn settles_that_take_too_long_together_are_settled_in_parts() {
    let (scene, schema) = arrange().await;
    let endpoint = scene.endpoint().await;
    let mut settles = Vec::new();
    for _ in 0..ITEMS {
        let key = scene.pending(&endpoint).await;
        settles.push(scene.settling(key, 0, NextState::Delivered).await);
    }
    slow_down(&schema, "attempts").await;
    let settled = scene.settle(settles).await;
    assert_eq!(settled, [Settled::Applied { turn: None }; ITEMS]);
}

#[tokio::test]
async fn messages_that_take_too_long_together_are_accepted_in_parts() {
    let (scene, schema) = arrange().await;
    let endpoint = scene.endpoint().await;
    let first = scene.message(&[&endpoint]).await;
    let accepts = (0..ITEMS).map(|_| scene.again(&first)).collect();
    slow_down(&schema, "messages").await;
    let accepted = scene.accept(accepts).await;
    let new = accepted.iter().filter(|answer| matches!(answer, Accepted::New { .. }));
    assert_eq!(new.count(), ITEMS, "{accepted:?}");
}
