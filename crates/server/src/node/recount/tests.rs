//! Sums on a store in memory, of which some were never written.

use domain::delivery::Cause;
use store::conformance::{Handle, Harness, NOW, Scene, later};
use store::keys::DeliveryKey;
use store::memory::{Memory, State};
use store::queue::NextState;

use super::*;

async fn scene() -> Scene {
    let memory = Arc::new(Memory::new(State::default(), Box::new(|| NOW)));
    let pass = Box::new(|_| -> store::Answer<'static, ()> { Box::pin(async { Ok(()) }) });
    Scene::new(Harness::alone(Handle::new(memory), pass)).await
}

fn all() -> Owned {
    Partition::all().map(|partition| (partition, Epoch(1))).collect()
}

async fn missing(scene: &Scene, taken_at: Timestamp) -> Vec<Rollup> {
    lacking(scene, &all(), taken_at).await.into_iter().flat_map(|(_, sums)| sums).collect()
}

/// Returns what some partitions lack, in the steps in which it is written.
async fn lacking(scene: &Scene, taken: &Owned, at: Timestamp) -> Vec<(Lease, Vec<Rollup>)> {
    let Handle { catalog, ledger, .. } = scene.store();
    let (catalog, ledger) = (catalog.as_ref(), ledger.as_ref());
    let books = Books { catalog, ledger, owns_all: true };
    let (mut walk, mut steps) = (Walk::new(books, taken, at), Vec::new());
    while let Some(lacks) = walk.next().await.unwrap() {
        let whole = lacks.into_iter().map(|(lease, sums)| (lease, sums.into_values().collect()));
        steps.extend(whole);
    }
    steps
}

fn together(sums: &[Rollup], subject: Subject) -> Vec<Rollup> {
    let mut found: BTreeMap<Minute, Rollup> = BTreeMap::new();
    for sum in sums.iter().filter(|sum| sum.subject == subject) {
        let known = found.entry(sum.minute);
        known.or_insert_with(|| Rollup::empty(subject, sum.minute)).add(sum);
    }
    found.into_values().collect()
}

/// Settles an attempt that ended some seconds after the beginning.
async fn settle(scene: &Scene, key: DeliveryKey, next: NextState, seconds: u64) {
    let recorded = scene.look(key).await.recorded;
    let mut settle = scene.settling(key, recorded, next).await;
    (settle.attempt.began_at, settle.attempt.ended_at) = (later(seconds), later(seconds));
    scene.settle_one(settle).await;
}

fn of(sums: &[Rollup], subject: Subject) -> Vec<(i64, u64, u64, u64, u64, u32)> {
    let own = together(sums, subject).into_iter();
    // What was accepted has a test of its own.
    let own = own.filter(|sum| sum.succeeded + sum.failed > 0);
    own.map(|sum| {
        let Rollup { succeeded, failed, delivered, dead, .. } = sum;
        let minute = sum.minute.0 - Minute::of(NOW).0;
        (minute, succeeded, failed, delivered, dead, sum.latencies.iter().sum())
    })
    .collect()
}

#[tokio::test]
async fn what_was_never_written_is_counted_once_for_each_subject() {
    let scene = scene().await;
    let (first, second) = (scene.endpoint().await, scene.endpoint().await);
    let key = scene.pending(&first).await;
    settle(&scene, key, NextState::Pending { due: later(70) }, 50).await;
    settle(&scene, key, NextState::Delivered, 70).await;
    let key = scene.pending(&second).await;
    settle(&scene, key, NextState::Dead(Cause::Exhausted), 71).await;
    let lost = missing(&scene, later(80)).await;
    let of_first = [(0, 0, 1, 0, 0, 0), (1, 1, 0, 1, 0, 1)];
    assert_eq!(of(&lost, Subject::Endpoint(first.key)), of_first);
    assert_eq!(of(&lost, Subject::Endpoint(second.key)), [(1, 0, 1, 0, 1, 0)]);
    let together = [(0, 0, 1, 0, 0, 0), (1, 1, 1, 1, 1, 1)];
    assert_eq!(of(&lost, Subject::Whole), together);
    assert_eq!(of(&lost, Subject::Application(scene.application.key)), together);
    scene.roll_up(lost).await;
    assert_eq!(missing(&scene, later(80)).await, []);
}

#[tokio::test]
async fn what_was_written_before_the_crash_is_subtracted() {
    let scene = scene().await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    settle(&scene, key, NextState::Delivered, 5).await;
    scene.roll_up(missing(&scene, later(6)).await).await;
    let key = scene.pending(&endpoint).await;
    settle(&scene, key, NextState::Delivered, 9).await;
    let lost = missing(&scene, later(10)).await;
    assert_eq!(of(&lost, Subject::Endpoint(endpoint.key)), [(0, 1, 0, 1, 0, 1)]);
    assert_eq!(of(&lost, Subject::Whole), [(0, 1, 0, 1, 0, 1)]);
}

#[tokio::test]
async fn what_was_sent_since_does_not_hide_what_was_lost_before() {
    let scene = scene().await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    settle(&scene, key, NextState::Delivered, 5).await;
    // An hour later somebody takes the partition over, and sends.
    let key = scene.pending(&endpoint).await;
    settle(&scene, key, NextState::Delivered, 3_700).await;
    let lost = missing(&scene, later(3_600)).await;
    assert_eq!(of(&lost, Subject::Endpoint(endpoint.key)), [(0, 1, 0, 1, 0, 1)]);
    assert_eq!(lacking(&scene, &Owned::new(), later(3_600)).await, []);
}

#[tokio::test]
async fn however_many_attempts_there_were_all_are_counted() {
    let scene = scene().await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let first = scene.settling(key, 0, NextState::Pending { due: NOW }).await;
    let attempts = 20_300;
    let mut settles = Vec::new();
    for recorded in 0..attempts {
        let mut settle = store::queue::Settle { recorded, ..first.clone() };
        settle.attempt.id = scene.id();
        (settle.attempt.began_at, settle.attempt.ended_at) = (later(5), later(5));
        settles.push(settle);
    }
    scene.settle(settles).await;
    let lost = missing(&scene, later(10)).await;
    let all = [(0, 0, u64::from(attempts), 0, 0, 0)];
    assert_eq!(of(&lost, Subject::Endpoint(endpoint.key)), all);
    assert_eq!(of(&lost, Subject::Whole), all);
}

#[tokio::test]
async fn what_was_counted_again_is_written_under_its_partitions_lease_and_as_a_whole() {
    let scene = scene().await;
    let endpoints = [scene.endpoint().await, scene.endpoint().await, scene.endpoint().await];
    for endpoint in &endpoints {
        let key = scene.pending(endpoint).await;
        settle(&scene, key, NextState::Delivered, 5).await;
    }
    let steps = lacking(&scene, &all(), later(10)).await;
    for (lease, sums) in &steps {
        let own = endpoints.iter().filter(|endpoint| endpoint.partition == lease.partition);
        let own: Vec<Subject> = own.map(|endpoint| Subject::Endpoint(endpoint.key)).collect();
        assert!(!own.is_empty(), "{lease:?}");
        let delivered = |wanted: &dyn Fn(&Rollup) -> bool| -> u64 {
            sums.iter().filter(|sum| wanted(sum)).map(|sum| sum.delivered).sum()
        };
        let theirs = delivered(&|sum| own.contains(&sum.subject));
        assert_eq!(theirs, u64::try_from(own.len()).unwrap());
        assert_eq!(delivered(&|sum| sum.subject == Subject::Whole), theirs);
        assert_eq!(sums.len(), own.len() + 2);
    }
    // Half of it was written when another node took over: it adds the rest, and the rest only.
    let (lease, half) = steps.first().unwrap().clone();
    let once = Once { at: NOW, id: [1; 16] };
    scene.keep_up(Upkeep::RollUp { lease: Some(lease), once, rollups: half }).await;
    let rest = lacking(&scene, &all(), later(10)).await;
    assert_eq!(rest[..], steps[1..]);
    let old = Lease { epoch: Epoch(0), ..lease };
    let once = Once { at: NOW, id: [2; 16] };
    let late = Upkeep::RollUp { lease: Some(old), once, rollups: steps[0].1.clone() };
    assert_eq!(scene.keep_up(late).await, Done::Fenced);
}

#[tokio::test]
async fn what_was_accepted_is_counted_again_by_who_owns_everything() {
    let scene = scene().await;
    let (endpoint, disabled) = (scene.endpoint().await, scene.endpoint().await);
    for _ in 0..3 {
        scene.pending(&endpoint).await;
    }
    let mut accept = scene.message(&[&disabled]).await;
    let dead = store::queue::FirstState::Dead(Cause::EndpointDisabled);
    accept.deliveries.iter_mut().for_each(|delivery| delivery.state = dead);
    scene.accept_new(accept).await;
    let lost = missing(&scene, later(10)).await;
    let accepted = |subject| {
        let sums = together(&lost, subject).into_iter();
        sums.map(|sum| (sum.accepted, sum.dead_at_once)).collect::<Vec<_>>()
    };
    assert_eq!(accepted(Subject::Endpoint(endpoint.key)), [(3, 0)]);
    assert_eq!(accepted(Subject::Endpoint(disabled.key)), [(1, 1)]);
    assert_eq!(accepted(Subject::Whole), [(4, 1)]);
    scene.roll_up(lost).await;
    assert_eq!(missing(&scene, later(10)).await, []);
    let Handle { catalog, ledger, .. } = scene.store();
    let (catalog, ledger) = (catalog.as_ref(), ledger.as_ref());
    let books = Books { catalog, ledger, owns_all: false };
    scene.pending(&endpoint).await;
    assert_eq!(books.of_endpoint(&endpoint, later(10)).await.unwrap(), [], "others may write it");
}

#[tokio::test]
async fn what_was_folded_into_its_hour_was_complete() {
    let scene = scene().await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    settle(&scene, key, NextState::Delivered, 5).await;
    scene.roll_up(missing(&scene, later(6)).await).await;
    let now = later(2 * 86_400);
    while scene.keep_up(Upkeep::Fold { now, most: 100 }).await != Done::Changed(0) {}
    assert_eq!(missing(&scene, now).await, []);
}
