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

async fn missing(scene: &Scene, taken_at: Timestamp) -> Vec<Rollup> {
    let Handle { catalog, ledger, .. } = scene.store();
    let books = Books { catalog: catalog.as_ref(), ledger: ledger.as_ref() };
    books.missing(&Partition::all().collect(), taken_at).await.unwrap()
}

/// Settles an attempt that ended some seconds after the beginning.
async fn settle(scene: &Scene, key: DeliveryKey, next: NextState, seconds: u64) {
    let recorded = scene.look(key).await.recorded;
    let mut settle = scene.settling(key, recorded, next).await;
    (settle.attempt.began_at, settle.attempt.ended_at) = (later(seconds), later(seconds));
    scene.settle_one(settle).await;
}

fn of(sums: &[Rollup], subject: Subject) -> Vec<(i64, u64, u64, u64, u64, u32)> {
    let own = sums.iter().filter(|sum| sum.subject == subject);
    own.map(|sum| {
        let Rollup { succeeded, failed, delivered, dead, .. } = *sum;
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
    let nobody = BTreeSet::new();
    let books =
        Books { catalog: scene.store().catalog.as_ref(), ledger: scene.store().ledger.as_ref() };
    assert_eq!(books.missing(&nobody, later(3_600)).await.unwrap(), []);
}
