//! The window against a model of the store: whatever is handed over, loaded and settled in whatever
//! order, nothing is taken out twice and nothing is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use domain::delivery::{Budget, Pending};
use domain::ids::MessageId;
use domain::partition::Partition;
use proptest::prelude::*;
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey};

use super::*;

const NOW: i64 = 1_000_000;

fn row(message: i64, due: i64) -> PendingDelivery {
    let budget = Budget { attempts: 0, ambiguous: 0, last_wait: Duration::ZERO, expires_at: None };
    PendingDelivery {
        key: DeliveryKey {
            application: ApplicationKey(1),
            endpoint: EndpointKey(1),
            message: MessageKey(message),
        },
        partition: Partition::from_number(0).unwrap(),
        turn: due,
        pending: Pending { due: Timestamp::from_micros(due), budget },
        recorded: 0,
        ended_before: None,
        last_attempt_at: None,
        message: MessageId::from_bytes([0; 20]),
        event_type: String::new(),
        received_at: Timestamp::EPOCH,
        policy: None,
        content_type: None,
        payload: Some(Bytes::from_static(b"xy")),
        expunged: false,
    }
}

fn room(rows: usize) -> Room {
    Room { rows, bytes: 1_000, first: u64::MAX, until: Timestamp::from_micros(NOW) }
}

fn clock(tick: u64) -> Duration {
    Duration::from_micros(tick)
}

fn moment(tick: u64) -> Moment {
    Moment { elapsed: clock(tick), rows: Timestamp::from_micros(NOW) }
}

#[test]
fn rows_with_the_turn_of_the_last_one_may_be_missing() {
    let mut window = Window::new(Some(Horizon::unknown(Timestamp::EPOCH)), clock(0));
    window.begin_load(Number(1), i64::MIN);
    let deliveries = vec![row(1, 10), row(2, 20)];
    window.loaded(Loaded { deliveries, complete: false }, moment(5), room(8));
    assert_eq!(window.horizon().unwrap().turn, 20);
    window.offer((row(3, 20), None), clock(6), room(8));
    assert_eq!(window.known(), 2, "it is at the horizon, so a load will bring it");
    window.offer((row(4, 15), None), clock(6), room(8));
    assert_eq!(window.known(), 3);
}

#[test]
fn what_is_known_below_the_horizon_is_not_read_again() {
    let mut window = Window::new(Some(Horizon::unknown(Timestamp::EPOCH)), clock(0));
    assert_eq!(window.unread_from(), i64::MIN);
    window.begin_load(Number(1), i64::MIN);
    let deliveries = vec![row(1, 10), row(2, 20), row(3, 30)];
    window.loaded(Loaded { deliveries, complete: false }, moment(5), room(8));
    assert_eq!(window.unread_from(), 30);
    assert_eq!(window.known_from(30), Familiar { rows: 1, bytes: 2 }, "the one at the horizon");
    window.take_head();
    assert_eq!(window.known_from(30).rows, 2, "what is out may be anywhere by now");
    window.lower(Horizon::unknown(Timestamp::EPOCH));
    assert_eq!(window.unread_from(), i64::MIN);
}

#[test]
fn a_load_explains_only_what_it_reads() {
    let mut window = Window::new(Some(Horizon::of(&row(1, 50))), clock(0));
    window.begin_load(Number(1), 50);
    assert!(window.explains(Timestamp::from_micros(50)));
    assert!(!window.explains(Timestamp::from_micros(49)));
}

#[test]
fn of_a_sequence_everything_is_read() {
    let sequence = Horizon { turn: 3, at: Timestamp::from_micros(10) };
    assert_eq!(Window::new(Some(sequence), clock(0)).unread_from(), i64::MIN);
}

#[test]
fn an_answer_of_rows_that_cannot_be_read_does_not_make_memory_complete() {
    for checked in [false, true] {
        let mut window = Window::new(Some(Horizon::unknown(Timestamp::EPOCH)), clock(0));
        window.begin_load(Number(1), i64::MIN);
        let answer = Loaded { deliveries: vec![], complete: false };
        if checked {
            window.checked(&answer, clock(5), |_| true, 8);
        } else {
            assert!(window.loaded(answer, moment(5), room(8)).stuck);
        }
        assert_eq!(window.horizon(), Some(Horizon::unknown(Timestamp::EPOCH)));
    }
}

#[test]
fn what_was_left_out_while_a_load_ran_is_not_made_up_for_by_its_answer() {
    let mut window = Window::new(None, clock(0));
    window.begin_load(Number(1), i64::MIN);
    window.offer((row(9, 50), None), clock(1), room(0));
    window.loaded(Loaded { deliveries: vec![], complete: true }, moment(5), room(8));
    assert_eq!(window.horizon().unwrap().turn, 50);
}

#[test]
fn a_hand_over_from_before_the_answer_is_told_apart_by_what_the_load_brought() {
    let mut window = Window::new(Some(Horizon::unknown(Timestamp::EPOCH)), clock(0));
    window.begin_load(Number(1), i64::MIN);
    let deliveries = vec![row(1, 10)];
    window.loaded(Loaded { deliveries, complete: true }, moment(5), room(8));
    let taken = window.take_head().unwrap();
    window.settled(taken.key.message);
    window.offer((row(1, 10), None), clock(3), room(8));
    assert!(window.is_idle(), "the load brought it, and it is done");
    window.offer((row(2, 11), None), clock(3), room(8));
    assert_eq!((window.waiting(), window.horizon()), (1, None));
    window.forget_what_came();
    window.offer((row(3, 12), None), clock(3), room(8));
    assert_eq!(window.horizon().unwrap().turn, 12, "nobody can tell any more");
}

#[test]
fn unloading_leaves_everything_to_the_next_load() {
    let mut window = Window::new(None, clock(0));
    window.offer((row(1, 10), None), clock(1), room(8));
    window.offer((row(2, 5), None), clock(1), room(8));
    window.unload();
    assert_eq!((window.known(), window.bytes()), (0, 0));
    assert_eq!(window.horizon().unwrap().turn, 5);
}

#[test]
fn what_is_unloaded_while_a_load_runs_is_not_brought_back_as_it_was() {
    let mut window = Window::new(None, clock(0));
    window.offer((row(1, 10), None), clock(1), room(8));
    let taken = window.take_head().unwrap();
    window.begin_load(Number(1), i64::MIN);
    // Settled after the load has read it, to wait again, and then unloaded.
    let again = PendingDelivery { recorded: 1, turn: 30, ..*taken };
    window.wait_again(Box::new(again), room(8));
    window.unload();
    let deliveries = vec![row(1, 10)];
    window.loaded(Loaded { deliveries, complete: true }, moment(5), room(8));
    assert_eq!((window.waiting(), window.known(), window.bytes()), (0, 0, 0));
    assert_eq!(window.horizon().unwrap().turn, 30, "the next load brings it as it is");
}

#[test]
fn a_payload_that_did_not_come_along_lowers_the_horizon() {
    let mut window = Window::new(Some(Horizon::unknown(Timestamp::EPOCH)), clock(0));
    window.begin_load(Number(1), i64::MIN);
    let bare = PendingDelivery { payload: None, ..row(2, 20) };
    let deliveries = vec![row(1, 10), bare, row(3, 30)];
    let entered = window.loaded(Loaded { deliveries, complete: true }, moment(5), room(8));
    assert_eq!((entered.rows, window.horizon().unwrap().turn), (1, 20));
}

#[test]
fn an_expunged_payload_stops_none_of_those_behind_it() {
    let mut window = Window::new(Some(Horizon::unknown(Timestamp::EPOCH)), clock(0));
    window.begin_load(Number(1), i64::MIN);
    let gone = PendingDelivery { payload: None, expunged: true, ..row(1, 10) };
    let deliveries = vec![gone, row(2, 20)];
    let entered = window.loaded(Loaded { deliveries, complete: true }, moment(5), room(8));
    assert_eq!(entered, Entered { rows: 1, gone: vec![MessageKey(1)], stuck: false });
    assert!(window.horizon().is_none() && window.is_out(MessageKey(1)));
    assert_eq!(window.head().unwrap().key.message, MessageKey(2));
}

#[test]
fn what_is_replayed_before_its_settle_was_answered_is_loaded_again() {
    for settled_first in [false, true] {
        let mut window = Window::new(None, clock(0));
        window.offer((row(1, 10), None), clock(1), room(8));
        window.take_head().unwrap();
        assert!(window.explains(Timestamp::from_micros(10)), "it is the one that is out");
        assert!(!window.explains(Timestamp::from_micros(70)), "it is settled in the store");
        window.lower(Horizon::unknown(Timestamp::EPOCH));
        window.begin_load(Number(1), i64::MIN);
        if settled_first {
            window.settled(MessageKey(1));
        }
        let replayed = PendingDelivery { recorded: 1, ..row(1, 70) };
        let answer = || Loaded { deliveries: vec![replayed.clone()], complete: true };
        window.loaded(answer(), moment(5), room(8));
        if !settled_first {
            window.settled(MessageKey(1));
        }
        assert_eq!((window.known(), window.waiting()), (0, 0));
        assert!(window.horizon().is_some(), "the next load brings it");
        window.begin_load(Number(2), i64::MIN);
        window.loaded(answer(), moment(6), room(8));
        assert_eq!((window.waiting(), window.horizon()), (1, None));
    }
}

#[derive(Debug, Clone, Copy)]
enum Move {
    Accept { due: u8, lost: bool, late: bool },
    HandOverLate,
    Issue,
    Read,
    Answer,
    Take,
    Settle { retry: Option<u8> },
    Commit,
    Unload,
    Lower,
    Replay,
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => (0..40_u8, proptest::bool::weighted(0.2), proptest::bool::weighted(0.3))
            .prop_map(|(due, lost, late)| Move::Accept { due, lost, late }),
        2 => Just(Move::HandOverLate),
        2 => Just(Move::Issue),
        2 => Just(Move::Read),
        2 => Just(Move::Answer),
        4 => Just(Move::Take),
        3 => proptest::option::weighted(0.3, 0..40_u8).prop_map(|retry| Move::Settle { retry }),
        3 => Just(Move::Commit),
        1 => Just(Move::Unload),
        1 => Just(Move::Lower),
        2 => Just(Move::Replay),
    ]
}

/// The in-flight cap of the endpoint.
const IN_FLIGHT: usize = 5;

/// The store, and what is on its way between it and the window.
#[derive(Default)]
struct Model {
    tick: u64,
    next: i64,
    pending: BTreeMap<MessageKey, PendingDelivery>,
    done: BTreeSet<MessageKey>,
    late: Vec<(Duration, PendingDelivery)>,
    load: Option<(Number, i64, usize)>,
    read: Option<(Number, Loaded)>,
    out: Vec<PendingDelivery>,
    settling: Vec<(PendingDelivery, Option<u8>)>,
    /// What the store has settled, and what the window is not told of yet.
    settled: Vec<PendingDelivery>,
    /// Whether a walk told that there may be more than is known.
    doubt: bool,
}

impl Model {
    /// How many deliveries are out, as far as the window knows.
    fn outside(&self) -> usize {
        self.out.len() + self.settling.len() + self.settled.len()
    }

    fn answer(&self, from: i64, most: usize) -> Loaded {
        let wanted = self.pending.values().filter(|row| row.turn >= from);
        let mut rows: Vec<_> = wanted.cloned().collect();
        rows.sort_by_key(|row| (row.turn, row.key.message));
        let complete = rows.len() <= most;
        rows.truncate(most);
        Loaded { deliveries: rows, complete }
    }

    fn play(&mut self, window: &mut Window, step: Move, rows: usize) {
        self.tick += 1;
        let now = clock(self.tick);
        match step {
            Move::Accept { due, lost, late } => {
                self.next += 1;
                let new = row(self.next, due.into());
                self.pending.insert(new.key.message, new.clone());
                match (lost, late) {
                    (true, _) => window.lower(Horizon::unknown(new.pending.due)),
                    (false, true) => self.late.push((now, new)),
                    (false, false) => window.offer((new, None), now, room(rows)),
                }
            }
            Move::HandOverLate => {
                if let Some((issued_at, new)) = self.late.pop() {
                    window.offer((new, None), issued_at, room(rows));
                }
            }
            Move::Issue => {
                if std::mem::take(&mut self.doubt) {
                    window.lower(Horizon::unknown(Timestamp::EPOCH));
                }
                let wanted = window.horizon().is_some() && window.waiting() <= rows / 2;
                if wanted && !window.is_loading() {
                    let number = Number(self.tick);
                    let from = window.unread_from();
                    let known = usize::try_from(window.known_from(from).rows).unwrap();
                    window.begin_load(number, from);
                    self.load = Some((number, from, known + rows - window.waiting()));
                }
            }
            Move::Read => {
                if let Some((number, from, most)) = self.load.take() {
                    self.read = Some((number, self.answer(from, most)));
                }
            }
            Move::Answer => {
                if let Some((number, answer)) = self.read.take() {
                    assert!(window.awaits(number));
                    window.loaded(
                        answer,
                        Moment { elapsed: now, rows: Timestamp::EPOCH },
                        room(rows),
                    );
                }
            }
            Move::Take if self.outside() < IN_FLIGHT => {
                self.out.extend(window.take_head().map(|row| *row));
            }
            Move::Take => {}
            Move::Settle { retry } => {
                if let Some(delivery) = self.out.pop() {
                    self.settling.push((delivery, retry));
                }
            }
            Move::Commit => self.commit(window, rows),
            Move::Unload => window.unload(),
            Move::Lower => window.lower(Horizon::unknown(Timestamp::EPOCH)),
            Move::Replay => self.replay(window),
        }
    }

    /// Settles a delivery and makes it pending again before the window hears of either.
    fn replay(&mut self, window: &mut Window) {
        let settling = self.settling.iter().position(|(_, retry)| retry.is_none());
        if let Some((delivery, _)) = settling.map(|place| self.settling.remove(place)) {
            let turn = NOW - 1_000 + i64::try_from(self.tick).unwrap();
            let stored = self.pending.get_mut(&delivery.key.message).expect("taken out twice");
            (stored.turn, stored.pending.due) = (turn, Timestamp::from_micros(turn));
            stored.recorded += 1;
            self.settled.push(delivery);
            // A walk tells, unless what is known explains it.
            let first = self.pending.values().map(|row| row.pending.due).min().unwrap();
            if !window.explains(first) {
                window.lower(Horizon::unknown(first));
            } else {
                self.doubt = true;
            }
        } else if let Some(delivery) = self.settled.pop() {
            window.settled(delivery.key.message);
        }
    }

    fn commit(&mut self, window: &mut Window, rows: usize) {
        let Some((mut delivery, retry)) = self.settling.pop() else { return };
        let message = delivery.key.message;
        let stored = self.pending.get_mut(&message).expect("taken out twice");
        assert_eq!(stored.recorded, delivery.recorded, "taken out twice");
        let Some(retry) = retry else {
            self.pending.remove(&message);
            self.done.insert(message);
            return window.settled(message);
        };
        for one in [stored, &mut delivery] {
            one.turn = retry.into();
            one.pending.due = Timestamp::from_micros(one.turn);
            one.recorded += 1;
        }
        window.wait_again(Box::new(delivery), room(rows));
    }
}

proptest! {
    #[test]
    fn nothing_is_taken_out_twice_and_nothing_is_forgotten(
        steps in proptest::collection::vec(moves(), 1..300), rows in 1_usize..8,
    ) {
        let mut window = Window::new(None, clock(0));
        let mut model = Model::default();
        for step in steps {
            model.play(&mut window, step, rows);
            // What is out may wait again whatever else waits, so both together are bounded.
            prop_assert!(window.waiting() + model.outside() <= rows + IN_FLIGHT);
            let mut out: Vec<_> = model.out.iter().map(|one| one.key.message).collect();
            out.extend(model.settling.iter().map(|(one, _)| one.key.message));
            out.extend(model.settled.iter().map(|one| one.key.message));
            let all = out.len();
            out.sort_unstable();
            out.dedup();
            prop_assert_eq!(out.len(), all, "one delivery is out twice");
            prop_assert!(out.iter().all(|message| !model.done.contains(message)));
        }
        // What never arrives does not matter: the horizon covers it or memory knows it.
        model.late.drain(..).for_each(|(issued_at, new)| window.offer((new, None), issued_at, room(rows)));
        model.settled.drain(..).for_each(|one| window.settled(one.key.message));
        let drain = [Move::Read, Move::Answer, Move::Issue, Move::Take, Move::Commit];
        for step in drain.into_iter().chain([Move::Settle { retry: None }]).cycle().take(6_000) {
            model.play(&mut window, step, rows);
        }
        prop_assert!(model.pending.is_empty(), "{} are forgotten", model.pending.len());
        prop_assert!(window.is_idle());
        prop_assert_eq!(window.bytes(), 0);
    }
}
