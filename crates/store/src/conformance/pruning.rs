//! Pruning: nothing too early, everything in the end, and little at a time.

use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::partition::Partition;
use domain::time::Timestamp;

use super::replays::{chunk, start};
use super::{Harness, MINUTE, NOW, Scene, attempts_of, later, long_ago};
use crate::Error;
use crate::catalog::{Endpoint, Name, NewEndpoint, Secret};
use crate::keys::{DeliveryKey, MessageKey};
use crate::ledger::{MessageFilter, NewTask, TaskKind, Within};
use crate::limits;
use crate::page::{From, Page};
use crate::queue::{
    Accept, Accepted, Bury, Done, Ending, FirstState, Minute, NextState, Order, Request,
    RequestKind, Rollup, Rollups, Settled, Subject, Upkeep,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub async fn a_delivered_message_goes_when_its_time_is_over(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = short_lived(&scene, &endpoint).await;
    settle(&scene, key, NextState::Delivered).await;
    prune(&scene, NOW.after(MINUTE * 59)).await;
    assert_eq!(messages(&scene).await, [key.message]);
    prune(&scene, NOW.after(MINUTE * 61)).await;
    assert_eq!(messages(&scene).await, []);
    assert_gone(&scene, key).await;
}

pub async fn a_message_without_deliveries_goes_too(harness: Harness) {
    let scene = Scene::new(harness).await;
    let accept = short(scene.message(&[]).await);
    scene.accept_new(accept).await;
    prune(&scene, NOW.after(MINUTE * 61)).await;
    assert_eq!(messages(&scene).await, []);
}

/// Whoever prunes rests after a step that changed nothing, so such a step must not come before
/// everything was looked at.
pub async fn no_step_rests_before_everything_was_looked_at(harness: Harness) {
    let scene = Scene::new(harness).await;
    let template = scene.message(&[]).await;
    for _ in 0..5 {
        let stays = (0..500).map(|_| scene.again(&template));
        scene.accept(stays.collect()).await;
    }
    let goes = scene.accept_new(short(scene.message(&[]).await)).await;
    let now = NOW.after(MINUTE * 61);
    while scene.keep_up(Upkeep::Prune { now, most: 100 }).await != Done::Changed(0) {}
    assert!(!messages(&scene).await.contains(&goes));
}

pub async fn a_message_with_something_pending_stays(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let accept = short(scene.message(&[&one, &two]).await);
    let message = scene.accept_new(accept).await;
    settle(&scene, scene.key(&one, message), NextState::Delivered).await;
    prune(&scene, NOW.after(DAY * 400)).await;
    assert_eq!(messages(&scene).await, [message]);
    // What is delivered goes all the same.
    let of = scene.store().ledger.deliveries_of(scene.application.key, message).await.unwrap();
    assert_eq!(of.iter().map(|entry| entry.key.endpoint).collect::<Vec<_>>(), [two.key]);
    assert!(scene.load(&two).await.deliveries[0].payload.is_some());
}

pub async fn a_cancelled_delivery_keeps_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = short_lived(&scene, &endpoint).await;
    scene.store().ledger.cancel(key, NOW).await.unwrap();
    prune(&scene, NOW.after(MINUTE * 61)).await;
    assert_eq!(messages(&scene).await, []);
}

pub async fn a_dead_letter_stays_for_thirty_days(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = short_lived(&scene, &endpoint).await;
    settle(&scene, key, NextState::Dead(Cause::Exhausted)).await;
    prune(&scene, NOW.after(limits::DEAD_LETTERS)).await;
    assert_eq!(messages(&scene).await, [key.message]);
    assert_eq!(attempts_of(&scene.store().ledger, key).await.unwrap().len(), 1);
    prune(&scene, NOW.after(limits::DEAD_LETTERS + MINUTE)).await;
    assert_eq!(messages(&scene).await, []);
    assert_gone(&scene, key).await;
}

pub async fn a_dead_letter_goes_in_its_own_time_and_its_message_stays(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let message = scene.accept_new(scene.message(&[&one, &two]).await).await;
    let (dead, delivered) = (scene.key(&one, message), scene.key(&two, message));
    settle(&scene, dead, NextState::Dead(Cause::Exhausted)).await;
    settle(&scene, delivered, NextState::Delivered).await;
    prune(&scene, NOW.after(limits::DEAD_LETTERS)).await;
    assert_eq!(scene.look(dead).await.state, Delivery::Dead(Cause::Exhausted));
    prune(&scene, NOW.after(limits::DEAD_LETTERS + MINUTE)).await;
    let ledger = &scene.store().ledger;
    let of = ledger.deliveries_of(dead.application, message).await.unwrap();
    assert_eq!(of.iter().map(|entry| entry.key).collect::<Vec<_>>(), [delivered]);
    let page = Page { from: From::Start, limit: 100 };
    let left = ledger.attempts(dead.application, one.key, Default::default(), page).await;
    assert_eq!(left.unwrap().entries, []);
    assert_eq!(attempts_of(ledger, delivered).await.unwrap().len(), 1);
    let within = Within::Application(dead.application);
    assert_eq!(ledger.dead_letter_count(within).await.unwrap().number, 0);
    assert_eq!(messages(&scene).await, [message]);
    prune(&scene, NOW.after(DAY * 91)).await;
    assert_eq!(messages(&scene).await, []);
}

pub async fn what_keeps_a_dead_letter_keeps_no_other_delivery_of_its_message(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let message = scene.accept_new(scene.message(&[&one, &two]).await).await;
    let (old, young) = (scene.key(&one, message), scene.key(&two, message));
    settle(&scene, old, NextState::Dead(Cause::Exhausted)).await;
    let now = NOW.after(limits::DEAD_LETTERS + MINUTE);
    let bury = Bury {
        lease: scene.lease(&two),
        application: young.application,
        endpoint: two.key,
        deliveries: vec![scene.doomed(young).await],
        ending: Ending::Dead(Cause::Expired),
        at: now,
    };
    scene.keep_up(Upkeep::Bury(bury)).await;
    prune(&scene, now).await;
    let of = scene.store().ledger.deliveries_of(old.application, message).await.unwrap();
    assert_eq!(of.iter().map(|entry| entry.key).collect::<Vec<_>>(), [young]);
}

pub async fn dead_letters_go_in_steps_however_many_stay(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut template = scene.message(&[&endpoint]).await;
    template.deliveries[0].state = FirstState::Dead(Cause::EndpointDisabled);
    let old = scene.accept_new(template.clone()).await;
    template.message.received_at = NOW.after(DAY * 20);
    for _ in 0..3 {
        let many = (0..400).map(|_| scene.again(&template));
        scene.accept(many.collect()).await;
    }
    template.message.received_at = NOW;
    let last = scene.accept_new(scene.again(&template)).await;
    let now = NOW.after(limits::DEAD_LETTERS + MINUTE);
    // A step that changed nothing does not come before everything was looked at.
    while scene.keep_up(Upkeep::Prune { now, most: 100 }).await != Done::Changed(0) {}
    let (application, ledger) = (scene.application.key, &scene.store().ledger);
    assert_eq!(
        ledger.dead_letter_count(Within::Application(application)).await.unwrap().number,
        1_200
    );
    for message in [old, last] {
        assert_eq!(ledger.deliveries_of(application, message).await.unwrap(), []);
    }
}

pub async fn a_finished_task_goes_after_thirty_days_and_a_running_one_stays(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let (finished, running) = (start(&scene).await, start(&scene).await);
    let last = chunk(&scene, &finished, &endpoint, &[]).await;
    let moved = last.at;
    scene.keep_up(Upkeep::Replay(last)).await;
    let ledger = &scene.store().ledger;
    prune(&scene, moved.after(limits::TASKS)).await;
    assert!(ledger.task(finished.id).await.is_ok());
    prune(&scene, moved.after(limits::TASKS + MINUTE)).await;
    assert!(matches!(ledger.task(finished.id).await, Err(Error::Missing("task"))));
    assert_eq!(ledger.task(running.id).await.unwrap(), running);
}

pub async fn a_settle_of_what_was_pruned_says_that_it_is_gone(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = short_lived(&scene, &endpoint).await;
    scene.store().ledger.cancel(key, NOW).await.unwrap();
    prune(&scene, NOW.after(DAY)).await;
    let late = scene.settling(key, 0, NextState::Delivered).await;
    assert_eq!(scene.settle_one(late).await, Settled::Missing);
}

pub async fn a_key_that_was_pruned_is_never_given_again(harness: Harness) {
    let scene = Scene::new(harness).await;
    let gone = scene.accept_new(short(scene.message(&[]).await)).await;
    prune(&scene, NOW.after(DAY)).await;
    let next = scene.accept_new(scene.message(&[]).await).await;
    assert!(next > gone, "{next:?} after {gone:?}");
}

pub async fn an_event_id_is_free_when_its_message_is_gone(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut accept = short(scene.message(&[]).await);
    accept.message.event_id = Some("order-1".to_owned());
    scene.accept_new(accept.clone()).await;
    prune(&scene, NOW.after(DAY)).await;
    scene.accept_new(scene.again(&accept)).await;
}

pub async fn an_idempotency_key_goes_after_twelve_hours(harness: Harness) {
    let scene = Scene::new(harness).await;
    let accept = Accept { idempotency: Some([1; 32]), ..scene.message(&[]).await };
    let first = accept.message.id;
    scene.accept_new(accept.clone()).await;
    prune(&scene, NOW.after(limits::IDEMPOTENCY - MINUTE)).await;
    assert_eq!(scene.accept(vec![scene.again(&accept)]).await, [Accepted::Repeated(first)]);
    prune(&scene, NOW.after(limits::IDEMPOTENCY + MINUTE)).await;
    // Received at the same moment as the first one, so that only pruning can have made it free.
    scene.accept_new(scene.again(&accept)).await;
}

pub async fn a_key_that_a_later_message_took_over_stays(harness: Harness) {
    let scene = Scene::new(harness).await;
    let first = Accept { idempotency: Some([1; 32]), ..short(scene.message(&[]).await) };
    scene.accept_new(first.clone()).await;
    let half_a_day = NOW.after(limits::IDEMPOTENCY + MINUTE);
    let mut second = scene.again(&first);
    second.message.received_at = half_a_day;
    second.message.retained_until = NOW.after(DAY * 90);
    let key = scene.accept_new(second.clone()).await;
    prune(&scene, half_a_day.after(MINUTE)).await;
    assert_eq!(messages(&scene).await, [key]);
    let mut third = scene.again(&second);
    third.message.received_at = half_a_day.after(MINUTE);
    assert_eq!(scene.accept(vec![third]).await, [Accepted::Repeated(second.message.id)]);
}

pub async fn a_step_removes_no_more_than_it_may(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut left = 20;
    for _ in 0..left {
        scene.accept_new(short(scene.message(&[]).await)).await;
    }
    let kept = scene.accept_new(scene.message(&[]).await).await;
    for _ in 0..40 {
        let step = Upkeep::Prune { now: NOW.after(DAY), most: 3 };
        let done = scene.keep_up(step).await;
        let now_left = messages(&scene).await.len() - 1;
        let Done::Changed(changed) = done else { panic!("{done:?}") };
        assert!(changed <= 3 && left - now_left <= 3, "{changed} changed, {left} to {now_left}");
        left = now_left;
    }
    assert_eq!(messages(&scene).await, [kept]);
}

pub async fn what_is_pending_for_a_deleted_endpoint_is_buried_in_steps(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (gone, other) = (scene.endpoint().await, scene.fifo_endpoint().await);
    let mut keys = Vec::new();
    for _ in 0..7 {
        keys.push(scene.pending(&gone).await);
    }
    let delivered = scene.settled(&gone, NextState::Delivered).await;
    let kept = scene.pending(&other).await;
    scene.store().catalog.delete_endpoint(gone.application, gone.key, later(3)).await.unwrap();
    let first = scene.keep_up(Upkeep::Prune { now: later(9), most: 4 }).await;
    assert!(matches!(first, Done::Changed(1..=4)), "{first:?}");
    assert!(scene.loaded(&gone).await.len() >= 3);
    prune(&scene, later(9)).await;
    for key in keys {
        let entry = scene.look(key).await;
        assert_eq!(entry.state, Delivery::Dead(Cause::EndpointDeleted));
        assert_eq!(entry.settled_at, Some(later(9)));
    }
    assert_eq!(scene.look(delivered).await.state, Delivery::Delivered);
    assert_eq!(scene.loaded(&other).await, [kept.message]);
    let waiting = scene.store().queue.waiting(Partition::all().collect()).await.unwrap();
    assert_eq!(waiting.len(), 1);
}

pub async fn the_sums_of_a_deleted_endpoint_go_when_its_deliveries_are_gone(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = short_lived(&scene, &endpoint).await;
    settle(&scene, key, NextState::Delivered).await;
    let subjects = [Subject::Endpoint(endpoint.key), Subject::Application(key.application)];
    for minute in 0..9 {
        let minute = Minute(Minute::of(NOW).0 + minute);
        scene.roll_up(subjects.map(|subject| Rollup { minute, ..one(subject) }).to_vec()).await;
    }
    let sums = async || {
        let mut numbers = Vec::new();
        for subject in subjects {
            let all = scene.store().ledger.rollups(subject, Minute(0), Minute(i64::MAX)).await;
            numbers.push(all.unwrap().minutes.len());
        }
        numbers
    };
    scene.store().catalog.delete_endpoint(key.application, key.endpoint, NOW).await.unwrap();
    prune(&scene, later(9)).await;
    assert_eq!(sums().await, [9, 9]);
    prune_by(&scene, NOW.after(MINUTE * 61), 2).await;
    assert_eq!(sums().await, [0, 9]);
    scene.store().catalog.delete_application(key.application, long_ago()).await.unwrap();
    prune_by(&scene, NOW.after(MINUTE * 61), 2).await;
    assert_eq!(sums().await, [0, 0]);
}

pub async fn secrets_whose_time_is_over_go(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let (application, key) = (endpoint.application, endpoint.key);
    let catalog = &scene.store().catalog;
    let secret = Secret { text: "whsec_two".to_owned(), created_at: NOW, expires_at: None };
    catalog.rotate_secret(application, key, secret.clone(), later(100)).await.unwrap();
    prune(&scene, later(99)).await;
    assert_eq!(catalog.secrets(application, key, later(50)).await.unwrap().len(), 2);
    prune(&scene, later(101)).await;
    assert_eq!(catalog.secrets(application, key, later(50)).await.unwrap(), [secret]);
}

pub async fn all_that_a_deleted_application_had_goes_in_steps(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let dead = scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await;
    let pending = scene.pending(&endpoint).await;
    scene.accept_new(Accept { idempotency: Some([1; 32]), ..scene.message(&[]).await }).await;
    let application = scene.application.key;
    let ledger = &scene.store().ledger;
    let task = NewTask {
        id: scene.id(),
        application,
        endpoint: None,
        kind: TaskKind::Recover,
        selection: serde_json::json!({}),
        by: "somebody".to_owned(),
        at: NOW,
    };
    ledger.start_task(task.clone()).await.unwrap();
    scene.ask(refresh(&endpoint)).await;
    let subjects = [Subject::Application(application), Subject::Endpoint(endpoint.key)];
    scene.roll_up(subjects.map(one).to_vec()).await;
    scene.roll_up(vec![one(Subject::Whole)]).await;
    let other = scene.another_application().await;
    let theirs = Accept { application: other.key, ..scene.message(&[]).await };
    let theirs = Accept { revision: other.revision, ..theirs };
    scene.accept_new(theirs.clone()).await;

    scene.store().catalog.delete_application(application, long_ago()).await.unwrap();
    prune_by(&scene, later(1), 2).await;
    assert_eq!(messages(&scene).await, []);
    assert_gone(&scene, dead).await;
    assert_gone(&scene, pending).await;
    assert!(scene.loaded(&endpoint).await.is_empty());
    let all: Vec<_> = Partition::all().collect();
    assert_eq!(scene.store().queue.waiting(all.clone()).await.unwrap(), []);
    assert_eq!(scene.store().queue.requests(all).await.unwrap(), []);
    assert!(matches!(ledger.task(task.id).await, Err(Error::Missing("task"))));
    for subject in subjects {
        let left = ledger.rollups(subject, Minute(0), Minute(i64::MAX)).await.unwrap();
        assert_eq!(left, Rollups::default());
    }
    let whole = ledger.rollups(Subject::Whole, Minute(0), Minute(i64::MAX)).await.unwrap();
    assert_eq!(whole.minutes.len(), 1);
    let kept = ledger.message(other.key, Name::Id(theirs.message.id)).await;
    assert!(kept.is_ok(), "{kept:?}");
}

pub async fn what_one_application_has_pending_for_deleted_endpoints_delays_no_other(
    harness: Harness,
) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let doomed = scene.another_application().await;
    let template = scene.message(&[]).await;
    let theirs = |count: usize| {
        let of = Accept { application: doomed.key, revision: doomed.revision, ..template.clone() };
        (0..count).map(|_| scene.again(&of)).collect()
    };
    scene.accept(theirs(100)).await;
    catalog.delete_application(doomed.key, long_ago()).await.unwrap();
    let (large, other) = (scene.endpoint().await, scene.another_application().await.key);
    let template = scene.message(&[&large]).await;
    scene.accept((0..100).map(|_| scene.again(&template)).collect()).await;
    let small = scene.create(NewEndpoint { application: other, ..scene.new_endpoint(Order::Due) });
    let small = small.await;
    let revision = catalog.fan_out(other, NOW).await.unwrap().revision;
    let accept = scene.message(&[&small]).await;
    let pending = scene.accept_new(Accept { application: other, revision, ..accept }).await;
    for endpoint in [&large, &small] {
        let (application, key) = (endpoint.application, endpoint.key);
        catalog.delete_endpoint(application, key, NOW).await.unwrap();
    }
    for _ in 0..3 {
        scene.keep_up(Upkeep::Prune { now: later(1), most: 16 }).await;
    }
    let key = DeliveryKey { application: other, endpoint: small.key, message: pending };
    assert_eq!(scene.look(key).await.state, Delivery::Dead(Cause::EndpointDeleted));
    let left = scene.load_most(&large, 100, 0).await.deliveries.len();
    assert!((60..100).contains(&left), "its turn came, too: {left}");
}

/// Accepts a message to an endpoint that is kept for an hour only.
pub(super) async fn short_lived(scene: &Scene, endpoint: &Endpoint) -> DeliveryKey {
    let message = scene.accept_new(short(scene.message(&[endpoint]).await)).await;
    scene.key(endpoint, message)
}

pub(super) fn short(mut accept: Accept) -> Accept {
    accept.message.retained_until = NOW.after(MINUTE * 60);
    accept
}

pub(super) async fn settle(scene: &Scene, key: DeliveryKey, next: NextState) {
    let settle = scene.settling(key, 0, next).await;
    assert_eq!(scene.settle_one(settle).await, Settled::Applied { turn: None });
}

/// Prunes until nothing more goes.
pub(super) async fn prune(scene: &Scene, now: Timestamp) {
    prune_by(scene, now, 1_000).await;
}

pub(super) async fn prune_by(scene: &Scene, now: Timestamp, most: u32) {
    let mut idle = 0;
    for _ in 0..200 {
        let done = scene.keep_up(Upkeep::Prune { now, most }).await;
        // A step that only walked to the end and wrapped is not the last one.
        idle = if done == Done::Changed(0) { idle + 1 } else { 0 };
        if idle == 3 {
            return;
        }
    }
    panic!("pruning does not end");
}

pub(super) async fn messages(scene: &Scene) -> Vec<MessageKey> {
    let page = Page { from: From::Start, limit: 100 };
    let filter = MessageFilter::default();
    let listed = scene.store().ledger.messages(scene.application.key, filter, page).await;
    listed.unwrap().entries.iter().map(|entry| entry.key).collect()
}

async fn assert_gone(scene: &Scene, key: DeliveryKey) {
    let ledger = &scene.store().ledger;
    // Whether an unknown message is an error or has no deliveries is no matter here.
    let of = ledger.deliveries_of(key.application, key.message).await;
    assert!(of.is_err() || of.is_ok_and(|of| of.is_empty()));
    let attempts = attempts_of(ledger, key).await;
    assert!(attempts.is_err() || attempts.is_ok_and(|attempts| attempts.is_empty()));
    let page = Page { from: From::Start, limit: 100 };
    let listed = ledger.attempts(key.application, key.endpoint, Default::default(), page).await;
    assert!(listed.is_err() || listed.is_ok_and(|listed| listed.entries.is_empty()));
}

fn refresh(endpoint: &Endpoint) -> Request {
    Request {
        number: 0,
        application: endpoint.application,
        endpoint: endpoint.key,
        partition: endpoint.partition,
        kind: RequestKind::Refresh,
        at: NOW,
    }
}

fn one(subject: Subject) -> Rollup {
    Rollup { succeeded: 1, delivered: 1, ..Rollup::empty(subject, Minute::of(NOW)) }
}
