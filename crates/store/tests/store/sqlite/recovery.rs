//! What is there after the process ended without a word.

use std::fs;

use store::conformance::Scene;

use super::harness;

#[tokio::test]
async fn what_was_acknowledged_survives_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    let endpoint = scene.endpoint().await;
    let mut messages = Vec::new();
    for _ in 0..20 {
        messages.push(scene.pending(&endpoint).await.message);
    }
    // What a killed process leaves: the file and its log, as they are while it runs.
    let left = tempfile::tempdir().unwrap();
    for name in ["redial.db", "redial.db-wal", "redial.key"] {
        fs::copy(directory.path().join(name), left.path().join(name)).unwrap();
    }
    let recovered = Scene::new(harness(left.path())).await;
    assert_eq!(recovered.loaded(&endpoint).await, messages);
}

#[tokio::test]
async fn a_log_that_was_cut_off_in_the_middle_leaves_whole_transactions() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    let endpoint = scene.endpoint().await;
    let first = scene.pending(&endpoint).await.message;
    let whole = fs::metadata(directory.path().join("redial.db-wal")).unwrap().len();
    let second = scene.pending(&endpoint).await.message;
    let longer = fs::metadata(directory.path().join("redial.db-wal")).unwrap().len();
    for length in [whole, whole + 1, whole + (longer - whole) / 2, longer - 1, longer] {
        let left = tempfile::tempdir().unwrap();
        for name in ["redial.db", "redial.db-wal", "redial.key"] {
            fs::copy(directory.path().join(name), left.path().join(name)).unwrap();
        }
        let log = fs::OpenOptions::new().write(true).open(left.path().join("redial.db-wal"));
        log.unwrap().set_len(length).unwrap();
        let recovered = Scene::new(harness(left.path())).await;
        let expected = if length == longer { vec![first, second] } else { vec![first] };
        assert_eq!(recovered.loaded(&endpoint).await, expected, "{length} of {longer}");
    }
}
