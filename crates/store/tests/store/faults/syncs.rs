//! What a commit costs: one sync, however many share it. How many do is the committer's matter; the
//! server's tests look at that.

use super::Place;
use super::work::{Chance, Worker};

#[tokio::test]
async fn a_commit_costs_one_sync_of_the_log_and_no_other_however_many_share_it() {
    let place = Place::new();
    // No checkpoint comes in between, which has syncs of its own.
    let store = place.open_with_log(1_000_000).unwrap();
    let mut worker = Worker::begin(store, 1, Chance::new(1)).await.unwrap();
    worker.step(1).await.unwrap();
    for callers in [1, 1, 1, 64, 1, 64, 64, 1] {
        let before = place.disk.counts();
        worker.step(callers).await.unwrap();
        let after = place.disk.counts();
        assert_eq!(after.log_syncs - before.log_syncs, 1);
        assert_eq!(after.other_syncs, before.other_syncs);
    }
}

#[tokio::test]
async fn a_commit_with_synchronous_normal_would_sync_nothing() {
    let place = Place::new();
    place.disk.be_normal();
    let mut worker = Worker::begin(place.open().unwrap(), 1, Chance::new(1)).await.unwrap();
    let before = place.disk.counts();
    worker.step(1).await.unwrap();
    let after = place.disk.counts();
    assert!(after.writes > before.writes);
    assert_eq!((after.log_syncs, after.other_syncs), (before.log_syncs, before.other_syncs));
}
