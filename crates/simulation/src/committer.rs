//! Group commit in a process: the engine's lanes, and a batch on its way.
//!
//! Like SQLite, a process has one committer for everything; like PostgreSQL, it has one for each
//! lane. A batch that failed is committed again before anything newer, mostly without its accepts:
//! their callers were told 503. Behind a batch it waits for a crowd, as the real one does.

use std::collections::VecDeque;
use std::time::Duration;

use domain::time::Timestamp;
use engine::commit::{
    Carried, Crowd, Cut, Entered, Lanes, Limits, Pace, Urgency, Waiter, Weight, Which,
};
use engine::{Event, Number};
use store::keys::ApplicationKey;
use store::queue::{self, Accept, Batch, Committed, Settle, Upkeep};

use crate::agenda::{ArrivalId, Input, RequestId};
use crate::bugs::Bug;
use crate::calls::Question;
use crate::counters::Path;
use crate::node::NodeRef;
use crate::people::Errand;
use crate::world::World;

/// A message on its way, with the request it came with.
#[derive(Debug)]
pub(crate) struct AcceptTicket {
    pub(crate) arrival: ArrivalId,
    pub(crate) request: RequestId,
    pub(crate) accept: Accept,
}

/// An attempt to be settled.
#[derive(Debug)]
pub(crate) struct SettleTicket {
    pub(crate) attempt: Number,
    pub(crate) settle: Settle,
}

/// A step of upkeep, and who wants to know.
#[derive(Debug)]
pub(crate) struct UpkeepTicket {
    pub(crate) asker: Asker,
    pub(crate) upkeep: Upkeep,
}

/// Who asked for a step of upkeep.
#[derive(Debug)]
pub(crate) enum Asker {
    /// The engine.
    Engine(Number),
    /// The shell, for a person.
    Shell(Errand),
}

type Tickets = Cut<AcceptTicket, SettleTicket, UpkeepTicket>;

/// The lanes of a process, or one of them.
pub(crate) struct Committer {
    /// Which of them, if it is one.
    lane: Option<Which>,
    lanes: Lanes<ApplicationKey, AcceptTicket, SettleTicket, UpkeepTicket>,
    /// The batch that is on its way, and when it was issued.
    flying: Option<(Tickets, Duration)>,
    /// The batch that has to be committed again, and when it was issued first.
    failed: Option<(Tickets, Duration)>,
    /// Who shares its batches.
    crowd: Crowd,
    /// How many attempts it settles beside few of them.
    pace: Pace,
    /// Whether those whom it has carried are being told; nothing is cut meanwhile.
    telling: bool,
    /// How many callers must wait before the next batch is cut, while it waits for them.
    gathering: Option<usize>,
    /// How often it has waited for them.
    gathers: u64,
    /// What found its lane full.
    overflow: VecDeque<SettleTicket>,
    /// How long a message waits for room.
    wait: Duration,
    upkeep_overflow: VecDeque<UpkeepTicket>,
}

impl Committer {
    /// Makes idle ones: one for all lanes, or one for each.
    pub(crate) fn all(apart: bool, limits: Limits, now: Timestamp) -> Vec<Self> {
        let lanes: &[Option<Which>] = match apart {
            false => &[None],
            true => &[Some(Which::Accepts), Some(Which::Settles), Some(Which::Upkeep)],
        };
        lanes.iter().map(|lane| Self::new(*lane, limits, now)).collect()
    }

    fn new(lane: Option<Which>, limits: Limits, now: Timestamp) -> Self {
        Self {
            lane,
            lanes: Lanes::new(limits, now),
            flying: None,
            failed: None,
            crowd: Crowd::default(),
            pace: Pace::default(),
            telling: false,
            gathering: None,
            gathers: 0,
            overflow: VecDeque::new(),
            wait: limits.wait,
            upkeep_overflow: VecDeque::new(),
        }
    }

    fn offer_settle(&mut self, ticket: SettleTicket) {
        let weight = Weight { rows: 3, bytes: 512 };
        if let Err(full) = self.lanes.offer_settle(weight, ticket) {
            self.overflow.push_back(full.item);
        }
    }

    fn offer_upkeep(&mut self, ticket: UpkeepTicket) {
        let (urgency, rows) = (Urgency::of(&ticket.upkeep), rows_of(&ticket.upkeep));
        if let Err(full) = self.lanes.offer_upkeep(urgency, rows, ticket) {
            self.upkeep_overflow.push_back(full.item);
        }
    }

    /// Lets in what found the lanes full before.
    fn refill(&mut self) {
        for ticket in std::mem::take(&mut self.overflow) {
            self.offer_settle(ticket);
        }
        for ticket in std::mem::take(&mut self.upkeep_overflow) {
            self.offer_upkeep(ticket);
        }
    }

    fn next(&mut self, now: Timestamp) -> Option<Tickets> {
        self.refill();
        let waits = |callers| !self.lanes.has_enough(self.lane, callers);
        if self.telling || self.gathering.is_some_and(waits) {
            return None;
        }
        self.gathering = None;
        let limited = self.lane.is_none() && !self.crowd.is_there();
        let settles = if limited { self.pace.settles() } else { usize::MAX };
        let cut = self.lanes.cut(now, settles);
        if cut.is_none() {
            // Whoever comes after a silence is not one of those who were here before it.
            self.crowd = Crowd::default();
        }
        cut
    }
}

/// The places of the lanes among a process's committers, if it has several.
#[derive(Debug, Clone, Copy)]
enum Lane {
    Accept,
    Settle,
    Upkeep,
}

impl World {
    /// Puts a message into the accept lane, or has it wait there, or refuses it.
    pub(crate) fn offer_accept(&mut self, me: NodeRef, ticket: AcceptTicket) {
        let (application, deliveries) = (ticket.accept.application, ticket.accept.deliveries.len());
        let rows = 3 + 2 * u32::try_from(deliveries).unwrap_or(u32::MAX / 4);
        let weight = Weight { rows, bytes: 256 };
        let Some((place, committer)) = self.committer(me, Lane::Accept) else { return };
        let wait = committer.wait;
        match committer.lanes.offer_accept(application, weight, ticket) {
            Ok(Entered::Lane) => {}
            Ok(Entered::Waits { waiter, refused }) => {
                self.counters.count(Path::WaitedForTheLane);
                self.reach_later(me, wait, Input::GaveUp(place, waiter));
                refused.into_iter().for_each(|full| self.lane_was_full(&full.item));
            }
            Err(full) => self.lane_was_full(&full.item),
        }
        self.pump(me, place);
    }

    /// A message has waited for the lane for as long as its sender does.
    pub(crate) fn gave_up(&mut self, me: NodeRef, place: usize, waiter: Waiter<ApplicationKey>) {
        let Some(process) = self.process_mut(me) else { return };
        let Some(committer) = process.committers.get_mut(place) else { return };
        if let Some(full) = committer.lanes.give_up_accept(waiter) {
            self.lane_was_full(&full.item);
        }
        self.pump(me, place);
    }

    fn lane_was_full(&mut self, ticket: &AcceptTicket) {
        self.counters.count(Path::LaneFull);
        self.refuse(ticket.request);
    }

    /// Puts an attempt into the settle lane.
    pub(crate) fn offer_settle(&mut self, me: NodeRef, ticket: SettleTicket) {
        let Some((place, committer)) = self.committer(me, Lane::Settle) else { return };
        committer.offer_settle(ticket);
        self.pump(me, place);
    }

    /// Puts a step into the upkeep lane.
    pub(crate) fn offer_upkeep(&mut self, me: NodeRef, asker: Asker, upkeep: Upkeep) {
        let Some((place, committer)) = self.committer(me, Lane::Upkeep) else { return };
        committer.offer_upkeep(UpkeepTicket { asker, upkeep });
        self.pump(me, place);
    }

    fn committer(&mut self, me: NodeRef, lane: Lane) -> Option<(usize, &mut Committer)> {
        let committers = &mut self.process_mut(me)?.committers;
        let place = match lane {
            _ if committers.len() == 1 => 0,
            Lane::Accept => 0,
            Lane::Settle => 1,
            Lane::Upkeep => 2,
        };
        committers.get_mut(place).map(|committer| (place, committer))
    }

    /// Commits the next batch of a committer that is idle.
    fn pump(&mut self, me: NodeRef, place: usize) {
        let now = self.now;
        let Some(process) = self.process_mut(me) else { return };
        let rows = process.rows(now);
        let Some(committer) = process.committers.get_mut(place) else { return };
        if committer.flying.is_some() || committer.failed.is_some() {
            return;
        }
        let Some(cut) = committer.next(rows) else { return };
        self.fly(me, place, cut, now);
    }

    fn fly(&mut self, me: NodeRef, place: usize, cut: Tickets, issued: Duration) {
        let batch = Batch {
            accepts: cut.accepts.iter().map(|ticket| ticket.accept.clone()).collect(),
            settles: cut.settles.iter().map(|ticket| ticket.settle.clone()).collect(),
            upkeep: cut.upkeep.iter().map(|ticket| ticket.upkeep.clone()).collect(),
        };
        if self.bug == Some(Bug::AcknowledgeBeforeCommit) {
            let early =
                |it: &AcceptTicket| (it.request, it.accept.application, it.accept.message.id);
            let early: Vec<_> = cut.accepts.iter().map(early).collect();
            for (request, application, message) in early {
                self.acknowledge(request, application, message);
            }
        }
        let Some(process) = self.process_mut(me) else { return };
        let Some(committer) = process.committers.get_mut(place) else { return };
        committer.flying = Some((cut, issued));
        self.call(me, Question::Commit { lane: place, batch });
    }

    /// Commits a failed batch again.
    pub(crate) fn repeat(&mut self, me: NodeRef, place: usize) {
        let Some(process) = self.process_mut(me) else { return };
        let Some(committer) = process.committers.get_mut(place) else { return };
        let Some((cut, issued)) = committer.failed.take() else { return };
        self.fly(me, place, cut, issued);
    }

    /// Takes in the answer to a batch; none if it failed.
    pub(crate) fn committed(&mut self, me: NodeRef, place: usize, answer: Option<Committed>) {
        let Some(process) = self.process_mut(me) else { return };
        let Some(committer) = process.committers.get_mut(place) else { return };
        let Some((cut, issued)) = committer.flying.take() else { return };
        match answer {
            Some(answer) => {
                let items = cut.accepts.len() + cut.settles.len() + cut.upkeep.len();
                let callers = if committer.lane.is_none() { cut.accepts.len() } else { items };
                committer.telling = true;
                self.tell_all(me, cut, answer, issued);
                let writes = u32::try_from(items).unwrap_or(u32::MAX);
                let batch = Carried { callers, writes, took: self.now.saturating_sub(issued) };
                self.gather(me, place, batch);
            }
            None => self.failed(me, place, cut, issued),
        }
        self.pump(me, place);
    }

    /// Waits behind a batch until enough of those who come back are there again, or it has been long.
    fn gather(&mut self, me: NodeRef, place: usize, batch: Carried) {
        let Some(process) = self.process_mut(me) else { return };
        let Some(committer) = process.committers.get_mut(place) else { return };
        committer.telling = false;
        committer.pace.committed(batch);
        let waiting = committer.lanes.callers(committer.lane);
        let quorum = committer.crowd.committed(committer.lane, batch, waiting);
        if committer.lanes.has_enough(committer.lane, quorum.callers) {
            committer.gathering = None;
            return;
        }
        committer.gathering = Some(quorum.callers);
        committer.gathers += 1;
        let gathers = committer.gathers;
        if quorum.callers > 1 {
            self.counters.count(Path::WaitedForACrowd);
        }
        self.reach_later(me, quorum.patience, Input::Gathered(place, gathers));
    }

    /// Goes on with whoever is there.
    pub(crate) fn gathered(&mut self, me: NodeRef, place: usize, time: u64) {
        let Some(process) = self.process_mut(me) else { return };
        let Some(committer) = process.committers.get_mut(place) else { return };
        if committer.gathers == time && committer.gathering.take().is_some() {
            self.pump(me, place);
        }
    }

    fn tell_all(&mut self, me: NodeRef, cut: Tickets, answer: Committed, issued: Duration) {
        let accepts: Vec<_> = cut.accepts.into_iter().zip(answer.accepts).collect();
        if !accepts.is_empty() {
            self.accepted(me, accepts, issued);
        }
        for (ticket, answer) in cut.settles.into_iter().zip(answer.settles) {
            self.feed(me, Event::Settled { attempt: ticket.attempt, answer });
        }
        for (ticket, answer) in cut.upkeep.into_iter().zip(answer.upkeep) {
            match ticket.asker {
                Asker::Engine(step) => self.feed(me, Event::Upkept { step, answer }),
                Asker::Shell(errand) => self.errand_done(me, errand, &answer),
            }
        }
    }

    fn failed(&mut self, me: NodeRef, place: usize, cut: Tickets, issued: Duration) {
        let Cut { mut accepts, settles, upkeep } = cut;
        if self.chance.percent(60) {
            for ticket in std::mem::take(&mut accepts) {
                self.refuse(ticket.request);
            }
        }
        let empty = accepts.is_empty() && settles.is_empty() && upkeep.is_empty();
        if empty || self.bug == Some(Bug::ForgetFailedSettles) {
            return;
        }
        let Some(process) = self.process_mut(me) else { return };
        let Some(committer) = process.committers.get_mut(place) else { return };
        committer.failed = Some((Cut { accepts, settles, upkeep }, issued));
        let wait = self.chance.millis(2, 200);
        self.reach_later(me, wait, Input::Repeat(place));
    }
}

fn rows_of(upkeep: &Upkeep) -> u32 {
    let rows = match upkeep {
        Upkeep::Bury(bury) => bury.deliveries.len(),
        Upkeep::Replay(replay) => replay.deliveries.len(),
        Upkeep::Consume { requests, .. } => requests.len(),
        Upkeep::RollUp { rollups, .. } => rollups.len(),
        Upkeep::Run { .. } | Upkeep::Ask { .. } => 1,
        Upkeep::Number(queue::Number { most, .. })
        | Upkeep::Fold { most, .. }
        | Upkeep::Prune { most, .. } => return *most,
    };
    u32::try_from(rows).unwrap_or(u32::MAX)
}
