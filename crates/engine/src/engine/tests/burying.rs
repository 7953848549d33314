//! Expiry, and deliveries that an open breaker turns away.

use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::endpoint::State;
use domain::outcome::Outcome;
use store::catalog::{Endpoint, EndpointSettings};
use store::keys::DeliveryKey;
use store::queue::{Order, RequestKind, Settled, Upkeep};

use super::replays::replay;
use super::scene::{Kind, SECOND, Scene};
use crate::endpoints::horizon::Horizon;
use crate::{Announcement, Event};

const FAILED: Outcome = Outcome::answered(500);
const HOUR: Duration = Duration::from_secs(3_600);

fn buried(scene: &Scene, wanted: Cause) -> u32 {
    let count = |one: &Announcement| {
        let Announcement::Buried { cause, count, .. } = one else { return 0 };
        if *cause == wanted { *count } else { 0 }
    };
    scene.announced.iter().map(count).sum()
}

#[test]
fn what_a_pause_holds_beyond_its_time_is_buried_in_chunks() {
    let mut scene = Scene::with(|settings| {
        settings.bury_chunk = 4;
        settings.walk_every = 60 * SECOND;
        settings.requests_every = 60 * SECOND;
        settings.renew_every = 5 * SECOND;
    });
    let endpoint = scene.endpoint();
    scene.set_state(&endpoint, State::Paused);
    for _ in 0..10 {
        scene.send(&endpoint);
    }
    scene.pass(95 * HOUR);
    assert_eq!(buried(&scene, Cause::Expired), 0);
    let loads = scene.count("loads");
    assert!(loads < 120, "{loads} looks are too many");
    scene.pass(3 * HOUR);
    assert_eq!((buried(&scene, Cause::Expired), scene.pending(&endpoint)), (10, 0));
}

#[test]
fn nothing_expires_that_nobody_tried_to_send() {
    let mut scene = Scene::before_start(|_| {});
    let endpoint = scene.endpoint();
    scene.accept(&endpoint);
    scene.jump(200 * HOUR);
    scene.start();
    assert_eq!((scene.flying.len(), buried(&scene, Cause::Expired)), (1, 0));
}

#[test]
fn what_expired_while_it_was_held_is_not_sent_when_the_hold_ends() {
    let mut scene = Scene::with(|settings| {
        settings.walk_every = 60 * SECOND;
        settings.requests_every = 60 * SECOND;
        settings.renew_every = 5 * SECOND;
    });
    let endpoint = scene.endpoint();
    scene.set_state(&endpoint, State::Paused);
    scene.send(&endpoint);
    scene.pass(95 * HOUR);
    scene.pass(HOUR + 10 * SECOND);
    scene.set_state(&endpoint, State::Active);
    scene.ask(&endpoint, RequestKind::Refresh);
    scene.pass(200 * SECOND);
    assert!(scene.flying.is_empty());
    assert_eq!(buried(&scene, Cause::Expired), 1);
}

#[test]
fn what_was_replayed_while_its_burial_waited_is_sent() {
    let mut scene = Scene::with(|settings| {
        settings.walk_every = 60 * SECOND;
        settings.requests_every = 60 * SECOND;
        settings.renew_every = 5 * SECOND;
    });
    let endpoint = scene.endpoint();
    scene.set_state(&endpoint, State::Paused);
    let message = scene.send(&endpoint);
    scene.pass(95 * HOUR);
    scene.keep = vec![Kind::Upkeep];
    scene.pass(3 * HOUR);
    assert_eq!(scene.kept.len(), 1);
    let Endpoint { application, key, .. } = endpoint;
    let delivery = DeliveryKey { application, endpoint: key, message };
    scene.store.cancel(delivery, scene.now.rows).unwrap();
    replay(&mut scene, &endpoint, message);
    scene.keep.clear();
    scene.answer_kept();
    assert_eq!((buried(&scene, Cause::Expired), scene.pending(&endpoint)), (0, 1));
    scene.set_state(&endpoint, State::Active);
    scene.ask(&endpoint, RequestKind::Refresh);
    scene.pass(200 * SECOND);
    assert_eq!(scene.flying.len(), 1);
    scene.end(Outcome::answered(200));
    assert_eq!(scene.pending(&endpoint), 0);
}

#[test]
fn a_breaker_that_does_not_hold_buries_what_is_due() {
    let mut scene = Scene::new();
    let policy = Some(serde_json::Value::String("recuro".into()));
    let settings = EndpointSettings { policy, ..EndpointSettings::default() };
    let endpoint = scene.endpoint_with(Order::Due, settings);
    for _ in 0..100 {
        scene.send(&endpoint);
        if scene.flying.is_empty() {
            break;
        }
        scene.end(FAILED);
        scene.pass(SECOND / 10);
    }
    scene.pass(SECOND);
    assert!(buried(&scene, Cause::BreakerOpen) > 0);
    assert!(scene.flying.is_empty());
}

#[test]
fn what_was_sent_and_cannot_be_recorded_is_buried_although_memory_lost_sight_of_the_store() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Settle, Kind::Load];
    let attempt = scene.end(Outcome::answered(200)).attempt;
    scene.kept.clear();
    let record = scene.engine.endpoints.get_mut(&(endpoint.application, endpoint.key)).unwrap();
    record.window.lower(Horizon::unknown(scene.now.rows));
    scene.tell(Event::Settled { attempt, answer: Settled::Refused });
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(20 * SECOND);
    assert!(scene.flying.is_empty(), "it has been sent");
    assert_eq!((buried(&scene, Cause::Poison), scene.pending(&endpoint)), (1, 0));
    let steps = scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Bury(_)));
    assert_eq!(steps.count(), 1);
}

#[test]
fn what_an_earlier_version_expunged_is_cancelled_and_those_behind_it_are_sent() {
    for fifo in [false, true] {
        let mut scene = Scene::with(|settings| settings.bury_chunk = 2);
        let endpoint = if fifo { scene.fifo() } else { scene.endpoint() };
        let rows: Vec<_> = (0..4).map(|_| scene.accept(&endpoint)).collect();
        for row in &rows[..3] {
            scene.store.forget_payload(row.key.application, row.key.message).unwrap();
        }
        scene.pass(10 * SECOND);
        for row in &rows[..3] {
            let of = scene.store.deliveries_of(row.key.application, row.key.message);
            assert_eq!((of[0].state, of[0].recorded), (Delivery::Cancelled, 0));
        }
        let told = |one: &Announcement| matches!(one, Announcement::Buried { .. });
        assert!(!scene.announced.iter().any(told), "they are no dead letters");
        assert_eq!(scene.pending(&endpoint), 1);
        let sent = scene.end(Outcome::answered(200));
        assert_eq!(sent.delivery.key, rows[3].key, "in a sequence: {fifo}");
        assert_eq!(scene.pending(&endpoint), 0);
        assert!(scene.count("loads") < 5, "{} loads", scene.count("loads"));
    }
}

#[test]
fn what_is_expunged_while_it_is_sent_is_recorded_and_not_sent_again() {
    for fifo in [false, true] {
        let mut scene = Scene::new();
        let endpoint = if fifo { scene.fifo() } else { scene.endpoint() };
        let message = scene.send(&endpoint);
        let (application, now) = (endpoint.application, scene.now.rows);
        let partitions = scene.store.expunge(application, message, now).unwrap();
        assert_eq!(partitions, [endpoint.partition]);
        scene.end(Outcome::answered(500));
        scene.pass(60 * SECOND);
        assert!(scene.flying.is_empty());
        let of = scene.store.deliveries_of(application, message);
        assert_eq!((of[0].state, of[0].recorded), (Delivery::Cancelled, 1));
        let next = scene.send(&endpoint);
        assert_eq!(scene.end(Outcome::answered(200)).delivery.key.message, next);
    }
}

#[test]
fn what_is_expunged_while_it_waits_in_memory_is_not_sent() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    scene.send(&endpoint);
    let waiting = scene.send(&endpoint);
    scene.store.expunge(endpoint.application, waiting, scene.now.rows).unwrap();
    scene.tell(Event::Asked);
    let last = scene.send(&endpoint);
    scene.end(Outcome::answered(200));
    assert_eq!(scene.end(Outcome::answered(200)).delivery.key.message, last);
}

#[test]
fn a_load_that_found_no_room_is_not_repeated_at_once() {
    // Three payloads of two bytes are in memory, and a fourth one does not fit.
    let mut scene = Scene::with(|settings| {
        settings.payload_bytes = 7;
        settings.in_flight = 1;
    });
    let endpoint = scene.endpoint();
    (0..8).for_each(|_| drop(scene.accept(&endpoint)));
    scene.pass(20 * SECOND);
    assert_eq!(scene.flying.len(), 1);
    let before = scene.count("loads");
    scene.pass(5 * SECOND);
    let loads = scene.count("loads") - before;
    assert!(loads <= 25, "{loads} loads");
    for _ in 0..8 {
        scene.end(Outcome::answered(200));
        scene.pass(SECOND);
    }
    assert_eq!(scene.pending(&endpoint), 0);
}
