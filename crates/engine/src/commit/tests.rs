use proptest::prelude::*;

use super::Urgency::{Patient, Urgent};
use super::*;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);

/// How long a commit takes with a disk that is none to wait for.
const QUICK: Duration = Duration::from_micros(300);

type Numbers = Lanes<u8, u32, u32, u32>;

fn small() -> Limits {
    Limits {
        batch: Weight { rows: 8, bytes: 800 },
        lane: Weight { rows: 16, bytes: 1_600 },
        upkeep_rows: 4,
        upkeep_steps: 3,
        waiting: Bound::default(),
        wait: Duration::from_secs(1),
    }
}

fn rows(rows: u32) -> Weight {
    Weight { rows, bytes: 10 }
}

fn lanes() -> Numbers {
    Lanes::new(small(), NOW)
}

#[test]
fn whatever_waits_is_cut_at_once() {
    let mut lanes = lanes();
    assert_eq!(lanes.cut(NOW, usize::MAX), None);
    lanes.offer_accept(1, rows(2), 7).unwrap();
    assert_eq!(
        lanes.cut(NOW, usize::MAX),
        Some(Cut { accepts: vec![7], settles: vec![], upkeep: vec![] })
    );
    assert!(lanes.is_empty());
}

fn carried(callers: usize, took: Duration) -> Carried {
    Carried { callers, writes: u32::try_from(callers).unwrap(), took }
}

#[test]
fn half_of_a_crowd_is_waited_for_and_nobody_waits_for_himself() {
    let mut crowd = Crowd::default();
    let mut committed =
        |callers, waiting| crowd.committed(None, carried(callers, QUICK), waiting).callers;
    // One caller, then a few: each batch goes at once.
    for (callers, waiting) in [(1, 0), (1, 1), (7, 8)] {
        assert_eq!(committed(callers, waiting), 1, "{callers} {waiting}");
    }
    // A stream: as many came as went.
    assert_eq!(committed(20, 20), 20);
    // A crowd in step.
    assert_eq!(committed(128, 0), 64);
    assert_eq!(committed(64, 60), 62);
}

#[test]
fn a_slow_disk_is_worth_waiting_for_all() {
    let mut crowd = Crowd::default();
    let slow = Duration::from_millis(6);
    let alone = crowd.committed(None, carried(1, slow), 0);
    assert_eq!(alone.callers, 1, "nobody is there to wait for");
    let all = crowd.committed(None, carried(32, slow), 32);
    assert_eq!(all, Quorum { callers: 64, patience: slow / 4 });
    let hours = crowd.committed(None, carried(32, Duration::from_hours(2)), 32);
    assert!(hours.patience < Duration::from_millis(10));
    // As long, but for the much that was written.
    assert_eq!(crowd.committed(None, carried(128, slow), 0).callers, 64);
    let large = Carried { callers: 64, writes: 1_000, took: slow };
    assert_eq!(crowd.committed(None, large, 64).callers, 64);
    assert_eq!(crowd.committed(None, carried(128, Duration::from_millis(9)), 0).callers, 128);
}

#[test]
fn attempts_in_a_lane_of_their_own_gather_but_for_those_that_come_one_by_one() {
    let took = Duration::from_millis(1);
    let alone = Some(Which::Settles);
    for (which, callers, expected) in [
        (alone, 3, Quorum { callers: 1, patience: Crowd::PATIENCE }),
        (alone, 4, Quorum { callers: 16, patience: took }),
        (Some(Which::Accepts), 4, Quorum { callers: 1, patience: Crowd::PATIENCE }),
        (None, 4, Quorum { callers: 1, patience: Crowd::PATIENCE }),
    ] {
        let quorum = Crowd::default().committed(which, carried(callers, took), 0);
        assert_eq!(quorum, expected, "{which:?} {callers}");
    }
    let slow = Crowd::default().committed(alone, carried(9, Duration::from_millis(30)), 0);
    assert_eq!(slow.patience, Crowd::REST);
}

#[test]
fn a_lane_that_fills_its_share_waits_for_nobody() {
    let mut lanes = lanes();
    assert!(!lanes.fills_a_batch(None));
    lanes.offer_settle(rows(3), 1).unwrap();
    assert!(!lanes.fills_a_batch(None));
    lanes.offer_settle(rows(1), 2).unwrap();
    assert!(lanes.fills_a_batch(None), "half of a batch");
    assert!(!lanes.fills_a_batch(Some(Which::Settles)), "alone it may have all of it");
    lanes.offer_settle(Weight { rows: 1, bytes: 780 }, 3).unwrap();
    assert!(lanes.fills_a_batch(Some(Which::Settles)), "by bytes");
    assert!(!lanes.fills_a_batch(Some(Which::Accepts)));
    assert!(!lanes.fills_a_batch(Some(Which::Upkeep)));
    lanes.offer_upkeep(Patient, 1, 4).unwrap();
    assert!(lanes.fills_a_batch(Some(Which::Upkeep)));
}

#[test]
fn whoever_hands_in_a_message_is_not_made_to_wait_for_attempts_that_end() {
    let mut lanes = lanes();
    lanes.offer_settle(rows(1), 1).unwrap();
    assert!(lanes.has_enough(None, 1), "nobody is waited for");
    assert!(!lanes.has_enough(None, 2));
    lanes.offer_settle(rows(1), 2).unwrap();
    assert!(!lanes.has_enough(None, 2), "attempts are no callers");
    assert!(lanes.has_enough(Some(Which::Settles), 2), "but in a lane of their own");
    lanes.offer_accept(1, rows(1), 3).unwrap();
    assert_eq!((lanes.callers(None), lanes.callers(Some(Which::Settles))), (1, 2));
    assert!(!lanes.has_enough(None, 2));
    lanes.offer_accept(1, rows(1), 4).unwrap();
    assert!(lanes.has_enough(None, 2));
}

#[test]
fn a_crowd_that_has_gone_is_soon_forgotten() {
    let mut crowd = Crowd::default();
    crowd.committed(None, carried(4_096, QUICK), 0);
    let batches =
        (0..).take_while(|_| crowd.committed(None, carried(1, QUICK), 0).callers > 1).count();
    assert!((20..80).contains(&batches), "{batches}");
}

#[test]
fn so_many_are_settled_at_once_as_are_asked_for_and_at_least_one() {
    let mut lanes = lanes();
    for n in 0..4 {
        lanes.offer_settle(rows(1), n).unwrap();
    }
    lanes.offer_accept(1, rows(1), 9).unwrap();
    let cut = lanes.cut(NOW, 2).unwrap();
    assert_eq!((cut.accepts, cut.settles), (vec![9], vec![0, 1]));
    assert_eq!(lanes.cut(NOW, 0).unwrap().settles, [2]);
    assert_eq!(lanes.cut(NOW, 9).unwrap().settles, [3]);
}

#[test]
fn each_lane_gets_at_most_half_of_a_batch() {
    let mut lanes = lanes();
    for n in 0..4 {
        lanes.offer_accept(u8::try_from(n).unwrap(), rows(2), n).unwrap();
        lanes.offer_settle(rows(1), n).unwrap();
    }
    lanes.offer_settle(rows(1), 4).unwrap();
    let cut = lanes.cut(NOW, usize::MAX).unwrap();
    assert_eq!((cut.accepts, cut.settles), (vec![0, 1], vec![0, 1, 2, 3]));
    let cut = lanes.cut(NOW, usize::MAX).unwrap();
    assert_eq!((cut.accepts, cut.settles), (vec![2, 3], vec![4]));
}

#[test]
fn bytes_limit_a_batch_too() {
    let mut lanes = lanes();
    for n in 0..3 {
        lanes.offer_settle(Weight { rows: 1, bytes: 300 }, n).unwrap();
    }
    assert_eq!(lanes.cut(NOW, usize::MAX).unwrap().settles, [0]);
    assert_eq!(lanes.cut(NOW, usize::MAX).unwrap().settles, [1]);
}

#[test]
fn an_item_larger_than_a_batch_goes_alone() {
    let mut lanes = lanes();
    lanes.offer_accept(1, rows(100), 1).unwrap();
    lanes.offer_accept(2, rows(1), 2).unwrap_err();
    assert_eq!(lanes.cut(NOW, usize::MAX).unwrap().accepts, [1]);
    lanes.offer_accept(2, rows(1), 2).unwrap();
}

#[test]
fn a_full_lane_gives_the_item_back() {
    let mut lanes = lanes();
    for n in 0..4 {
        lanes.offer_accept(u8::try_from(n).unwrap(), rows(4), n).unwrap();
    }
    let full = lanes.offer_accept(9, rows(1), 42).unwrap_err();
    assert_eq!(full, Full { item: 42, what: Crowded::Lane });
    for n in 0..16 {
        lanes.offer_settle(rows(1), n).unwrap();
    }
    assert_eq!(lanes.offer_settle(rows(1), 16).unwrap_err().what, Crowded::Lane);
    assert!(!lanes.has_room_for_settles(rows(1)));
    lanes.cut(NOW, usize::MAX);
    assert!(lanes.has_room_for_settles(rows(4)));
    assert!(!lanes.has_room_for_settles(rows(5)));
}

#[test]
fn one_application_holds_a_quarter_at_the_most() {
    let mut lanes = lanes();
    for n in 0..4 {
        lanes.offer_accept(1, rows(1), n).unwrap();
    }
    assert_eq!(lanes.offer_accept(1, rows(1), 4).unwrap_err().what, Crowded::Share);
    lanes.offer_accept(2, rows(1), 5).unwrap();
    // What was cut no longer counts.
    assert_eq!(lanes.cut(NOW, usize::MAX).unwrap().accepts, [0, 1, 2, 3]);
    lanes.offer_accept(1, rows(4), 6).unwrap();
    // A fan-out wider than the quarter passes when its application holds nothing.
    lanes.offer_accept(3, rows(5), 7).unwrap();
}

#[test]
fn a_quarter_is_one_of_bytes_as_well() {
    let mut lanes = lanes();
    let large = Weight { rows: 1, bytes: 300 };
    lanes.offer_accept(1, large, 0).unwrap();
    assert_eq!(lanes.offer_accept(1, large, 1).unwrap_err().what, Crowded::Share);
    lanes.offer_accept(2, large, 2).unwrap();
    lanes.cut(NOW, usize::MAX);
    lanes.cut(NOW, usize::MAX);
    lanes.offer_accept(1, large, 3).unwrap();
}

#[test]
fn upkeep_goes_along_in_small_steps_when_there_is_room() {
    let mut lanes = lanes();
    for n in 0..3 {
        lanes.offer_upkeep(Patient, 2, n).unwrap();
    }
    assert_eq!(lanes.offer_upkeep(Patient, 2, 3).unwrap_err().what, Crowded::Lane);
    assert_eq!(lanes.cut(NOW, usize::MAX).unwrap().upkeep, [0, 1]);
    assert_eq!(lanes.cut(NOW, usize::MAX).unwrap().upkeep, [2]);
}

#[test]
fn what_somebody_waits_for_does_not_queue_behind_a_mass_of_tidying() {
    let mut lanes = lanes();
    for n in 0..1_000 {
        lanes.append_upkeep(Patient, 4, n);
    }
    // Nor is it turned away because that lane is full.
    lanes.offer_upkeep(Urgent, 1, 7_001).unwrap();
    lanes.offer_upkeep(Urgent, 1, 7_002).unwrap();
    assert_eq!(lanes.cut(NOW, usize::MAX).unwrap().upkeep, [7_001, 7_002, 0]);
    lanes.append_upkeep(Urgent, 4, 7_004);
    lanes.append_upkeep(Urgent, 4, 7_005);
    lanes.restore_upkeep(Urgent, 4, 7_003);
    // Neither kind keeps the other out for ever.
    for n in 1..4 {
        assert_eq!(lanes.cut_lane(Which::Upkeep, NOW).unwrap().upkeep, [7_002 + n, n]);
    }
    assert_eq!(lanes.cut_lane(Which::Upkeep, NOW).unwrap().upkeep, [4]);
}

#[test]
fn busy_lanes_put_upkeep_off_for_a_second_at_the_most() {
    let mut lanes = lanes();
    let fill = |lanes: &mut Numbers| {
        while lanes.offer_settle(rows(1), 0).is_ok() {}
    };
    fill(&mut lanes);
    lanes.offer_upkeep(Patient, 100, 7).unwrap();
    let soon = NOW.after(Duration::from_millis(999));
    assert!(lanes.cut(soon, usize::MAX).unwrap().upkeep.is_empty());
    fill(&mut lanes);
    assert_eq!(lanes.cut(NOW.after(Duration::from_secs(1)), usize::MAX).unwrap().upkeep, [7]);
}

#[test]
fn what_is_left_for_the_next_portion_does_not_put_upkeep_off() {
    let mut lanes = lanes();
    for n in 0..5 {
        lanes.offer_settle(rows(1), n).unwrap();
    }
    lanes.offer_upkeep(Patient, 1, 7).unwrap();
    let cut = lanes.cut(NOW, 1).unwrap();
    assert_eq!((cut.settles.len(), cut.upkeep.len()), (1, 0), "half a batch is left");
    let cut = lanes.cut(NOW, 1).unwrap();
    assert_eq!((cut.settles, cut.upkeep), (vec![1], vec![7]));
    // Messages are not cut into portions: what is left of them is too much for one batch.
    lanes.offer_upkeep(Patient, 1, 8).unwrap();
    for n in 0..2 {
        lanes.offer_accept(n, rows(3), n.into()).unwrap();
    }
    assert!(lanes.cut(NOW, 1).unwrap().upkeep.is_empty());
    assert_eq!(lanes.cut(NOW, 1).unwrap().upkeep, [8]);
}

proptest! {
    #[test]
    fn everything_offered_comes_out_once_and_in_order(
        offers in prop::collection::vec((0_u8..5, 1_u32..9, 0_u64..900, any::<bool>()), 0..200),
    ) {
        let mut lanes = lanes();
        let (mut offered, mut seen) = (Vec::new(), Vec::new());
        for (n, (application, rows, bytes, cut)) in (0..).zip(offers) {
            if lanes.offer_accept(application, Weight { rows, bytes }, n).is_ok() {
                offered.push(n);
            }
            if cut {
                seen.extend(lanes.cut(NOW, usize::MAX).into_iter().flat_map(|cut| cut.accepts));
            }
        }
        while let Some(cut) = lanes.cut(NOW, usize::MAX) {
            prop_assert!(!cut.accepts.is_empty());
            seen.extend(cut.accepts);
        }
        prop_assert_eq!(seen, offered);
        prop_assert!(lanes.shares.is_empty());
        prop_assert_eq!(lanes.accepts.held, Weight::default());
    }
}

#[test]
fn a_lane_can_be_cut_alone() {
    let mut lanes = lanes();
    lanes.offer_accept(1, rows(1), 10).unwrap();
    lanes.offer_settle(rows(1), 20).unwrap();
    lanes.offer_upkeep(Patient, 1, 30).unwrap();
    let cut = lanes.cut_lane(Which::Settles, NOW).unwrap();
    assert_eq!((cut.accepts.len(), cut.settles, cut.upkeep.len()), (0, vec![20], 0));
    assert!(lanes.cut_lane(Which::Settles, NOW).is_none());
    assert_eq!(lanes.cut_lane(Which::Upkeep, NOW).unwrap().upkeep, [30]);
    assert_eq!(lanes.cut_lane(Which::Accepts, NOW).unwrap().accepts, [10]);
    assert!(lanes.is_empty());
}

#[test]
fn what_comes_back_from_a_failed_batch_goes_first() {
    let mut lanes = lanes();
    lanes.offer_settle(rows(1), 2).unwrap();
    lanes.offer_upkeep(Patient, 1, 4).unwrap();
    lanes.restore_settle(rows(1), 1);
    lanes.restore_upkeep(Patient, 1, 3);
    let cut = lanes.cut(NOW, usize::MAX).unwrap();
    assert_eq!((cut.settles, cut.upkeep), (vec![1, 2], vec![3, 4]));
}
