//! Retention: what is settled goes in its own time, whatever becomes of its siblings, and a wide
//! message goes little by little.

use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::time::Timestamp;

use super::missing::missing;
use super::pruning::{messages, prune, prune_by, settle, short, short_lived};
use super::replays::{chunk, start};
use super::{Harness, MINUTE, NOW, Scene};
use crate::catalog::Endpoint;
use crate::keys::{DeliveryKey, MessageKey};
use crate::limits;
use crate::page::{From, Page};
use crate::queue::{Done, NextState, Settled, Upkeep};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub async fn what_is_pending_or_dead_keeps_no_settled_delivery_of_its_message(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoints = endpoints(&scene, 4).await;
    let message = to_all(&scene, &endpoints).await;
    let [delivered, cancelled, dead, pending] = keys(&scene, &endpoints, message)[..] else {
        panic!("four were made");
    };
    settle(&scene, delivered, NextState::Delivered).await;
    scene.store().ledger.cancel(cancelled, NOW).await.unwrap();
    settle(&scene, dead, NextState::Dead(Cause::Exhausted)).await;
    prune(&scene, NOW.after(MINUTE * 59)).await;
    assert_eq!(left(&scene, message).await, [delivered, cancelled, dead, pending]);
    prune(&scene, NOW.after(MINUTE * 61)).await;
    assert_eq!(left(&scene, message).await, [dead, pending]);
    assert_eq!(attempts(&scene, &endpoints[0]).await, 0);
    assert_eq!(attempts(&scene, &endpoints[2]).await, 1);
    assert!(scene.load(&endpoints[3]).await.deliveries[0].payload.is_some());
    // The last that is pending goes before the dead letter, and the message with that.
    settle(&scene, pending, NextState::Delivered).await;
    prune(&scene, NOW.after(DAY)).await;
    assert_eq!(left(&scene, message).await, [dead]);
    prune(&scene, NOW.after(limits::DEAD_LETTERS + MINUTE)).await;
    assert_eq!(messages(&scene).await, []);
}

pub async fn what_is_delivered_late_is_kept_for_the_whole_time(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = short_lived(&scene, &endpoint).await;
    settle(&scene, key, NextState::Dead(Cause::Exhausted)).await;
    let task = start(&scene).await;
    scene.keep_up(Upkeep::Replay(chunk(&scene, &task, &endpoint, &[key]).await)).await;
    let late = NOW.after(DAY * 2);
    prune(&scene, late).await;
    settle_at(&scene, key, 1, late).await;
    prune(&scene, late.after(MINUTE * 59)).await;
    assert_eq!(scene.look(key).await.state, Delivery::Delivered);
    assert_eq!(attempts(&scene, &endpoint).await, 2);
    assert_eq!(messages(&scene).await, [key.message]);
    prune(&scene, late.after(MINUTE * 61)).await;
    assert_eq!(messages(&scene).await, []);
    assert_eq!(attempts(&scene, &endpoint).await, 0);
}

pub async fn what_is_cancelled_late_is_kept_for_the_whole_time(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = short_lived(&scene, &endpoint).await;
    let late = NOW.after(DAY * 2);
    scene.store().ledger.cancel(key, late).await.unwrap();
    prune(&scene, late.after(MINUTE * 59)).await;
    assert_eq!(scene.look(key).await.state, Delivery::Cancelled);
    prune(&scene, late.after(MINUTE * 61)).await;
    assert_eq!(messages(&scene).await, []);
}

pub async fn what_settled_late_keeps_its_message_and_no_other_delivery(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoints = endpoints(&scene, 2).await;
    let message = to_all(&scene, &endpoints).await;
    let keys = keys(&scene, &endpoints, message);
    let late = NOW.after(DAY * 2);
    settle(&scene, keys[0], NextState::Delivered).await;
    settle_at(&scene, keys[1], 0, late).await;
    prune(&scene, late).await;
    assert_eq!(left(&scene, message).await, keys[1..]);
    assert_eq!(messages(&scene).await, [message]);
}

pub async fn the_time_of_a_delayed_message_begins_when_it_was_to_be_delivered(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut accept = scene.message(&[&endpoint]).await;
    accept.message.deliver_at = Some(NOW.after(HOUR * 10));
    accept.message.retained_until = NOW.after(HOUR * 11);
    let message = scene.accept_new(accept).await;
    let late = NOW.after(HOUR * 20);
    settle_at(&scene, scene.key(&endpoint, message), 0, late).await;
    prune(&scene, late.after(MINUTE * 59)).await;
    assert_eq!(messages(&scene).await, [message]);
    prune(&scene, late.after(MINUTE * 61)).await;
    assert_eq!(messages(&scene).await, []);
}

pub async fn a_message_with_many_deliveries_goes_in_portions(harness: Harness) {
    const MOST: u32 = 10;
    let scene = Scene::new(harness).await;
    let endpoints = endpoints(&scene, 30).await;
    let message = to_all(&scene, &endpoints).await;
    let keys = keys(&scene, &endpoints, message);
    settle_all(&scene, &keys, 0, NextState::Pending { due: NOW }).await;
    settle_all(&scene, &keys, 1, NextState::Delivered).await;
    let rows = async || {
        let of = scene.store().ledger.deliveries_of(scene.application.key, message).await;
        let recorded = of.unwrap_or_default().into_iter().map(|entry| 1 + entry.recorded);
        recorded.sum::<u32>() + u32::try_from(messages(&scene).await.len()).unwrap()
    };
    let mut before = rows().await;
    assert_eq!(before, 91);
    let mut steps = 0;
    loop {
        let done = scene.keep_up(Upkeep::Prune { now: NOW.after(DAY), most: MOST }).await;
        let Done::Changed(changed) = done else { panic!("{done:?}") };
        let after = rows().await;
        assert!(changed <= MOST && before - after <= MOST, "{changed}: {before} to {after}");
        before = after;
        steps += 1;
        assert!(steps < 40, "it comes to an end");
        if changed == 0 {
            break;
        }
    }
    assert_eq!(before, 0);
    for endpoint in &endpoints {
        assert_eq!(attempts(&scene, endpoint).await, 0);
    }
}

pub async fn a_message_that_stays_loses_its_settled_deliveries_in_portions(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoints = endpoints(&scene, 12).await;
    // Two, so that a walk which comes to the second one has passed the first.
    let wide = [to_all(&scene, &endpoints).await, to_all(&scene, &endpoints).await];
    let mut stay = Vec::new();
    for message in wide {
        let keys = keys(&scene, &endpoints, message);
        settle_all(&scene, &keys[1..11], 0, NextState::Delivered).await;
        stay.extend([keys[0], keys[11]]);
    }
    let mut steps = 0;
    while scene.keep_up(Upkeep::Prune { now: NOW.after(DAY), most: 3 }).await != Done::Changed(0) {
        steps += 1;
        assert!(steps < 100, "it comes to an end");
    }
    assert!(steps >= 20, "only {steps} before the last");
    let both = [left(&scene, wide[0]).await, left(&scene, wide[1]).await].concat();
    assert_eq!(both, stay);
    settle_all(&scene, &stay, 0, NextState::Delivered).await;
    prune_by(&scene, NOW.after(DAY), 3).await;
    assert_eq!(messages(&scene).await, []);
}

pub async fn a_delivery_made_while_its_message_is_pruned_keeps_it(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoints = endpoints(&scene, 6).await;
    let message = to_all(&scene, &endpoints).await;
    settle_all(&scene, &keys(&scene, &endpoints, message), 0, NextState::Delivered).await;
    let late = scene.endpoint().await;
    let step = Upkeep::Prune { now: NOW.after(DAY), most: 4 };
    scene.keep_up(step).await;
    assert_eq!(left(&scene, message).await.len(), 4);
    let (task, made) = (start(&scene).await, scene.key(&late, message));
    let chunk = missing(&scene, &task, &late, &[made]).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(1));
    prune_by(&scene, NOW.after(DAY), 4).await;
    assert_eq!(left(&scene, message).await, [made]);
    assert!(scene.load(&late).await.deliveries[0].payload.is_some());
    settle(&scene, made, NextState::Delivered).await;
    prune_by(&scene, NOW.after(DAY), 4).await;
    assert_eq!(messages(&scene).await, []);
}

async fn endpoints(scene: &Scene, number: usize) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for _ in 0..number {
        endpoints.push(scene.endpoint().await);
    }
    endpoints
}

/// Accepts a message to some endpoints that is kept for an hour only.
async fn to_all(scene: &Scene, endpoints: &[Endpoint]) -> MessageKey {
    let endpoints: Vec<_> = endpoints.iter().collect();
    scene.accept_new(short(scene.message(&endpoints).await)).await
}

fn keys(scene: &Scene, endpoints: &[Endpoint], message: MessageKey) -> Vec<DeliveryKey> {
    endpoints.iter().map(|endpoint| scene.key(endpoint, message)).collect()
}

/// Settles deliveries in one batch.
async fn settle_all(scene: &Scene, keys: &[DeliveryKey], recorded: u32, next: NextState) {
    let mut settles = Vec::new();
    for key in keys {
        settles.push(scene.settling(*key, recorded, next).await);
    }
    for settled in scene.settle(settles).await {
        assert!(matches!(settled, Settled::Applied { .. }), "{settled:?}");
    }
}

/// Settles a delivery with an attempt that succeeded at a moment.
async fn settle_at(scene: &Scene, key: DeliveryKey, recorded: u32, at: Timestamp) {
    let mut settle = scene.settling(key, recorded, NextState::Delivered).await;
    (settle.attempt.began_at, settle.attempt.ended_at) = (at, at);
    assert_eq!(scene.settle_one(settle).await, Settled::Applied { turn: None });
}

/// Returns the deliveries that are left of a message, by endpoint.
async fn left(scene: &Scene, message: MessageKey) -> Vec<DeliveryKey> {
    let of = scene.store().ledger.deliveries_of(scene.application.key, message).await.unwrap();
    of.iter().map(|entry| entry.key).collect()
}

/// Counts the attempts that are left of an endpoint.
async fn attempts(scene: &Scene, endpoint: &Endpoint) -> usize {
    let page = Page { from: From::Start, limit: 100 };
    let (application, filter) = (endpoint.application, Default::default());
    let listed = scene.store().ledger.attempts(application, endpoint.key, filter, page).await;
    listed.unwrap().entries.len()
}
