//! What an attempt's end does to its delivery and its endpoint.

use std::panic::{AssertUnwindSafe, catch_unwind};

use domain::breaker::Breaker;
use domain::delivery::Cause;
use domain::outcome::Outcome;
use domain::retry_after::RetryAfter;
use store::catalog::{Endpoint, EndpointSettings};
use store::queue::{NextState, Order, Renewal, Settled};

use super::scene::{Kind, SECOND, Scene};
use crate::{Announcement, Effect, Event};

const OK: Outcome = Outcome::answered(200);
const FAILED: Outcome = Outcome::answered(500);

#[test]
fn a_handed_over_delivery_is_sent_at_once_and_settled() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let message = scene.send(&endpoint);
    let sending = scene.end(OK);
    assert_eq!(sending.delivery.key.message, message);
    assert_eq!(scene.settles[0].next, NextState::Delivered);
    assert_eq!(scene.settles[0].running, None, "nothing about the endpoint changed");
    assert_eq!((scene.pending(&endpoint), scene.count("loads")), (0, 0));
}

#[test]
fn a_failed_attempt_is_repeated_when_it_is_due_and_not_before() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(FAILED);
    let NextState::Pending { due } = scene.settles[0].next else { panic!("not a retry") };
    assert!(scene.settles[0].running.is_some(), "the breaker counted");
    let wait = due.since(scene.now.rows);
    scene.pass(wait - std::time::Duration::from_micros(1));
    assert!(scene.flying.is_empty());
    scene.pass(std::time::Duration::from_micros(1));
    assert_eq!(scene.flying.len(), 1);
    assert_eq!((scene.flying[0].delivery.recorded, scene.now.rows), (1, due));
    assert_eq!(scene.count("loads"), 0, "it stayed in memory");
}

#[test]
fn a_retry_that_is_far_away_leaves_memory_and_is_loaded_when_due() {
    let mut scene = Scene::with(|settings| settings.kept_within = SECOND);
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(FAILED);
    assert_eq!((scene.engine.payload_bytes, scene.count("loads")), (0, 0));
    scene.pass(7 * SECOND);
    assert_eq!((scene.flying.len(), scene.count("loads")), (1, 1));
    assert_eq!(scene.flying[0].delivery.recorded, 1);
}

#[test]
fn an_interrupted_attempt_is_not_settled_and_sent_again() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(Outcome::Interrupted);
    assert!(scene.settles.is_empty() && scene.flying.is_empty());
    scene.pass(SECOND);
    assert_eq!((scene.flying.len(), scene.count("loads")), (1, 0));
    assert_eq!(scene.flying[0].delivery.recorded, 0);
}

#[test]
fn a_delivery_that_makes_us_panic_three_times_is_buried_as_poison() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    for _ in 0..3 {
        scene.panic();
        scene.pass(2 * SECOND);
    }
    assert!(scene.flying.is_empty() && scene.pending(&endpoint) == 0);
    let buried = |announced: &Announcement| {
        matches!(announced, Announcement::Buried { cause: Cause::Poison, count: 1, .. })
    };
    assert_eq!(scene.announced.iter().filter(|one| buried(one)).count(), 1);
    let panicked = |one: &&Announcement| matches!(one, Announcement::Panicked { .. });
    assert_eq!(scene.announced.iter().filter(panicked).count(), 3);
}

#[test]
fn retry_after_pauses_the_endpoint_and_not_just_the_delivery() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(Outcome::Answered { status: 429, retry_after: Some(RetryAfter::Seconds(60)) });
    scene.send(&endpoint);
    scene.pass(59 * SECOND);
    assert!(scene.flying.is_empty());
    scene.pass(2 * SECOND);
    assert_eq!(scene.flying.len(), 1);
    assert!(scene.settles[0].running.unwrap().paused_until.is_some());
}

/// An endpoint that has failed often enough for its breaker to open.
fn tripped() -> (Scene, Endpoint) {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    for _ in 0..5 {
        scene.send(&endpoint);
        scene.end(FAILED);
        scene.pass(SECOND / 10);
    }
    (scene, endpoint)
}

#[test]
fn a_breaker_trips_lets_one_probe_through_and_closes() {
    let (mut scene, endpoint) = tripped();
    let trips = |one: &&Announcement| matches!(one, Announcement::Tripped { .. });
    assert_eq!(scene.announced.iter().filter(trips).count(), 1);
    for _ in 0..20 {
        scene.send(&endpoint);
    }
    let loads = scene.count("loads");
    scene.pass(299 * SECOND);
    assert!(scene.flying.is_empty());
    assert!(scene.count("loads") - loads <= 5, "an open breaker loads nothing but checks");
    scene.pass(2 * SECOND);
    assert_eq!(scene.flying.len(), 1, "one probe");
    assert!(scene.engine.payload_bytes <= 4, "and no more than the probe is loaded");
    scene.end(OK);
    assert!(matches!(scene.announced.last(), Some(Announcement::Closed { .. })));
    scene.pass(SECOND / 100);
    assert_eq!(scene.flying.len(), 1, "it starts at one again");
    for _ in 0..24 {
        scene.end(OK);
        scene.pass(SECOND / 10);
    }
    assert_eq!(scene.pending(&endpoint), 0);
}

#[test]
fn each_change_of_a_breaker_is_announced() {
    let (mut scene, _) = tripped();
    for outcome in [FAILED, OK] {
        scene.pass(3_600 * SECOND);
        scene.end(outcome);
    }
    let words = scene.announced.iter().filter_map(|one| match one {
        Announcement::Tripped { .. } => Some("tripped"),
        Announcement::Probing { .. } => Some("probing"),
        Announcement::Reopened { .. } => Some("reopened"),
        Announcement::Closed { .. } => Some("closed"),
        Announcement::Warned { .. }
        | Announcement::Disabled { .. }
        | Announcement::Noticed { .. }
        | Announcement::Buried { .. }
        | Announcement::Panicked { .. }
        | Announcement::Took(_)
        | Announcement::Lost(_) => None,
    });
    assert_eq!(words.collect::<Vec<_>>(), ["tripped", "probing", "reopened", "probing", "closed"]);
}

#[test]
fn what_an_attempt_led_to_is_announced_when_it_is_written_and_only_then() {
    let about = |scene: &Scene| {
        let noticed = |one: &&Announcement| matches!(one, Announcement::Noticed { .. });
        let tripped = |one: &&Announcement| matches!(one, Announcement::Tripped { .. });
        let count = |what: &dyn Fn(&&Announcement) -> bool| {
            scene.announced.iter().filter(|one| what(one)).count()
        };
        (count(&noticed), count(&tripped))
    };
    let answers = [
        (Settled::Applied { turn: None }, false, (1, 1)),
        // The partition was lost after it was written; the next owner finds nothing to tell of.
        (Settled::Applied { turn: None }, true, (1, 1)),
        // Somebody cancelled it meanwhile. The endpoint's running state is written all the same.
        (Settled::LeftAlone, false, (0, 1)),
        // Whoever owns it now will find the same, and tell.
        (Settled::Fenced, false, (0, 0)),
    ];
    for (answer, lost, told) in answers {
        let mut scene = Scene::new();
        let once = serde_json::json!({
            "extends": "redial",
            "policy": { "max_attempts": 1 },
            "endpoint": { "breaker": {
                "threshold": 1, "cooldown": "5m", "growth": 2, "longest_cooldown": "1h",
                "while_open": "hold",
            } },
        });
        let settings = EndpointSettings { policy: Some(once), ..EndpointSettings::default() };
        let endpoint = scene.endpoint_with(Order::Due, settings);
        scene.send(&endpoint);
        scene.keep = vec![Kind::Settle];
        scene.end(FAILED);
        assert_eq!(about(&scene), (0, 0), "nothing is written yet");
        let Some(Effect::Settle { attempt, settle }) = scene.kept.pop_front() else { panic!() };
        assert!(matches!(settle.next, NextState::Dead(_)), "{settle:?}");
        if lost {
            let (asked_at, now) = (scene.now.elapsed, scene.now.rows);
            let nothing =
                Renewal { now, owned: Vec::new(), others: 1, others_until: None, free: 0 };
            scene.tell(Event::Renewed { asked_at, answer: Ok(nothing) });
        }
        scene.tell(Event::Settled { attempt, answer });
        assert_eq!(about(&scene), told, "{answer:?}");
    }
}

#[test]
fn a_breaker_that_is_switched_off_while_its_probe_flies_is_closed_when_it_comes_back() {
    let off = serde_json::json!({ "extends": "redial", "endpoint": { "breaker": "off" } });
    for outcome in [OK, FAILED, Outcome::answered(400), Outcome::Interrupted] {
        let mut scene = Scene::new();
        let endpoint = scene.endpoint();
        for _ in 0..5 {
            scene.send(&endpoint);
            scene.end(FAILED);
            scene.pass(SECOND / 10);
        }
        scene.pass(301 * SECOND);
        assert_eq!(scene.flying.len(), 1, "one probe");
        scene.set_policy(&endpoint, Some(off.clone()));
        scene.end(outcome);
        let closed = |one: &&Announcement| matches!(one, Announcement::Closed { .. });
        let announced = usize::from(outcome != Outcome::Interrupted);
        assert_eq!(scene.announced.iter().filter(closed).count(), announced, "{outcome:?}");
        scene.set_policy(&endpoint, None);
        for _ in 0..20 {
            while !scene.flying.is_empty() {
                scene.end(OK);
            }
            scene.pass(30 * SECOND);
        }
        assert_eq!(scene.pending(&endpoint), 0, "{outcome:?}");
        let view = scene.store.running(endpoint.application, endpoint.key).unwrap();
        assert_eq!(view.breaker, Breaker::default(), "{outcome:?}");
    }
}

#[test]
fn a_half_open_breaker_whose_probe_is_nowhere_lets_another_go() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let at = (endpoint.application, endpoint.key);
    let breaker = Breaker::HalfOpen { cooldown: SECOND };
    scene.engine.endpoints.get_mut(&at).unwrap().running.breaker = breaker;
    scene.send(&endpoint);
    scene.end(FAILED);
    scene.pass(SECOND / 10);
    assert_eq!(scene.flying.len(), 1, "a probe");
    scene.send(&endpoint);
    scene.pass(SECOND);
    assert_eq!(scene.flying.len(), 1, "and nothing beside it");
    scene.end(OK);
    assert_eq!(scene.flying.len(), 1, "and then the next");
}

#[test]
fn an_endpoint_that_says_gone_is_disabled_and_its_deliveries_are_buried() {
    let mut scene = Scene::with(|settings| settings.bury_chunk = 2);
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    for _ in 0..5 {
        scene.accept(&endpoint);
    }
    scene.end(Outcome::answered(410));
    scene.pass(10 * SECOND);
    assert!(scene.flying.is_empty());
    assert_eq!(scene.pending(&endpoint), 0);
    let disabled = |one: &&Announcement| matches!(one, Announcement::Disabled { .. });
    assert_eq!(scene.announced.iter().filter(disabled).count(), 1);
    let chunks: Vec<u32> = (scene.announced.iter())
        .filter_map(|one| {
            let Announcement::Buried { cause, count, .. } = one else { return None };
            (*cause == Cause::EndpointDisabled).then_some(*count)
        })
        .collect();
    assert_eq!(chunks, [2, 2, 1]);
}

#[test]
fn an_endpoint_is_disabled_when_the_attempt_that_led_to_it_is_written() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.send(&endpoint);
    scene.keep = vec![Kind::Settle];
    scene.end(Outcome::answered(410));
    scene.pass(SECOND);
    let disabled = |one: &&Announcement| matches!(one, Announcement::Disabled { .. });
    assert_eq!(scene.announced.iter().filter(disabled).count(), 0);
    assert!(scene.flying.is_empty(), "but nothing more is sent to it");
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(SECOND);
    assert_eq!(scene.announced.iter().filter(disabled).count(), 1);
    assert_eq!(scene.pending(&endpoint), 0);
}

#[test]
fn an_attempt_that_was_fenced_disables_nothing() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.send(&endpoint);
    scene.keep = vec![Kind::Settle];
    scene.end(Outcome::answered(410));
    let Some(Effect::Settle { attempt, .. }) = scene.kept.pop_front() else { panic!("no settle") };
    scene.keep = vec![Kind::Disable];
    scene.tell(Event::Settled { attempt, answer: Settled::Fenced });
    scene.pass(SECOND);
    assert!(scene.kept.is_empty(), "{:?}", scene.kept);
    let disabled = |one: &&Announcement| matches!(one, Announcement::Disabled { .. });
    assert_eq!(scene.announced.iter().filter(disabled).count(), 0);
}

#[test]
fn while_a_disable_is_not_answered_no_roster_is_read_again_and_again() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.send(&endpoint);
    scene.keep = vec![Kind::Disable, Kind::Roster];
    scene.end(Outcome::answered(410));
    let is_roster = |effect: &Effect| matches!(effect, Effect::ReadRoster(_));
    let mut reads = 0;
    for _ in 0..10 {
        scene.pass(SECOND / 10);
        let Some(place) = scene.kept.iter().position(is_roster) else { continue };
        let asked = scene.kept.remove(place).unwrap();
        let answer = scene.answer(asked);
        scene.tell(answer);
        reads += 1;
    }
    assert!(reads <= 1, "{reads} reads");
    assert_eq!((scene.flying.len(), scene.pending(&endpoint)), (0, 1), "and nothing is sent");
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(SECOND);
    assert_eq!(scene.pending(&endpoint), 0, "it is buried when the disable is answered");
}

#[test]
fn the_next_of_a_sequence_goes_only_after_the_settle_of_the_one_before() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let first = scene.send(&endpoint);
    let second = scene.send(&endpoint);
    assert_eq!(scene.flying.len(), 1);
    assert_eq!(scene.flying[0].delivery.key.message, first);
    scene.keep = vec![Kind::Settle];
    scene.end(OK);
    scene.pass(SECOND);
    assert!(scene.flying.is_empty());
    scene.keep.clear();
    scene.answer_kept();
    assert_eq!(scene.flying[0].delivery.key.message, second);
}

#[test]
fn a_retrying_head_blocks_its_sequence_and_a_dead_one_does_not() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let first = scene.send(&endpoint);
    let second = scene.send(&endpoint);
    scene.end(FAILED);
    scene.pass(2 * SECOND);
    assert!(scene.flying.is_empty());
    scene.pass(6 * SECOND);
    assert_eq!(scene.flying[0].delivery.key.message, first);
    scene.end(Outcome::answered(400));
    assert_eq!(scene.flying[0].delivery.key.message, second);
}

#[test]
fn a_lost_hand_over_does_not_change_the_order_of_a_sequence() {
    let mut scene = Scene::new();
    let endpoint = scene.fifo();
    let first = scene.accept(&endpoint).key.message;
    scene.send(&endpoint);
    assert_eq!(scene.flying[0].delivery.key.message, first);
}

#[test]
fn the_record_of_a_final_attempt_says_by_which_rule_of_which_policy_it_was() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let mut delivery = scene.accept(&endpoint);
    delivery.policy = Some("{\"name\":\"own\",\"extends\":\"redial\"}".into());
    scene.hand_over(delivery);
    scene.end(Outcome::answered(401));
    let told = scene.settles[0].attempt.error.as_deref().unwrap();
    assert!(told.starts_with("401: the policy `own` lists `401` as permanent; "), "{told}");
    scene.send(&endpoint);
    scene.end(FAILED);
    assert_eq!(scene.settles[1].attempt.error, None, "it is tried again");
}

#[test]
fn a_message_has_its_own_policy_before_all_others() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let mut delivery = scene.accept(&endpoint);
    delivery.policy = Some("{\"extends\":\"redial\",\"policy\":{\"max_attempts\":1}}".into());
    scene.hand_over(delivery);
    scene.end(FAILED);
    assert_eq!(scene.settles[0].next, NextState::Dead(Cause::Exhausted));
}

#[test]
fn it_is_known_which_attempt_was_beginning_when_the_engine_panicked() {
    let mut scene = Scene::new();
    let (well, endpoint) = (scene.endpoint(), scene.endpoint());
    scene.send(&well);
    assert_eq!(scene.engine.starting(), None);
    // There is no number beyond this one.
    scene.engine.last_number = u64::MAX;
    let sent = catch_unwind(AssertUnwindSafe(|| scene.send(&endpoint)));
    assert!(sent.is_err());
    let suspect = scene.engine.starting().unwrap();
    assert_eq!((suspect.delivery.endpoint, suspect.doomed.recorded), (endpoint.key, 0));
}
