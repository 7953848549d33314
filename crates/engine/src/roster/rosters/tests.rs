use domain::index::Index;

use super::*;

const APPLICATION: ApplicationKey = ApplicationKey(1);
const SECOND: Duration = Duration::from_secs(1);

/// A roster of this version; the revision tells nothing here.
fn roster(version: i64) -> Arc<Roster> {
    let (application, revision) = (APPLICATION, 1);
    let (members, index) = (vec![], Index::default());
    Arc::new(Roster { application, revision, version, policy: None, members, index, bytes: 1_000 })
}

fn asked(rosters: &mut Rosters, now: Duration) -> usize {
    let mut effects = Vec::new();
    rosters.ask(now, &mut effects);
    effects.len()
}

#[test]
fn a_roster_is_asked_for_once() {
    let mut rosters = Rosters::default();
    rosters.want(APPLICATION);
    rosters.want(APPLICATION);
    assert_eq!(asked(&mut rosters, SECOND), 1);
    rosters.want(APPLICATION);
    assert_eq!(asked(&mut rosters, SECOND), 0);
}

#[test]
fn what_changed_while_it_was_read_is_read_again() {
    let mut rosters = Rosters::default();
    rosters.want(APPLICATION);
    asked(&mut rosters, SECOND);
    rosters.refresh(APPLICATION);
    assert!(rosters.answered(APPLICATION, Ok(Some(roster(1))), 2 * SECOND));
    assert_eq!(asked(&mut rosters, 2 * SECOND), 1);
}

#[test]
fn an_older_version_is_ignored() {
    let mut rosters = Rosters::default();
    rosters.answered(APPLICATION, Ok(Some(roster(7))), SECOND);
    rosters.answered(APPLICATION, Ok(Some(roster(6))), SECOND);
    assert_eq!(rosters.get(APPLICATION).unwrap().version, 7);
}

#[test]
fn what_was_seen_unasked_answers_no_question() {
    let mut rosters = Rosters::default();
    rosters.want(APPLICATION);
    assert_eq!(asked(&mut rosters, 5 * SECOND), 1);
    // It was read before a take-over, say.
    assert!(rosters.seen(roster(3), SECOND, Some(4 * SECOND)));
    assert_eq!(rosters.using(APPLICATION, 6 * SECOND).asked_at, Some(Duration::ZERO));
    assert!(rosters.answered(APPLICATION, Ok(Some(roster(3))), 6 * SECOND));
    assert_eq!(rosters.using(APPLICATION, 6 * SECOND).asked_at, Some(5 * SECOND));
    assert!(!rosters.seen(roster(3), SECOND, None), "nothing new");
    assert!(!rosters.seen(roster(2), SECOND, None), "an older one");
    assert_eq!(rosters.get(APPLICATION).unwrap().version, 3);
}

#[test]
fn what_was_seen_of_an_unknown_application_is_no_older_than_what_was_heard() {
    let mut rosters = Rosters::default();
    assert!(!rosters.seen(roster(3), SECOND, Some(2 * SECOND)), "a change may be missing in it");
    assert_eq!(asked(&mut rosters, 3 * SECOND), 1);
    assert!(rosters.answered(APPLICATION, Ok(Some(roster(4))), 3 * SECOND));
    let mut rosters = Rosters::default();
    assert!(!rosters.seen(roster(3), SECOND, None), "nothing was heard yet");
    let mut rosters = Rosters::default();
    assert!(rosters.seen(roster(3), 2 * SECOND, Some(2 * SECOND)));
}

#[test]
fn a_roster_is_outdated_from_the_change_on_until_it_is_read_again() {
    let mut rosters = Rosters::default();
    rosters.changed(APPLICATION, 9);
    assert!(rosters.entries.is_empty(), "nothing is known that could be outdated");
    rosters.answered(APPLICATION, Ok(Some(roster(1))), SECOND);
    rosters.changed(APPLICATION, 1);
    assert!(!rosters.using(APPLICATION, SECOND).is_outdated());
    rosters.changed(APPLICATION, 2);
    assert!(rosters.using(APPLICATION, SECOND).is_outdated());
    assert_eq!(asked(&mut rosters, SECOND), 1);
    assert!(rosters.answered(APPLICATION, Ok(Some(roster(2))), SECOND));
    assert!(!rosters.using(APPLICATION, SECOND).is_outdated());
    // An answer that was read before the change is none.
    rosters.changed(APPLICATION, 3);
    asked(&mut rosters, SECOND);
    rosters.answered(APPLICATION, Ok(Some(roster(2))), SECOND);
    assert!(rosters.using(APPLICATION, SECOND).is_outdated());
    assert_eq!(asked(&mut rosters, SECOND), 1, "so it is asked for again");
}

#[test]
fn what_changes_faster_than_it_is_read_has_a_current_roster_for_a_step_at_a_time() {
    let mut rosters = Rosters::default();
    rosters.answered(APPLICATION, Ok(Some(roster(1))), SECOND);
    for version in 2..10 {
        rosters.changed(APPLICATION, version);
        assert!(rosters.using(APPLICATION, SECOND).is_outdated());
        asked(&mut rosters, SECOND);
        rosters.changed(APPLICATION, version + 1);
        assert!(rosters.is_any_overtaken());
        rosters.answered(APPLICATION, Ok(Some(roster(version))), SECOND);
        assert!(!rosters.using(APPLICATION, SECOND).is_outdated(), "for this step");
        assert_eq!(rosters.using(APPLICATION, SECOND).is_overtaken(), Some(SECOND));
        rosters.catch_up();
        assert!(rosters.using(APPLICATION, SECOND).is_outdated());
        assert!(!rosters.is_any_overtaken());
    }
    // What was heard of meanwhile may be in the answer.
    asked(&mut rosters, SECOND);
    rosters.changed(APPLICATION, 11);
    rosters.answered(APPLICATION, Ok(Some(roster(11))), SECOND);
    rosters.catch_up();
    assert!(!rosters.using(APPLICATION, SECOND).is_outdated());
}

#[test]
fn a_question_without_an_answer_is_asked_again_after_a_pause() {
    let mut rosters = Rosters::default();
    rosters.want(APPLICATION);
    asked(&mut rosters, SECOND);
    assert!(!rosters.answered(APPLICATION, Err(Unanswered), SECOND));
    assert_eq!(asked(&mut rosters, SECOND), 0);
    assert_eq!(rosters.next(), Some(SECOND + AGAIN_AFTER));
    assert_eq!(asked(&mut rosters, SECOND + AGAIN_AFTER), 1);
}

#[test]
fn what_nobody_needs_goes_when_there_are_too_many() {
    let mut rosters = Rosters::default();
    for number in 0..10_u32 {
        let application = ApplicationKey(number.into());
        rosters.using(application, SECOND * number);
        rosters.answered(application, Ok(Some(roster(1))), SECOND);
    }
    rosters.prune(5 * (1_000 + size_of::<Entry>() as u64), |application| {
        application == ApplicationKey(0)
    });
    assert!(rosters.get(ApplicationKey(0)).is_some());
    assert!(rosters.get(ApplicationKey(1)).is_none());
    assert_eq!(rosters.entries.len(), 5);
}
