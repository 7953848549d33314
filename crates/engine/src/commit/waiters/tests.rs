use std::collections::BTreeSet;
use std::time::Duration;

use domain::time::Timestamp;
use proptest::prelude::*;

use super::super::{Entered, Lanes, Limits, Urgency, Which};
use super::*;

const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);

type Numbers = Lanes<u8, u32, u32, u32>;

/// A lane of 16 rows, four for each application, and eight items beside it.
fn limits() -> Limits {
    Limits {
        batch: Weight { rows: 8, bytes: 4_000 },
        lane: Weight { rows: 16, bytes: 8_000 },
        upkeep_rows: 1,
        upkeep_steps: 2,
        waiting: Bound { items: 8, bytes: 4_000 },
        wait: Duration::from_secs(1),
    }
}

fn lanes() -> Numbers {
    Lanes::new(limits(), NOW)
}

fn rows(rows: u32) -> Weight {
    Weight { rows, bytes: 10 }
}

fn waits(entered: Result<Entered<u8, u32>, Full<u32>>) -> Waiter<u8> {
    match entered.unwrap() {
        Entered::Waits { waiter, refused } if refused.is_empty() => waiter,
        other @ (Entered::Lane | Entered::Waits { .. }) => panic!("{other:?}"),
    }
}

fn cut(lanes: &mut Numbers) -> Vec<u32> {
    lanes.cut(NOW, usize::MAX).map(|cut| cut.accepts).unwrap_or_default()
}

#[test]
fn a_message_that_finds_its_share_full_waits_and_enters_with_the_next_batch() {
    let mut lanes = lanes();
    lanes.offer_accept(1, rows(4), 0).unwrap();
    waits(lanes.offer_accept(1, rows(3), 1));
    waits(lanes.offer_accept(1, rows(1), 2));
    // Another application is not concerned.
    assert_eq!(lanes.offer_accept(2, rows(4), 3), Ok(Entered::Lane));
    assert!(lanes.has_enough(None, 9), "what waits needs a batch to be cut");
    assert_eq!(cut(&mut lanes), [0]);
    assert_eq!(cut(&mut lanes), [3]);
    assert_eq!(cut(&mut lanes), [1, 2]);
    assert!(lanes.is_empty());
}

#[test]
fn an_application_that_floods_delays_another_by_one_item_per_turn() {
    let mut lanes = lanes();
    for application in 0..4 {
        lanes.offer_accept(application, rows(4), 100 + u32::from(application)).unwrap();
    }
    for number in 0..6 {
        waits(lanes.offer_accept(9, rows(4), number));
    }
    waits(lanes.offer_accept(8, rows(4), 77));
    // A fresh application does not pass those that wait for the lane.
    waits(lanes.offer_accept(7, rows(1), 78));
    assert_eq!(cut(&mut lanes), [100]);
    assert_eq!(cut(&mut lanes), [101]);
    let rest: Vec<u32> = std::iter::from_fn(|| Some(cut(&mut lanes)).filter(|it| !it.is_empty()))
        .flatten()
        .collect();
    assert_eq!(rest, [102, 103, 0, 77, 78, 1, 2, 3, 4, 5]);
}

#[test]
fn a_wide_message_is_not_passed_by_narrow_ones_for_ever() {
    let mut lanes = lanes();
    for application in 0..4 {
        lanes.offer_accept(application, rows(4), u32::from(application)).unwrap();
    }
    waits(lanes.offer_accept(5, rows(16), 50));
    for application in 10..14 {
        waits(lanes.offer_accept(application, rows(1), u32::from(application)));
    }
    let mut seen = Vec::new();
    while !lanes.is_empty() {
        seen.extend(cut(&mut lanes));
    }
    assert_eq!(seen, [0, 1, 2, 3, 50, 10, 11, 12, 13]);
}

#[test]
fn a_caller_that_gives_up_leaves_no_trace_and_holds_no_other_up() {
    let mut lanes = lanes();
    for application in 0..3 {
        lanes.offer_accept(application, rows(4), u32::from(application)).unwrap();
    }
    lanes.offer_accept(3, rows(2), 3).unwrap();
    let wide = waits(lanes.offer_accept(5, rows(3), 50));
    let narrow = waits(lanes.offer_accept(6, rows(2), 60));
    let gone = lanes.give_up_accept(wide);
    assert_eq!(gone, Some(Full { item: 50, what: Crowded::Lane }));
    assert_eq!(lanes.give_up_accept(wide), None);
    assert_eq!(lanes.give_up_accept(narrow), None, "it is in the lane since the wide one left");
    let own = waits(lanes.offer_accept(1, rows(1), 70));
    assert_eq!(lanes.give_up_accept(own).map(|full| full.what), Some(Crowded::Share));
    let mut seen = Vec::new();
    while !lanes.is_empty() {
        seen.extend(cut(&mut lanes));
    }
    assert_eq!(seen, [0, 1, 2, 3, 60]);
    assert!(lanes.accept_waiters.turns.is_empty() && lanes.accept_waiters.held == Bound::default());
}

#[test]
fn a_full_room_refuses_the_largest_and_lets_a_new_application_in() {
    let mut lanes = lanes();
    lanes.offer_accept(1, rows(4), 0).unwrap();
    for number in 1..9 {
        waits(lanes.offer_accept(1, rows(1), number));
    }
    let refused = lanes.offer_accept(1, rows(1), 9).unwrap_err();
    assert_eq!(refused, Full { item: 9, what: Crowded::Share });
    lanes.offer_accept(2, rows(4), 20).unwrap();
    for number in 0..4 {
        let Entered::Waits { refused, .. } = lanes.offer_accept(2, rows(1), 21 + number).unwrap()
        else {
            panic!("entered")
        };
        assert_eq!(refused, [Full { item: 8 - number, what: Crowded::Share }]);
    }
    // Now both have their half.
    lanes.offer_accept(2, rows(1), 29).unwrap_err();
    lanes.offer_accept(1, rows(1), 10).unwrap_err();
}

#[test]
fn requests_for_owners_wait_and_take_turns_too() {
    let mut lanes = lanes();
    for number in 0..2 {
        assert_eq!(lanes.offer_request(1, 1, number), Ok(Entered::Lane));
    }
    let waiters: Vec<_> = (2..5).map(|number| waits(lanes.offer_request(1, 1, number))).collect();
    waits(lanes.offer_request(2, 1, 20));
    assert!(lanes.give_up_request(waiters[1]).is_some());
    let mut seen = Vec::new();
    while let Some(cut) = lanes.cut_lane(Which::Upkeep, NOW) {
        seen.extend(cut.upkeep);
    }
    assert_eq!(seen, [0, 1, 2, 20, 4]);
    // The node's own steps have room of their own.
    lanes.offer_upkeep(Urgency::Patient, 1, 7).unwrap();
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Offer(u8, u32, u64),
    Cut,
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u8..6, 1_u32..20, 0_u64..3_000).prop_map(|(a, b, c)| Step::Offer(a, b, c)),
        2 => Just(Step::Cut),
        1 => (0_usize..200).prop_map(Step::GiveUp),
    ]
}

/// The lanes, and what is to become of everything that was offered to them.
struct Model {
    lanes: Numbers,
    offered: u32,
    waiters: Vec<(u32, Waiter<u8>)>,
    /// What is in the lane or beside it, with its application.
    expected: BTreeMap<u32, u8>,
    seen: Vec<(u8, u32)>,
    /// How often another was admitted while an application waited for its turn.
    passed: BTreeMap<u8, BTreeMap<u8, u32>>,
}

impl Model {
    fn in_turn(&self) -> BTreeSet<u8> {
        self.lanes.accept_waiters.turns.values().copied().collect()
    }

    fn last_in_lane(&self) -> Vec<(u8, u32)> {
        self.lanes.accepts.queue.iter().map(|(_, item)| *item).collect()
    }

    fn step(&mut self, step: Step) {
        let (before, in_turn) = (self.last_in_lane(), self.in_turn());
        let mut entered_directly = None;
        match step {
            Step::Offer(application, rows, bytes) => {
                self.offered += 1;
                let number = self.offered;
                let weight = Weight { rows, bytes };
                match self.lanes.offer_accept(application, weight, number) {
                    Ok(Entered::Lane) => {
                        assert!(in_turn.is_empty(), "it passed those that wait");
                        entered_directly = Some(number);
                        self.expected.insert(number, application);
                    }
                    Ok(Entered::Waits { waiter, refused }) => {
                        for full in refused {
                            assert_eq!(full.what, Crowded::Share);
                            self.expected.remove(&full.item).expect("known");
                        }
                        self.expected.insert(number, application);
                        self.waiters.push((number, waiter));
                    }
                    Err(full) => assert_eq!(full.item, number),
                }
            }
            Step::Cut => {
                let cut = self.lanes.cut(NOW, usize::MAX);
                for number in cut.into_iter().flat_map(|cut| cut.accepts) {
                    let application = self.expected.remove(&number).expect("once");
                    self.seen.push((application, number));
                }
            }
            Step::GiveUp(place) => {
                let Some((number, waiter)) = self.waiters.get(place).copied() else { return };
                if let Some(full) = self.lanes.give_up_accept(waiter) {
                    assert_eq!(full.item, number);
                    self.expected.remove(&number).expect("known");
                }
            }
        }
        let known: BTreeSet<_> = before.into_iter().collect();
        let after = self.last_in_lane();
        let admitted =
            after.into_iter().filter(|it| !known.contains(it) && Some(it.1) != entered_directly);
        self.turns_were_kept(&in_turn, admitted.map(|(application, _)| application).collect());
        self.bounds_hold();
    }

    /// Between two admissions of one application every other that waits for its turn had it.
    fn turns_were_kept(&mut self, before: &BTreeSet<u8>, admitted: Vec<u8>) {
        let after = self.in_turn();
        for application in admitted {
            for other in before.iter().filter(|it| after.contains(it) && **it != application) {
                *self.passed.entry(*other).or_default().entry(application).or_default() += 1;
            }
            self.passed.remove(&application);
            let most = self.passed.values().flat_map(BTreeMap::values).max();
            assert!(most.is_none_or(|most| *most <= 1), "{:?}", self.passed);
        }
        self.passed.retain(|application, _| after.contains(application));
    }

    fn bounds_hold(&self) {
        let Limits { lane, waiting, .. } = limits();
        let waiters = &self.lanes.accept_waiters;
        assert!(waiters.held.items <= waiting.items && waiters.held.bytes <= waiting.bytes);
        let lines = waiters.lines.values();
        let counted: usize = lines.map(|line| line.items.len()).sum();
        assert_eq!(counted, waiters.held.items);
        assert!(self.lanes.accepts.held.is_within(lane) || self.lanes.accepts.queue.len() == 1);
        assert_eq!(self.expected.len(), counted + self.lanes.accepts.queue.len());
        assert!(!self.lanes.is_empty() || waiters.is_empty(), "something waits for nothing");
    }
}

proptest! {
    #[test]
    fn every_message_is_taken_in_its_turn_or_handed_back_and_none_is_lost(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut model = Model {
            lanes: lanes(),
            offered: 0,
            waiters: Vec::new(),
            expected: BTreeMap::new(),
            seen: Vec::new(),
            passed: BTreeMap::new(),
        };
        for step in steps {
            model.step(step);
        }
        while !model.lanes.is_empty() {
            model.step(Step::Cut);
        }
        prop_assert!(model.expected.is_empty());
        // Within an application the older one comes first.
        model.seen.sort_by_key(|(application, _)| *application);
        prop_assert!(model.seen.is_sorted());
        prop_assert!(model.lanes.shares.is_empty());
    }
}
