//! Missing deliveries: a replay makes them of messages that an endpoint did not get.

use domain::delivery::{Cause, Delivery};
use domain::ids::DeliveryId;

use super::replays::{chunk, start};
use super::{Harness, MINUTE, NOW, Scene, attempts_of, fresh, later};
use crate::catalog::Endpoint;
use crate::keys::{Cursor, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{DeliveryFilter, Task, TaskState};
use crate::limits;
use crate::page::{From, Page};
use crate::queue::{Done, Missing, NextState, Replay, Settled, Upkeep};

pub async fn a_message_from_before_its_endpoint_gets_a_delivery(harness: Harness) {
    let scene = Scene::new(harness).await;
    let first = scene.endpoint().await;
    let message = scene.accept_new(scene.message(&[&first]).await).await;
    let alone = scene.accept_new(scene.message(&[]).await).await;
    let endpoint = scene.endpoint().await;
    let task = start(&scene).await;
    let keys = [scene.key(&endpoint, message), scene.key(&endpoint, alone)];
    let chunk = missing(&scene, &task, &endpoint, &keys).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(2));
    for key in keys {
        let entry = scene.look(key).await;
        assert_eq!(entry.state, Delivery::Pending(fresh(later(30))));
        assert_eq!((entry.recorded, entry.settled_at, entry.last_attempt), (0, None, None));
        let id = DeliveryId::derive(&entry.message, key.endpoint.0.cast_unsigned());
        let found = scene.store().ledger.delivery(key.application, id).await.unwrap();
        assert_eq!(found, entry);
    }
    assert_eq!(scene.loaded(&endpoint).await, [message, alone]);
    assert_eq!(scene.loaded(&first).await, [message]);
    let both = scene.store().ledger.deliveries_of(scene.application.key, message).await.unwrap();
    let endpoints: Vec<_> = both.iter().map(|entry| entry.key.endpoint).collect();
    assert_eq!(endpoints, [first.key, endpoint.key]);
    let task = scene.store().ledger.task(task.id).await.unwrap();
    assert_eq!((task.replayed, task.skipped, task.state), (2, 0, TaskState::Finished));
}

pub async fn what_was_made_is_settled_like_any_other(harness: Harness) {
    let scene = Scene::new(harness).await;
    let message = scene.accept_new(scene.message(&[]).await).await;
    let endpoint = scene.endpoint().await;
    let task = start(&scene).await;
    let key = scene.key(&endpoint, message);
    let chunk = missing(&scene, &task, &endpoint, &[key]).await;
    scene.keep_up(Upkeep::Replay(chunk)).await;
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    assert_eq!(scene.settle_one(settle).await, Settled::Applied { turn: None });
    assert_eq!(scene.look(key).await.state, Delivery::Delivered);
    assert_eq!(attempts_of(&scene.store().ledger, key).await.unwrap().len(), 1);
}

pub async fn a_delivery_that_is_there_is_not_made_again(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let pending = scene.pending(&endpoint).await;
    let delivered = scene.settled(&endpoint, NextState::Delivered).await;
    let before = (scene.look(pending).await, scene.look(delivered).await);
    let task = start(&scene).await;
    let chunk = missing(&scene, &task, &endpoint, &[pending, delivered]).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(0));
    assert_eq!((scene.look(pending).await, scene.look(delivered).await), before);
    let of = scene.store().ledger.deliveries_of(scene.application.key, pending.message);
    assert_eq!(of.await.unwrap().len(), 1);
}

pub async fn a_chunk_that_made_something_and_comes_again_makes_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let message = scene.accept_new(scene.message(&[]).await).await;
    let endpoint = scene.endpoint().await;
    let task = start(&scene).await;
    let key = scene.key(&endpoint, message);
    let chunk = missing(&scene, &task, &endpoint, &[key]).await;
    let chunk = Replay { next_cursor: Some(Cursor(5)), ..chunk };
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk.clone())).await, Done::Changed(1));
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk.clone())).await, Done::Fenced);
    // Nor does the next one, if it names the same pair.
    let next = Replay { cursor: Some(Cursor(5)), next_cursor: None, ..chunk };
    assert_eq!(scene.keep_up(Upkeep::Replay(next)).await, Done::Changed(0));
    let task = scene.store().ledger.task(task.id).await.unwrap();
    assert_eq!((task.replayed, task.state), (1, TaskState::Finished));
    let of = scene.store().ledger.deliveries_of(scene.application.key, message).await.unwrap();
    assert_eq!(of.len(), 1);
}

pub async fn a_payload_that_is_gone_is_skipped_and_counted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let gone = scene.accept_new(scene.message(&[]).await).await;
    let kept = scene.accept_new(scene.message(&[]).await).await;
    scene.store().ledger.expunge(scene.application.key, gone, NOW).await.unwrap();
    let endpoint = scene.endpoint().await;
    let task = start(&scene).await;
    let keys = [scene.key(&endpoint, gone), scene.key(&endpoint, kept)];
    let chunk = missing(&scene, &task, &endpoint, &keys).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(1));
    let task = scene.store().ledger.task(task.id).await.unwrap();
    assert_eq!((task.replayed, task.skipped), (1, 1));
    assert_eq!(scene.loaded(&endpoint).await, [kept]);
}

pub async fn nothing_is_made_after_the_application_has_changed(harness: Harness) {
    let scene = Scene::new(harness).await;
    let message = scene.accept_new(scene.message(&[]).await).await;
    let endpoint = scene.endpoint().await;
    let task = start(&scene).await;
    let key = scene.key(&endpoint, message);
    let chunk = missing(&scene, &task, &endpoint, &[key]).await;
    let delete = scene.store().catalog.delete_endpoint(scene.application.key, endpoint.key, NOW);
    delete.await.unwrap();
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk.clone())).await, Done::Fenced);
    assert_eq!(scene.store().ledger.task(task.id).await.unwrap(), task);
    // Not even if the caller has read the new revision and did not look.
    let blind = missing(&scene, &task, &endpoint, &[key]).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(blind)).await, Done::Changed(0));
    let of = scene.store().ledger.deliveries_of(scene.application.key, message).await.unwrap();
    assert_eq!(of, []);
}

pub async fn what_does_not_belong_together_is_not_made(harness: Harness) {
    let scene = Scene::new(harness).await;
    let message = scene.accept_new(scene.message(&[]).await).await;
    let endpoint = scene.endpoint().await;
    let other = scene.another_application().await;
    let task = start(&scene).await;
    let key = scene.key(&endpoint, message);
    let wrong = [
        DeliveryKey { application: other.key, ..key },
        DeliveryKey { message: MessageKey(i64::MAX), ..key },
        DeliveryKey { endpoint: EndpointKey(i64::MAX), ..key },
    ];
    let chunk = missing(&scene, &task, &endpoint, &wrong).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(0));
    let of = scene.store().ledger.deliveries_of(scene.application.key, message).await.unwrap();
    assert_eq!(of, []);
}

pub async fn what_is_made_goes_to_the_end_of_the_line(harness: Harness) {
    let scene = Scene::new(harness).await;
    let older = scene.accept_new(scene.message(&[]).await).await;
    let newer = scene.accept_new(scene.message(&[]).await).await;
    let endpoint = scene.fifo_endpoint().await;
    let waiting = scene.pending(&endpoint).await.message;
    let task = start(&scene).await;
    let keys = [older, newer].map(|message| scene.key(&endpoint, message));
    let chunk = missing(&scene, &task, &endpoint, &keys).await;
    scene.keep_up(Upkeep::Replay(Replay { at: later(30), ..chunk })).await;
    assert_eq!(scene.loaded(&endpoint).await, [waiting, older, newer]);
}

pub async fn a_message_with_something_made_is_not_pruned_before_it_is_settled(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut accept = scene.message(&[]).await;
    accept.message.retained_until = later(40);
    let message = scene.accept_new(accept).await;
    let endpoint = scene.endpoint().await;
    let task = start(&scene).await;
    let key = scene.key(&endpoint, message);
    let chunk = missing(&scene, &task, &endpoint, &[key]).await;
    scene.keep_up(Upkeep::Replay(chunk)).await;
    scene.keep_up(Upkeep::Prune { now: later(60), most: 100 }).await;
    assert_eq!(scene.loaded(&endpoint).await, [message]);
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    scene.settle_one(settle).await;
    scene.keep_up(Upkeep::Prune { now: later(60), most: 100 }).await;
    let of = scene.store().ledger.deliveries_of(scene.application.key, message).await.unwrap();
    assert_eq!(of, []);
}

pub async fn a_message_whose_time_is_over_is_skipped_and_counted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let keeper = scene.endpoint().await;
    let mut accept = scene.message(&[&keeper]).await;
    accept.message.retained_until = later(19);
    // Somebody else's pending delivery keeps it from being pruned.
    let over = scene.accept_new(accept.clone()).await;
    accept = scene.again(&accept);
    accept.message.retained_until = later(21);
    let young = scene.accept_new(accept).await;
    let endpoint = scene.endpoint().await;
    let task = start(&scene).await;
    let keys = [over, young].map(|message| scene.key(&endpoint, message));
    let chunk = missing(&scene, &task, &endpoint, &keys).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(1));
    assert_eq!(scene.loaded(&endpoint).await, [young]);
    let finished = scene.store().ledger.task(task.id).await.unwrap();
    assert_eq!((finished.replayed, finished.skipped), (1, 1));
}

pub async fn a_dead_letter_that_was_removed_is_not_made_again(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let dead = NextState::Dead(Cause::Exhausted);
    let purged = scene.settled(&endpoint, dead).await;
    let page = Page { from: From::Start, limit: 10 };
    let (application, filter) = (scene.application.key, DeliveryFilter::default());
    scene.store().ledger.purge_dead_letters(application, filter, page).await.unwrap();
    let pruned = scene.settled(&endpoint, dead).await;
    let now = NOW.after(limits::DEAD_LETTERS + MINUTE);
    scene.keep_up(Upkeep::Prune { now, most: 100 }).await;
    let task = start(&scene).await;
    let chunk = missing(&scene, &task, &endpoint, &[purged, pruned]).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(0));
    for key in [purged, pruned] {
        let of = scene.store().ledger.deliveries_of(application, key.message).await.unwrap();
        assert_eq!(of, []);
    }
}

/// Describes a chunk which finishes its task, and which makes deliveries due 30 seconds later.
pub(super) async fn missing(
    scene: &Scene,
    task: &Task,
    endpoint: &Endpoint,
    keys: &[DeliveryKey],
) -> Replay {
    let Replay { deliveries, .. } = chunk(scene, task, endpoint, keys).await;
    let made = deliveries.iter().map(|it| (it.key, it.partition, endpoint.order, it.pending));
    let deliveries = made.collect();
    let (application, revision) = (scene.application.key, scene.revision().await);
    let missing = Some(Missing { application, revision, deliveries });
    Replay { missing, ..chunk(scene, task, endpoint, &[]).await }
}
