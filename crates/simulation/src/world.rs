//! The world of one seed: everything in it, and its one loop.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::ids::ApplicationId;
use domain::partition::Partition;
use engine::Effect;
use store::catalog::{ApplicationSettings, NewApplication};
use store::keys::{ApplicationKey, Epoch};
use store::memory::State;

use crate::agenda::{Agenda, Happening};
use crate::bugs::Bug;
use crate::calls::Calls;
use crate::chance::Chance;
use crate::counters::Counters;
use crate::library::Library;
use crate::node::{BEGINNING, Slot};
use crate::plan::Plan;
use crate::senders::Letter;
use crate::shelf::Weather;
use crate::trace::{Detail, Trace};
use crate::watch::{Violation, Watch};
use crate::wires::Wires;

/// How long everything may take to end once the faults are over.
const LONGEST_END: Duration = Duration::from_secs(900);
/// How often it is looked whether everything has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A world.
pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) chance: Chance,
    pub(crate) agenda: Agenda,
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    pub(crate) state: State,
    pub(crate) epochs: BTreeMap<Partition, Epoch>,
    pub(crate) weather: Weather,
    pub(crate) calls: Calls,
    pub(crate) slots: Vec<Slot>,
    pub(crate) wires: Wires,
    pub(crate) library: Library,
    pub(crate) applications: Vec<ApplicationKey>,
    pub(crate) letters: Vec<Letter>,
    pub(crate) letters_left: u32,
    pub(crate) watch: Watch,
    pub(crate) counters: Counters,
    pub(crate) trace: Trace,
    pub(crate) effects: Vec<Effect>,
    pub(crate) steps: u64,
}

/// What a history came to.
#[derive(Debug)]
pub struct History {
    /// Its seed.
    pub seed: u64,
    /// The number of its trace.
    pub hash: u64,
    /// Deliveries made.
    pub deliveries: u64,
    /// Attempts begun.
    pub attempts: u64,
    /// Steps of engines.
    pub steps: u64,
    /// How long it lasted, in its own time.
    pub lasted: Duration,
    /// How often rare paths were taken.
    pub counters: Counters,
    /// What went wrong; nothing if all is well.
    pub violations: Vec<Violation>,
    /// Its trace, if that was wanted.
    pub lines: Vec<String>,
}

impl World {
    /// Makes the world of a seed.
    pub(crate) fn new(seed: u64, bug: Option<Bug>, detail: Detail) -> Self {
        let mut chance = Chance::seeded(seed);
        let plan = Plan::draw(&mut chance);
        Self::planned(chance, plan, bug, detail)
    }

    /// Makes a world by plan.
    pub(crate) fn planned(chance: Chance, plan: Plan, bug: Option<Bug>, detail: Detail) -> Self {
        let slots = (0..plan.fleet).map(|_| Slot::default()).collect();
        Self {
            now: Duration::ZERO,
            chance,
            agenda: Agenda::default(),
            letters_left: plan.messages,
            watch: Watch::new(&plan),
            plan,
            bug,
            state: State::default(),
            epochs: BTreeMap::new(),
            weather: Weather::default(),
            calls: Calls::default(),
            slots,
            wires: Wires::default(),
            library: Library::default(),
            applications: Vec::new(),
            letters: Vec::new(),
            counters: Counters::default(),
            trace: Trace::new(detail),
            effects: Vec::new(),
            steps: 0,
        }
    }

    /// Lets everything happen until it has ended, or something is wrong.
    pub(crate) fn run(mut self, seed: u64) -> History {
        Bug::plant(self.bug);
        self.set_up();
        let end = self.plan.lasting;
        self.run_until(end);
        self.calm_down();
        let deadline = self.now + LONGEST_END;
        let mut look = self.now + LOOK_EVERY;
        while self.watch.is_content() && self.now < deadline {
            self.run_until(look);
            look = self.now + LOOK_EVERY;
            self.resume_all();
            if self.has_ended() {
                break;
            }
        }
        self.look_back(seed)
    }

    /// Creates applications and endpoints, and plans everybody's first act.
    pub(crate) fn set_up(&mut self) {
        for number in 0..self.plan.applications {
            let new = NewApplication {
                id: ApplicationId::new(BEGINNING, self.chance.id_bytes()),
                uid: Some(format!("customer-{number}")),
                settings: ApplicationSettings::default(),
                at: BEGINNING,
            };
            if let Ok(application) = self.state.create_application(new) {
                self.applications.push(application.key);
            }
        }
        for _ in 0..self.plan.endpoints {
            let Some(application) = self.chance.pick(&self.applications).copied() else { continue };
            let new = self.new_endpoint(application);
            self.create(&new);
        }
        for slot in 0..self.slots.len() {
            let wait = self.chance.millis(0, 3_000);
            self.agenda.plan(wait, Happening::Starts(slot));
        }
        self.agenda.plan(self.chance.millis(0, 2_000), Happening::SenderSends);
        self.agenda.plan(self.chance.millis(1_000, 4_000), Happening::Prunes);
        if self.plan.people {
            self.agenda.plan(self.chance.millis(500, 5_000), Happening::PersonActs);
        }
        if self.plan.faults.weights() > 0 {
            self.agenda.plan(self.chance.millis(500, 15_000), Happening::FaultStrikes);
        }
    }

    /// Lets happen what happens until a moment.
    pub(crate) fn run_until(&mut self, end: Duration) {
        while self.watch.is_content() {
            let Some((at, happening)) = self.agenda.next_until(end) else { break };
            self.now = at;
            self.watch.passes(at);
            self.happen(happening);
            for path in self.watch.paths.drain(..) {
                self.counters.count(path);
            }
        }
        self.now = self.now.max(end);
    }

    fn happen(&mut self, happening: Happening) {
        let over = self.now >= self.plan.lasting;
        match happening {
            Happening::At(me, input) => self.reach(me, input),
            Happening::TakesEffect(call) => self.take_effect(call),
            Happening::Arrives(wire) => self.arrives(wire),
            Happening::Leaves(wire) => self.leaves(wire),
            Happening::SenderSends if !over => self.sender_sends(),
            Happening::SenderRepeats(request) => self.submit(request),
            Happening::PersonActs if !over => self.person_acts(),
            Happening::MoodSwings(endpoint) if !over => self.mood_swings(endpoint),
            Happening::FaultStrikes if !over => self.fault_strikes(),
            Happening::SenderSends
            | Happening::PersonActs
            | Happening::MoodSwings(_)
            | Happening::FaultStrikes => {}
            Happening::FaultEnds(fault) => self.fault_ends(fault),
            Happening::Starts(slot) => self.start(slot),
            Happening::Prunes => self.prunes(),
        }
    }

    fn has_ended(&self) -> bool {
        let answered = self.letters.iter().all(Letter::is_answered);
        answered && self.watch.nothing_waits() && self.is_quiet() && !self.is_committing()
    }

    fn look_back(mut self, seed: u64) -> History {
        if self.watch.is_content() {
            self.watch.looks_back(&self.state, &self.letters, seed.is_multiple_of(8));
        }
        History {
            seed,
            hash: self.trace.hash(),
            deliveries: self.watch.deliveries(),
            attempts: self.wires.count,
            steps: self.steps,
            lasted: self.now,
            counters: self.counters,
            violations: self.watch.into_violations(),
            lines: self.trace.into_lines(),
        }
    }
}
