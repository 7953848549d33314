//! Sums by lease, and how they are cut.

use domain::partition::Partition;
use store::conformance::{Handle, Harness, NOW, Scene, later};
use store::keys::Epoch;
use store::memory::{Memory, State as Rows};

use super::*;

async fn scene() -> Scene {
    let memory = std::sync::Arc::new(Memory::new(Rows::default(), Box::new(|| NOW)));
    let pass = Box::new(|_| -> store::Answer<'static, ()> { Box::pin(async { Ok(()) }) });
    Scene::new(Harness::alone(Handle::new(memory), pass)).await
}

/// Lets an attempt end and be settled.
fn settle(sums: &Sums, attempt: u64, settle: &Settle) {
    sums.sending(Number(attempt), NOW);
    sums.settling(Number(attempt), settle);
    sums.settled(Number(attempt), Settled::Applied { turn: None });
}

fn cuts(sums: &Sums) -> Vec<(Lease, Vec<Rollup>)> {
    sums.cut(NOW);
    let state = sums.lock();
    let cuts = state.cut.iter().map(|cut| (cut.lease, cut.sums.values().cloned().collect()));
    cuts.collect()
}

#[tokio::test]
async fn each_step_has_the_sums_of_one_lease_and_their_part_of_the_whole() {
    let scene = scene().await;
    let sums = Sums::default();
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let first = scene.settling(key, 0, NextState::Delivered).await;
    let mut number = 0;
    for partition in Partition::all().take(3) {
        for other in 0..100 {
            let lease = Lease { partition, epoch: Epoch(7) };
            let endpoint = EndpointKey(1_000 * i64::from(partition.number()) + other);
            let key = store::keys::DeliveryKey { endpoint, ..first.key };
            number += 1;
            settle(&sums, number, &Settle { lease, key, ..first.clone() });
        }
    }
    let cuts = cuts(&sums);
    assert!(cuts.len() >= 6, "{}", cuts.len());
    let mut delivered = 0;
    for (lease, rollups) in cuts {
        assert!(rollups.len() <= SMALL_STEP + 2, "{}", rollups.len());
        let of = |wanted: &dyn Fn(Subject) -> bool| -> u64 {
            let theirs = rollups.iter().filter(|sum| wanted(sum.subject));
            theirs.map(|sum| sum.delivered).sum()
        };
        let endpoints = of(&|subject| matches!(subject, Subject::Endpoint(_)));
        let foreign = |subject: Subject| match subject {
            Subject::Endpoint(EndpointKey(key)) => {
                key / 1_000 != i64::from(lease.partition.number())
            }
            Subject::Application(_) | Subject::Whole => false,
        };
        assert_eq!(of(&foreign), 0);
        assert_eq!(of(&|subject| subject == Subject::Whole), endpoints);
        assert_eq!(of(&|subject| matches!(subject, Subject::Application(_))), endpoints);
        delivered += endpoints;
    }
    assert_eq!(delivered, 300);
}

#[tokio::test]
async fn what_is_not_written_yet_is_known_by_its_minute() {
    let scene = scene().await;
    let sums = Sums::default();
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let mut one = scene.settling(key, 0, NextState::Delivered).await;
    one.attempt.ended_at = later(120);
    let (before, minute) = (Minute::of(later(60)), Minute::of(later(120)));
    let held = || (sums.hold_anything_until(before), sums.hold_anything_until(minute));
    assert_eq!(held(), (false, false));
    sums.sending(Number(1), NOW);
    sums.settling(Number(1), &one);
    assert_eq!(held(), (false, true));
    sums.settled(Number(1), Settled::Applied { turn: None });
    assert_eq!(held(), (false, true));
    cuts(&sums);
    assert_eq!(held(), (false, true));
    sums.lock().cut.clear();
    assert_eq!(held(), (false, false));
    sums.sending(Number(3), NOW);
    sums.settling(Number(3), &one);
    sums.forget_attempts();
    assert_eq!(held(), (false, false));
    // What was fenced is counted by whoever is the owner now.
    sums.sending(Number(2), NOW);
    sums.settling(Number(2), &one);
    sums.settled(Number(2), Settled::Fenced);
    assert_eq!(held(), (false, false));
}
