//! Attempts on the wire, and the receivers at its end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use domain::ids::AttemptId;
use domain::outcome::{Outcome, Unreachable};
use domain::retry_after::RetryAfter;
use domain::time::Timestamp;
use engine::{End, Event, Number, Sending};
use store::keys::EndpointKey;
use store::queue::{AttemptRecord, Phases};

use crate::agenda::{Happening, Input, WireId};
use crate::counters::Path;
use crate::node::NodeRef;
use crate::senders::POISON;
use crate::world::World;

/// An attempt.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) me: NodeRef,
    pub(crate) attempt: Number,
    pub(crate) sending: Sending,
    pub(crate) began: Duration,
    pub(crate) began_rows: Timestamp,
    /// How it will end, and when, if nobody stops it.
    planned: Option<(Duration, Planned)>,
    aborted: bool,
    ended: bool,
}

#[derive(Debug, Clone, Copy)]
enum Planned {
    Outcome(Outcome),
    Panic,
}

/// The ways of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Fine,
    /// It takes its quarter of a second.
    Steady,
    Slow,
    Hanging,
    Flapping,
    /// More than so many a second are answered with 429 and a wait.
    Limiting,
    Unavailable,
    Failing,
    NotFound,
    Refusing,
    Gone,
    Dead,
    Broken,
}

const MOODS: [Mood; 14] = [
    Mood::Fine,
    Mood::Fine,
    Mood::Fine,
    Mood::Slow,
    Mood::Hanging,
    Mood::Flapping,
    Mood::Limiting,
    Mood::Unavailable,
    Mood::Failing,
    Mood::NotFound,
    Mood::Refusing,
    Mood::Gone,
    Mood::Dead,
    Mood::Broken,
];

/// A receiver.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) mood: Mood,
    arrivals: VecDeque<Duration>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self { mood: Mood::Fine, arrivals: VecDeque::new() }
    }
}

/// Everything on the wire, and who is at its end.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    flying: BTreeMap<WireId, Wire>,
    pub(crate) count: u64,
    pub(crate) receivers: BTreeMap<EndpointKey, Receiver>,
    /// When requests arrived, and whether they succeeded, if somebody wants to know.
    pub(crate) arrivals: Option<Vec<(Duration, bool)>>,
}

impl World {
    /// Tells whether no process waits for a receiver.
    pub(crate) fn is_quiet(&self) -> bool {
        let waits = |wire: &Wire| !wire.ended && self.process(wire.me).is_some();
        !self.wires.flying.values().any(waits)
    }

    /// Begins an attempt.
    pub(crate) fn send(&mut self, me: NodeRef, sending: Sending) {
        self.wires.count += 1;
        let id = WireId(self.wires.count);
        let endpoint = sending.delivery.key.endpoint;
        let Some(process) = self.process(me) else { return };
        let began_rows = process.rows(self.now);
        self.watch.sends((id, me), (self.now, began_rows), &sending, &self.state);
        let payload = sending.delivery.payload.as_ref();
        let poison = payload.is_some_and(|it| it.starts_with(POISON.as_bytes()));
        let panics = poison || self.chance.permille(self.plan.faults.panics);
        let lost = self.chance.permille(self.plan.faults.lost_requests);
        let dead = self.wires.receivers.get(&endpoint).is_some_and(|it| it.mood == Mood::Dead);
        let whole = sending.policy.timeouts.whole();
        let network = self.chance.millis(1, 15);
        let planned = match () {
            () if panics => Some((self.now + network / 4, Planned::Panic)),
            () if lost => Some((self.now + whole, Planned::Outcome(Outcome::TimedOut))),
            () if dead => {
                let refused = Outcome::Unreachable(Unreachable::Refused);
                Some((self.now + network, Planned::Outcome(refused)))
            }
            () => None,
        };
        match planned {
            Some((at, _)) => self.agenda.plan(at, Happening::At(me, Input::End(id))),
            None => self.agenda.plan(self.now + network, Happening::Arrives(id)),
        }
        let attempt = sending.attempt;
        if let Some(process) = self.process_mut(me) {
            process.attempts.insert(attempt, id);
        }
        let (began, aborted, ended) = (self.now, false, false);
        let wire = Wire { me, attempt, sending, began, began_rows, planned, aborted, ended };
        self.wires.flying.insert(id, wire);
    }

    /// A request reaches its receiver.
    pub(crate) fn arrives(&mut self, id: WireId) {
        let Some(wire) = self.wires.flying.get(&id) else { return };
        let (me, began) = (wire.me, wire.began);
        let endpoint = wire.sending.delivery.key.endpoint;
        let whole = wire.sending.policy.timeouts.whole();
        let (outcome, took) = self.receive(endpoint);
        let good = outcome.is_2xx();
        if let Some(arrivals) = &mut self.wires.arrivals {
            arrivals.push((self.now, good));
        }
        if good && self.watch.arrived(&wire_key(self.wires.flying.get(&id))) {
            self.counters.count(Path::Duplicate);
        }
        let back = self.chance.millis(1, 15);
        let (deadline, answered) = (began + whole, self.now + took + back);
        let (at, outcome) = match answered < deadline {
            true => (answered, outcome),
            false => (deadline, Outcome::TimedOut),
        };
        let Some(wire) = self.wires.flying.get_mut(&id) else { return };
        wire.planned = Some((at, Planned::Outcome(outcome)));
        if !wire.ended {
            self.agenda.plan(at, Happening::At(me, Input::End(id)));
        }
        self.agenda.plan(self.now + took.min(Duration::from_secs(10)), Happening::Leaves(id));
    }

    /// A receiver has done with a request; nobody has to know it any longer if it ended.
    pub(crate) fn leaves(&mut self, id: WireId) {
        let over = |wire: &Wire| wire.ended || self.process(wire.me).is_none();
        let over = self.wires.flying.get(&id).is_some_and(over);
        if over {
            self.wires.flying.remove(&id);
        }
    }

    /// Returns what a receiver makes of a request, and how long that takes.
    fn receive(&mut self, endpoint: EndpointKey) -> (Outcome, Duration) {
        let now = self.now;
        let receiver = self.wires.receivers.entry(endpoint).or_default();
        receiver.arrivals.push_back(now);
        let second = Duration::from_secs(1);
        while receiver.arrivals.front().is_some_and(|it| now.saturating_sub(*it) > second) {
            receiver.arrivals.pop_front();
        }
        let many = receiver.arrivals.len() > 3;
        let mood = receiver.mood;
        let quick = self.chance.millis(1, 40);
        let answered = Outcome::answered;
        match mood {
            Mood::Fine => (answered(200), quick),
            Mood::Steady => (answered(200), self.chance.millis(200, 300)),
            Mood::Slow => (answered(200), self.chance.millis(200, 3_500)),
            Mood::Hanging => (answered(200), Duration::from_secs(3_600)),
            Mood::Flapping if self.chance.percent(50) => (answered(204), quick),
            Mood::Flapping => (answered(500), quick),
            Mood::Limiting if many => {
                self.counters.count(Path::RetryAfter);
                let seconds = self.chance.between(1, 8);
                let retry_after = Some(RetryAfter::Seconds(seconds));
                (Outcome::Answered { status: 429, retry_after }, quick)
            }
            Mood::Limiting => (answered(200), quick),
            Mood::Unavailable => (answered(503), quick),
            Mood::Failing => (answered(500), quick),
            Mood::NotFound => (answered(404), quick),
            Mood::Refusing => (answered(403), quick),
            Mood::Gone => (answered(410), quick),
            Mood::Dead => (Outcome::Unreachable(Unreachable::Refused), quick),
            Mood::Broken if self.chance.percent(50) => (Outcome::BrokenAnswer, quick),
            Mood::Broken => (Outcome::Unreachable(Unreachable::Reset), quick),
        }
    }

    /// Stops an attempt.
    pub(crate) fn abort(&mut self, me: NodeRef, attempt: Number) {
        let wait = self.chance.millis(0, 3);
        let Some(id) = self.process(me).and_then(|it| it.attempts.get(&attempt)).copied() else {
            return;
        };
        if let Some(wire) = self.wires.flying.get_mut(&id) {
            wire.aborted = true;
        }
        self.reach_later(me, wait, Input::End(id));
    }

    /// An attempt ends, as far as its process is concerned.
    pub(crate) fn ended(&mut self, me: NodeRef, id: WireId) {
        let now = self.now;
        let Some(rows) = self.process(me).map(|process| process.rows(now)) else { return };
        let Some(wire) = self.wires.flying.get_mut(&id).filter(|wire| !wire.ended) else { return };
        let planned = wire.planned.filter(|(at, _)| *at <= now).map(|(_, planned)| planned);
        let end = match planned {
            Some(planned) => planned,
            None if wire.aborted => Planned::Outcome(Outcome::Interrupted),
            None => return,
        };
        wire.ended = true;
        let attempt = wire.attempt;
        let (began_at, trigger) = (wire.began_rows, wire.sending.trigger);
        let end = match end {
            Planned::Panic => End::Panicked,
            Planned::Outcome(outcome) => {
                if outcome == Outcome::Interrupted {
                    self.counters.count(Path::Interrupted);
                }
                End::Recorded(Box::new(AttemptRecord {
                    id: AttemptId::new(rows, self.chance.id_bytes()),
                    began_at,
                    ended_at: rows,
                    trigger,
                    outcome,
                    retry_after_kept: None,
                    phases: Phases::default(),
                    request_headers: store::Headers::default(),
                    response_headers: store::Headers::default(),
                    response_body: bytes::Bytes::new(),
                    error: None,
                    refusal: None,
                    hops: Vec::new(),
                }))
            }
        };
        let dice = self.chance.dice();
        if let Some(process) = self.process_mut(me) {
            process.attempts.remove(&attempt);
        }
        let arrived = self.wires.flying.get(&id).is_some_and(|wire| wire.planned.is_some());
        if let Some(wire) = self.wires.flying.get(&id) {
            self.watch.ends(id, wire, &end, (rows, dice));
        }
        if arrived {
            self.wires.flying.remove(&id);
        }
        self.feed(me, Event::Ended { attempt, end, dice });
    }

    /// A receiver changes its ways.
    pub(crate) fn mood_swings(&mut self, endpoint: EndpointKey) {
        let mood = self.chance.pick(&MOODS).copied().unwrap_or(Mood::Fine);
        self.wires.receivers.entry(endpoint).or_default().mood = mood;
        self.trace.say(self.now, || format!("receiver {} is {mood:?}", endpoint.0));
        let wait = self.chance.millis(1_000, 25_000);
        self.agenda.plan(self.now + wait, Happening::MoodSwings(endpoint));
    }
}

fn wire_key(wire: Option<&Wire>) -> Option<(store::keys::DeliveryKey, Number)> {
    wire.map(|wire| (wire.sending.delivery.key, wire.attempt))
}
