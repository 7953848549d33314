//! Rows that somebody broke past the store.

use std::time::Duration;

use rusqlite::Connection;
use store::conformance::{NOW, Scene};
use store::queue::NextState;
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
