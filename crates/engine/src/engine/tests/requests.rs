//! Requests of other nodes: acted on once, then consumed.

use domain::breaker::Breaker;
use domain::endpoint::State;
use domain::outcome::Outcome;
use domain::retry_after::RetryAfter;
use domain::time::Timestamp;
use store::catalog::Endpoint;
use store::keys::{MessageKey, Node};
use store::queue::{Batch, Done, PendingDelivery, RequestKind, Running, Trigger, Upkeep};

use super::scene::{Kind, SECOND, Scene};
use crate::{Effect, Event};

const OK: Outcome = Outcome::answered(200);
const FAILED: Outcome = Outcome::answered(500);

#[test]
fn a_delivery_that_a_person_hurries_is_sent_now_and_by_hand() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let message = scene.send(&endpoint);
    scene.end(FAILED);
    scene.ask(&endpoint, RequestKind::RetryNow(message));
    scene.pass(SECOND);
    assert_eq!(scene.flying[0].trigger, Trigger::Manual);
    scene.end(OK);
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
}

#[test]
fn a_hurried_delivery_that_left_memory_is_loaded() {
    let mut scene = Scene::with(|settings| settings.kept_within = SECOND);
    let endpoint = scene.endpoint();
    let message = scene.send(&endpoint);
    scene.end(FAILED);
    scene.ask(&endpoint, RequestKind::RetryNow(message));
    scene.pass(SECOND);
    assert_eq!(scene.flying[0].trigger, Trigger::Manual);
}

#[test]
fn the_first_attempt_of_a_replay_is_made_by_hand() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let delivery = scene.accept(&endpoint);
    scene.hand_over(PendingDelivery { recorded: 3, ..delivery });
    assert_eq!(scene.flying[0].trigger, Trigger::Manual);
}

#[test]
fn a_cancelled_delivery_is_not_sent() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let key = scene.end(FAILED).delivery.key;
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(20 * SECOND);
    assert!(scene.flying.is_empty());
}

#[test]
fn a_cancelled_delivery_is_not_sent_by_a_late_hand_over() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let delivery = scene.accept(&endpoint);
    scene.store.cancel(delivery.key, scene.now.rows).unwrap();
    scene.pass(2 * SECOND);
    scene.hand_over(delivery);
    assert!(scene.flying.is_empty());
}

#[test]
fn a_cancelled_delivery_is_not_sent_by_a_load_that_read_it_before() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let key = scene.accept(&endpoint).key;
    scene.keep = vec![Kind::Load];
    scene.pass(6 * SECOND);
    let load = scene.kept.pop_front().unwrap();
    let read = scene.answer(load);
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(2 * SECOND);
    scene.tell(read);
    assert!(scene.flying.is_empty());
}

#[test]
fn a_delivery_cancelled_in_flight_ends_and_is_recorded() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let key = scene.flying[0].delivery.key;
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(2 * SECOND);
    assert!(scene.aborted.is_empty());
    scene.end(FAILED);
    scene.pass(20 * SECOND);
    assert_eq!((scene.settles.len(), scene.flying.len()), (1, 0));
}

#[test]
fn a_delivery_cancelled_in_flight_is_not_sent_again_if_we_interrupt_it() {
    for panics in [false, true] {
        let mut scene = Scene::new();
        let endpoint = scene.endpoint();
        scene.send(&endpoint);
        let key = scene.flying[0].delivery.key;
        scene.store.cancel(key, scene.now.rows).unwrap();
        scene.pass(2 * SECOND);
        if panics {
            scene.panic();
        } else {
            scene.end(Outcome::Interrupted);
        }
        scene.pass(20 * SECOND);
        assert!(scene.flying.is_empty() && scene.settles.is_empty());
    }
}

#[test]
fn a_cancel_is_remembered_however_many_came_before_it() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let key = scene.flying[0].delivery.key;
    let others = (1..).map(|more| MessageKey(key.message.0 + more));
    let mut others = others.map(RequestKind::Cancel);
    for cancel in others.by_ref().take(4_096) {
        scene.ask(&endpoint, cancel);
    }
    scene.pass(10 * SECOND);
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(2 * SECOND);
    scene.ask(&endpoint, others.next().unwrap());
    scene.pass(2 * SECOND);
    scene.end(Outcome::Interrupted);
    scene.pass(20 * SECOND);
    assert!(scene.flying.is_empty() && scene.settles.is_empty());
}

/// Cancels so many other deliveries that none from before is remembered beside what is out.
fn cancel_many(scene: &mut Scene, endpoint: &Endpoint, after: MessageKey) {
    let others = (1..=4_097).map(|more| MessageKey(after.0 + more));
    others.for_each(|other| scene.ask(endpoint, RequestKind::Cancel(other)));
    scene.pass(10 * SECOND);
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
}

#[test]
fn a_cancel_is_remembered_however_many_come_after_it_while_the_delivery_is_out() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let key = scene.flying[0].delivery.key;
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(2 * SECOND);
    cancel_many(&mut scene, &endpoint, key.message);
    scene.end(Outcome::Interrupted);
    scene.pass(20 * SECOND);
    assert!(scene.flying.is_empty() && scene.settles.is_empty());
}

#[test]
fn a_cancel_is_remembered_however_many_come_after_it_until_the_settle_is_answered() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Settle];
    let key = scene.end(FAILED).delivery.key;
    // It is settled first, to wait again, and cancelled before that is answered.
    let settle = scene.kept.pop_front().unwrap();
    let answer = scene.answer(settle);
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(2 * SECOND);
    cancel_many(&mut scene, &endpoint, key.message);
    scene.tell(answer);
    scene.pass(100 * SECOND);
    assert!(scene.flying.is_empty());
}

#[test]
fn what_was_replayed_before_its_cancel_is_read_is_sent_again_if_we_interrupt_it() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let message = scene.send(&endpoint);
    scene.ask(&endpoint, RequestKind::Cancel(message));
    scene.pass(2 * SECOND);
    scene.end(Outcome::Interrupted);
    scene.pass(3 * SECOND);
    assert_eq!(scene.flying.len(), 1, "the store has it");
}

#[test]
fn what_was_replayed_before_its_cancel_is_read_is_buried_as_poison_all_the_same() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let message = scene.send(&endpoint);
    for _ in 0..2 {
        scene.panic();
        scene.pass(3 * SECOND);
    }
    scene.ask(&endpoint, RequestKind::Cancel(message));
    scene.pass(2 * SECOND);
    scene.panic();
    assert!(scene.upkeep.iter().any(|step| matches!(step, Upkeep::Bury(_))));
    assert_eq!(scene.pending(&endpoint), 0);
}

#[test]
fn a_breaker_that_a_person_resets_closes_at_once_and_stays_so_in_the_store() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    trip(&mut scene, &endpoint);
    scene.send(&endpoint);
    scene.pass(SECOND);
    assert!(scene.flying.is_empty());
    scene.ask(&endpoint, RequestKind::ResetBreaker);
    scene.pass(2 * SECOND);
    assert_eq!(scene.flying.len(), 1);
    assert!(scene.upkeep.iter().any(|step| matches!(step, Upkeep::Run { .. })));
}

/// Lets attempts fail until the breaker opens.
fn trip(scene: &mut Scene, endpoint: &Endpoint) {
    for _ in 0..5 {
        scene.send(endpoint);
        scene.end(FAILED);
        scene.pass(SECOND / 10);
    }
}

/// Returns what a restart would begin with.
fn stored(scene: &Scene, endpoint: &Endpoint) -> Running {
    let fan_out = scene.store.fan_out(endpoint.application, scene.now.rows).unwrap();
    fan_out.endpoints[0].running
}

#[test]
fn nothing_starts_before_a_reset_is_written_and_it_goes_on_if_that_is_refused() {
    for refused in [false, true] {
        let mut scene = Scene::new();
        let endpoint = scene.endpoint();
        trip(&mut scene, &endpoint);
        scene.send(&endpoint);
        scene.ask(&endpoint, RequestKind::ResetBreaker);
        scene.keep = vec![Kind::Upkeep];
        scene.pass(3 * SECOND);
        assert!(scene.flying.is_empty(), "what it changes could be overwritten");
        scene.keep.clear();
        while let Some(effect) = scene.kept.pop_front() {
            let answer =
                if refused && let Effect::Upkeep { step, upkeep: Upkeep::Run { .. } } = effect {
                    Event::Upkept { step, answer: Done::Refused("no".to_owned()) }
                } else {
                    scene.answer(effect)
                };
            scene.tell(answer);
        }
        scene.pass(SECOND / 10);
        assert_eq!(scene.flying.len(), 1, "refused: {refused}");
        let paused = Outcome::Answered { status: 429, retry_after: Some(RetryAfter::Seconds(60)) };
        scene.end(paused);
        assert!(stored(&scene, &endpoint).paused_until.is_some());
    }
}

#[test]
fn what_an_attempt_changes_while_a_reset_is_written_is_written_after_it() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.ask(&endpoint, RequestKind::ResetBreaker);
    scene.keep = vec![Kind::Upkeep];
    scene.pass(2 * SECOND);
    scene.end(Outcome::Answered { status: 429, retry_after: Some(RetryAfter::Seconds(60)) });
    scene.answer_kept();
    assert!(stored(&scene, &endpoint).paused_until.is_some());
    let runs = scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Run { .. })).count();
    assert_eq!(runs, 2);
}

#[test]
fn a_reset_is_written_after_the_settles_that_were_on_their_way() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.keep = vec![Kind::Settle];
    trip(&mut scene, &endpoint);
    scene.ask(&endpoint, RequestKind::ResetBreaker);
    scene.pass(2 * SECOND);
    assert!(!scene.upkeep.iter().any(|step| matches!(step, Upkeep::Run { .. })));
    scene.answer_kept();
    assert_eq!(stored(&scene, &endpoint).breaker, Breaker::default());
}

#[test]
fn a_breaker_is_reset_although_nothing_is_known_of_the_endpoint() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.ask(&endpoint, RequestKind::ResetBreaker);
    scene.pass(2 * SECOND);
    let runs = scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Run { .. })).count();
    assert_eq!(runs, 1);
}

/// Has an open breaker in the store that memory knows nothing of, and a reset that waits for the
/// roster.
fn reset_without_roster(scene: &mut Scene) -> Endpoint {
    let endpoint = scene.endpoint();
    let lease = scene.lease(&endpoint).unwrap();
    let breaker = Breaker::Open { until: Timestamp::FAR_FUTURE, cooldown: SECOND };
    let running = Running { breaker, ..Running::default() };
    let application = endpoint.application;
    let run = Upkeep::Run { lease, application, endpoint: endpoint.key, running };
    scene.store.commit(Batch { upkeep: vec![run], ..Batch::default() });
    assert_eq!(stored(scene, &endpoint).breaker, breaker);
    scene.ask(&endpoint, RequestKind::ResetBreaker);
    scene.keep = vec![Kind::Roster];
    scene.pass(5 * SECOND);
    assert_eq!(scene.kept.len(), 1, "it is read again, and done once");
    endpoint
}

/// Counts the steps that wrote a running state, and those that removed requests.
fn written_and_removed(scene: &Scene) -> (usize, usize) {
    let runs = scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Run { .. })).count();
    let removals = scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Consume { .. }));
    (runs, removals.count())
}

#[test]
fn a_reset_is_consumed_only_when_it_is_written() {
    let mut scene = Scene::new();
    let endpoint = reset_without_roster(&mut scene);
    assert_eq!(written_and_removed(&scene), (0, 0));
    assert_eq!(scene.store.requests(&[endpoint.partition]).len(), 1);
    scene.keep.clear();
    scene.answer_kept();
    assert_eq!(stored(&scene, &endpoint).breaker, Breaker::default());
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
    scene.pass(5 * SECOND);
    assert_eq!(written_and_removed(&scene), (1, 1));
}

#[test]
fn a_reset_that_the_loss_of_a_partition_cut_short_is_done_when_it_is_taken_again() {
    let mut scene = Scene::new();
    let endpoint = reset_without_roster(&mut scene);
    let other = Node("b".into());
    scene.jump(11 * SECOND);
    scene.store.renew(other.clone(), scene.now.rows);
    let leases = scene.store.take(&other, 64, scene.now.rows);
    assert!(!leases.is_empty());
    scene.store.release(&other, &leases);
    scene.pass(12 * SECOND);
    assert!(scene.lease(&endpoint).is_some());
    assert_eq!(written_and_removed(&scene), (0, 0));
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(2 * SECOND);
    assert_eq!(stored(&scene, &endpoint).breaker, Breaker::default());
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
    assert_eq!(written_and_removed(&scene), (1, 1));
}

#[test]
fn a_reset_that_was_not_written_is_left_to_the_next_owner() {
    let mut scene = Scene::new();
    let endpoint = reset_without_roster(&mut scene);
    scene.tell(Event::Stop);
    assert!(scene.stopped);
    assert_eq!(scene.store.requests(&[endpoint.partition]).len(), 1);
}

#[test]
fn a_reset_that_is_written_while_its_node_stops_is_not_left_to_the_next_owner() {
    let mut scene = Scene::new();
    let endpoint = reset_without_roster(&mut scene);
    scene.keep = vec![Kind::Upkeep];
    let roster = scene.kept.pop_front().unwrap();
    let answer = scene.answer(roster);
    scene.tell(answer);
    scene.tell(Event::Stop);
    assert!(!scene.stopped, "the reset is on its way");
    scene.keep.clear();
    scene.answer_kept();
    assert!(scene.stopped);
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
}

#[test]
fn a_reset_of_an_endpoint_that_is_gone_is_consumed() {
    let mut scene = Scene::new();
    let endpoint = reset_without_roster(&mut scene);
    scene.store.delete_endpoint(endpoint.application, endpoint.key, scene.now.rows).unwrap();
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(3 * SECOND);
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
    let rosters = scene.count("rosters");
    scene.pass(10 * SECOND);
    assert_eq!((scene.count("rosters"), written_and_removed(&scene).0), (rosters, 0));
}

#[test]
fn a_paused_endpoint_waits_until_it_is_resumed() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(OK);
    scene.set_state(&endpoint, State::Paused);
    scene.ask(&endpoint, RequestKind::Refresh);
    scene.pass(2 * SECOND);
    scene.send(&endpoint);
    scene.pass(100 * SECOND);
    assert!(scene.flying.is_empty());
    scene.set_state(&endpoint, State::Active);
    scene.ask(&endpoint, RequestKind::Refresh);
    scene.pass(2 * SECOND);
    assert_eq!(scene.flying.len(), 1);
}

#[test]
fn a_request_that_is_read_twice_is_acted_on_once() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.ask(&endpoint, RequestKind::ResetBreaker);
    // It is read again and again while its removal has not been answered.
    scene.keep = vec![Kind::Upkeep];
    scene.pass(3 * SECOND);
    // And once more by a reading that saw it, but is answered after the removal.
    scene.keep = vec![Kind::Upkeep, Kind::Requests];
    scene.pass(2 * SECOND);
    let is_reading = |effect: &Effect| matches!(effect, Effect::ReadRequests(_));
    let place = scene.kept.iter().position(is_reading).expect("it is read every second");
    let reading = scene.kept.remove(place).unwrap();
    let stale = scene.answer(reading);
    let Event::Requests(Ok(seen)) = &stale else { panic!("{stale:?}") };
    assert_eq!(seen.len(), 1, "the removal has not taken effect");
    scene.answer_kept();
    scene.tell(stale);
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(5 * SECOND);
    let runs = scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Run { .. })).count();
    let removals = scene.upkeep.iter().filter(|step| matches!(step, Upkeep::Consume { .. }));
    assert_eq!((runs, removals.count()), (1, 1));
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
}

#[test]
fn the_last_of_three_thousand_requests_is_acted_on_within_two_seconds() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let key = scene.end(FAILED).delivery.key;
    for _ in 1..3_000 {
        scene.ask(&endpoint, RequestKind::Refresh);
    }
    scene.store.cancel(key, scene.now.rows).unwrap();
    scene.pass(2 * SECOND - SECOND / 1_000);
    assert!(scene.engine.requests.was_cancelled(&key));
    assert_eq!(scene.count("requests at once"), store::limits::REQUESTS);
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
}

#[test]
fn requests_that_cannot_be_removed_are_not_read_without_end() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    for _ in 0..2 * store::limits::REQUESTS {
        scene.ask(&endpoint, RequestKind::Refresh);
    }
    scene.keep = vec![Kind::Upkeep];
    scene.pass(5 * SECOND);
    let kept = scene.kept.iter().filter(|effect| matches!(effect, Effect::Upkeep { .. }));
    assert_eq!(kept.count(), 1);
    scene.keep.clear();
    scene.answer_kept();
    assert!(scene.store.requests(&[endpoint.partition]).is_empty());
}
