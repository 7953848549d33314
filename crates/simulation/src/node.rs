//! One process of the fleet: an engine, its clock, its committers, and what its API remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::partition::Partition;
use domain::time::Timestamp;
use engine::{Engine, Event, Moment, Number, Roster, Settings};
use store::keys::{ApplicationKey, Lease, Node};

use crate::agenda::{ArrivalId, Happening, Input, WireId};
use crate::committer::Committer;
use crate::counters::Path;
use crate::plan;
use crate::senders::Received;
use crate::world::World;

/// The moment at which every history begins, on the rows' timeline.
pub(crate) const BEGINNING: Timestamp = Timestamp::from_seconds(1_790_000_000);

/// How long before its wish an engine is woken early: timers are no finer than a millisecond.
const EARLY: Duration = Duration::from_millis(1);

/// A place in the fleet, and which of its processes in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeRef {
    /// The place.
    pub(crate) slot: usize,
    /// The process.
    pub(crate) life: u32,
}

/// A place in the fleet.
#[derive(Default)]
pub(crate) struct Slot {
    /// How many processes it has had.
    pub(crate) lives: u32,
    /// The one that runs.
    pub(crate) process: Option<Process>,
}

/// A running process.
pub(crate) struct Process {
    pub(crate) me: NodeRef,
    pub(crate) engine: Engine,
    pub(crate) started: Duration,
    /// By how many microseconds its guess of the rows' time is wrong.
    pub(crate) offset: i64,
    pub(crate) frozen: bool,
    /// What reached it while it was frozen.
    pub(crate) inbox: Vec<Input>,
    /// How many faults keep it from the store.
    pub(crate) cuts: u32,
    /// The number of the last alarm it asked for, and for when.
    pub(crate) wish: (u64, Duration),
    /// What it owns, as far as its engine has announced.
    pub(crate) owned: BTreeSet<Partition>,
    pub(crate) leases: BTreeMap<Partition, Lease>,
    pub(crate) committers: Vec<Committer>,
    /// The rosters that its API fans out with; refreshed only when they turn out to be stale.
    pub(crate) rosters: BTreeMap<ApplicationKey, Arc<Roster>>,
    /// The applications that names led to; looked up again only when that turns out to be wrong.
    pub(crate) names: BTreeMap<String, ApplicationKey>,
    /// Messages that it has received and not answered, and for which application.
    pub(crate) received: BTreeMap<ArrivalId, Received>,
    pub(crate) arrivals: u64,
    pub(crate) attempts: BTreeMap<Number, WireId>,
    pub(crate) stopping: bool,
    /// Whether it was told to stop at once.
    pub(crate) hurried: bool,
    /// When it had asked for the newest renewal that was answered.
    pub(crate) renewed: Option<Duration>,
    /// Its offset when its engine last took a step.
    pub(crate) stepped: i64,
}

impl Process {
    /// Returns what its clocks say.
    pub(crate) fn moment(&self, now: Duration) -> Moment {
        Moment { elapsed: now.saturating_sub(self.started), rows: self.rows(now) }
    }

    /// Returns its guess of the rows' time.
    pub(crate) fn rows(&self, now: Duration) -> Timestamp {
        let guess = BEGINNING.after(now).as_micros().saturating_add(self.offset);
        Timestamp::from_micros(guess)
    }
}

impl World {
    /// Starts the next process of a place.
    pub(crate) fn start(&mut self, slot: usize) {
        let Some(place) = self.slots.get_mut(slot) else { return };
        if place.process.is_some() {
            return;
        }
        place.lives += 1;
        let me = NodeRef { slot, life: place.lives };
        let node = Node(format!("node-{slot}-{}", me.life));
        let settings = Settings { node, ..self.plan.settings.clone() };
        let single = self.plan.fleet == 1;
        let rows = BEGINNING.after(self.now);
        // Before its first renewal a process of a fleet knows the store's clock only roughly.
        let offset = if single { 0 } else { self.chance.between(0, 400_000) };
        let offset = i64::try_from(offset).unwrap_or(0) - if single { 0 } else { 200_000 };
        place.process = Some(Process {
            me,
            engine: Engine::new(settings),
            started: self.now,
            offset,
            frozen: false,
            inbox: Vec::new(),
            cuts: 0,
            wish: (0, Duration::MAX),
            owned: BTreeSet::new(),
            leases: BTreeMap::new(),
            committers: Committer::all(!single, self.plan.lanes, rows),
            rosters: BTreeMap::new(),
            names: BTreeMap::new(),
            received: BTreeMap::new(),
            arrivals: 0,
            attempts: BTreeMap::new(),
            stopping: false,
            hurried: false,
            renewed: None,
            stepped: offset,
        });
        self.trace.say(self.now, || format!("{me:?} starts"));
        self.feed(me, Event::Policies(plan::policies()));
    }

    /// Returns a process, if it still runs.
    pub(crate) fn process(&self, me: NodeRef) -> Option<&Process> {
        self.slots.get(me.slot)?.process.as_ref().filter(|process| process.me == me)
    }

    /// Returns a process to be changed, if it still runs.
    pub(crate) fn process_mut(&mut self, me: NodeRef) -> Option<&mut Process> {
        self.slots.get_mut(me.slot)?.process.as_mut().filter(|process| process.me == me)
    }

    /// Returns the processes that take requests.
    pub(crate) fn open_processes(&self) -> Vec<NodeRef> {
        let running = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        running.filter(|process| !process.stopping).map(|process| process.me).collect()
    }

    /// Ends a process without any ceremony. What it had on the wire goes on without it.
    pub(crate) fn end_process(&mut self, slot: usize) -> Option<NodeRef> {
        let process = self.slots.get_mut(slot)?.process.take()?;
        for wire in process.attempts.values() {
            self.watch.forgets(*wire);
        }
        self.watch.died(process.me);
        Some(process.me)
    }

    /// Has something reach a process, now or when it thaws.
    pub(crate) fn reach(&mut self, me: NodeRef, input: Input) {
        let Some(process) = self.process_mut(me) else { return };
        if process.frozen {
            process.inbox.push(input);
            return;
        }
        match input {
            Input::Alarm(wish) => {
                if process.wish.0 == wish {
                    process.wish.1 = Duration::MAX;
                    self.feed(me, Event::TimePassed);
                }
            }
            Input::TooEarly(wish) => self.wake_early(me, wish),
            Input::Event(event) => self.feed(me, *event),
            Input::Answer(call) => self.answered(me, call),
            Input::Request(request) => self.requested(me, request),
            Input::End(wire) => self.ended(me, wire),
            Input::Repeat(lane) => self.repeat(me, lane),
            Input::Gathered(lane, time) => self.gathered(me, lane, time),
            Input::GaveUp(lane, waiter) => self.gave_up(me, lane, waiter),
            Input::Stop => self.feed(me, Event::Stop),
            Input::StopNow => {
                process.hurried = true;
                self.counters.count(Path::StopForced);
                self.feed(me, Event::StopNow);
            }
        }
    }

    /// Has something reach a process after a while.
    pub(crate) fn reach_later(&mut self, me: NodeRef, wait: Duration, input: Input) {
        self.agenda.plan(self.now + wait, Happening::At(me, input));
    }

    /// Tells an engine what happened, and carries out what it says.
    pub(crate) fn feed(&mut self, me: NodeRef, event: Event) {
        let now = self.now;
        let Some(process) = self.process(me) else { return };
        let moment = process.moment(now);
        self.trace.event(now, me, &event);
        self.watch.told(me, &event);
        if let Event::HandedOver { deliveries, .. } = &event
            && self.watch.any_known(deliveries)
        {
            self.counters.count(Path::HandOverOfKnown);
        }
        let mut effects = std::mem::take(&mut self.effects);
        let Some(process) = self.process_mut(me) else { return };
        process.engine.step(moment, event, &mut effects);
        process.stepped = process.offset;
        let at_the_limit = process.engine.is_at_the_hanging_limit();
        let holding_back = process.engine.is_holding_back(moment);
        self.steps += 1;
        if at_the_limit {
            self.counters.count(Path::HangingLimit);
        }
        if holding_back {
            self.counters.count(Path::HeldBack);
        }
        for effect in effects.drain(..) {
            self.trace.effect(now, me, &effect);
            self.carry_out(me, effect);
        }
        self.effects = effects;
    }

    /// Sets the alarm that an engine asked for. Timers are late by a little.
    pub(crate) fn set_alarm(&mut self, me: NodeRef, at: Duration) {
        let now = self.now;
        let Some(process) = self.process_mut(me) else { return };
        let at = (process.started + at).max(now);
        if process.wish.1 == at {
            return;
        }
        process.wish = (process.wish.0 + 1, at);
        let wish = process.wish.0;
        let late = self.chance.millis(0, 2);
        self.agenda.plan(at + late, Happening::At(me, Input::Alarm(wish)));
        let early = at.saturating_sub(EARLY);
        if self.plan.wakes_early() && wish.is_multiple_of(2) && early > now {
            self.agenda.plan(early, Happening::At(me, Input::TooEarly(wish)));
        }
    }

    /// Tells an engine that time has passed, before the moment that it wished for. Whatever time alone
    /// allows it to send then, it should have asked to be woken for. If its guess of the time was
    /// changed meanwhile, that is another matter: it could not know.
    fn wake_early(&mut self, me: NodeRef, wish: u64) {
        let Some(process) = self.process(me) else { return };
        let (last, at) = process.wish;
        // It may have been frozen until now, or have been woken by something else.
        let early = last == wish && at != Duration::MAX && self.now + EARLY <= at;
        if !early || process.offset != process.stepped {
            return;
        }
        self.counters.count(Path::WokenEarly);
        let sent = self.wires.count;
        self.feed(me, Event::TimePassed);
        if self.wires.count > sent {
            self.watch.oversleeps(me, self.now);
        }
    }
}
