//! The machine itself: everything one node keeps in mind, and what it does with each event.
//!
//! A step takes the event in, then looks at whoever is affected, starts what may start, and says
//! when it wants to be called next. The files beside this one hold one verb each; they all add
//! methods to [`Engine`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::partition::Partition;
use domain::time::Timestamp;
use store::keys::Lease;
use store::queue::Call;

use crate::dispatch::attempts::Attempts;
use crate::dispatch::burying::Step;
use crate::dispatch::ending::PANICS;
use crate::dispatch::loading::Running;
use crate::dispatch::turns::{Queue, Turns};
use crate::endpoints::Endpoints;
use crate::endpoints::endpoint::At;
use crate::endpoints::sharing::Sharing;
use crate::endpoints::timers::Timers;
use crate::ownership::leases::Leases;
use crate::ownership::stopping::Stopping;
use crate::ownership::walking::Walks;
use crate::planted::{self, Bug};
use crate::protocol::announcement::Announcement;
use crate::protocol::effect::Effect;
use crate::protocol::event::{Event, Number};
use crate::protocol::moment::Moment;
use crate::protocol::settings::Settings;
use crate::protocol::suspect::Suspect;
use crate::requests::Requests;
use crate::requests::recent::Recent;
use crate::roster::Policies;
use crate::roster::documents::Documents;
use crate::roster::hearing::Hearing;
use crate::roster::rosters::Rosters;

/// One node's core.
#[derive(Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) policies: Option<Arc<Policies>>,
    pub(crate) leases: Leases,
    /// Whether the lease was trusted in the last step.
    pub(crate) trusted: bool,
    pub(crate) endpoints: Endpoints,
    pub(crate) attempts: Attempts,
    /// Attempts that still run for endpoints whose partition was lost.
    pub(crate) strays: BTreeMap<At, u32>,
    pub(crate) turns: Turns,
    pub(crate) loads: BTreeMap<Number, Running>,
    pub(crate) load_queue: Queue,
    pub(crate) steps: BTreeMap<Number, Step>,
    pub(crate) rosters: Rosters,
    pub(crate) hearing: Hearing,
    pub(crate) documents: Documents,
    pub(crate) requests: Requests,
    pub(crate) walks: Walks,
    pub(crate) timers: Timers,
    pub(crate) stopping: Option<Stopping>,
    /// Endpoints that are being disabled, by what the answer names.
    pub(crate) disabling: BTreeSet<(store::keys::EndpointKey, store::keys::ApplicationKey)>,
    /// How often our own code failed at a delivery.
    pub(crate) panics: Recent<u32>,
    /// Deliveries in memory.
    pub(crate) rows: u32,
    /// Payload bytes in all windows.
    pub(crate) payload_bytes: u64,
    /// What several of them count.
    pub(crate) sharing: Sharing,
    last_number: u64,
    /// The delivery whose attempt begins, while it does.
    pub(crate) starting: Option<Suspect>,
}

/// One step: when it happens, and what is to be done.
pub(crate) struct Act<'a> {
    pub(crate) now: Moment,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Act<'_> {
    pub(crate) fn announce(&mut self, announcement: Announcement) {
        self.effects.push(Effect::Announce(announcement));
    }
}

impl Engine {
    /// Makes an engine that owns nothing yet. It begins with its first event.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            attempts: Attempts::new(&settings),
            settings,
            policies: None,
            leases: Leases::default(),
            trusted: false,
            endpoints: Endpoints::default(),
            strays: BTreeMap::new(),
            turns: Turns::default(),
            loads: BTreeMap::new(),
            load_queue: Queue::default(),
            steps: BTreeMap::new(),
            rosters: Rosters::default(),
            hearing: Hearing::default(),
            documents: Documents::default(),
            requests: Requests::default(),
            walks: Walks::default(),
            timers: Timers::default(),
            stopping: None,
            disabling: BTreeSet::new(),
            panics: Recent::new(PANICS),
            rows: 0,
            payload_bytes: 0,
            sharing: Sharing::default(),
            last_number: 0,
            starting: None,
        }
    }

    /// Gives out its numbers beyond those of an engine before it on the same node, however late an
    /// answer for that one comes: under another's number it would be taken for this one's.
    #[must_use]
    pub fn after_lives(mut self, lives: u32) -> Self {
        self.last_number = u64::from(lives) << 40;
        self
    }

    /// Has each load bring so many deliveries at the most from now on, known ones apart.
    pub fn load_at_most(&mut self, rows: u32) {
        self.settings.load_rows = rows;
    }

    /// Returns the delivery whose attempt was beginning when a step panicked, if that was it: any event
    /// may let any delivery begin.
    #[must_use]
    pub fn starting(&self) -> Option<Suspect> {
        self.starting
    }

    /// Takes in one event and adds what is to be done about it.
    pub fn step(&mut self, now: Moment, event: Event, effects: &mut Vec<Effect>) {
        let act = &mut Act { now, effects };
        self.weigh_trust(act);
        self.take_in(event, act);
        while let Some(at) = self.timers.expired(act.now.rows) {
            if let Some(endpoint) = self.endpoints.get_mut(&at) {
                endpoint.wake = Timestamp::FAR_FUTURE;
            }
            self.look(at, act);
        }
        self.start_what_may(act);
        self.load_what_may(act);
        self.confirm_changes(act);
        self.ask_routinely(act);
        self.release_again(act);
        self.give_back_drained(act);
        self.finish_stopping(act);
        self.say_when(act);
    }

    /// Tells whether endpoints are set aside because as many attempts hang as may.
    #[must_use]
    pub fn is_at_the_hanging_limit(&self) -> bool {
        self.turns.has_parked() && self.attempts.hang_enough(&self.settings)
    }

    /// Tells whether endpoints are set aside because many attempts hang and others have just begun.
    #[must_use]
    pub fn is_holding_back(&self, now: Moment) -> bool {
        let next = self.attempts.next_silent(now.elapsed, &self.settings);
        self.turns.has_parked() && next.is_some()
    }

    fn take_in(&mut self, event: Event, act: &mut Act<'_>) {
        match event {
            Event::TimePassed => {}
            Event::Policies(policies) => {
                self.policies = Some(policies);
                self.look_at_all(act);
            }
            Event::Renewed { asked_at, answer } => self.renewed(asked_at, answer, act),
            Event::Taken(answer) => self.taken(answer, act),
            Event::Released(answer) => self.released(answer, act),
            Event::Walked(answer) => self.walked(answer, act),
            Event::Loaded { load, answer } => self.loaded(load, answer, act),
            Event::Roster { application, answer } => {
                if self.rosters.answered(application, answer, act.now.elapsed) {
                    self.look_at_application(application, act);
                }
            }
            Event::RosterSeen { roster, began } => {
                let application = roster.application;
                if self.rosters.seen(roster, began, self.hearing.heard_at()) {
                    self.look_at_application(application, act);
                }
            }
            Event::Changes(answer) => self.changes_heard(answer, act),
            Event::HandedOver { issued_at, deliveries } => {
                self.handed_over(issued_at, deliveries, act);
            }
            Event::Ended { attempt, end, dice } => self.ended(attempt, end, dice, act),
            Event::Settled { attempt, answer } => self.settled(attempt, answer, act),
            Event::Upkept { step, answer } => self.upkept(step, answer, act),
            Event::Disabled { endpoint } => self.disabled(endpoint, act),
            Event::Requests(answer) => self.requested(answer, act),
            Event::Asked => self.requests.read_soon(),
            Event::Woken(Call::Free) => self.leases.renew_at(act.now.elapsed),
            Event::Woken(Call::Work(partitions)) => self.walks.wake(partitions),
            Event::Woken(Call::Changed) => self.hearing.call(),
            Event::Stop => self.stop(act),
            Event::StopNow => self.stop_now(act),
        }
    }

    /// Returns a number that was never used before.
    pub(crate) fn number(&mut self) -> Number {
        self.last_number += 1;
        Number(self.last_number)
    }

    /// Tells whether anything may be done for a partition's endpoints.
    pub(crate) fn works_for(&self, partition: Partition) -> bool {
        (self.trusted || planted::has(Bug::IgnoreTrust))
            && self.stopping.is_none()
            && self.policies.is_some()
            && self.leases.get(partition).is_some_and(|held| !held.leaving)
    }

    /// Counts something that must be answered before a partition can be given back.
    pub(crate) fn occupy(&mut self, lease: Lease) {
        if let Some(held) = self.leases.get_mut(lease.partition)
            && held.epoch == lease.epoch
        {
            held.busy += 1;
        }
    }

    /// Counts its answer.
    pub(crate) fn vacate(&mut self, lease: Lease) {
        if let Some(held) = self.leases.get_mut(lease.partition)
            && held.epoch == lease.epoch
        {
            held.busy = held.busy.saturating_sub(1);
        }
    }

    /// What is asked again and again: renewals, walks, requests, rosters.
    fn ask_routinely(&mut self, act: &mut Act<'_>) {
        let now = act.now.elapsed;
        if self.renews() && self.leases.renewal_is_due(now, self.settings.renew_every) {
            act.effects.push(Effect::Renew);
        }
        if self.stopping.is_none() {
            self.read_changes_when_due(act);
        }
        if self.trusted && self.stopping.is_none() {
            self.walk_when_due(act);
            self.read_requests_when_due(act);
            self.rosters.ask(now, act.effects);
        }
    }

    /// A node that stops and has nothing left does not renew: it would count as alive again.
    fn renews(&self) -> bool {
        self.stopping.is_none() || !self.leases.is_empty() || self.leases.taking.is_some()
    }

    fn say_when(&mut self, act: &mut Act<'_>) {
        let active = self.trusted && self.stopping.is_none();
        let trust = self.leases.trusted_until(self.settings.lease_trusted);
        let waits = active && (self.turns.is_waiting() || !self.load_queue.is_empty());
        let slot = waits.then(|| self.attempts.next_to_hang(self.settings.hanging_after));
        let silent = active && self.turns.has_parked() && !planted::has(Bug::ForgetHeldBack);
        let silent =
            silent.then(|| self.attempts.next_silent(act.now.elapsed, &self.settings)).flatten();
        let release = self.stopping.as_ref().and_then(Stopping::next);
        let routine = [
            self.leases.next_renewal().filter(|_| self.renews()),
            trust.filter(|_| self.trusted),
            self.walks.next().filter(|_| active),
            self.requests.next().filter(|_| active),
            self.rosters.next().filter(|_| active),
            self.hearing
                .next(self.rosters.is_reading(), &self.settings)
                .filter(|_| self.stopping.is_none()),
            self.leases.next_quiet(act.now.elapsed),
            release.filter(|_| self.leases.releasing.is_empty()),
            slot.flatten(),
            silent,
        ];
        let earliest = routine.into_iter().flatten().min();
        act.effects.extend(self.timers.wish(act.now, earliest).map(Effect::WakeAt));
    }
}

#[cfg(test)]
pub(crate) mod tests;
