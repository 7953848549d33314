//! Leases: who owns what, and what happens when that ends.

use std::time::Duration;

use domain::dice::Dice;
use domain::outcome::Outcome;
use domain::partition::PARTITIONS;
use store::keys::Node;
use store::queue::{AttemptRecord, Call, Phases, Renewal};

use super::scene::{Kind, SECOND, Scene, node};
use crate::protocol::event::Unanswered;
use crate::{Announcement, Effect, End, Event};

const OK: Outcome = Outcome::answered(200);

fn steal(scene: &mut Scene) {
    let other = Node("b".into());
    scene.store.renew(other.clone(), scene.now.rows);
    assert!(!scene.store.take(&other, 64, scene.now.rows).is_empty());
}

#[test]
fn a_node_alone_takes_everything_and_says_so() {
    let scene = Scene::new();
    let took = |one: &Announcement| {
        let Announcement::Took(partitions) = one else { return 0 };
        partitions.len()
    };
    assert_eq!(scene.announced.iter().map(took).sum::<usize>(), usize::from(PARTITIONS));
}

#[test]
fn after_seven_seconds_without_renewal_everything_in_flight_is_aborted() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Renew];
    scene.pass(8 * SECOND);
    assert_eq!(scene.aborted, [scene.flying[0].attempt]);
    scene.end(Outcome::Interrupted);
    scene.send(&endpoint);
    assert!(scene.flying.is_empty());
    // Regained under the same epoch, memory still counts.
    scene.keep.clear();
    scene.kept.clear();
    let renewed = scene.answer(Effect::Renew);
    scene.tell(renewed);
    assert_eq!(scene.flying.len(), 1);
    assert_eq!(scene.count("loads"), 0);
}

#[test]
fn a_renewal_counts_from_before_it_was_asked_for() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.keep = vec![Kind::Renew];
    scene.pass(3 * SECOND);
    let renew = scene.kept.pop_front().unwrap();
    let late = scene.answer(renew);
    scene.kept.clear();
    scene.jump(8 * SECOND);
    scene.tell(late);
    scene.send(&endpoint);
    assert!(scene.flying.is_empty());
}

#[test]
fn what_another_node_has_taken_is_forgotten_and_its_attempts_are_aborted() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Renew];
    scene.pass(11 * SECOND);
    steal(&mut scene);
    scene.keep.clear();
    scene.kept.clear();
    let asked_at = scene.now.elapsed;
    scene.tell(Event::Renewed { asked_at, answer: Err(Unanswered) });
    scene.pass(3 * SECOND);
    assert!(scene.announced.iter().any(|one| matches!(one, Announcement::Lost(_))));
    assert!(scene.lease(&endpoint).is_none() && scene.engine.endpoints.is_empty());
    // Its outcome is nobody's business any more.
    scene.end(OK);
    assert!(scene.settles.is_empty());
    assert!(scene.engine.attempts.is_empty() && scene.engine.strays.is_empty());
}

#[test]
fn an_attempt_that_outlives_two_leases_is_counted_once() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    let old = scene.flying.remove(0);
    let other = Node("b".into());
    for _ in 0..2 {
        scene.jump(11 * SECOND);
        scene.store.renew(other.clone(), scene.now.rows);
        let leases = scene.store.take(&other, 64, scene.now.rows);
        assert!(!leases.is_empty());
        scene.store.release(&other, &leases);
        scene.pass(12 * SECOND);
        assert!(scene.lease(&endpoint).is_some());
    }
    let at = (endpoint.application, endpoint.key);
    assert_eq!(scene.engine.strays.get(&at), Some(&1));
    scene.end_of(&old, Outcome::Interrupted);
    assert!(scene.engine.strays.is_empty());
    scene.pass(SECOND);
    assert_eq!(scene.flying.len(), 1);
}

#[test]
fn a_fenced_settle_drops_the_partition_and_an_older_one_does_not() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Renew];
    scene.jump(10 * SECOND);
    // Frozen for so long that another node has taken over and given back.
    let other = Node("b".into());
    scene.store.renew(other.clone(), scene.now.rows);
    let leases = scene.store.take(&other, 64, scene.now.rows);
    scene.store.release(&other, &leases);
    let before = scene.lease(&endpoint);
    scene.end(OK);
    assert_eq!(scene.lease(&endpoint), None);
    scene.keep.clear();
    scene.kept.clear();
    scene.pass(11 * SECOND);
    let after = scene.lease(&endpoint);
    assert!(after.is_some() && after > before);
    assert_eq!(scene.flying.len(), 1, "it was not settled, so it is sent again");
    scene.end(OK);
    assert_eq!((scene.lease(&endpoint), scene.pending(&endpoint)), (after, 0));
}

#[test]
fn more_than_the_share_is_drained_and_given_back() {
    let mut scene = Scene::new();
    let endpoints: Vec<_> = (0..20).map(|_| scene.endpoint()).collect();
    for endpoint in &endpoints {
        scene.send(endpoint);
    }
    scene.store.renew(Node("b".into()), scene.now.rows);
    scene.pass(3 * SECOND);
    assert_eq!(scene.engine.leases.staying().len(), 32);
    let leaving = |scene: &Scene, one: &store::catalog::Endpoint| {
        scene.engine.leases.get(one.partition).is_some_and(|held| held.leaving)
    };
    let busy = endpoints.iter().filter(|one| leaving(&scene, one)).count();
    assert!(busy > 0, "partitions with attempts in flight wait");
    let aborted = scene.aborted.len();
    while !scene.flying.is_empty() {
        scene.end(OK);
    }
    assert_eq!((aborted, scene.settles.len()), (0, 20));
    assert!(!scene.engine.leases.any_leaving());
    let free = scene.store.take(&Node("b".into()), 64, scene.now.rows);
    assert_eq!(free.len(), 32);
}

#[test]
fn what_a_dead_node_had_is_taken_as_soon_as_its_lease_has_ended() {
    // Whenever it dies in the rhythm of this one.
    for early in [0, 1, 700, 1_300, 1_999] {
        let mut scene = Scene::before_start(|_| {});
        let other = Node("b".into());
        scene.store.renew(other.clone(), scene.now.rows);
        assert_eq!(scene.store.take(&other, 64, scene.now.rows).len(), 64);
        let ends = scene.now.elapsed + store::limits::LEASE;
        scene.jump(Duration::from_millis(early));
        scene.start();
        let renewed = |scene: &Scene| scene.count("renewals");
        scene.pass(ends - scene.now.elapsed - Duration::from_millis(1));
        assert_eq!((renewed(&scene), scene.engine.leases.staying().len()), (5, 0), "{early}");
        scene.pass(SECOND / 10);
        assert_eq!(scene.engine.leases.staying().len(), usize::from(PARTITIONS), "{early}");
    }
}

#[test]
fn a_node_that_lives_is_not_looked_after_more_often() {
    let mut scene = Scene::new();
    let before = scene.count("renewals");
    for _ in 0..10 {
        scene.store.renew(Node("b".into()), scene.now.rows);
        scene.pass(2 * SECOND);
    }
    assert_eq!(scene.count("renewals") - before, 10);
}

#[test]
fn a_take_without_an_answer_is_found_by_the_next_renewal() {
    let mut scene = Scene::before_start(|_| {});
    scene.keep = vec![Kind::Take];
    scene.start();
    let take = scene.kept.pop_front().unwrap();
    scene.answer(take);
    scene.keep.clear();
    scene.tell(Event::Taken(Err(Unanswered)));
    scene.pass(3 * SECOND);
    assert_eq!(scene.engine.leases.staying().len(), 64);
}

#[test]
fn a_new_owner_begins_with_the_persisted_breaker() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    for _ in 0..5 {
        scene.send(&endpoint);
        scene.end(Outcome::answered(500));
        scene.pass(SECOND / 10);
    }
    let mut next = Scene::before_start(|_| {});
    next.store = scene.store.clone();
    next.now = scene.now;
    next.jump(11 * SECOND);
    next.start();
    next.pass(60 * SECOND);
    assert!(next.flying.is_empty());
    next.pass(240 * SECOND);
    assert_eq!(next.flying.len(), 1, "the probe");
}

#[test]
fn stopping_lets_attempts_end_settles_them_and_gives_everything_back() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.send(&endpoint);
    scene.tell(Event::Stop);
    assert!(!scene.stopped && scene.aborted.is_empty());
    scene.end(OK);
    assert!(scene.stopped && scene.flying.is_empty());
    assert_eq!(scene.store.renew(Node("b".into()), scene.now.rows).others, 0);
    let free = scene.store.take(&Node("b".into()), 64, scene.now.rows);
    assert_eq!(free.len(), 64);
}

#[test]
fn a_partition_is_kept_for_a_second_after_what_may_have_arrived_late() {
    let (soon, late) = (Some(SECOND / 200), Some(SECOND / 2));
    let reused = Some(false);
    let fresh = Phases { connect: soon, first_byte: late, reused, ..Phases::default() };
    let table = [
        (fresh, true),
        (Phases { first_byte: None, ..fresh }, true),
        (Phases { first_byte: soon, ..fresh }, false),
        (Phases { tls: soon, ..fresh }, false),
        (Phases { connect: None, reused: Some(true), ..fresh }, false),
        // Nothing was sent to where nobody could connect to.
        (Phases { first_byte: None, reused: None, ..fresh }, false),
    ];
    for ((phases, late), others) in table.into_iter().zip([1; 6]).chain([((fresh, true), 0)]) {
        // Where nobody else is, nobody could send too early.
        let stays = late && others > 0;
        let mut scene = Scene::before_start(|_| {});
        if others > 0 {
            scene.store.renew(Node("b".into()), scene.now.rows);
        }
        scene.start();
        let mut endpoint = scene.endpoint();
        while scene.lease(&endpoint).is_none() {
            endpoint = scene.endpoint();
        }
        scene.send(&endpoint);
        scene.tell(Event::Stop);
        let sending = scene.flying.remove(0);
        let record = AttemptRecord { phases, ..scene.record(&sending, OK) };
        let end = End::Recorded(Box::new(record));
        scene.tell(Event::Ended { attempt: sending.attempt, end, dice: Dice::thrown(0) });
        assert_eq!(scene.lease(&endpoint).is_some(), stays, "{phases:?}");
        assert_eq!(scene.stopped, !stays, "{phases:?}");
        scene.pass(SECOND);
        assert!(scene.stopped && scene.lease(&endpoint).is_none(), "{phases:?}");
    }
}

#[test]
fn a_node_that_has_given_everything_back_does_not_renew() {
    let mut scene = Scene::new();
    scene.keep = vec![Kind::Release, Kind::Renew];
    scene.tell(Event::Stop);
    scene.pass(5 * SECOND);
    assert!(matches!(scene.kept.make_contiguous(), [Effect::Release(_)]));
    scene.answer_kept();
    assert!(scene.stopped);
}

#[test]
fn what_another_node_gives_back_is_taken_at_once() {
    let mut scene = Scene::before_start(|_| {});
    let (other, rows) = (Node("b".into()), scene.now.rows);
    scene.store.renew(other.clone(), rows);
    let leases = scene.store.take(&other, 64, rows);
    scene.start();
    let endpoint = scene.endpoint();
    assert!(scene.lease(&endpoint).is_none());
    scene.store.release(&other, &leases);
    scene.tell(Event::Woken(Call::Free));
    assert!(scene.lease(&endpoint).is_some());
}

/// Another node with a half of everything gives back all but one of it, and goes on renewing.
fn another_hangs(scene: &mut Scene) -> Node {
    let (other, rows) = (Node("b".into()), scene.now.rows);
    scene.store.renew(other.clone(), rows);
    let leases = scene.store.take(&other, 32, rows);
    scene.start();
    assert_eq!(scene.engine.leases.staying().len(), 32);
    // One by one, and each time it calls.
    for lease in &leases[1..] {
        scene.store.release(&other, &[*lease]);
        scene.tell(Event::Woken(Call::Free));
    }
    other
}

#[test]
fn what_a_node_that_hangs_while_it_stops_gave_back_is_taken_and_kept() {
    let mut scene = Scene::before_start(|_| {});
    let other = another_hangs(&mut scene);
    assert_eq!(scene.engine.leases.staying().len(), 32, "somebody may want them");
    for _ in 0..10 {
        scene.store.renew(other.clone(), scene.now.rows);
        scene.pass(2 * SECOND);
        assert_eq!(scene.engine.leases.staying().len(), 63);
    }
    let announced = |one: &Announcement| matches!(one, Announcement::Lost(_));
    assert!(!scene.announced.iter().any(announced));
}

#[test]
fn what_nobody_took_is_shared_again_when_somebody_comes() {
    let mut scene = Scene::before_start(|_| {});
    let other = another_hangs(&mut scene);
    scene.store.renew(other.clone(), scene.now.rows);
    scene.pass(2 * SECOND);
    assert_eq!(scene.engine.leases.staying().len(), 63);
    scene.store.renew(other, scene.now.rows);
    scene.store.renew(Node("c".into()), scene.now.rows);
    scene.pass(2 * SECOND);
    assert_eq!(scene.engine.leases.staying().len(), 22);
}

#[test]
fn what_a_node_gives_to_others_it_does_not_take_back_at_once() {
    let mut scene = Scene::new();
    // It is there, and slow to take what it gets.
    for _ in 0..4 {
        scene.store.renew(Node("b".into()), scene.now.rows);
        scene.pass(2 * SECOND);
        assert_eq!(scene.engine.leases.staying().len(), 32);
    }
    assert_eq!(scene.store.take(&Node("b".into()), 64, scene.now.rows).len(), 32);
}

#[test]
fn stopping_waits_until_an_endpoint_is_disabled_that_was_announced() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.tell(Event::Stop);
    scene.keep = vec![Kind::Disable];
    scene.end(Outcome::answered(410));
    scene.pass(SECOND);
    assert!(!scene.stopped, "nobody else would do it");
    scene.keep.clear();
    scene.answer_kept();
    assert!(scene.stopped);
}

#[test]
fn stopping_gives_nothing_back_that_is_still_being_settled() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    let lease = scene.lease(&endpoint).unwrap();
    scene.send(&endpoint);
    scene.keep = vec![Kind::Settle, Kind::Renew, Kind::Release];
    scene.end(OK);
    // A renewal knows nothing of it, so it is forgotten, and the next one brings it up again.
    let renewal = scene.store.renew(node(), scene.now.rows);
    let (own, others) = renewal.owned.iter().partition(|one| **one == lease);
    let early = Renewal { owned: others, ..renewal.clone() };
    let later = Renewal { owned: own, ..renewal };
    scene.pass(SECOND / 100);
    scene.tell(Event::Renewed { asked_at: scene.now.elapsed, answer: Ok(early) });
    scene.tell(Event::Stop);
    let is_release = |effect: &Effect| matches!(effect, Effect::Release(_));
    let place = scene.kept.iter().position(is_release).expect("the others go at once");
    let release = scene.kept.remove(place).unwrap();
    let answer = scene.answer(release);
    scene.tell(answer);
    scene.pass(SECOND / 100);
    scene.tell(Event::Renewed { asked_at: scene.now.elapsed, answer: Ok(later) });
    scene.pass(SECOND);
    assert!(!scene.stopped && !scene.kept.iter().any(is_release), "its settle would be refused");
    scene.keep.clear();
    scene.answer_kept();
    scene.pass(SECOND);
    assert!(scene.stopped);
    assert_eq!(scene.store.take(&Node("b".into()), 64, scene.now.rows).len(), 64);
}

#[test]
fn stopping_now_aborts_first() {
    let mut scene = Scene::new();
    let endpoint = scene.endpoint();
    scene.send(&endpoint);
    scene.tell(Event::Stop);
    scene.tell(Event::StopNow);
    assert_eq!(scene.aborted, [scene.flying[0].attempt]);
    scene.end(Outcome::Interrupted);
    assert!(scene.stopped);
    assert_eq!(scene.pending(&endpoint), 1);
}

#[test]
fn what_the_store_does_not_take_back_is_given_back_again_and_again() {
    let mut scene = Scene::new();
    scene.keep = vec![Kind::Release];
    scene.tell(Event::Stop);
    for _ in 0..20 {
        assert!(matches!(scene.kept.make_contiguous(), [Effect::Release(_)]));
        scene.kept.clear();
        scene.tell(Event::Released(Err(Unanswered)));
        assert!(scene.kept.is_empty() && !scene.stopped, "neither at once nor never");
        scene.pass(SECOND / 4);
    }
    scene.answer_kept();
    assert!(scene.stopped);
    assert_eq!(scene.store.take(&Node("b".into()), 64, scene.now.rows).len(), 64);
}
