//! Pruning, as whoever accepts on the same thread sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use domain::delivery::Cause;
use domain::time::Timestamp;
use store::conformance::{Handle, Harness, NOW, Pass, Scene};
use store::page::{From, Page};
use store::queue::{Done, NextState, Upkeep};
use store::sqlite::{Settings, Sqlite};
use tempfile::TempDir;

use super::entropy;

/// How many rows there are to look at. That many are looked at in one step if it takes no time.
const ROWS: usize = 60;

/// Opens a store on which each look at the clock takes half a millisecond.
async fn slow() -> (Scene, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let now = AtomicI64::new(NOW.as_micros());
    let clock = Arc::new(move || Timestamp::from_micros(now.fetch_add(500, Ordering::SeqCst)));
    let store = Sqlite::open(Settings::new(directory.path(), entropy, clock)).unwrap();
    let pass: Pass = Box::new(|_| Box::pin(async { Ok(()) }));
    (Scene::new(Harness::alone(Handle::new(Arc::new(store)), pass)).await, directory)
}

/// Prunes until there is nothing left to do; returns how many steps that took.
async fn prune(scene: &Scene, now: Timestamp) -> usize {
    let mut steps = 1;
    while scene.keep_up(Upkeep::Prune { now, most: 200 }).await != Done::Changed(0) {
        steps += 1;
        assert!(steps < ROWS * 4, "it does not come to an end");
    }
    steps
}

#[tokio::test]
async fn a_walk_over_messages_ends_when_its_time_is_over_and_goes_on_there() {
    let (scene, _directory) = slow().await;
    let template = scene.message(&[]).await;
    scene.accept((0..ROWS).map(|_| scene.again(&template)).collect()).await;
    let mut goes = scene.message(&[]).await;
    goes.message.retained_until = NOW;
    scene.accept_new(goes).await;
    let steps = prune(&scene, NOW.after(Duration::from_secs(3_600))).await;
    assert!(steps > ROWS / 10, "only {steps} steps");
    let page = Page { from: From::Start, limit: 250 };
    let ledger = &scene.store().ledger;
    let left = ledger.messages(scene.application.key, Default::default(), page).await.unwrap();
    assert_eq!(left.entries.len(), ROWS);
}

#[tokio::test]
async fn a_walk_over_the_deliveries_of_a_message_ends_when_its_time_is_over_and_goes_on_there() {
    let (scene, _directory) = slow().await;
    let mut endpoints = Vec::new();
    for _ in 0..ROWS {
        endpoints.push(scene.endpoint().await);
    }
    let mut template = scene.message(&endpoints.iter().collect::<Vec<_>>()).await;
    template.message.retained_until = NOW;
    scene.accept(vec![template.clone(), scene.again(&template)]).await;
    let now = NOW.after(Duration::from_secs(3_600));
    let steps = prune(&scene, now).await;
    assert!(steps > ROWS / 10, "only {steps} steps");
    let mut settles = Vec::new();
    for endpoint in &endpoints {
        let waiting = scene.loaded(endpoint).await;
        assert_eq!(waiting.len(), 2);
        for message in waiting {
            let key = scene.key(endpoint, message);
            settles.push(scene.settling(key, 0, NextState::Delivered).await);
        }
    }
    scene.settle(settles).await;
    let steps = prune(&scene, now).await;
    assert!(steps > ROWS / 10, "only {steps} steps");
    let page = Page { from: From::Start, limit: 250 };
    let ledger = &scene.store().ledger;
    let left = ledger.messages(scene.application.key, Default::default(), page).await.unwrap();
    assert_eq!(left.entries, []);
}

#[tokio::test]
async fn a_walk_over_dead_letters_ends_when_its_time_is_over_and_goes_on_there() {
    let (scene, _directory) = slow().await;
    let endpoint = scene.endpoint().await;
    let template = scene.message(&[&endpoint]).await;
    scene.accept((0..ROWS).map(|_| scene.again(&template)).collect()).await;
    let mut settles = Vec::new();
    for message in scene.loaded(&endpoint).await {
        let dead = NextState::Dead(Cause::Exhausted);
        settles.push(scene.settling(scene.key(&endpoint, message), 0, dead).await);
    }
    scene.settle(settles).await;
    let count = async || {
        let ledger = &scene.store().ledger;
        ledger
            .dead_letter_count(store::ledger::Within::Application(scene.application.key))
            .await
            .unwrap()
            .number
    };
    assert_eq!(usize::try_from(count().await).unwrap(), ROWS);
    let steps = prune(&scene, NOW.after(store::limits::DEAD_LETTERS * 2)).await;
    assert!(steps > ROWS / 10, "only {steps} steps");
    assert_eq!(count().await, 0);
}
