//! Rows and pages that somebody broke past the store.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use store::conformance::{NOW, Scene};
use store::keys::{Lease, MessageKey};
use store::queue::{
    Accepted, Batch, Bury, Done, Doomed, Ending, NextState, Settle, Settled, Upkeep,
};
use tempfile::TempDir;

use super::harness;
use crate::damaged;

/// A scene, with a look past the store.
async fn arrange() -> (Scene, Connection, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    let connection = Connection::open(directory.path().join("redial.db")).unwrap();
    (scene, connection, directory)
}

fn count(connection: &Connection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    connection.query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_damaged_row_does_not_hide_the_others() {
    let (scene, connection, _directory) = arrange().await;
    damaged::are_passed_over(&scene, "x'01'", async |statement: &str| {
        assert_eq!(connection.execute(statement, []).unwrap(), 1, "{statement}");
    })
    .await;
}

#[tokio::test]
async fn an_attempt_behind_a_broken_chain_hides_no_other_and_goes_with_its_endpoint() {
    let (scene, connection, _directory) = arrange().await;
    damaged::chains_leave_an_attempt(&scene, "x'01'", async |statement: &str| {
        assert_eq!(connection.execute(statement, []).unwrap(), 1, "{statement}");
    })
    .await;
    assert_eq!((count(&connection, "endpoints"), count(&connection, "attempts")), (0, 0));
}

#[tokio::test]
async fn a_place_that_cannot_be_read_is_a_walk_that_begins_anew() {
    let (scene, connection, _directory) = arrange().await;
    let endpoint = scene.endpoint().await;
    let places = ["pruned_up_to", "dead_letters_up_to", "tokens_up_to", "sums_subject", "sums_key"];
    for place in places {
        let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, x'ff')";
        connection.execute(sql, [place]).unwrap();
    }
    scene.settled(&endpoint, NextState::Delivered).await;
    // No step is refused.
    damaged::prune(&scene, NOW.after(Duration::from_secs(91 * 86_400))).await;
    assert_eq!(count(&connection, "messages"), 0);
}

#[tokio::test]
async fn a_page_that_cannot_be_read_harms_only_what_needs_it() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    // Attempts are kept by endpoint: those of the second one come last.
    let (sound, broken) = (scene.endpoint().await, scene.endpoint().await);
    for _ in 0..100 {
        scene.settled(&broken, NextState::Delivered).await;
    }
    let accepts = vec![scene.message(&[&sound, &broken]).await];
    let mut settles = Vec::new();
    for endpoint in [&broken, &sound] {
        let key = scene.pending(endpoint).await;
        settles.push((endpoint, scene.settling(key, 0, NextState::Delivered).await));
    }
    drop(scene);
    break_last_page(directory.path(), "attempts");

    let scene = Scene::new(harness(directory.path())).await;
    let current =
        |(endpoint, settle): (_, Settle)| Settle { lease: scene.lease(endpoint), ..settle };
    let settles: Vec<_> = settles.into_iter().map(current).collect();
    let poison = settles[0].key;
    let committed = scene.commit(Batch { accepts, settles, ..Batch::default() }).await;
    assert!(matches!(committed.accepts[..], [Accepted::New { .. }]), "{:?}", committed.accepts);
    assert_eq!(committed.settles, [Settled::Refused, Settled::Applied { turn: None }]);
    assert_eq!(scene.store().ledger.damage().len(), 1);
    // What follows for the refused one is up to the engine, and possible.
    let lease: Lease = scene.lease(&broken);
    let (application, deliveries) = (poison.application, vec![untried(poison.message)]);
    let (ending, at) = (Ending::Dead(domain::delivery::Cause::Poison), NOW);
    let bury = Bury { lease, application, endpoint: broken.key, deliveries, ending, at };
    assert_eq!(scene.keep_up(Upkeep::Bury(bury)).await, Done::Changed(1));
}

#[tokio::test]
async fn a_step_that_meets_a_page_that_cannot_be_read_is_refused_alone() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    let endpoint = scene.endpoint().await;
    let mut deliveries = Vec::new();
    for _ in 0..200 {
        deliveries.push(untried(scene.pending(&endpoint).await.message));
    }
    let accepts = vec![scene.message(&[]).await];
    drop(scene);
    break_last_page(directory.path(), "deliveries");

    let scene = Scene::new(harness(directory.path())).await;
    let (lease, application) = (scene.lease(&endpoint), scene.application.key);
    let (ending, at) = (Ending::Dead(domain::delivery::Cause::Expired), NOW);
    let bury = Bury { lease, application, endpoint: endpoint.key, deliveries, ending, at };
    let upkeep = vec![Upkeep::Bury(bury)];
    let committed = scene.commit(Batch { accepts, upkeep, ..Batch::default() }).await;
    assert!(matches!(committed.accepts[..], [Accepted::New { .. }]), "{:?}", committed.accepts);
    assert!(matches!(committed.upkeep[..], [Done::Refused(_)]), "{:?}", committed.upkeep);
}

/// Names a delivery to be buried that nobody has tried to send.
fn untried(message: MessageKey) -> Doomed {
    Doomed { message, recorded: 0, ended_before: None }
}

/// Overwrites the last leaf of a table in a file that nobody has open.
fn break_last_page(directory: &Path, table: &str) {
    let file = directory.join("redial.db");
    let connection = Connection::open(&file).unwrap();
    let sql = "SELECT pgoffset, pgsize FROM dbstat WHERE name = ?1 AND pagetype = 'leaf'
        ORDER BY path DESC LIMIT 1";
    let place = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (offset, size): (u64, usize) = connection.query_row(sql, [table], place).unwrap();
    connection.close().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    file.write_all_at(&vec![0xff; size], offset).unwrap();
}
