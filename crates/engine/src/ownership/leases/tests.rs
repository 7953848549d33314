use domain::time::Timestamp;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn partition(number: u8) -> Partition {
    Partition::from_number(number).unwrap()
}

fn lease(number: u8, epoch: i64) -> Lease {
    Lease { partition: partition(number), epoch: Epoch(epoch) }
}

fn renewal(owned: Vec<Lease>, others: u32) -> Renewal {
    Renewal { now: Timestamp::from_seconds(1), owned, others, others_until: None, free: 0 }
}

#[test]
fn a_renewal_asked_before_a_take_over_does_not_miss_it() {
    let mut leases = Leases::default();
    assert!(leases.hold(lease(1, 5), 3 * SECOND, 3 * SECOND));
    assert_eq!(leases.renewed(2 * SECOND, &renewal(vec![], 0), false), Changes::default());
    let changes = leases.renewed(4 * SECOND, &renewal(vec![], 0), false);
    assert_eq!(changes.lost, [partition(1)]);
}

#[test]
fn another_epoch_means_that_memory_is_worth_nothing() {
    let mut leases = Leases::default();
    leases.hold(lease(1, 5), SECOND, SECOND);
    let changes = leases.renewed(2 * SECOND, &renewal(vec![lease(1, 7)], 0), false);
    assert_eq!((changes.lost, changes.found), (vec![partition(1)], vec![lease(1, 7)]));
}

#[test]
fn what_a_take_without_an_answer_took_is_found_by_the_next_renewal() {
    let mut leases = Leases::default();
    let changes = leases.renewed(SECOND, &renewal(vec![lease(3, 1)], 0), false);
    assert_eq!(changes.found, [lease(3, 1)]);
}

#[test]
fn a_lease_that_was_given_back_is_never_believed_in_again() {
    let mut leases = Leases::default();
    leases.hold(lease(3, 1), SECOND, SECOND);
    assert_eq!(leases.give_back(partition(3)), Some(lease(3, 1)));
    let changes = leases.renewed(2 * SECOND, &renewal(vec![lease(3, 1)], 0), false);
    assert_eq!((changes.found, changes.stuck), (vec![], vec![lease(3, 1)]));
    assert!(!leases.hold(lease(3, 1), 3 * SECOND, 3 * SECOND));
    assert!(leases.hold(lease(3, 2), 3 * SECOND, 3 * SECOND));
}

#[test]
fn an_older_renewal_says_nothing() {
    let mut leases = Leases::default();
    leases.hold(lease(1, 5), SECOND, SECOND);
    leases.renewed(5 * SECOND, &renewal(vec![lease(1, 5)], 1), false);
    assert_eq!(leases.renewed(3 * SECOND, &renewal(vec![], 1), false), Changes::default());
    assert_eq!(leases.trusted_until(7 * SECOND), Some(12 * SECOND));
}

#[test]
fn partitions_are_shared_evenly_and_one_too_many_is_kept() {
    let mut leases = Leases::default();
    assert_eq!(leases.wanted(64, SECOND), Some(64));
    for number in 0..34 {
        leases.hold(lease(number, 1), SECOND, SECOND);
    }
    let owned: Vec<Lease> = (0..34).map(|number| lease(number, 1)).collect();
    leases.renewed(2 * SECOND, &renewal(owned, 1), false);
    leases.mark_leaving(64, 2 * SECOND);
    assert_eq!(leases.staying().len(), 32);
    assert_eq!(leases.drained(2 * SECOND), [partition(32), partition(33)]);
    leases.lose(partition(33));
    leases.get_mut(partition(32)).unwrap().leaving = false;
    leases.mark_leaving(64, 2 * SECOND);
    assert_eq!(leases.staying().len(), 33);
}

#[test]
fn a_lease_that_ran_out_before_its_answer_came_is_not_believed_in() {
    let mut leases = Leases::default();
    leases.renewed(Duration::ZERO, &renewal(vec![], 0), false);
    // Asked for at once, answered after twenty seconds: somebody else may have taken it since.
    leases.hold(lease(1, 5), Duration::ZERO, 20 * SECOND);
    let changes = leases.renewed(20 * SECOND, &renewal(vec![], 0), false);
    assert_eq!(changes.lost, [lease(1, 5).partition]);
    leases.lose(partition(1));
    // It is never believed in again, even if it was ours all the time.
    assert!(!leases.hold(lease(1, 5), 20 * SECOND, 20 * SECOND));
    assert!(leases.was_renewed_since(19 * SECOND));
    assert!(!leases.was_renewed_since(20 * SECOND));
}

#[test]
fn a_renewal_that_overtakes_a_take_misses_nothing_while_the_lease_is_trusted() {
    let mut leases = Leases::default();
    leases.renewed(Duration::ZERO, &renewal(vec![], 0), true);
    // Asked for at one second, answered at four; the renewal is asked for in between.
    leases.hold(lease(1, 5), SECOND, 4 * SECOND);
    let changes = leases.renewed(2 * SECOND, &renewal(vec![], 0), true);
    assert_eq!(changes, Changes::default());
}
