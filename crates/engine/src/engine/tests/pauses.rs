//! Pauses by Retry-After: what ends them, and what does not.

use domain::endpoint::State;
use domain::outcome::Outcome;
use domain::retry_after::RetryAfter;
use store::catalog::Endpoint;
use store::keys::{MessageKey, Node};
use store::queue::{RequestKind, Running, Upkeep};

use super::scene::{Kind, SECOND, Scene};
use crate::Effect;

const LONG: Outcome =
    Outcome::Answered { status: 429, retry_after: Some(RetryAfter::Seconds(40_000)) };
const OK: Outcome = Outcome::answered(200);

/// An endpoint that pauses, with a delivery that was answered so and one that waits.
fn paused() -> (Scene, Endpoint, MessageKey) {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let first = scene.send(&endpoint);
    scene.end(LONG);
    scene.send(&endpoint);
    scene.pass(60 * SECOND);
    assert!(scene.flying.is_empty());
    (scene, endpoint, first)
}

fn stored(scene: &Scene, endpoint: &Endpoint) -> Running {
    let fan_out = scene.store.fan_out(endpoint.application, scene.now.rows).unwrap();
    fan_out.endpoints[0].running
}

fn writes(scene: &Scene) -> usize {
    scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Run { .. })).count()
}

#[test]
fn the_attempt_says_what_it_was_kept_to() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let years = Some(RetryAfter::Seconds(99_999_999));
    scene.end(Outcome::Answered { status: 503, retry_after: years });
    let settle = &scene.settles[0];
    assert_eq!(settle.attempt.retry_after_kept, Some(86_400 * SECOND));
    let running = settle.running.unwrap();
    assert_eq!(running.paused_until, Some(scene.now.rows.after(86_400 * SECOND)));
}

#[test]
fn of_two_wishes_to_end_a_pause_none_is_consumed_before_its_end_is_written() {
    let (mut scene, endpoint, _) = paused();
    scene.ask(&endpoint, RequestKind::ResetBreaker);
    scene.ask(&endpoint, RequestKind::EndPause);
    scene.keep = vec![Kind::Upkeep];
    scene.pass(2 * SECOND);
    let consumes =
        |effect: &Effect| matches!(effect, Effect::Upkeep { upkeep: Upkeep::Consume { .. }, .. });
    assert!(!scene.kept.iter().any(consumes), "its next owner would not know of it");
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(2 * SECOND);
    assert_eq!(stored(&scene, &endpoint).paused_until, None);
    assert_eq!(scene.store.requests(&[endpoint.partition]), []);
}

#[test]
fn a_pause_ends_when_a_person_asks_for_it() {
    for kind in [0, 1, 2] {
        let (mut scene, endpoint, first) = paused();
        let kind = match kind {
            0 => RequestKind::EndPause,
            1 => RequestKind::ResetBreaker,
            _ => RequestKind::RetryNow(first),
        };
        scene.ask(&endpoint, kind);
        scene.pass(2 * SECOND);
        assert!(!scene.flying.is_empty(), "{kind:?}");
        assert_eq!(stored(&scene, &endpoint).paused_until, None, "{kind:?}");
        assert!(scene.store.requests(&[endpoint.partition]).is_empty(), "{kind:?}");
    }
}

#[test]
fn an_endpoint_that_does_not_pause_costs_no_write() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let message = scene.send(&endpoint);
    scene.end(Outcome::answered(500));
    scene.ask(&endpoint, RequestKind::EndPause);
    scene.ask(&endpoint, RequestKind::RetryNow(message));
    scene.pass(2 * SECOND);
    assert_eq!((writes(&scene), scene.flying.len()), (0, 1));
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
    // Nor one of which memory knows nothing.
    let other = scene.endpoint();
    scene.ask(&other, RequestKind::EndPause);
    scene.pass(2 * SECOND);
    assert_eq!(writes(&scene), 0);
    assert!(scene.store.requests(&[other.partition]).is_empty());
}

#[test]
fn a_disabled_endpoint_that_is_enabled_starts_without_a_pause() {
    let (mut scene, endpoint, _) = paused();
    scene.set_state(&endpoint, State::Disabled(domain::endpoint::Reason::Gone));
    scene.pass(5 * SECOND);
    scene.set_state(&endpoint, State::Active);
    scene.ask(&endpoint, RequestKind::EndPause);
    scene.pass(2 * SECOND);
    scene.send(&endpoint);
    assert_eq!(scene.flying.len(), 1);
    assert_eq!(stored(&scene, &endpoint).paused_until, None);
}

#[test]
fn the_end_of_a_pause_is_consumed_only_when_it_is_written() {
    let (mut scene, endpoint, _) = paused();
    scene.keep = vec![Kind::Upkeep];
    scene.ask(&endpoint, RequestKind::EndPause);
    scene.pass(5 * SECOND);
    assert!(scene.flying.is_empty(), "it would be sent although the store says that it pauses");
    assert_eq!(scene.store.requests(&[endpoint.partition]).len(), 1);
    scene.keep.clear();
    scene.answer_kept();
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
    assert_eq!(stored(&scene, &endpoint).paused_until, None);
}

#[test]
fn the_next_owner_ends_a_pause_that_was_not_ended_before_the_partition_was_lost() {
    let (mut scene, endpoint, _) = paused();
    scene.keep = vec![Kind::Upkeep];
    scene.ask(&endpoint, RequestKind::EndPause);
    scene.pass(2 * SECOND);
    let other = Node("b".into());
    scene.jump(11 * SECOND);
    scene.store.renew(other.clone(), scene.now.rows);
    let leases = scene.store.take(&other, 64, scene.now.rows);
    assert!(!leases.is_empty());
    scene.keep.clear();
    scene.answer_kept();
    assert!(stored(&scene, &endpoint).paused_until.is_some(), "the old owner is fenced");
    scene.store.release(&other, &leases);
    scene.pass(12 * SECOND);
    assert_eq!(stored(&scene, &endpoint).paused_until, None);
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
    assert_eq!(scene.flying.len(), 1);
}

#[test]
fn of_an_answer_and_the_end_of_a_pause_the_later_one_counts() {
    // The answer came first, and its settle is on its way.
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Settle];
    scene.end(LONG);
    scene.ask(&endpoint, RequestKind::EndPause);
    scene.pass(2 * SECOND);
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(SECOND);
    assert_eq!(stored(&scene, &endpoint).paused_until, None);
    scene.send(&endpoint);
    assert_eq!(scene.flying.len(), 1);
    // The pause was ended first; the answer comes while that is being written.
    scene.end(LONG);
    scene.pass(SECOND);
    scene.ask(&endpoint, RequestKind::EndPause);
    scene.pass(2 * SECOND);
    scene.send(&endpoint);
    scene.keep = vec![Kind::Upkeep];
    scene.ask(&endpoint, RequestKind::ResetBreaker);
    scene.pass(2 * SECOND);
    scene.end(LONG);
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(SECOND);
    assert!(stored(&scene, &endpoint).paused_until.is_some());
}

#[test]
fn what_is_answered_while_an_end_of_pause_waits_for_settles_pauses_again() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    for _ in 0..3 {
        scene.send(&endpoint);
        scene.end(OK);
    }
    scene.send(&endpoint);
    scene.send(&endpoint);
    assert_eq!(scene.flying.len(), 2);
    scene.keep = vec![Kind::Settle];
    scene.end(LONG);
    scene.ask(&endpoint, RequestKind::EndPause);
    scene.pass(2 * SECOND);
    scene.end(LONG);
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(SECOND);
    assert!(stored(&scene, &endpoint).paused_until.is_some());
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
}
