//! Opening a store: the schema, the key, and the settings that durability rests on.

use std::sync::Arc;

use store::conformance::Scene;
use store::postgres::{Postgres, Settings};
use store::queue::Accepted;
use store::{Catalog, Error};

use super::server::{Schema, url, vault};
use super::{harness, open};

async fn refusal(settings: Settings) -> String {
    let refusal = Postgres::connect(settings).await.unwrap_err();
    assert!(matches!(refusal, Error::CannotOpen(_)), "{refusal:?}");
    refusal.to_string()
}

#[tokio::test]
async fn nodes_that_start_together_make_one_schema() {
    let schema = Schema::create().await;
    let stores = tokio::join!(schema.open(), schema.open(), schema.open());
    assert!(stores.0.tokens(all()).await.unwrap().done);
    assert_eq!(schema.number("select count(*) from schema_versions").await, 11);
    assert_eq!(schema.number("select count(*) from partitions").await, 64);
}

#[tokio::test]
async fn a_node_that_starts_does_not_disturb_one_that_writes() {
    let schema = Arc::new(Schema::create().await);
    let (store, other) = (schema.open().await, schema.open().await);
    let starting = Arc::clone(&schema);
    let starts = tokio::spawn(async move {
        for _ in 0..5 {
            starting.open().await;
        }
    });
    let scene = Scene::new(harness(schema, store, other)).await;
    let endpoint = scene.endpoint().await;
    while !starts.is_finished() {
        let accept = scene.message(&[&endpoint]).await;
        let answers = scene.accept(vec![accept]).await;
        assert!(matches!(answers[..], [Accepted::New { .. }]), "{answers:?}");
    }
    starts.await.unwrap();
}

#[tokio::test]
async fn another_key_is_refused() {
    let schema = Schema::create().await;
    drop(schema.open().await);
    let text = refusal(Settings { vault: vault(8), ..schema.settings(&url()) }).await;
    assert!(text.contains("key"), "{text}");
}

#[tokio::test]
async fn the_next_schema_version_is_worked_with_and_the_one_after_refused_by_name() {
    let schema = Schema::create().await;
    drop(schema.open().await);
    schema.run("insert into schema_versions values (12, 'next', '')").await;
    drop(schema.open().await);
    schema.run("insert into schema_versions values (13, 'the one after', '')").await;
    let text = refusal(schema.settings(&url())).await;
    assert!(text.contains("13 (`the one after`)"), "{text}");
}

#[tokio::test]
async fn a_schema_that_somebody_changed_under_its_number_is_refused() {
    let schema = Schema::create().await;
    drop(schema.open().await);
    schema.run("update schema_versions set checksum = 'another'").await;
    let text = refusal(schema.settings(&url())).await;
    assert!(text.contains("1 (`first`)"), "{text}");
}

#[tokio::test]
async fn a_bad_url_is_refused_without_being_quoted() {
    let settings = Settings::new("postgres://user:hunter2@host:not-a-port/x", vault(7));
    let text = refusal(settings).await;
    assert!(text.contains("postgres://") && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn commits_wait_for_the_disk_whatever_the_role_prefers() {
    let schema = Schema::create().await;
    drop(schema.open().await);
    schema
        .run(
            "create table seen (value text); \
             create function see() returns trigger language plpgsql as $$ begin \
                 insert into seen values (current_setting('synchronous_commit')); \
                 return new; end $$; \
             create trigger see before insert on messages for each row execute function see(); \
             create trigger see before insert on attempts for each row execute function see(); \
             create trigger see before insert on applications for each row execute function see(); \
             create trigger see before insert on nodes for each row execute function see()",
        )
        .await;
    let careless = schema.url_with(&url(), "%20-csynchronous_commit%3Doff");
    let settings = Settings { url: careless, ..schema.settings(&url()) };
    let store = Postgres::connect(settings).await.unwrap();
    let other = schema.open().await;
    let schema = Arc::new(schema);
    let scene = Scene::new(harness(Arc::clone(&schema), store, other)).await;
    let endpoint = scene.endpoint().await;
    scene.settled(&endpoint, store::queue::NextState::Delivered).await;
    assert!(schema.number("select count(*) from seen").await >= 4);
    assert_eq!(schema.number("select count(*) from seen where value <> 'on'").await, 0);
}

#[tokio::test]
async fn what_is_secret_is_not_to_be_found_in_the_tables() {
    let scene = Scene::new(open().await).await;
    scene.endpoint().await;
    let schema = scene.harness.guard.downcast_ref::<Arc<Schema>>().unwrap();
    for table in ["endpoints", "endpoint_secrets"] {
        let rows = format!("select count(*) from {table}");
        assert_eq!(schema.number(&rows).await, 1);
        let plain = format!(
            "select count(*) from {table} t where t::text like '%' || encode('{}', 'hex') || '%' \
             or t::text like '%token=1%'",
            if table == "endpoints" { "token=1" } else { "whsec_one" }
        );
        assert_eq!(schema.number(&plain).await, 0, "{table}");
    }
}

fn all<Id>() -> store::page::Page<Id> {
    store::page::Page { from: store::page::From::Start, limit: 10 }
}
