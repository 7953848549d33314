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
    sums.settling(Number(attempt), settle);
    sums.settled(Number(attempt), Settled::Applied { turn: None });
}

fn cuts(sums: &Sums) -> Vec<(Option<Lease>, Vec<Rollup>)> {
    cuts_of(sums, &BTreeMap::new())
}

fn cuts_of(sums: &Sums, owned: &BTreeMap<Partition, Epoch>) -> Vec<(Option<Lease>, Vec<Rollup>)> {
    sums.cut(NOW, owned);
    let steps = sums.hand_in(usize::MAX).into_iter().map(|step| {
        let Upkeep::RollUp { lease, rollups, .. } = step else { unreachable!("{step:?}") };
        (lease, rollups)
    });
    steps.collect()
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
        let lease = lease.unwrap();
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
    sums.settling(Number(1), &one);
    assert_eq!(held(), (false, true));
    sums.settled(Number(1), Settled::Applied { turn: None });
    assert_eq!(held(), (false, true));
    cuts(&sums);
    assert_eq!(held(), (false, true));
    sums.lock().cut.clear();
    assert_eq!(held(), (false, false));
    sums.settling(Number(3), &one);
    sums.forget_attempts();
    assert_eq!(held(), (false, false));
    // What was fenced is counted by whoever is the owner now.
    sums.settling(Number(2), &one);
    sums.settled(Number(2), Settled::Fenced);
    assert_eq!(held(), (false, false));
}

#[tokio::test]
async fn what_is_accepted_is_written_under_the_lease_that_its_node_has_or_under_none() {
    let scene = scene().await;
    let (own, foreign) = (scene.endpoint().await, scene.endpoint().await);
    assert_ne!(own.partition, foreign.partition, "or it tells nothing");
    let sums = Sums::default();
    let accept = scene.message(&[&own, &foreign]).await;
    let answers = [Accepted::New { message: store::keys::MessageKey(1), turns: vec![1, 2] }];
    sums.accepted(std::slice::from_ref(&accept), &answers);
    sums.accepted(&[accept], &[Accepted::ApplicationMissing]);
    let lease = scene.lease(&own);
    let owned = BTreeMap::from([(lease.partition, lease.epoch)]);
    let cuts = cuts_of(&sums, &owned);
    let told: Vec<_> = cuts.iter().map(|(lease, rollups)| (*lease, rollups.len())).collect();
    assert_eq!(told, [(None, 3), (Some(lease), 3)]);
    let accepted = |rollups: &[Rollup]| rollups.iter().map(|sum| sum.accepted).sum::<u64>();
    assert!(cuts.iter().all(|(_, rollups)| accepted(rollups) == 3), "{cuts:?}");
}

#[tokio::test]
async fn what_was_accepted_is_kept_when_the_lease_is_lost() {
    let scene = scene().await;
    let endpoint = scene.endpoint().await;
    let sums = Sums::default();
    let accept = scene.message(&[&endpoint]).await;
    let key = scene.pending(&endpoint).await;
    let answers = [Accepted::New { message: key.message, turns: vec![1] }];
    sums.accepted(&[accept], &answers);
    let one = scene.settling(key, 0, NextState::Delivered).await;
    settle(&sums, 1, &one);
    let lease = scene.lease(&endpoint);
    cuts_of(&sums, &BTreeMap::from([(lease.partition, lease.epoch)]));
    let cut = sums.lock().cut.pop_front().unwrap();
    sums.lock().keep_accepted(cut);
    let (left, _) = sums.unwritten(Within::Whole, &(Minute(0)..Minute(i64::MAX)));
    assert_eq!((left.accepted, left.delivered), (1, 0));
}

#[tokio::test]
async fn what_is_not_written_is_told_apart_by_whose_it_is() {
    let scene = scene().await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let sums = Sums::default();
    let accept = scene.message(&[&one, &two]).await;
    let answers = [Accepted::New { message: store::keys::MessageKey(1), turns: vec![1, 2] }];
    sums.accepted(&[accept], &answers);
    let all = Minute(0)..Minute(i64::MAX);
    let of = |within| sums.unwritten(within, &all).0.accepted;
    let application = one.application;
    let told = || {
        let endpoint = |key| of(Within::Endpoint(application, key));
        let other = of(Within::Application(ApplicationKey(application.0 + 1)));
        (of(Within::Whole), of(Within::Application(application)), endpoint(two.key), other)
    };
    assert_eq!(told(), (2, 2, 1, 0));
    let seen = sums.unwritten(Within::Whole, &all).1;
    assert!(sums.is_as_seen(seen));
    cuts(&sums);
    assert_eq!(told(), (2, 2, 1, 0), "also of what is cut to be written");
    assert!(!sums.is_as_seen(seen), "a step is handed in");
}
