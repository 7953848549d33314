//! An application that has more to do than fits into memory, beside one that has little.

use bytes::Bytes;
use domain::endpoint::{Reason, State};
use domain::outcome::Outcome;
use store::catalog::{Endpoint, EndpointSettings};
use store::queue::{Order, RequestKind};

use super::scene::{Kind, SECOND, Scene};

const OK: Outcome = Outcome::answered(200);

/// An application whose endpoints answer, with more to send than memory and slots can hold.
fn crowded() -> Scene {
    let mut scene = Scene::with(|settings| {
        settings.rows = 256;
        settings.load_rows = 8;
        settings.in_flight = 8;
    });
    let busy: Vec<_> = (0..32).map(|_| scene.endpoint()).collect();
    for endpoint in busy.iter().flat_map(|endpoint| [endpoint; 20]) {
        scene.send(endpoint);
    }
    for _ in 0..100 {
        scene.pass(SECOND / 100);
        scene.end(OK);
    }
    // One slot is kept for applications that hold few.
    assert!(scene.engine.is_full() && scene.flying.len() == 7);
    scene
}

/// Returns how many attempts of others end before one to this endpoint begins.
fn waits_for(scene: &mut Scene, endpoint: &Endpoint) -> usize {
    (0..500)
        .take_while(|_| {
            let waits = scene.flying_to(endpoint.key) == 0;
            if waits {
                scene.pass(SECOND / 100);
                scene.end(OK);
            }
            waits
        })
        .count()
}

#[test]
fn one_with_little_to_do_need_not_wait_for_one_with_much() {
    // What goes in a sequence is always read back from the store.
    for order in [Order::Due, Order::Fifo] {
        let mut scene = crowded();
        let other = scene.application();
        let quiet = scene.endpoint_of(other, order, EndpointSettings::default());
        for again in 0..3 {
            scene.send(&quiet);
            let waited = waits_for(&mut scene, &quiet);
            assert!(waited <= 8, "{order:?}, {again}: {waited}");
            let place = scene.flying.iter().position(|one| one.delivery.key.endpoint == quiet.key);
            let sending = scene.flying.remove(place.unwrap());
            scene.end_of(&sending, OK);
            // It becomes one of those that have not answered lately.
            for _ in 0..30 {
                scene.pass(SECOND / 20);
                scene.end(OK);
            }
        }
    }
}

#[test]
fn one_that_holds_few_slots_need_not_wait_until_one_is_free() {
    let mut scene = crowded();
    let other = scene.application();
    let quiet = scene.endpoint_of(other, Order::Due, EndpointSettings::default());
    for _ in 0..3 {
        scene.send(&quiet);
        assert_eq!(scene.flying_to(quiet.key), 1, "though nobody has ended");
        let place = scene.flying.iter().position(|one| one.delivery.key.endpoint == quiet.key);
        let sending = scene.flying.remove(place.unwrap());
        scene.end_of(&sending, OK);
        assert_eq!(scene.flying.len(), 7, "its slot is not for who holds many");
    }
    // What holds few together may hold all of it.
    scene.send(&quiet);
    let another = scene.application();
    let late = scene.endpoint_of(another, Order::Due, EndpointSettings::default());
    scene.send(&late);
    assert_eq!((scene.flying.len(), scene.flying_to(late.key)), (8, 0));
    scene.end(OK);
    assert_eq!((scene.flying.len(), scene.flying_to(late.key)), (8, 1));
}

#[test]
fn a_burst_of_one_application_does_not_stop_one_of_another_that_had_nothing_to_do() {
    let mut scene = Scene::with(|settings| settings.in_flight = 16);
    let burst: Vec<_> = (0..40).map(|_| scene.endpoint()).collect();
    let other = scene.application();
    let quiet = scene.endpoint_of(other, Order::Due, EndpointSettings::default());
    for endpoint in &burst {
        scene.send(endpoint);
    }
    let begun = scene.flying.len();
    assert!((8..14).contains(&begun), "nobody knows yet whether they answer: {begun}");
    scene.send(&quiet);
    assert_eq!(scene.flying_to(quiet.key), 1, "though nobody has ended");
    // Even if all of that comes to nothing, some slots are left to those that answer.
    for _ in 0..20 {
        let another = scene.application();
        let endpoint = scene.endpoint_of(another, Order::Due, EndpointSettings::default());
        scene.send(&endpoint);
    }
    assert_eq!(scene.flying.len(), 14);
}

#[test]
fn applications_take_turns_at_loading() {
    let mut scene = crowded();
    let others: Vec<_> = (0..64).map(|_| scene.application()).collect();
    scene.keep = vec![Kind::Load];
    for _ in 0..50 {
        scene.pass(SECOND / 100);
        scene.end(OK);
    }
    let quiet: Vec<_> = others
        .into_iter()
        .map(|other| scene.endpoint_of(other, Order::Fifo, EndpointSettings::default()))
        .collect();
    for endpoint in &quiet {
        scene.send(endpoint);
    }
    // However many have nothing to send, memory holds no more than half as much beyond its limit.
    scene.keep.clear();
    scene.answer_kept();
    for _ in 0..250 {
        assert!(scene.engine.rows <= 256 + 256 / 2 + 32, "{}", scene.engine.rows);
        scene.pass(SECOND / 100);
        scene.end(OK);
    }
    assert!(quiet.iter().all(|endpoint| scene.pending(endpoint) == 0));
}

#[test]
fn a_burst_for_endpoints_known_to_be_dead_does_not_stop_one_that_had_nothing_to_do() {
    let mut scene = Scene::with(|settings| settings.in_flight = 8);
    let dead: Vec<_> = (0..20).map(|_| scene.endpoint()).collect();
    let idle = scene.endpoint();
    scene.send(&idle);
    scene.end(OK);
    for endpoint in &dead {
        scene.send(endpoint);
    }
    scene.pass(5 * SECOND);
    for _ in &dead {
        scene.end(Outcome::TimedOut);
    }
    for endpoint in &dead {
        scene.send(endpoint);
    }
    assert_eq!(scene.flying.len(), 4, "half of the slots");
    scene.send(&idle);
    scene.send(&idle);
    assert_eq!(scene.flying_to(idle.key), 1, "one is enough to see whether it answers");
    let sending = scene.flying.pop().unwrap();
    scene.end_of(&sending, OK);
    assert_eq!(scene.flying_to(idle.key), 1, "it does");
}

#[test]
fn whoever_has_timed_out_does_not_take_its_own_place_again_and_again() {
    let mut scene = Scene::with(|settings| settings.hanging = 1);
    let (dead, other) = (scene.endpoint(), scene.endpoint());
    for _ in 0..6 {
        scene.send(&dead);
    }
    scene.pass(2 * SECOND);
    scene.send(&other);
    assert_eq!((scene.flying.len(), scene.flying_to(other.key)), (1, 0));
    for _ in 0..3 {
        if scene.flying_to(other.key) == 0 {
            scene.pass(2 * SECOND);
            scene.end(Outcome::TimedOut);
        }
    }
    assert_eq!(scene.flying_to(other.key), 1);
}

#[test]
fn what_could_not_be_sent_is_not_loaded_into_full_memory() {
    let mut scene = Scene::with(|settings| {
        (settings.in_flight, settings.hanging, settings.rows) = (8, 8, 16);
    });
    let dead: Vec<_> = (0..100).map(|_| scene.endpoint()).collect();
    for endpoint in &dead {
        scene.accept(endpoint);
    }
    for _ in 0..60 {
        scene.pass(SECOND);
        assert!(scene.engine.rows <= 16 + 16 / 2, "{}", scene.engine.rows);
    }
    assert_eq!(scene.flying.len(), 6, "two are kept for applications of which few hang");
    while !scene.flying.is_empty() {
        scene.end(OK);
        scene.pass(SECOND / 10);
    }
    assert!(dead.iter().all(|endpoint| scene.pending(endpoint) == 0));
}

/// Settings under which an application soon has as many in flight as it may: 16 slots, and 64 more that
/// hang.
fn narrow() -> Scene {
    Scene::with(|settings| (settings.in_flight, settings.hanging) = (16, 64))
}

/// Asserts that a quiet application sends at once, be it that its endpoint has failed before.
fn assert_one_with_little_to_do_sends(mut scene: Scene, most: usize) {
    for last in [OK, Outcome::answered(500)] {
        let other = scene.application();
        let quiet = scene.endpoint_of(other, Order::Due, EndpointSettings::default());
        for mut outcome in [OK, last, OK] {
            scene.send(&quiet);
            for _ in 0..20 {
                scene.pass(SECOND / 2);
                let at = |one: &crate::Sending| one.delivery.key.endpoint == quiet.key;
                let Some(place) = scene.flying.iter().position(at) else { continue };
                let sending = scene.flying.remove(place);
                scene.end_of(&sending, std::mem::replace(&mut outcome, OK));
            }
        }
        assert_eq!(scene.pending(&quiet), 0, "after {last:?}");
        assert!(scene.flying.len() <= most, "{} of one application", scene.flying.len());
    }
}

#[test]
fn a_tarpit_of_one_application_leaves_some_that_may_hang_to_others() {
    let mut scene = narrow();
    let tarpit: Vec<_> = (0..200).map(|_| scene.endpoint()).collect();
    for endpoint in &tarpit {
        scene.send(endpoint);
    }
    scene.pass(60 * SECOND);
    assert_eq!(scene.flying.len(), 48, "three quarters of what may hang");
    assert_one_with_little_to_do_sends(scene, 48);
}

#[test]
fn endpoints_that_answer_until_they_get_many_at_a_time_leave_slots_to_others() {
    let mut scene = narrow();
    let wide = EndpointSettings { in_flight: Some(1_000), ..EndpointSettings::default() };
    let wide: Vec<_> = (0..6).map(|_| scene.endpoint_with(Order::Due, wide.clone())).collect();
    // They answer until each may have many in flight, and then hardly ever.
    for round in 0..2_000 {
        for endpoint in &wide {
            if scene.pending(endpoint) < 20 {
                scene.send(endpoint);
            }
        }
        scene.pass(SECOND / 100);
        let spared = if round < 500 { 0 } else { scene.flying.len().saturating_sub(1) };
        while scene.flying.len() > spared {
            scene.end(OK);
        }
    }
    assert!(scene.flying.len() <= 64, "{} in flight", scene.flying.len());
    // One that has not answered lately may always hang.
    assert_one_with_little_to_do_sends(scene, 65);
}

#[test]
fn payloads_that_hang_leave_room_to_another_application() {
    let (mut scene, _) = hanging_with_payloads();
    scene.pass(60 * SECOND);
    let other = scene.application();
    for failed in [false, true] {
        let quiet = scene.endpoint_of(other, Order::Due, EndpointSettings::default());
        for _ in 0..3 {
            scene.send(&quiet);
            scene.pass(5 * SECOND);
            let place = scene.flying.iter().position(|one| one.delivery.key.endpoint == quiet.key);
            let sending = scene.flying.remove(place.expect("there is room for it"));
            scene.end_of(&sending, if failed { Outcome::answered(500) } else { OK });
            scene.pass(20 * SECOND);
            while scene.flying_to(quiet.key) > 0 {
                let at = |one: &crate::Sending| one.delivery.key.endpoint == quiet.key;
                let place = scene.flying.iter().position(at).unwrap();
                let sending = scene.flying.remove(place);
                scene.end_of(&sending, OK);
            }
        }
    }
    assert!(scene.most_held <= 2_200, "{} bytes", scene.most_held);
}

#[test]
fn what_is_to_be_buried_need_not_wait_for_room() {
    let mut scene = Scene::with(|settings| {
        (settings.in_flight, settings.hanging, settings.rows) = (8, 8, 16);
    });
    let dead: Vec<_> = (0..100).map(|_| scene.endpoint()).collect();
    for endpoint in &dead {
        scene.accept(endpoint);
    }
    scene.pass(30 * SECOND);
    let (_, disabled) = dead.split_at(50);
    for endpoint in disabled {
        scene.set_state(endpoint, State::Disabled(Reason::ByPerson));
        scene.ask(endpoint, RequestKind::Refresh);
    }
    scene.pass(60 * SECOND);
    let left =
        disabled.iter().filter(|one| scene.pending(one) > 0 && scene.flying_to(one.key) == 0);
    assert_eq!(left.count(), 0);
}

/// Room for five payloads, and fifty endpoints with three messages each that nobody answers.
fn hanging_with_payloads() -> (Scene, Vec<Endpoint>) {
    let mut scene = Scene::with(|settings| {
        settings.payload_bytes = 1_000;
        settings.hanging = 64;
    });
    scene.payload = Bytes::from(vec![b'x'; 200]);
    let hanging: Vec<_> = (0..50).map(|_| scene.endpoint()).collect();
    for endpoint in hanging.iter().flat_map(|endpoint| [endpoint; 3]) {
        scene.accept(endpoint);
    }
    (scene, hanging)
}

#[test]
fn payloads_in_flight_take_no_more_than_twice_what_memory_may_hold() {
    let (mut scene, hanging) = hanging_with_payloads();
    scene.pass(60 * SECOND);
    // A quarter is left to other applications.
    assert!(scene.flying.len() >= 4, "{} in flight", scene.flying.len());
    for _ in 0..200 {
        while !scene.flying.is_empty() {
            scene.end(OK);
        }
        scene.pass(SECOND / 10);
    }
    assert!(scene.most_held <= 2_200, "{} bytes", scene.most_held);
    assert!(hanging.iter().all(|endpoint| scene.pending(endpoint) == 0));
    assert_eq!(scene.engine.held_bytes(), 0);
}

#[test]
fn whoever_answers_finds_room_beside_payloads_that_hang() {
    let (mut scene, _) = hanging_with_payloads();
    // Each of them is known not to answer.
    for _ in 0..20 {
        scene.pass(SECOND);
        while !scene.flying.is_empty() {
            scene.end(Outcome::TimedOut);
        }
    }
    let quiet = scene.endpoint();
    scene.pass(60 * SECOND);
    for _ in 0..5 {
        scene.send(&quiet);
    }
    for _ in 0..5 {
        scene.pass(SECOND / 10);
        let place = scene.flying.iter().position(|one| one.delivery.key.endpoint == quiet.key);
        let sending = scene.flying.remove(place.expect("there is room for it"));
        scene.end_of(&sending, OK);
    }
    assert!(scene.most_held <= 2_200, "{} bytes", scene.most_held);
}

#[test]
fn while_many_hang_silent_endpoints_begin_little_by_little() {
    let mut scene = Scene::new();
    let lively = scene.endpoint();
    let all: Vec<_> = (0..264).map(|_| scene.endpoint()).collect();
    let (hanging, silent) = all.split_at(64);
    for endpoint in hanging {
        scene.send(endpoint);
    }
    assert_eq!(scene.flying.len(), 64, "all at once, because nothing hangs yet");
    scene.pass(2 * SECOND);
    for endpoint in silent {
        scene.send(endpoint);
    }
    assert_eq!(scene.flying.len(), 64 + 64);
    // One of them answers, which makes room for another; and is not held back itself.
    let sending = scene.flying.remove(64);
    scene.end_of(&sending, OK);
    assert_eq!(scene.flying.len(), 64 + 64);
    let answering = silent.iter().find(|one| one.key == sending.delivery.key.endpoint).unwrap();
    scene.send(answering);
    assert_eq!(scene.flying_to(answering.key), 1);
    assert_eq!(scene.flying.len(), 64 + 65);
    scene.pass(SECOND / 100);
    assert_eq!(scene.flying.len(), 64 + 65 + 40, "four in a millisecond");
    scene.pass(SECOND);
    assert_eq!(scene.flying.len(), 64 + 200, "nobody is forgotten");
    scene.send(&lively);
    assert_eq!(scene.flying_to(lively.key), 1);
}

#[test]
fn one_that_had_to_wait_a_moment_still_passes_another_applications_burst() {
    let mut scene = Scene::with(|settings| {
        settings.in_flight = 64;
        settings.trusted_step = SECOND / 1_000;
        settings.silent_burst = 43 * settings.trusted_step;
    });
    let dead: Vec<_> = (0..6).map(|_| scene.endpoint()).collect();
    for endpoint in &dead {
        scene.send(endpoint);
    }
    scene.pass(2 * SECOND);
    // Enough of them hang for silent endpoints to begin little by little.
    let burst: Vec<_> = (0..80).map(|_| scene.endpoint()).collect();
    for endpoint in &burst {
        scene.send(endpoint);
    }
    while scene.flying.len() < 6 + 44 {
        scene.pass(SECOND / 1_000);
    }
    assert!(scene.engine.is_holding_back(scene.now), "others have just begun");
    let other = scene.application();
    let quiet = scene.endpoint_of(other, Order::Due, EndpointSettings::default());
    scene.send(&quiet);
    assert_eq!(scene.flying_to(quiet.key), 0, "it waits like everybody else");
    scene.pass(SECOND / 10);
    assert_eq!(scene.flying_to(quiet.key), 1, "though the burst holds all that is for it");
}
