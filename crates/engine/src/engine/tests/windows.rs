//! Windows, hand-overs and walks: memory is bounded, and what it does not know is found.

use std::time::Duration;

use domain::endpoint::{Reason, State};
use domain::outcome::Outcome;
use store::catalog::EndpointSettings;
use store::queue::{Call, Loaded, Order};

use super::scene::{Kind, SECOND, Scene};
use crate::endpoints::horizon::Horizon;
use crate::{Effect, Event};

const OK: Outcome = Outcome::answered(200);

#[test]
fn rows_that_cannot_be_read_are_asked_for_again_but_not_without_pause() {
    for state in [State::Active, State::Disabled(Reason::ByPerson)] {
        let mut scene = Scene::new();
        let endpoint = scene.endpoint();
        scene.accept(&endpoint);
        scene.set_state(&endpoint, state);
        scene.keep = vec![Kind::Load];
        scene.pass(6 * SECOND);
        let mut asked = 0;
        for _ in 0..1_000 {
            scene.pass(SECOND / 100);
            while let Some(Effect::Load { load, .. }) = scene.kept.pop_front() {
                asked += 1;
                let answer = Ok(Loaded { deliveries: vec![], complete: false });
                scene.tell(Event::Loaded { load, answer });
            }
        }
        assert!((30..=60).contains(&asked), "{asked} loads in ten seconds, {state:?}");
        scene.keep.clear();
        scene.pass(SECOND);
        let sent = scene.flying.len() + usize::from(scene.pending(&endpoint) == 0);
        assert_eq!(sent, 1, "{state:?}");
    }
}

#[test]
fn rows_that_cannot_be_read_make_a_load_ask_for_more_rows_and_not_for_more_bytes() {
    const DAMAGED: u32 = 3_000;
    // Be it that there is one before them which is known.
    for known in [0, 1] {
        let mut scene = Scene::with(|settings| settings.load_rows = 16);
        let endpoint = scene.endpoint();
        let at = (endpoint.application, endpoint.key);
        for _ in 0..known {
            scene.send(&endpoint);
        }
        let behind = scene.accept(&endpoint);
        scene.keep = vec![Kind::Load];
        if let Some(here) = scene.engine.endpoints.get_mut(&at) {
            here.window.lower(Horizon::unknown(scene.now.rows));
            scene.hand_over(behind);
        }
        for _ in 0..200 {
            scene.pass(SECOND / 10);
            while let Some(effect) = scene.kept.pop_front() {
                let Effect::Load { load, what } = effect else { panic!("{effect:?}") };
                assert!(what.most_bytes <= scene.engine.settings.payload_bytes, "{what:?}");
                let mut loaded = scene.store.load(what);
                if what.most <= DAMAGED {
                    loaded.deliveries.truncate(known);
                    loaded.complete = false;
                }
                scene.tell(Event::Loaded { load, answer: Ok(loaded) });
            }
        }
        let here = scene.engine.endpoints.get(&at).unwrap();
        assert_eq!(here.window.known(), known + 1, "what is behind them has come");
    }
}

#[test]
fn payloads_that_are_left_out_make_a_load_ask_for_more_bytes_and_not_for_more_rows() {
    let mut scene = Scene::with(|settings| settings.load_rows = 4);
    let endpoint = scene.endpoint();
    for _ in 0..4 {
        scene.accept(&endpoint);
    }
    scene.keep = vec![Kind::Load];
    let (mut most, mut bytes) = (0, vec![]);
    for _ in 0..400 {
        scene.pass(SECOND / 10);
        while let Some(effect) = scene.kept.pop_front() {
            let Effect::Load { load, what } = effect else { panic!("{effect:?}") };
            most = most.max(what.most);
            bytes.push(what.most_bytes);
            let mut loaded = scene.store.load(what);
            if what.most_bytes < scene.engine.settings.payload_bytes {
                loaded.deliveries.iter_mut().for_each(|row| row.payload = None);
            }
            scene.tell(Event::Loaded { load, answer: Ok(loaded) });
        }
    }
    assert_eq!((scene.flying.len(), most), (1, 4));
    assert!(bytes.is_sorted() && bytes.last() == Some(&(64 << 20)), "{bytes:?}");
}

#[test]
fn a_lost_hand_over_is_found_by_the_next_walk() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.accept(&endpoint);
    scene.pass(6 * SECOND);
    assert_eq!(scene.flying.len(), 1);
    assert_eq!(scene.count("loads"), 1);
}

#[test]
fn a_woken_partition_is_walked_at_once() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.accept(&endpoint);
    scene.tell(Event::Woken(Call::Work(vec![endpoint.partition])));
    assert_eq!(scene.flying.len(), 1);
}

#[test]
fn what_is_due_is_sent_at_its_time_however_much_waits_for_later() {
    // Be it that a window has no room for more, or that memory has none.
    for (rows, window) in [(65_536, 8_192), (65_536, 200), (200, 8_192)] {
        let mut scene = Scene::with(|settings| {
            (settings.rows, settings.window) = (rows, window);
            settings.walk_every = 3_600 * SECOND;
        });
        let endpoint = scene.endpoint();
        let later = scene.now.rows.after(9 * SECOND);
        for _ in 0..200 {
            let waits = scene.accept_due(&endpoint, later);
            scene.hand_over(waits);
        }
        let (now, others) = (scene.now.rows, Event::Woken(Call::Work(vec![endpoint.partition])));
        let due = scene.accept_due(&endpoint, now);
        scene.tell(others);
        scene.pass(SECOND / 10);
        let sent: Vec<_> = scene.flying.iter().map(|one| one.delivery.key).collect();
        assert_eq!(sent, [due.key], "{rows} rows in memory, {window} of an endpoint");
        assert!(scene.count("loads") <= 3);
        scene.end(OK);
        scene.pass(9 * SECOND);
        assert_eq!(scene.flying_to(endpoint.key), 2, "and the others when they are due");
    }
}

#[test]
fn what_others_accept_behind_a_later_delivery_is_sent_at_its_time() {
    // Be it that a load runs when the walk tells.
    for (order, loading) in [(Order::Due, false), (Order::Due, true), (Order::Fifo, false)] {
        let mut scene = Scene::with(|settings| settings.walk_every = 3_600 * SECOND);
        let endpoint = scene.endpoint_with(order, EndpointSettings::default());
        let begin = scene.now.rows;
        let first = scene.accept_due(&endpoint, begin.after(9 * SECOND));
        scene.hand_over(first);
        scene.pass(SECOND);
        let at = (endpoint.application, endpoint.key);
        if loading {
            scene.keep = vec![Kind::Load];
            let here = scene.engine.endpoints.get_mut(&at).unwrap();
            here.window.lower(Horizon::unknown(scene.now.rows));
            scene.engine.timers.set(at, here, scene.now.rows);
            scene.tell(Event::TimePassed);
        }
        let answer = scene.kept.pop_front().map(|load| scene.answer(load));
        assert_eq!(answer.is_some(), loading);
        scene.accept_due(&endpoint, begin.after(9 * SECOND + SECOND / 2));
        scene.tell(Event::Woken(Call::Work(vec![endpoint.partition])));
        scene.keep.clear();
        answer.into_iter().for_each(|answer| scene.tell(answer));
        let loads = scene.count("loads");
        scene.pass(8 * SECOND - SECOND / 10);
        assert_eq!(scene.count("loads"), loads, "nothing is loaded before it is needed");
        scene.pass(SECOND / 10);
        scene.end(OK);
        scene.pass(SECOND / 2);
        assert_eq!(scene.flying.len(), 1, "{order:?} {loading}");
        assert_eq!(scene.now.rows, begin.after(9 * SECOND + SECOND / 2));
    }
}

#[test]
fn a_backlog_is_loaded_window_by_window_and_all_of_it_is_sent_once() {
    let mut scene = Scene::with(|settings| settings.window = 4);
    let endpoint = scene.endpoint();
    let mut messages: Vec<_> = (0..40).map(|_| scene.accept(&endpoint).key.message).collect();
    scene.pass(6 * SECOND);
    let mut sent = Vec::new();
    while !scene.flying.is_empty() {
        assert!(scene.engine.payload_bytes <= 2 * (4 + 10), "the window has a limit");
        sent.push(scene.end(OK).delivery.key.message);
        scene.pass(SECOND / 100);
    }
    messages.sort();
    sent.sort();
    assert_eq!(sent, messages);
}

#[test]
fn a_late_hand_over_never_causes_a_second_send() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let (delivery, issued_at) = (scene.accept(&endpoint), scene.now.elapsed);
    scene.pass(6 * SECOND);
    scene.end(OK);
    let deliveries = vec![delivery];
    scene.tell(Event::HandedOver { issued_at, deliveries: deliveries.clone() });
    assert!(scene.flying.is_empty());
    // Not even after memory has let the endpoint go.
    scene.pass(100 * SECOND);
    assert!(scene.engine.endpoints.is_empty());
    scene.tell(Event::HandedOver { issued_at, deliveries });
    assert!(scene.flying.is_empty());
}

#[test]
fn what_settles_while_a_load_runs_is_not_sent_again_by_its_answer() {
    let mut scene = Scene::with(|settings| settings.window = 2);
    let endpoint = scene.endpoint();
    for _ in 0..2 {
        scene.send(&endpoint);
    }
    // Beyond the window: the endpoint is spilled, and a load is wanted.
    scene.send(&endpoint);
    scene.keep = vec![Kind::Load];
    scene.send(&endpoint);
    scene.pass(SECOND / 100);
    let load = scene.kept.pop_front();
    let stale = load.map(|load| scene.answer(load));
    let first = scene.end(OK).delivery.key;
    if let Some(stale) = stale {
        scene.tell(stale);
    }
    scene.keep.clear();
    scene.answer_kept();
    let mut sent = vec![first];
    while !scene.flying.is_empty() {
        sent.push(scene.end(OK).delivery.key);
        scene.pass(SECOND / 10);
    }
    let all = sent.len();
    sent.sort();
    sent.dedup();
    assert_eq!((sent.len(), all), (4, 4));
}

#[test]
fn a_hand_over_before_the_first_walk_does_not_hide_what_the_store_holds() {
    let mut scene = Scene::before_start(|_| {});
    let endpoint = scene.endpoint();
    let first = scene.accept(&endpoint).key.message;
    scene.keep = vec![Kind::Walk];
    scene.start();
    scene.send(&endpoint);
    assert_eq!(scene.flying[0].delivery.key.message, first);
}

#[test]
fn a_delivery_for_later_waits_in_the_store_and_is_sent_at_its_time() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let due = scene.now.rows.after(100 * SECOND);
    let delivery = scene.accept_due(&endpoint, due);
    scene.hand_over(delivery);
    scene.pass(100 * SECOND - Duration::from_micros(1));
    assert_eq!((scene.flying.len(), scene.engine.payload_bytes), (0, 0));
    scene.pass(Duration::from_micros(1));
    assert_eq!((scene.flying.len(), scene.now.rows), (1, due));
}

#[test]
fn over_the_payload_limit_memory_holds_what_can_be_sent_and_everything_still_goes() {
    let mut scene = Scene::with(|settings| settings.payload_bytes = 4);
    let single = EndpointSettings { in_flight: Some(1), ..EndpointSettings::default() };
    let mut make = || scene.endpoint_with(Order::Due, single.clone());
    let endpoints: Vec<_> = (0..3).map(|_| make()).collect();
    for endpoint in &endpoints {
        for _ in 0..5 {
            scene.send(endpoint);
        }
    }
    let mut sent = 0;
    while !scene.flying.is_empty() {
        // Of each that answers: one in flight, and two that wait.
        assert!(scene.engine.payload_bytes <= 2 * 9, "{}", scene.engine.payload_bytes);
        scene.end(OK);
        sent += 1;
        scene.pass(SECOND / 10);
    }
    assert_eq!(sent, 15);
}

#[test]
fn a_load_without_an_answer_is_repeated() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.accept(&endpoint);
    scene.keep = vec![Kind::Load];
    scene.pass(6 * SECOND);
    let Some(Effect::Load { load, .. }) = scene.kept.pop_front() else { panic!("no load") };
    scene.keep.clear();
    scene.tell(Event::Loaded { load, answer: Err(crate::protocol::event::Unanswered) });
    assert!(scene.flying.is_empty());
    scene.pass(SECOND);
    assert_eq!(scene.flying.len(), 1);
}

#[test]
fn a_busy_endpoint_raises_no_alarm_when_it_is_walked() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Walk];
    scene.pass(6 * SECOND);
    let walk = scene.kept.pop_front().unwrap();
    let seen = scene.answer(walk);
    scene.end(OK);
    scene.tell(seen);
    assert_eq!(scene.count("loads"), 0);
}

#[test]
fn an_endpoint_that_is_deleted_is_left_to_the_store() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.accept(&endpoint);
    scene.store.delete_endpoint(endpoint.application, endpoint.key, scene.now.rows).unwrap();
    scene.pass(20 * SECOND);
    assert!(scene.flying.is_empty() && scene.engine.endpoints.is_empty());
}

#[test]
fn an_endpoint_younger_than_the_roster_is_read_before_it_is_given_up() {
    let mut scene = Scene::new();
    let old = scene.endpoint();
    scene.send(&old);
    scene.pass(SECOND);
    let young = scene.endpoint_with(Order::Due, EndpointSettings::default());
    scene.send(&young);
    assert_eq!(scene.flying_to(young.key), 1);
}
