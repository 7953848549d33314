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
    assert!(rosters.seen(APPLICATION, Ok(Some(roster(3)))));
    assert_eq!(rosters.using(APPLICATION, 6 * SECOND).asked_at, Some(Duration::ZERO));
    assert!(rosters.answered(APPLICATION, Ok(Some(roster(3))), 6 * SECOND));
    assert_eq!(rosters.using(APPLICATION, 6 * SECOND).asked_at, Some(5 * SECOND));
    assert!(!rosters.seen(APPLICATION, Ok(Some(roster(3)))), "nothing new");
    // An older one changes nothing, and one that could not be read is asked for.
    rosters.seen(APPLICATION, Ok(Some(roster(2))));
    assert_eq!(rosters.get(APPLICATION).unwrap().version, 3);
    assert!(!rosters.seen(APPLICATION, Err(Unanswered)));
    assert_eq!(asked(&mut rosters, 6 * SECOND), 1);
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
