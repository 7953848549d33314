//! What a commit costs: one sync, and little else.

use std::time::{Duration, Instant};

use super::Place;
use super::disk::Faults;
use super::work::{Chance, Worker};

/// What a sync takes on a slow disk.
const SYNC: Duration = Duration::from_millis(5);
/// How many callers share a commit.
const CALLERS: u32 = 64;
/// The rate that 64 callers are promised, of the 12,800 accepts a second that are possible.
const PROMISED_SHARE: f64 = 0.4;
const COMMITS: u32 = 5;
const MOST_ROUNDS: u32 = 40;

#[tokio::test]
async fn a_commit_of_a_single_caller_costs_one_sync_of_the_log_and_no_other() {
    let place = Place::new();
    let mut worker = Worker::begin(place.open().unwrap(), 1, Chance::new(1)).await.unwrap();
    worker.step(1).await.unwrap();
    for _ in 0..20 {
        let before = place.disk.counts();
        worker.step(1).await.unwrap();
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

#[tokio::test]
async fn with_a_sync_of_5_ms_64_callers_get_5_000_accepts_a_second() {
    let place = Place::new();
    let mut worker = Worker::begin(place.open().unwrap(), 1, Chance::new(1)).await.unwrap();
    worker.step(CALLERS).await.unwrap();
    place.disk.fail(Faults { sync_takes: SYNC, ..Faults::default() });
    // Other tests may run beside this one, and only slow it down: so the best round counts.
    let mut best = 0.0;
    for _ in 0..MOST_ROUNDS {
        let mut batches = Vec::new();
        for _ in 0..COMMITS {
            batches.push(worker.accepts(CALLERS));
        }
        let began = now();
        for batch in batches {
            worker.commit(batch).await.unwrap();
        }
        let share = (SYNC * COMMITS).as_secs_f64() / (now() - began).as_secs_f64();
        best = f64::max(best, share);
        if best >= PROMISED_SHARE {
            break;
        }
    }
    let rate = best * f64::from(CALLERS) / SYNC.as_secs_f64();
    eprintln!("{rate:.0} accepts a second, {:.0} % of what is possible", best * 100.0);
    assert!(best >= PROMISED_SHARE, "only {rate:.0} accepts a second");
}

#[expect(clippy::disallowed_methods, reason = "a rate is measured, and nothing is decided by it")]
fn now() -> Instant {
    Instant::now()
}
