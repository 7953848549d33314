//! What is pruned makes room, first for what comes next, then for others.

use std::fs;

use bytes::Bytes;
use store::conformance::{NOW, Scene, later};
use store::queue::{Done, Upkeep};

use super::harness;

#[tokio::test]
async fn space_is_given_back_to_the_file_system_over_time() {
    let directory = tempfile::tempdir().unwrap();
    let size = || fs::metadata(directory.path().join("redial.db")).unwrap().len();
    let scene = Scene::new(harness(directory.path())).await;
    let mut accepts = Vec::new();
    for _ in 0..200 {
        let mut accept = scene.message(&[]).await;
        accept.message.payload = Bytes::from(vec![7; 40_000]);
        accept.message.retained_until = NOW;
        accepts.push(accept);
    }
    scene.accept(accepts).await;
    drop(scene);
    let full = size();
    assert!(full > 8_000_000, "{full}");

    let scene = Scene::new(harness(directory.path())).await;
    let mut steps = 0;
    // Whoever prunes goes on as long as a step has changed something, pages given back included.
    while scene.keep_up(Upkeep::Prune { now: later(1), most: 64 }).await != Done::Changed(0) {
        steps += 1;
        assert!(steps < 200, "it comes to an end");
    }
    drop(scene);
    assert!(!directory.path().join("redial.db-wal").exists(), "the last to close tidies up");
    let left = size();
    assert!(left < 1_500_000, "{left} of {full}");
}
