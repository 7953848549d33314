//! Deliveries of a FIFO endpoint that are to be sent later: they take their places when they are due,
//! and hold up nobody before.

use std::time::Duration;

use domain::delivery::Delivery;
use domain::endpoint::{Reason, State as EndpointState};
use domain::outcome::Outcome;
use store::catalog::Endpoint;
use store::keys::{DeliveryKey, MessageKey};
use store::queue::{Call, Done, RequestKind, Upkeep};

use super::scene::{Kind, SECOND, Scene};
use crate::{Effect, Event};

const OK: Outcome = Outcome::answered(200);

/// Accepts a message that is due in so many seconds, without telling the engine.
fn accept_in(scene: &mut Scene, endpoint: &Endpoint, seconds: u64) -> MessageKey {
    let due = scene.now.rows.after(Duration::from_secs(seconds));
    scene.accept_due(endpoint, due).key.message
}

/// Accepts a message that is due in so many seconds, and hands it over.
fn send_in(scene: &mut Scene, endpoint: &Endpoint, seconds: u64) -> MessageKey {
    let due = scene.now.rows.after(Duration::from_secs(seconds));
    let delivery = scene.accept_due(endpoint, due);
    let message = delivery.key.message;
    scene.hand_over(delivery);
    message
}

/// Answers all attempts that follow from one another at this moment; returns whose they were.
fn arrive(scene: &mut Scene) -> Vec<MessageKey> {
    let mut arrived = Vec::new();
    while !scene.flying.is_empty() {
        assert_eq!(scene.flying.len(), 1, "one at a time");
        arrived.push(scene.end(OK).delivery.key.message);
    }
    arrived
}

fn places(scene: &Scene) -> usize {
    scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Number(_))).count()
}

#[test]
fn it_takes_its_place_when_it_is_due_and_blocks_nobody_before() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let first = scene.send(&endpoint);
    let scheduled = send_in(&mut scene, &endpoint, 5);
    let second = scene.send(&endpoint);
    assert_eq!(arrive(&mut scene), [first, second], "what is not due is passed by");
    let third = scene.send(&endpoint);
    scene.pass(4 * SECOND);
    let fourth = scene.send(&endpoint);
    scene.pass(SECOND);
    let fifth = scene.send(&endpoint);
    assert_eq!(arrive(&mut scene), [third, fourth, scheduled, fifth]);
    assert_eq!((places(&scene), scene.pending(&endpoint)), (1, 0));
}

#[test]
fn several_take_their_places_by_due_time_and_then_by_acceptance() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let head = scene.send(&endpoint);
    let made = [9, 4, 4, 2].map(|seconds| send_in(&mut scene, &endpoint, seconds));
    scene.pass(10 * SECOND);
    let last = scene.send(&endpoint);
    assert_eq!(arrive(&mut scene), [head, made[3], made[1], made[2], made[0], last]);
}

#[test]
fn more_than_one_step_takes_all_take_their_places() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let made: Vec<_> = (0..100).map(|_| send_in(&mut scene, &endpoint, 5)).collect();
    scene.pass(4 * SECOND);
    assert_eq!((scene.count("loads"), scene.flying.len()), (0, 0), "they are not in memory");
    let mut arrived = Vec::new();
    for _ in 0..60 {
        scene.pass(SECOND);
        arrived.extend(arrive(&mut scene));
    }
    assert_eq!(arrived, made);
    assert!(places(&scene) < 6, "{} steps", places(&scene));
}

#[test]
fn one_that_memory_was_not_told_of_is_found_by_a_walk() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let scheduled = accept_in(&mut scene, &endpoint, 2);
    let busy = scene.send(&endpoint);
    scene.pass(60 * SECOND);
    assert_eq!(arrive(&mut scene), [busy, scheduled]);
}

#[test]
fn another_node_that_wrote_one_wakes_its_owner() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let scheduled = accept_in(&mut scene, &endpoint, 2);
    scene.tell(Event::Woken(Call::Work(vec![endpoint.partition])));
    scene.pass(2 * SECOND);
    assert_eq!(arrive(&mut scene), [scheduled]);
}

#[test]
fn a_step_whose_answer_counts_nothing_may_have_been_repeated() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let scheduled = send_in(&mut scene, &endpoint, 2);
    scene.keep = vec![Kind::Upkeep];
    scene.pass(2 * SECOND);
    let Some(Effect::Upkeep { step, upkeep }) = scene.kept.pop_front() else { panic!("no step") };
    let first = scene.answer(Effect::Upkeep { step, upkeep: upkeep.clone() });
    assert!(matches!(first, Event::Upkept { answer: Done::Numbered { count: 1, .. }, .. }));
    let again = scene.answer(Effect::Upkeep { step, upkeep });
    assert!(matches!(again, Event::Upkept { answer: Done::Numbered { count: 0, .. }, .. }));
    scene.tell(again);
    assert_eq!(arrive(&mut scene), [scheduled], "without waiting for a walk");
}

#[test]
fn a_pause_keeps_nobody_from_taking_its_place() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let first = scene.send(&endpoint);
    scene.end(OK);
    scene.set_state(&endpoint, EndpointState::Paused);
    scene.ask(&endpoint, RequestKind::Refresh);
    scene.pass(6 * SECOND);
    let scheduled = send_in(&mut scene, &endpoint, 5);
    scene.pass(6 * SECOND);
    let last = scene.send(&endpoint);
    assert_eq!((scene.flying.len(), places(&scene)), (0, 1));
    scene.set_state(&endpoint, EndpointState::Active);
    scene.ask(&endpoint, RequestKind::Refresh);
    scene.pass(6 * SECOND);
    assert_eq!(arrive(&mut scene), [scheduled, last]);
    assert!(first < scheduled);
}

#[test]
fn those_of_a_disabled_endpoint_become_dead_letters_before_they_are_due() {
    let mut scene = Scene::with(|settings| settings.bury_chunk = 2);
    let endpoint = scene.fifo();
    let made: Vec<_> = (0..5).map(|_| send_in(&mut scene, &endpoint, 5_000)).collect();
    scene.set_state(&endpoint, EndpointState::Disabled(Reason::ByPerson));
    scene.ask(&endpoint, RequestKind::Refresh);
    scene.pass(10 * SECOND);
    assert_eq!((scene.pending(&endpoint), places(&scene)), (0, 0));
    for message in made {
        let of = scene.store.deliveries_of(endpoint.application, message);
        assert!(matches!(of[0].state, Delivery::Dead(_)), "{:?}", of[0].state);
    }
}

#[test]
fn one_that_is_hurried_takes_its_place_at_once() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let scheduled = send_in(&mut scene, &endpoint, 5_000);
    scene.ask(&endpoint, RequestKind::RetryNow(scheduled));
    scene.pass(6 * SECOND);
    assert_eq!(arrive(&mut scene), [scheduled]);
}

#[test]
fn one_that_is_cancelled_is_not_sent() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let message = send_in(&mut scene, &endpoint, 5);
    let Endpoint { application, key, .. } = endpoint;
    let key = DeliveryKey { application, endpoint: key, message };
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(60 * SECOND);
    assert_eq!((scene.flying.len(), scene.pending(&endpoint)), (0, 0));
}

#[test]
fn what_the_store_refuses_to_number_is_asked_for_again_after_a_while() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let scheduled = send_in(&mut scene, &endpoint, 2);
    scene.keep = vec![Kind::Upkeep];
    scene.pass(2 * SECOND);
    let Some(Effect::Upkeep { step, .. }) = scene.kept.pop_front() else { panic!("no step") };
    scene.tell(Event::Upkept { step, answer: Done::Refused("damaged".to_owned()) });
    scene.keep.clear();
    scene.pass(SECOND);
    assert!(scene.flying.is_empty());
    scene.pass(60 * SECOND);
    assert_eq!(arrive(&mut scene), [scheduled]);
}
