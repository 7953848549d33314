//! What is written about an application or an endpoint while somebody removes it.

use std::sync::Arc;

use store::conformance::{NOW, Scene, long_ago};
use store::postgres::Postgres;
use store::queue::{
    Batch, Done, Minute, NextState, Rollup, Running, Settle, Settled, Subject, Upkeep,
};

use super::fleet::WAITING;
use super::harness;
use super::proxy::{Fault, Proxy};
use super::server::Schema;

#[tokio::test]
async fn nothing_outlives_its_application_because_it_came_while_that_was_removed() {
    let (schema, proxy) = (Arc::new(Schema::create().await), Proxy::start().await);
    let store = Postgres::connect(schema.settings(&proxy.url())).await.unwrap();
    let second = schema.open().await;
    let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let (application, lease) = (endpoint.application, scene.lease(&endpoint));
    let running = Running { paused_until: Some(NOW), ..Running::default() };
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    let settle = Settle { running: Some(running), ..settle };
    let run = Upkeep::Run { lease, application, endpoint: endpoint.key, running };
    let subjects = [Subject::Endpoint(endpoint.key), Subject::Application(application)];
    let rollups = subjects.map(|subject| Rollup::empty(subject, Minute::of(NOW))).to_vec();
    let roll_up = Upkeep::RollUp { lease: Some(lease), once: scene.once(), rollups };
    scene.store().catalog.delete_application(application, long_ago()).await.unwrap();

    let thaw = Arc::default();
    proxy.strike(Fault::Freeze(Arc::clone(&thaw)));
    let late = async {
        proxy.struck().await;
        let queue = &scene.harness.other.queue;
        let upkeep = Batch { upkeep: vec![run, roll_up], ..Batch::default() };
        let upkept = queue.commit(upkeep.into()).await.unwrap().upkeep;
        // Its delivery is one of those that are being removed.
        let settling = queue.commit(Batch { settles: vec![settle], ..Batch::default() }.into());
        let (settled, ()) = tokio::join!(settling, async {
            while schema.number(WAITING).await == 0 {
                tokio::task::yield_now().await;
            }
            thaw.notify_one();
        });
        (upkept, settled.unwrap().settles)
    };
    let (_, (upkept, settled)) =
        tokio::join!(scene.keep_up(Upkeep::Prune { now: NOW, most: 200 }), late);
    assert_eq!(upkept, [Done::Changed(0), Done::Changed(2)]);
    assert_eq!(settled, [Settled::Missing]);
    for table in ["applications", "endpoints", "deliveries", "endpoint_state", "rollups"] {
        assert_eq!(schema.number(&format!("select count(*) from {table}")).await, 0, "{table}");
    }
}

/// Writes what an owner may still write about a deleted endpoint, without committing it.
const ABOUT_TO_COMMIT: &str = "\
    begin; \
    select 1 from endpoints for key share; \
    insert into endpoint_state (application, endpoint, breaker, failures, permanent_streak) \
    select application, key, 0, 0, 0 from endpoints; \
    insert into rollups (kind, subject, minute, succeeded, failed, delivered, dead, latencies) \
    select 2, key, 1, 0, 0, 0, 0, '{}' from endpoints";

#[tokio::test]
async fn nothing_outlives_its_endpoint_because_it_came_just_before_that_was_removed() {
    let schema = Arc::new(Schema::create().await);
    let (store, second, beside) = (schema.open().await, schema.open().await, schema.beside().await);
    let scene = Scene::new(harness(Arc::clone(&schema), store, second)).await;
    let endpoint = scene.endpoint().await;
    let catalog = &scene.store().catalog;
    catalog.delete_endpoint(endpoint.application, endpoint.key, NOW).await.unwrap();
    beside.run(ABOUT_TO_COMMIT).await;
    let pruning = async {
        while scene.keep_up(Upkeep::Prune { now: NOW, most: 200 }).await != Done::Changed(0) {}
    };
    tokio::join!(pruning, async {
        while schema.number(WAITING).await == 0 {
            tokio::task::yield_now().await;
        }
        beside.run("commit").await;
    });
    for table in ["endpoints", "endpoint_state", "rollups"] {
        assert_eq!(schema.number(&format!("select count(*) from {table}")).await, 0, "{table}");
    }
}
