//! A store of the first version is brought to the current one by the first node that starts, while
//! those of the first version go on writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use store::conformance::Handle;

use super::fleet::WAITING;
use super::server::Schema;
use crate::{golden, renamed};

const FIRST: &str = include_str!("../golden/postgres-0001.sql");
/// What a node of the first version writes all the time: its lease, and messages.
const FIRST_NODE: &str = "\
    begin; \
    insert into nodes values ('first', 1) on conflict (name) do update set renewed_at = 2; \
    select revision from applications where key = 1 for share; \
    insert into messages (application, key, id, event_type, channels, received_at, \
        retained_until, fan_out, payload) \
    select 1, n, decode(lpad(to_hex(n), 40, '0'), 'hex'), 'written', '[]', 1, 1, '{}', '' \
    from nextval('numbers') n; \
    commit";

#[tokio::test]
async fn a_store_of_the_first_version_keeps_all_that_is_in_it() {
    let schema = Schema::create().await;
    schema.run(FIRST).await;
    let store = schema.open().await;
    golden::check(&Handle::new(Arc::new(store))).await;
    assert_eq!(schema.number("select max(version)::bigint from schema_versions").await, 11);
}

#[tokio::test]
async fn names_that_a_path_cannot_say_are_changed_and_told() {
    let schema = Schema::create().await;
    schema.run(FIRST).await;
    schema.run(renamed::NAMES).await;
    renamed::check(&Handle::new(Arc::new(schema.open().await))).await;
}

/// A node of the version before names the columns it knows.
#[tokio::test]
async fn what_is_added_to_a_table_need_not_be_given() {
    let schema = Schema::create().await;
    schema.run(FIRST).await;
    let demanded = "\
        table_schema = current_schema() and is_nullable = 'NO' and column_default is null \
        and is_identity = 'NO'";
    let columns = "select table_name, column_name from information_schema.columns where";
    schema.run(&format!("create table demanded_before as {columns} {demanded}")).await;
    drop(schema.open().await);
    let added = format!(
        "select count(*) from information_schema.columns c where {demanded} \
         and table_name in (select table_name from demanded_before) \
         and (table_name, column_name) not in (select * from demanded_before)"
    );
    assert_eq!(schema.number(&added).await, 0);
}

#[tokio::test]
async fn nodes_of_the_first_version_write_on_while_it_is_migrated() {
    let schema = Arc::new(Schema::create().await);
    schema.run(FIRST).await;
    let done = Arc::new(AtomicBool::new(false));
    let (old, stop) = (Arc::clone(&schema), Arc::clone(&done));
    // Every statement of theirs has to work: before, in the middle, and afterwards.
    let writing = tokio::spawn(async move {
        let mut written = 0;
        while !stop.load(Ordering::Relaxed) || written < 20 {
            old.run(FIRST_NODE).await;
            written += 1;
        }
        written
    });
    let stores = tokio::join!(schema.open(), schema.open(), schema.open());
    done.store(true, Ordering::Relaxed);
    let written = writing.await.unwrap();
    let count = "select count(*) from messages where event_type = 'written'";
    assert_eq!(schema.number(count).await, written);
    assert_eq!(schema.number("select count(*) from schema_versions").await, 11);
    golden::check(&Handle::new(Arc::new(stores.0))).await;
}

/// A dump reads every table, and may take hours.
#[tokio::test]
async fn nodes_of_the_first_version_write_on_while_a_migration_waits_for_a_reader() {
    let schema = Arc::new(Schema::create().await);
    schema.run(FIRST).await;
    let (reader, node) = (schema.beside().await, schema.beside().await);
    reader.run("begin; lock table messages in access share mode").await;
    let written = async {
        for _ in 0..2 {
            while schema.number(WAITING).await == 0 {
                tokio::task::yield_now().await;
            }
            node.run(FIRST_NODE).await;
        }
        reader.run("commit").await;
    };
    let (store, ()) = tokio::join!(schema.open(), written);
    golden::check(&Handle::new(Arc::new(store))).await;
}
