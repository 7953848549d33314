//! Slots, rates and turns.

use domain::endpoint::State;
use domain::outcome::Outcome;
use store::catalog::{Application, ApplicationSettings, Edit, Endpoint, EndpointSettings};
use store::queue::{Order, RequestKind};

use super::scene::{Kind, SECOND, Scene};
use crate::Event;
use crate::endpoints::endpoint::Last;

const OK: Outcome = Outcome::answered(200);

#[test]
fn an_endpoint_starts_at_one_and_doubles_up_to_its_cap() {
    let mut scene = Scene::new();
    let small = EndpointSettings { in_flight: Some(3), ..EndpointSettings::default() };
    let endpoint = scene.endpoint_with(Order::Due, small);
    for _ in 0..20 {
        scene.send(&endpoint);
    }
    let mut seen = Vec::new();
    while !scene.flying.is_empty() {
        seen.push(scene.flying.len());
        while !scene.flying.is_empty() && seen.iter().sum::<usize>() > 20 - scene.pending(&endpoint)
        {
            let sending = scene.flying.remove(0);
            scene.keep = vec![Kind::Settle];
            scene.end_of(&sending, OK);
            scene.keep.clear();
            scene.answer_kept();
            scene.pass(SECOND / 10);
        }
    }
    assert_eq!(seen[0], 1);
    assert!(seen.iter().all(|count| *count <= 3), "{seen:?}");
    assert!(seen.contains(&3), "{seen:?}");
}

#[test]
fn the_rate_limit_spaces_attempts() {
    let mut scene = Scene::new();
    let slow = EndpointSettings { rate: Some(2), ..EndpointSettings::default() };
    let endpoint = scene.endpoint_with(Order::Due, slow);
    assert_two_a_second(scene, &endpoint);
}

#[test]
fn an_endpoint_keeps_to_its_application_s_rate_unless_its_own_is_lower() {
    for (own, application) in [(None, 2), (Some(50), 2), (Some(2), 50)] {
        let mut scene = Scene::new();
        let (key, at) = (scene.application, scene.now.rows);
        let limit: Edit<Application> = Box::new(move |row| {
            let settings = ApplicationSettings { rate: Some(application), ..row.settings.clone() };
            Ok(Application { settings, ..row.clone() })
        });
        scene.store.change_application(key, &limit, at).unwrap();
        let settings = EndpointSettings { rate: own, ..EndpointSettings::default() };
        let endpoint = scene.endpoint_with(Order::Due, settings);
        assert_two_a_second(scene, &endpoint);
    }
}

#[track_caller]
fn assert_two_a_second(mut scene: Scene, endpoint: &Endpoint) {
    for _ in 0..10 {
        scene.send(endpoint);
    }
    let mut sent = 0;
    for _ in 0..30 {
        sent += scene.flying.len();
        while !scene.flying.is_empty() {
            scene.end(OK);
        }
        scene.pass(SECOND / 10);
    }
    assert!((6..=7).contains(&sent), "{sent} in three seconds");
}

#[test]
fn slots_are_shared_and_applications_take_turns() {
    let mut scene = Scene::with(|settings| settings.in_flight = 1);
    let other = scene.application();
    let many: Vec<_> = (0..4).map(|_| scene.endpoint()).collect();
    let alone = scene.endpoint_of(other, Order::Due, EndpointSettings::default());
    for endpoint in &many {
        scene.send(endpoint);
    }
    scene.send(&alone);
    let mut order = Vec::new();
    while !scene.flying.is_empty() {
        assert_eq!(scene.flying.len(), 1);
        order.push(scene.end(OK).delivery.key.endpoint);
    }
    let place = order.iter().position(|endpoint| *endpoint == alone.key);
    assert_eq!((order.len(), place), (5, Some(2)), "{order:?}");
}

#[test]
fn endpoints_that_never_answer_leave_half_of_the_slots_to_those_that_do() {
    let mut scene = Scene::with(|settings| (settings.in_flight, settings.hanging) = (4, 2));
    let dead: Vec<_> = (0..8).map(|_| scene.endpoint()).collect();
    let lively = scene.endpoint();
    scene.send(&lively);
    scene.end(OK);
    for endpoint in &dead {
        scene.send(endpoint);
    }
    scene.pass(SECOND / 2);
    for _ in 0..5 {
        scene.send(&lively);
        let place = scene.flying.iter().position(|one| one.delivery.key.endpoint == lively.key);
        let sending = scene.flying.remove(place.expect("it has a slot"));
        scene.end_of(&sending, OK);
        scene.pass(SECOND / 2);
    }
    assert_eq!(scene.flying.len(), 2);
    // When those that hang have ended, the others get their turn.
    scene.end(Outcome::TimedOut);
    scene.pass(SECOND / 10);
    assert_eq!(scene.flying.len(), 2);
}

#[test]
fn whoever_has_just_timed_out_is_not_one_that_answers() {
    let mut scene = Scene::with(|settings| (settings.in_flight, settings.hanging) = (4, 2));
    let dead: Vec<_> = (0..8).map(|_| scene.endpoint()).collect();
    let lively = scene.endpoint();
    scene.send(&lively);
    scene.end(OK);
    for endpoint in dead.iter().flat_map(|endpoint| [endpoint; 2]) {
        scene.send(endpoint);
    }
    for round in 1..=30 {
        scene.pass(SECOND / 4);
        scene.send(&lively);
        let place = scene.flying.iter().position(|one| one.delivery.key.endpoint == lively.key);
        let sending = scene.flying.remove(place.expect("it has a slot"));
        scene.end_of(&sending, OK);
        scene.pass(SECOND / 4);
        assert_eq!(scene.flying.len(), 2, "no more than may hang");
        if round % 3 == 0 {
            scene.end(Outcome::TimedOut);
        }
    }
}

#[test]
fn whoever_answers_slowly_does_not_keep_out_whoever_was_silent() {
    // One of the four that may hang is for other applications.
    for (cap, quiet) in [(10, 3), (20, 2)] {
        let mut scene = Scene::with(|settings| (settings.in_flight, settings.hanging) = (32, 4));
        let wide = EndpointSettings { in_flight: Some(cap), ..EndpointSettings::default() };
        let slow = scene.endpoint_with(Order::Due, wide);
        for _ in 0..200 {
            scene.send(&slow);
        }
        while scene.flying.len() < usize::try_from(cap).unwrap() {
            if !scene.flying.is_empty() {
                scene.end(OK);
            }
            scene.pass(SECOND / 20);
        }
        scene.pass(3 * SECOND / 2);
        let silent: Vec<_> = (0..6).map(|_| scene.endpoint()).collect();
        for endpoint in &silent {
            scene.send(endpoint);
        }
        for _ in 0..5 {
            scene.pass(2 * SECOND);
            let flying = silent.iter().map(|one| scene.flying_to(one.key)).sum::<usize>();
            assert_eq!(flying, quiet, "beside {cap}");
        }
        while !scene.flying.is_empty() {
            scene.end(OK);
            scene.pass(SECOND / 20);
        }
        assert!(silent.iter().all(|one| scene.pending(one) == 0));
    }
}

#[test]
fn those_that_are_set_aside_come_back_one_by_one() {
    let mut scene = Scene::with(|settings| settings.in_flight = 8);
    let mut silent = Vec::new();
    for _ in 0..20 {
        let application = scene.application();
        for _ in 0..50 {
            silent.push(scene.endpoint_of(application, Order::Due, EndpointSettings::default()));
        }
    }
    let deliveries: Vec<_> = silent.iter().map(|endpoint| scene.accept(endpoint)).collect();
    let issued_at = scene.now.elapsed;
    scene.tell(Event::HandedOver { issued_at, deliveries });
    let turns = &scene.engine.turns;
    let waiting = turns.parked() + turns.ready();
    assert_eq!((scene.flying.len(), waiting), (7, silent.len() - 7));
    assert!(turns.parked() > turns.ready());
    while !scene.flying.is_empty() {
        scene.end(OK);
    }
    assert_eq!(scene.settles.len(), silent.len());
    let taken = scene.engine.turns.taken;
    assert!(taken <= 4 * silent.len(), "{taken} turns for {}", silent.len());
}

#[test]
fn applications_take_turns_among_those_that_are_set_aside() {
    let mut scene = Scene::with(|settings| settings.in_flight = 2);
    let other = scene.application();
    let many: Vec<_> = (0..6).map(|_| scene.endpoint()).collect();
    let alone = scene.endpoint_of(other, Order::Due, EndpointSettings::default());
    for endpoint in many.iter().chain([&alone]) {
        scene.send(endpoint);
    }
    let mut order = Vec::new();
    while !scene.flying.is_empty() {
        assert_eq!(scene.flying.len(), 1);
        order.push(scene.end(OK).delivery.key.endpoint);
    }
    let place = order.iter().position(|endpoint| *endpoint == alone.key);
    assert!(order.len() == 7 && place <= Some(2), "{order:?}");
}

#[test]
fn one_that_is_set_aside_and_held_meanwhile_does_not_keep_back_the_next() {
    let mut scene = Scene::with(|settings| settings.in_flight = 2);
    let endpoints: Vec<_> = (0..3).map(|_| scene.endpoint()).collect();
    for endpoint in &endpoints {
        scene.send(endpoint);
    }
    assert_eq!(scene.flying_to(endpoints[0].key), 1);
    scene.set_state(&endpoints[1], State::Paused);
    scene.ask(&endpoints[1], RequestKind::Refresh);
    // Within the second in which the first does not hang yet.
    scene.tell(Event::Asked);
    scene.pass(SECOND / 10);
    assert_eq!(scene.flying.len(), 1);
    scene.end(OK);
    assert_eq!((scene.flying.len(), scene.flying_to(endpoints[2].key)), (1, 1));
}

#[test]
fn one_that_answers_while_it_is_set_aside_is_not_entered_again() {
    let mut scene = Scene::with(|settings| (settings.in_flight, settings.hanging) = (2, 1));
    let (dead, other) = (scene.endpoint(), scene.endpoint());
    scene.send(&dead);
    for _ in 0..5 {
        scene.pass(2 * SECOND);
        scene.send(&other);
        assert_eq!((scene.flying_to(other.key), scene.engine.turns.parked()), (0, 1));
        let at = (other.application, other.key);
        scene.engine.endpoints.get_mut(&at).unwrap().answered = Last::at(scene.now.elapsed);
        scene.send(&other);
        while let Some(place) = scene.flying.iter().position(|it| it.delivery.key.endpoint == at.1)
        {
            let sending = scene.flying.remove(place);
            scene.end_of(&sending, OK);
            scene.pass(SECOND / 20);
        }
        assert_eq!(scene.pending(&other), 0);
    }
}

#[test]
fn whoever_was_silent_for_long_waits_until_a_burst_hangs_and_no_longer() {
    let mut scene = Scene::with(|settings| (settings.in_flight, settings.hanging) = (4, 100));
    let dead: Vec<_> = (0..20).map(|_| scene.endpoint()).collect();
    let silent = scene.endpoint();
    scene.send(&silent);
    scene.end(OK);
    scene.pass(10 * SECOND);
    for endpoint in &dead {
        scene.send(endpoint);
    }
    scene.send(&silent);
    assert_eq!(scene.flying.len(), 2, "nobody knows that they are dead");
    // Two each second: nobody is asked to come back, so the engine must have set itself an alarm.
    scene.pass(10 * SECOND);
    assert_eq!(scene.flying.len(), 21);
    // They hang, all of them, and take nothing from anybody.
    for _ in 0..5 {
        let place = scene.flying.iter().position(|one| one.delivery.key.endpoint == silent.key);
        let sending = scene.flying.remove(place.expect("it has a slot"));
        scene.end_of(&sending, OK);
        scene.pass(5 * SECOND / 4);
        scene.send(&silent);
    }
    assert_eq!(scene.flying.len(), 21);
}

#[test]
fn nothing_is_started_while_too_much_is_settling() {
    let mut scene = Scene::with(|settings| settings.settling = 2);
    let endpoint = scene.endpoint();
    scene.keep = vec![Kind::Settle];
    for _ in 0..5 {
        scene.send(&endpoint);
    }
    scene.end(OK);
    scene.pass(SECOND / 10);
    while scene.kept.len() < 2 {
        scene.end(OK);
        scene.pass(SECOND / 10);
    }
    let flying = scene.flying.len();
    while !scene.flying.is_empty() {
        scene.end(OK);
        scene.pass(SECOND / 10);
    }
    assert!(flying <= 2);
    let kept = scene.kept.len();
    scene.pass(SECOND);
    assert_eq!((scene.flying.len(), scene.kept.len()), (0, kept));
    scene.keep.clear();
    scene.answer_kept();
    assert!(!scene.flying.is_empty());
}

#[test]
fn nothing_is_started_while_a_settle_waits_for_long() {
    let mut scene = Scene::new();
    let (slow, other) = (scene.endpoint(), scene.endpoint());
    scene.keep = vec![Kind::Settle];
    scene.send(&slow);
    scene.end(OK);
    scene.pass(SECOND / 4);
    scene.send(&other);
    assert_eq!(scene.flying.len(), 1, "it may take its time");
    scene.end(OK);
    scene.pass(SECOND / 2);
    scene.send(&other);
    assert!(scene.flying.is_empty(), "the store does not keep up");
    scene.keep.clear();
    scene.answer_kept();
    assert_eq!(scene.flying.len(), 1, "and now it does");
}

#[test]
fn windows_of_those_that_hang_leave_room_for_those_that_answer() {
    for handed_over in [true, false] {
        let mut scene = Scene::with(|settings| {
            settings.rows = 12;
            settings.load_rows = 4;
        });
        let lively = scene.endpoint();
        let hanging: Vec<_> = (0..4).map(|_| scene.endpoint()).collect();
        for endpoint in hanging.iter().flat_map(|endpoint| [endpoint; 4]) {
            scene.send(endpoint);
        }
        scene.pass(5 * SECOND);
        assert!(scene.engine.is_full());
        for _ in 0..60 {
            if handed_over {
                scene.send(&lively);
            } else {
                scene.accept(&lively);
            }
        }
        let mut most = 0;
        for _ in 0..200 {
            scene.pass(SECOND / 20);
            most = most.max(scene.flying_to(lively.key));
            let place = scene.flying.iter().position(|one| one.delivery.key.endpoint == lively.key);
            if let Some(place) = place {
                let sending = scene.flying.remove(place);
                scene.end_of(&sending, OK);
            }
        }
        assert!(most >= 4, "{most} at once; handed over: {handed_over}");
        assert_eq!(scene.pending(&lively), 0);
    }
}
