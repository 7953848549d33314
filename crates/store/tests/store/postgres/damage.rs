//! Rows and items that are not as they should be, and nodes that are gone.

use std::sync::Arc;

use store::catalog::Endpoint;
use store::conformance::{NOW, Scene, attempts_of, later};
use store::queue::{Batch, Done, NextState, Once, Request, RequestKind, Settled, Upkeep};

use super::harness;
use super::server::Schema;
use crate::damaged;

async fn arrange() -> (Scene, Arc<Schema>) {
    let schema = Arc::new(Schema::create().await);
    let (store, other) = (schema.open().await, schema.open().await);
    (Scene::new(harness(Arc::clone(&schema), store, other)).await, schema)
}

#[tokio::test]
async fn a_damaged_row_does_not_hide_the_others() {
    let (scene, schema) = arrange().await;
    damaged::are_passed_over(&scene, "'\\x01'", async |statement: &str| {
        schema.run(statement).await;
    })
    .await;
}

#[tokio::test]
async fn an_attempt_behind_a_broken_chain_hides_no_other_and_goes_with_its_endpoint() {
    let (scene, schema) = arrange().await;
    let breaks = async |statement: &str| schema.run(statement).await;
    damaged::chains_leave_an_attempt(&scene, "'\\x01'", breaks).await;
    assert_eq!(schema.number("select count(*) from endpoints").await, 0);
    assert_eq!(schema.number("select count(*) from attempts").await, 0);
}

/// A thousand deleted endpoints to which a message still refers, and one without.
#[tokio::test]
async fn a_step_looks_at_some_tombstones_and_all_are_looked_at_in_the_end() {
    let (scene, schema) = arrange().await;
    let (first, empty) = (scene.endpoint().await.key.0, 1_000_000);
    let fill = format!(
        "insert into endpoints (application, key, id, partition, state, ordering, settings, \
             confidential, created_at, updated_at) \
         select application, n, int8send(n), partition, 3, ordering, settings, confidential, 0, 0 \
         from endpoints, (select generate_series(1001, 2000) union select {empty}) more (n) \
         where key = {first}; \
         insert into deliveries (application, endpoint, message, partition, ordering, state, due, \
             turn, attempts, ambiguous, last_wait, recorded) \
         select application, key, 1, partition, 0, case key when 2000 then 0 else 1 end, 0, 0, 0, \
             0, 0, 0 \
         from endpoints where state = 3 and key < {empty}"
    );
    schema.run(&fill).await;
    let left = format!("select count(*) from endpoints where key = {empty}");
    let pending = "select count(*) from deliveries where state = 0";
    scene.keep_up(Upkeep::Prune { now: later(1), most: 100 }).await;
    assert_eq!((schema.number(&left).await, schema.number(pending).await), (1, 1));
    // There is a rest, but not before all were looked at.
    damaged::prune(&scene, later(1)).await;
    assert_eq!((schema.number(&left).await, schema.number(pending).await), (0, 0));
    assert_eq!(schema.number("select count(*) from endpoints where state = 3").await, 1_000);
}

#[tokio::test]
async fn a_settle_that_the_database_refuses_harms_no_other() {
    let (scene, schema) = arrange().await;
    let endpoint = scene.endpoint().await;
    let mut settles = Vec::new();
    for _ in 0..5 {
        let key = scene.pending(&endpoint).await;
        settles.push(scene.settling(key, 0, NextState::Delivered).await);
    }
    settles[1].attempt.error = Some("poison".to_owned());
    let hopeless = settles[3].key.message.0;
    schema
        .run(&format!(
            "alter table attempts add check (error is distinct from 'poison'); \
             alter table deliveries add check (recorded = 0 or message <> {hopeless})"
        ))
        .await;
    let answers = scene.settle(settles.clone()).await;
    let applied = Settled::Applied { turn: None };
    assert_eq!(answers, [applied, applied, applied, Settled::Refused, applied]);
    // What happened is known, although what was said about it could not be kept.
    let attempts = attempts_of(&scene.store().ledger, settles[1].key).await.unwrap();
    assert_eq!(attempts[0].record.outcome, settles[1].attempt.outcome);
    let error = attempts[0].record.error.as_deref().unwrap();
    assert!(error.contains("could not be kept"), "{error}");
    assert_eq!(scene.loaded(&endpoint).await.len(), 1);
}

#[tokio::test]
async fn a_step_that_the_database_refuses_harms_no_other() {
    let (scene, schema) = arrange().await;
    let endpoint = scene.endpoint().await;
    schema.run("alter table requests add check (asked_at <> 13)").await;
    let upkeep = (11..16).map(|at| ask(&endpoint, at)).collect();
    let done = scene.commit(Batch { upkeep, ..Batch::default() }).await.upkeep;
    let asked = Done::Changed(1);
    assert_eq!(
        (&done[..2], &done[3..]),
        (&[asked.clone(), asked.clone()][..], &[asked.clone(), asked][..])
    );
    assert!(matches!(&done[2], Done::Refused(text) if text.contains("PostgreSQL")), "{done:?}");
    let left = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
    let left: Vec<_> = left.iter().map(|request| request.at.as_micros()).collect();
    assert_eq!(left, [11, 12, 14, 15]);
}

#[tokio::test]
async fn nodes_that_are_gone_for_a_day_are_forgotten() {
    let (scene, schema) = arrange().await;
    let now = "(extract(epoch from clock_timestamp()) * 1000000)::bigint";
    let hours = |hours: i64| format!("{now} - {hours} * 3600000000::bigint");
    schema
        .run(&format!("insert into nodes values ('old', {}), ('silent', {})", hours(25), hours(23)))
        .await;
    scene.keep_up(Upkeep::Prune { now: later(1), most: 100 }).await;
    let left = "select count(*) from nodes where name in ('silent', 'first')";
    assert_eq!(schema.number(left).await, 2);
    assert_eq!(schema.number("select count(*) from nodes").await, 2);
}

fn ask(endpoint: &Endpoint, at: i64) -> Upkeep {
    let request = Request {
        number: 0,
        application: endpoint.application,
        endpoint: endpoint.key,
        partition: endpoint.partition,
        kind: RequestKind::Refresh,
        at: domain::time::Timestamp::from_micros(at),
    };
    let id = [u8::try_from(at).unwrap(); 16];
    Upkeep::Ask { once: Once { at: NOW, id }, request }
}
