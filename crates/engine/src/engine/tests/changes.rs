//! Changes of the catalog: what an engine hears of them, and what it does not send meanwhile.

use std::sync::Arc;
use std::time::Duration;

use domain::endpoint::{Reason, State};
use domain::outcome::Outcome;
use store::catalog::{Endpoint, Name};
use store::queue::Call;

use super::scene::{Kind, SECOND, Scene, policies};
use crate::{Effect, Event, Roster, Unanswered};

const DELIVERED: Outcome = Outcome::Answered { status: 200, retry_after: None };

/// Ends an attempt by 410 after its endpoint was changed, and returns the endpoint's state.
fn gone_after(change: impl Fn(&mut Scene, &Endpoint), heard: bool) -> State {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Disable];
    if heard {
        change(&mut scene, &endpoint);
        scene.pass(2 * SECOND);
        scene.end(Outcome::answered(410));
    } else {
        scene.end(Outcome::answered(410));
        change(&mut scene, &endpoint);
    }
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(2 * SECOND);
    let found = scene.store.endpoint(endpoint.application, &Name::Id(endpoint.id)).unwrap();
    if found.state == State::Active {
        scene.send(&endpoint);
        assert_eq!(scene.flying_to(endpoint.key), 1, "it is sent to");
    }
    found.state
}

#[test]
fn an_attempt_disables_only_what_it_was_made_with() {
    for heard in [true, false] {
        let moved = |scene: &mut Scene, endpoint: &Endpoint| {
            scene.change(endpoint, |row| row.confidential.path_and_query = "/new".to_owned());
        };
        assert_eq!(gone_after(moved, heard), State::Active, "heard: {heard}");
        let enabled = |scene: &mut Scene, endpoint: &Endpoint| {
            scene.set_state(endpoint, State::Disabled(Reason::ByPerson));
            scene.set_state(endpoint, State::Active);
        };
        assert_eq!(gone_after(enabled, heard), State::Active, "heard: {heard}");
        let described = |scene: &mut Scene, endpoint: &Endpoint| {
            scene.change(endpoint, |row| row.settings.description = "busy".to_owned());
        };
        assert_eq!(gone_after(described, heard), State::Disabled(Reason::Gone), "heard: {heard}");
    }
}

fn set_rate(scene: &mut Scene, endpoint: &Endpoint, rate: u32) {
    scene.change(endpoint, move |row| row.settings.rate = Some(rate));
}

/// Returns the rate that the attempt in flight began with, and ends it.
fn rate_in_flight(scene: &mut Scene) -> u64 {
    u64::from(scene.end(DELIVERED).member.rate().get())
}

#[test]
fn what_was_changed_counts_within_a_second_whatever_calls_are_lost() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(DELIVERED);
    set_rate(&mut scene, &endpoint, 7);
    scene.pass(SECOND);
    scene.send(&endpoint);
    assert_eq!(rate_in_flight(&mut scene), 7);
}

#[test]
fn what_was_changed_counts_at_once_after_a_call() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(DELIVERED);
    set_rate(&mut scene, &endpoint, 7);
    scene.pass(Duration::from_millis(50));
    scene.tell(Event::Woken(Call::Changed));
    scene.send(&endpoint);
    assert_eq!(rate_in_flight(&mut scene), 7);
}

#[test]
fn nothing_is_sent_by_a_roster_that_is_known_to_be_outdated() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(DELIVERED);
    set_rate(&mut scene, &endpoint, 7);
    scene.keep = vec![Kind::Roster];
    scene.pass(SECOND);
    scene.send(&endpoint);
    assert!(scene.flying.is_empty());
    scene.answer_kept();
    assert_eq!(rate_in_flight(&mut scene), 7);
}

#[test]
fn nothing_is_sent_two_seconds_after_changes_were_last_heard_of() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(DELIVERED);
    scene.keep = vec![Kind::Changes];
    scene.pass(Duration::from_millis(1_900));
    scene.send(&endpoint);
    scene.end(DELIVERED);
    scene.pass(Duration::from_millis(200));
    scene.send(&endpoint);
    assert!(scene.flying.is_empty(), "a change may not have been heard of");
    scene.answer_kept();
    assert_eq!(scene.flying.len(), 1);
}

#[test]
fn a_question_that_is_not_answered_is_asked_again_soon() {
    let mut scene = Scene::new();
    scene.keep = vec![Kind::Changes];
    scene.pass(SECOND);
    assert!(matches!(scene.kept.make_contiguous(), [Effect::ReadChanges { .. }]));
    scene.kept.clear();
    scene.tell(Event::Changes(Err(Unanswered)));
    assert!(scene.kept.is_empty(), "not at once");
    scene.pass(Duration::from_millis(250));
    assert_eq!(scene.kept.len(), 1);
}

#[test]
fn many_calls_are_one_question() {
    let mut scene = Scene::new();
    let asked = scene.count("changes");
    for _ in 0..1_000 {
        scene.tell(Event::Woken(Call::Changed));
        scene.pass(Duration::from_micros(10));
    }
    scene.pass(Duration::from_millis(100));
    let asked = scene.count("changes") - asked;
    assert!((1..=2).contains(&asked), "{asked}");
}

#[test]
fn a_change_is_confirmed_as_soon_as_nothing_is_sent_by_what_it_replaced() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.pass(10 * SECOND);
    scene.confirmed.clear();
    scene.pass(10 * SECOND);
    assert_eq!(scene.confirmed, [], "there is nothing that anybody waits for");
    scene.send(&endpoint);
    scene.end(DELIVERED);
    set_rate(&mut scene, &endpoint, 7);
    let changed_at = scene.now.rows;
    scene.keep = vec![Kind::Roster];
    scene.pass(SECOND);
    let [confirmed] = scene.confirmed[..] else { panic!("{:?}", scene.confirmed) };
    assert!(confirmed >= changed_at, "nothing is sent until the roster has come");
}

#[test]
fn who_calls_gets_a_confirmation_of_what_was_changed_before() {
    let mut scene = Scene::new();
    scene.pass(10 * SECOND);
    scene.confirmed.clear();
    let called_at = scene.now.rows;
    scene.tell(Event::Woken(Call::Changed));
    scene.pass(Duration::from_millis(50));
    let [confirmed] = scene.confirmed[..] else { panic!("{:?}", scene.confirmed) };
    assert!(confirmed >= called_at);
}

#[test]
fn an_engine_that_stops_has_confirmed_everything() {
    let mut scene = Scene::new();
    scene.tell(Event::Stop);
    assert_eq!(scene.confirmed.last(), Some(&domain::time::Timestamp::FAR_FUTURE));
}

#[test]
fn an_application_that_changes_all_the_time_is_sent_to_all_the_same() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(DELIVERED);
    scene.keep = vec![Kind::Roster];
    let mut sent = 0;
    for change in 1..200 {
        set_rate(&mut scene, &endpoint, 1_000 + change);
        scene.tell(Event::Woken(Call::Changed));
        scene.pass(Duration::from_millis(100));
        scene.send(&endpoint);
        // Each roster takes longer than it takes until the next change.
        if change % 3 == 0 {
            scene.answer_kept();
        }
        while !scene.flying.is_empty() {
            scene.end(DELIVERED);
            sent += 1;
        }
    }
    assert!(sent > 150, "{sent}");
}

#[test]
fn a_roster_that_was_read_before_a_change_was_heard_of_is_not_believed() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let began = scene.now.elapsed;
    let fan_out = scene.store.fan_out(endpoint.application, scene.now.rows).unwrap();
    let roster = Arc::new(Roster::read(endpoint.application, fan_out, &policies()));
    set_rate(&mut scene, &endpoint, 7);
    scene.pass(SECOND);
    scene.tell(Event::RosterSeen { roster, began });
    scene.send(&endpoint);
    assert_eq!(rate_in_flight(&mut scene), 7);
}

#[test]
fn what_is_pending_for_a_deleted_application_is_not_sent() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.end(DELIVERED);
    scene.store.delete_application(endpoint.application, scene.now.rows).unwrap();
    scene.keep = vec![Kind::Roster];
    scene.pass(SECOND);
    scene.answer_kept();
    assert!(scene.flying.is_empty());
    assert_eq!(scene.engine.rosters.get(endpoint.application), None);
}
