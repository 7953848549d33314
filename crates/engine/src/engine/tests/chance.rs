//! Chance: calls that are issued, take effect and answer at three different times, or never
//! answer; hand-overs that are late or lost; leases that run out. Whatever happens, nothing is
//! sent that the store knows to be settled, nothing is sent twice at a time, sequences stay in
//! order, and in the end nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::dice::Dice;
use domain::outcome::Outcome;
use domain::retry_after::RetryAfter;
use proptest::prelude::*;
use store::catalog::{Endpoint, EndpointSettings};
use store::keys::{DeliveryKey, Node};
use store::queue::{Order, RequestKind, Settled};

use super::scene::{SECOND, Scene};
use crate::protocol::event::Unanswered;
use crate::{Effect, End, Event, Number, Sending};

#[derive(Debug, Clone, Copy)]
struct World {
    seed: u64,
    window: u32,
    in_flight: u32,
    payload_bytes: u64,
    losing_leases: bool,
}

enum Item {
    TakesEffect(Effect),
    Answers(Event),
    Ends(Sending),
    Accepts(usize),
    Asks,
    Steals,
    Wakes,
}

struct Play {
    scene: Scene,
    agenda: BTreeMap<(Duration, u64), Item>,
    dice: u64,
    count: u64,
    steps: u64,
    endpoints: Vec<Endpoint>,
    /// Attempts on the wire, and whether they were aborted.
    flying: BTreeMap<DeliveryKey, (Number, bool)>,
    delivered: BTreeSet<DeliveryKey>,
    accepted: Vec<(DeliveryKey, Duration)>,
    sent: usize,
    calm: bool,
    last_commit: Duration,
    wake: Option<Duration>,
    outage_until: Duration,
}

impl Play {
    fn new(world: World) -> Self {
        let mut scene = Scene::before_start(|settings| {
            settings.window = world.window;
            settings.in_flight = world.in_flight;
            settings.payload_bytes = world.payload_bytes;
            settings.loads = 2;
            settings.walk_every = SECOND;
            settings.kept_within = 3 * SECOND;
        });
        let small = EndpointSettings { in_flight: Some(3), ..EndpointSettings::default() };
        let mut endpoints: Vec<Endpoint> =
            (0..3).map(|_| scene.endpoint_with(Order::Due, small.clone())).collect();
        endpoints.push(scene.fifo());
        Self {
            scene,
            agenda: BTreeMap::new(),
            dice: world.seed,
            count: 0,
            steps: 0,
            endpoints,
            flying: BTreeMap::new(),
            delivered: BTreeSet::new(),
            accepted: vec![],
            sent: 0,
            calm: false,
            last_commit: Duration::ZERO,
            wake: None,
            outage_until: Duration::ZERO,
        }
    }

    fn throw(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn after(&mut self, most_millis: u64) -> Duration {
        let micros = self.throw(most_millis * 1_000 + 1);
        self.scene.now.elapsed + Duration::from_micros(micros)
    }

    fn plan(&mut self, at: Duration, item: Item) {
        self.count += 1;
        self.agenda.insert((at, self.count), item);
    }

    fn step(&mut self, event: Event) {
        self.steps += 1;
        assert!(self.steps < 200_000, "the engine wakes itself without end");
        let mut effects = Vec::new();
        self.scene.engine.step(self.scene.now, event, &mut effects);
        effects.into_iter().for_each(|effect| self.take_up(effect));
    }

    fn take_up(&mut self, effect: Effect) {
        match effect {
            Effect::Send(sending) => self.check(&sending),
            Effect::Abort(number) => {
                let flying = self.flying.values_mut().find(|(flying, _)| *flying == number);
                if let Some((_, aborted)) = flying {
                    *aborted = true;
                }
            }
            Effect::WakeAt(moment) => {
                self.wake = Some(moment);
                self.plan(moment, Item::Wakes);
            }
            Effect::Announce(_) | Effect::Confirm { .. } | Effect::Stopped => {}
            Effect::Settle { .. } | Effect::Upkeep { .. } => {
                // One committer writes them in their order.
                let at = self.after(20).max(self.last_commit);
                self.last_commit = at;
                self.plan(at, Item::TakesEffect(effect));
            }
            Effect::Renew
            | Effect::Take { .. }
            | Effect::Release(_)
            | Effect::Walk(_)
            | Effect::ReadRequests(_)
            | Effect::Load { .. }
            | Effect::ReadRoster(_)
            | Effect::ReadChanges { .. }
            | Effect::Disable { .. } => {
                let at = self.after(50);
                self.plan(at, Item::TakesEffect(effect));
            }
        }
    }

    fn check(&mut self, sending: &Sending) {
        let key = sending.delivery.key;
        self.sent += 1;
        assert!(!self.delivered.contains(&key), "{key:?} was delivered before");
        let twice = self.flying.get(&key).is_some_and(|(_, aborted)| !aborted);
        assert!(!twice, "{key:?} is on the wire already");
        let there = |(flying, (_, aborted)): &(&DeliveryKey, &(Number, bool))| {
            flying.endpoint == key.endpoint && !aborted
        };
        assert!(self.flying.iter().filter(there).count() < 10);
        let fifo = self.endpoints[3].key;
        if key.endpoint == fifo {
            assert_eq!(self.flying.iter().filter(there).count(), 0, "one at a time");
            let load = store::queue::Load {
                application: key.application,
                endpoint: key.endpoint,
                from: i64::MIN,
                most: 1,
                most_bytes: 0,
            };
            // One that was cancelled a moment ago may still be sent once.
            if let Some(head) = self.scene.store.load(load).deliveries.first() {
                let head = head.key;
                let moment = |key| self.accepted.iter().find(|(one, _)| *one == key).unwrap().1;
                assert!(moment(head) >= moment(key), "{head:?} was before {key:?}");
            }
        }
        self.flying.insert(key, (sending.attempt, false));
        let most = if self.throw(10) == 0 { 3_000 } else { 100 };
        let at = self.after(most);
        self.plan(at, Item::Ends(sending.clone()));
    }

    fn end(&mut self, sending: &Sending) {
        let key = sending.delivery.key;
        let mut aborted = false;
        if self.flying.get(&key).is_some_and(|(number, _)| *number == sending.attempt) {
            aborted = self.flying.remove(&key).is_some_and(|(_, aborted)| aborted);
        }
        let outcome = match self.throw(if self.calm { 1 } else { 20 }) {
            _ if aborted => Outcome::Interrupted,
            0..15 => Outcome::answered(200),
            15 => Outcome::Answered { status: 429, retry_after: Some(RetryAfter::Seconds(2)) },
            16 => Outcome::Interrupted,
            17 => Outcome::answered(400),
            _ => Outcome::answered(500),
        };
        if !self.calm && self.throw(50) == 0 {
            let end = End::Panicked;
            return self.step(Event::Ended {
                attempt: sending.attempt,
                end,
                dice: Dice::thrown(0),
            });
        }
        let end = End::Recorded(Box::new(self.scene.record(sending, outcome)));
        let dice = Dice::thrown(self.throw(u64::MAX));
        self.step(Event::Ended { attempt: sending.attempt, end, dice });
    }

    fn take_effect(&mut self, effect: Effect) {
        let silent = !self.calm && self.throw(15) == 0;
        let (sides, now) = (if silent { 2 } else { 1 }, self.scene.now.elapsed);
        let certain = matches!(
            effect,
            Effect::Settle { .. } | Effect::Upkeep { .. } | Effect::Disable { .. }
        );
        let out = now < self.outage_until && !certain;
        if !certain && (out || (silent && self.throw(sides) == 0)) {
            // It never takes effect.
            let at = self.after(50);
            return self.plan(at, Item::Answers(unanswered(&effect, now)));
        }
        let next = if let Effect::Settle { settle, .. } = &effect {
            Some((settle.key, settle.next))
        } else {
            None
        };
        let failure = unanswered(&effect, now);
        let mut answer = self.scene.answer(effect);
        if let (Event::Settled { answer: Settled::Applied { .. }, .. }, Some((key, next))) =
            (&answer, next)
            && !matches!(next, store::queue::NextState::Pending { .. })
        {
            self.delivered.insert(key);
        }
        if silent && !certain {
            answer = failure;
        }
        let at = self.after(30);
        self.plan(at, Item::Answers(answer));
    }

    fn accept(&mut self, place: usize) {
        let endpoint = self.endpoints[place].clone();
        let issued_at = self.scene.now.elapsed;
        let late = place < 3 && self.throw(10) == 0;
        let due = self.scene.now.rows.after(if late { 4 * SECOND } else { Duration::ZERO });
        let delivery = self.scene.accept_due(&endpoint, due);
        self.accepted.push((delivery.key, issued_at));
        if self.throw(5) > 0 {
            let most = if self.throw(8) == 0 { 1_500 } else { 10 };
            let at = self.after(most);
            let deliveries = vec![delivery];
            self.plan(at, Item::Answers(Event::HandedOver { issued_at, deliveries }));
        }
    }

    fn ask(&mut self) {
        let Some(index) = usize::try_from(self.throw(self.accepted.len() as u64 + 1)).ok() else {
            return;
        };
        let Some((key, _)) = self.accepted.get(index).copied() else { return };
        let endpoint = self.endpoints.iter().find(|one| one.key == key.endpoint).unwrap().clone();
        if self.throw(2) == 0 {
            let _ = self.scene.store.cancel(key, self.scene.now.rows);
        } else {
            self.scene.ask(&endpoint, RequestKind::RetryNow(key.message));
        }
    }

    fn run(&mut self, until: Duration) {
        while let Some(((at, number), item)) = self.agenda.pop_first() {
            if at > until {
                self.agenda.insert((at, number), item);
                break;
            }
            let now = self.scene.now.elapsed;
            self.scene.jump(at.saturating_sub(now));
            match item {
                Item::TakesEffect(effect) => self.take_effect(effect),
                Item::Answers(event) => self.step(event),
                Item::Ends(sending) => self.end(&sending),
                Item::Accepts(place) => self.accept(place),
                Item::Asks => self.ask(),
                Item::Steals => self.steal(),
                Item::Wakes if self.wake == Some(at) => {
                    self.wake = None;
                    self.step(Event::TimePassed);
                }
                Item::Wakes => {}
            }
        }
        let now = self.scene.now.elapsed;
        self.scene.jump(until.saturating_sub(now));
    }

    /// Another node takes what it can, settles nothing, and gives it back.
    fn steal(&mut self) {
        let other = Node("b".into());
        let rows = self.scene.now.rows;
        self.scene.store.renew(other.clone(), rows);
        let leases = self.scene.store.take(&other, 64, rows);
        self.scene.store.release(&other, &leases);
    }
}

fn unanswered(effect: &Effect, asked_at: Duration) -> Event {
    match effect {
        Effect::Renew => Event::Renewed { asked_at, answer: Err(Unanswered) },
        Effect::Take { .. } => Event::Taken(Err(Unanswered)),
        Effect::Release(_) => Event::Released(Err(Unanswered)),
        Effect::Walk(_) => Event::Walked(Err(Unanswered)),
        Effect::ReadRequests(_) => Event::Requests(Err(Unanswered)),
        Effect::ReadChanges { .. } => Event::Changes(Err(Unanswered)),
        Effect::Load { load, .. } => Event::Loaded { load: *load, answer: Err(Unanswered) },
        Effect::ReadRoster(application) => {
            Event::Roster { application: *application, answer: Err(Unanswered) }
        }
        Effect::Send(_)
        | Effect::Abort(_)
        | Effect::Settle { .. }
        | Effect::Upkeep { .. }
        | Effect::Disable { .. }
        | Effect::Announce(_)
        | Effect::Confirm { .. }
        | Effect::WakeAt(_)
        | Effect::Stopped => Event::TimePassed,
    }
}

fn play(world: World) {
    let mut play = Play::new(world);
    play.step(Event::Policies(super::scene::policies()));
    for _ in 0..120 {
        let (at, place) = (play.after(20_000), play.throw(4));
        play.plan(at, Item::Accepts(usize::try_from(place).unwrap()));
        if play.throw(6) == 0 {
            let at = play.after(25_000);
            play.plan(at, Item::Asks);
        }
    }
    if world.losing_leases {
        for start in [5, 40] {
            play.plan(Duration::from_secs(start + 12), Item::Steals);
        }
    }
    for slice in 0..80_u64 {
        let out = world.losing_leases && (slice == 5 || slice == 40);
        if out {
            play.outage_until = play.scene.now.elapsed + 13 * SECOND;
        }
        let until = play.scene.now.elapsed + SECOND;
        play.run(until);
    }
    play.calm = true;
    play.outage_until = Duration::ZERO;
    let until = play.scene.now.elapsed + Duration::from_secs(2 * 3_600);
    play.run(until);
    let left: usize = play.endpoints.iter().map(|one| play.scene.pending(one)).sum();
    assert_eq!(left, 0, "deliveries are left");
    assert!(play.sent > 0 && play.flying.is_empty());
    assert_eq!(play.scene.engine.payload_bytes, 0);
    assert!(play.scene.engine.attempts.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_sent_twice_and_nothing_is_forgotten(
        seed: u64, window in 1_u32..20, in_flight in 1_u32..12, tight: bool, losing_leases: bool,
    ) {
        let payload_bytes = if tight { 6 } else { 1 << 20 };
        play(World { seed, window, in_flight, payload_bytes, losing_leases });
    }
}
