//! Rows that somebody broke past the store.

use store::conformance::Scene;

use super::harness;
use crate::damaged;

#[tokio::test]
async fn a_damaged_row_does_not_hide_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    let connection = rusqlite::Connection::open(directory.path().join("redial.db")).unwrap();
    damaged::are_passed_over(&scene, "x'01'", async |statement: &str| {
        assert_eq!(connection.execute(statement, []).unwrap(), 1, "{statement}");
    })
    .await;
}
