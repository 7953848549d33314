//! What a node announces: whoever listens hears it, and whoever does not listen holds nobody up.

use std::time::Duration;

use domain::delivery::Delivery;
use domain::endpoint::Reason;
use engine::Announcement;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::scene::{Scene, Step};

/// Far more than a node takes to say something.
const PATIENCE: Duration = Duration::from_secs(20);

/// More than the node keeps for whoever listens.
const MORE_THAN_IS_KEPT: usize = 1_100;

/// Waits for an announcement that something can be made of.
async fn hears<T>(
    announcements: &mut Receiver<Announcement>,
    find: impl Fn(Announcement) -> Option<T>,
) -> T {
    let hearing = async {
        loop {
            if let Some(found) = find(announcements.recv().await.unwrap()) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, hearing).await.expect("it is announced")
}

#[tokio::test]
async fn whoever_listens_hears_that_a_breaker_tripped() {
    let scene = Scene::begin(&[Step::Answer(503)]).await;
    let mut announcements = scene.node.announcements();
    scene.send().await;
    let endpoint = hears(&mut announcements, |announcement| {
        let Announcement::Tripped { endpoint, .. } = announcement else { return None };
        Some(endpoint)
    })
    .await;
    assert_eq!(endpoint, scene.endpoint());
    scene.end().await;
}

#[tokio::test]
async fn all_who_listen_hear_that_an_endpoint_is_disabled_and_why() {
    let scene = Scene::begin(&[Step::Answer(410)]).await;
    let listeners = [scene.node.announcements(), scene.node.announcements()];
    scene.send().await;
    for mut announcements in listeners {
        let heard = hears(&mut announcements, |announcement| {
            let Announcement::Disabled { endpoint, reason, .. } = announcement else { return None };
            Some((endpoint, reason))
        })
        .await;
        assert_eq!(heard, (scene.endpoint(), Reason::Gone));
    }
    scene.end().await;
}

#[tokio::test]
async fn a_listener_that_lags_behind_holds_nobody_up_and_learns_that_it_missed_something() {
    // Every other message fails at once and for good, which is announced; the others keep the breaker
    // closed.
    let steps = [Step::Answer(500), Step::Answer(200)].repeat(MORE_THAN_IS_KEPT);
    let scene = Scene::begin(&[&steps[..], &[Step::Answer(200)]].concat()).await;
    let mut announcements = scene.node.announcements();
    let once = json!({ "policy": { "max_attempts": 1 } }).to_string();
    for _ in 0..steps.len() {
        scene.send_as(|draft| draft.message.policy = Some(once.clone())).await;
    }
    scene.arrived(steps.len()).await;
    let last = scene.send().await;
    assert_eq!(scene.settled(last).await.state, Delivery::Delivered);
    let heard = announcements.recv().await;
    assert!(matches!(heard, Err(RecvError::Lagged(1..))), "{heard:?}");
    scene.end().await;
}
