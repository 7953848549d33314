//! Calls to the store, each at three moments: issued, takes effect, answered.
//!
//! A call may fail before or after it took effect, and in a fleet its failure may even be reported
//! before it takes effect. A read says what was true when it took effect, which may be as early as
//! its issue and as late as its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::endpoint::Reason;
use domain::partition::Partition;
use domain::time::Timestamp;
use engine::roster::Member;
use engine::{Event, Number, Roster, Unanswered};
use store::catalog::Changes;
use store::keys::{ApplicationKey, EndpointKey, Lease};
use store::queue::{Batch, Committed, Load, Loaded, Renewal, Request, Waiting};

use crate::agenda::{ArrivalId, CallId, Happening, Input};
use crate::bugs::Bug;
use crate::counters::Path;
use crate::node::{BEGINNING, NodeRef};
use crate::people::Write;
use crate::world::World;

/// What is asked of the store.
#[derive(Debug)]
pub(crate) enum Question {
    Renew {
        asked_at: Duration,
    },
    Take {
        most: u8,
    },
    Release(Vec<Lease>),
    Walk(Vec<Partition>),
    Requests(Vec<Partition>),
    Load {
        load: Number,
        what: Load,
    },
    Roster {
        application: ApplicationKey,
        reader: Reader,
    },
    Commit {
        lane: usize,
        batch: Batch,
    },
    Disable {
        application: ApplicationKey,
        endpoint: EndpointKey,
        reason: Reason,
        tried: Arc<Member>,
    },
    Write(Write),
    Changes {
        since: Option<Timestamp>,
    },
    Name {
        name: String,
        arrival: ArrivalId,
    },
}

/// Who reads a roster.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reader {
    Engine,
    Api(ArrivalId),
}

/// What the store says.
#[derive(Debug)]
pub(crate) enum Reply {
    Renewal(Renewal),
    Leases(Vec<Lease>),
    Nothing,
    Waiting(Vec<Waiting>),
    Requests(Vec<Request>),
    Loaded(Loaded),
    Roster(Option<Arc<Roster>>),
    Committed(Committed),
    Written(bool),
    Changes(Changes),
    Name(Option<ApplicationKey>),
}

/// A call on its way.
#[derive(Debug)]
pub(crate) struct Call {
    me: NodeRef,
    question: Question,
    fate: Fate,
    issued: Duration,
    reply: Option<Reply>,
    /// Whether the moment of its effect has passed, and that of its answer.
    passed: (bool, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Succeeds,
    FailsBefore,
    FailsAfter,
}

/// The calls on their way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    flying: BTreeMap<CallId, Call>,
    count: u64,
}

impl World {
    /// Tells whether any batch is on its way.
    pub(crate) fn is_committing(&self) -> bool {
        let waits = |call: &Call| !call.passed.0 || self.process(call.me).is_some();
        let commits = |call: &Call| matches!(call.question, Question::Commit { .. });
        self.calls.flying.values().any(|call| commits(call) && waits(call))
    }

    /// Issues a call.
    pub(crate) fn call(&mut self, me: NodeRef, question: Question) {
        self.calls.count += 1;
        let id = CallId(self.calls.count);
        let cut = self.weather.down > 0 || self.process(me).is_none_or(|it| it.cuts > 0);
        let (before, after) = self.latencies();
        let fails = self.chance.permille(self.plan.faults.failing_calls);
        let fate = match () {
            () if cut => Fate::FailsBefore,
            () if !fails => Fate::Succeeds,
            () if self.chance.percent(50) => Fate::FailsBefore,
            () => Fate::FailsAfter,
        };
        let effect = self.now + before;
        let mut answer = effect + after;
        if cut {
            answer = self.now + self.chance.millis(1, 1_500);
        } else if fate == Fate::FailsAfter && self.plan.fleet > 1 && self.chance.percent(30) {
            // The connection broke, and the server has not heard of it yet.
            answer = self.now + Duration::from_micros(self.chance.between(1, 2_000));
        }
        if fate != Fate::FailsBefore {
            self.agenda.plan(effect, Happening::TakesEffect(id));
        }
        self.agenda.plan(answer, Happening::At(me, Input::Answer(id)));
        let passed = (fate == Fate::FailsBefore, false);
        let call = Call { me, question, fate, issued: self.now, reply: None, passed };
        self.calls.flying.insert(id, call);
    }

    fn latencies(&mut self) -> (Duration, Duration) {
        let (low, high) = if self.plan.fleet == 1 { (50, 3_000) } else { (500, 12_000) };
        let slow = if self.weather.slow > 0 { self.chance.between(1, 400) } else { 1 };
        let mut draw = || Duration::from_micros(self.chance.between(low, high) * slow);
        let (before, after) = (draw(), draw());
        // Some take effect at once, and the answer takes its time.
        if self.chance.percent(30) {
            (Duration::from_micros(1), before + after)
        } else {
            (before, after)
        }
    }

    /// Has a call take effect, if the store is there.
    pub(crate) fn take_effect(&mut self, id: CallId) {
        let Some(mut call) = self.calls.flying.remove(&id) else { return };
        call.passed.0 = true;
        if self.weather.down > 0 {
            call.fate = Fate::FailsBefore;
        } else {
            if call.passed.1 {
                self.counters.count(Path::EffectAfterAnswer);
            }
            let question = std::mem::replace(&mut call.question, Question::Release(Vec::new()));
            let (reply, question) = self.apply(call.me, question);
            call.reply = Some(reply);
            call.question = question;
        }
        if !call.passed.1 {
            self.calls.flying.insert(id, call);
        }
    }

    fn apply(&mut self, me: NodeRef, question: Question) -> (Reply, Question) {
        let now = BEGINNING.after(self.now);
        let reply = match &question {
            Question::Renew { .. } => self.renew(me),
            Question::Take { most } => self.take(me, *most),
            Question::Release(leases) => self.release(me, leases),
            Question::Walk(partitions) => match self.bug {
                Some(Bug::WalkFindsNothing) => Reply::Waiting(Vec::new()),
                Some(_) | None => Reply::Waiting(self.state.waiting(partitions)),
            },
            Question::Requests(partitions) => Reply::Requests(self.state.requests(partitions)),
            Question::Load { what, .. } => self.load(*what),
            Question::Roster { application, .. } => {
                let fan_out = self.state.fan_out(*application, now).ok();
                Reply::Roster(fan_out.map(|it| self.library.read(*application, it)))
            }
            Question::Commit { .. } => return self.commit(question),
            Question::Disable { application, endpoint, reason, tried } => {
                self.disable((*application, *endpoint), *reason, tried);
                Reply::Nothing
            }
            Question::Write(write) => Reply::Written(self.write(write)),
            Question::Changes { since } => Reply::Changes(self.changes(*since)),
            Question::Name { name, .. } => Reply::Name(self.named(name)),
        };
        (reply, question)
    }

    fn load(&mut self, what: Load) -> Reply {
        let mut loaded = self.state.load(what);
        if self.watch.any_unsettled(&loaded) {
            self.counters.count(Path::LoadedKnownRows);
        }
        if !loaded.complete {
            self.counters.count(Path::LoadedPart);
        }
        if loaded.deliveries.iter().any(|delivery| delivery.payload.is_none()) {
            self.counters.count(Path::PayloadLeftOut);
        }
        if self.bug == Some(Bug::MixPayloads) {
            let payloads: Vec<_> = loaded.deliveries.iter().map(|it| it.payload.clone()).collect();
            for (delivery, payload) in loaded.deliveries.iter_mut().zip(payloads.into_iter().rev())
            {
                delivery.payload = payload;
            }
        }
        Reply::Loaded(loaded)
    }

    fn commit(&mut self, question: Question) -> (Reply, Question) {
        let Question::Commit { lane, batch } = question else { return (Reply::Nothing, question) };
        let Batch { accepts, settles, upkeep } = batch;
        let mut committed = Committed::default();
        for accept in accepts {
            let answer = self.commit_accept(accept);
            committed.accepts.push(answer);
        }
        for settle in settles {
            let answer = self.commit_settle(settle);
            committed.settles.push(answer);
        }
        for step in upkeep {
            let answer = self.commit_upkeep(step);
            committed.upkeep.push(answer);
        }
        (Reply::Committed(committed), Question::Commit { lane, batch: Batch::default() })
    }

    /// Tells a process the answer to its call.
    pub(crate) fn answered(&mut self, me: NodeRef, id: CallId) {
        let Some(mut call) = self.calls.flying.remove(&id) else { return };
        call.passed.1 = true;
        let cut = self.weather.down > 0 || self.process(me).is_none_or(|it| it.cuts > 0);
        let lost = cut || call.fate != Fate::Succeeds;
        let reply = call.reply.take().filter(|_| !lost);
        if lost && call.reply.is_some() || !call.passed.0 {
            self.counters.count(Path::LostAnswer);
        }
        let issued = call.issued;
        if call.passed.0 {
            self.tell(me, call.question, reply, issued);
            return;
        }
        // Its effect is still to come, so the store keeps what was asked.
        let question = call.question.told_early();
        self.calls.flying.insert(id, call);
        self.tell(me, question, None, issued);
    }

    fn tell(&mut self, me: NodeRef, question: Question, reply: Option<Reply>, issued: Duration) {
        let event = match (question, reply) {
            (Question::Renew { asked_at }, reply) => {
                let answer = match reply {
                    Some(Reply::Renewal(renewal)) => Ok(self.correct_clock(me, renewal, issued)),
                    _ => Err(Unanswered),
                };
                let asked_at = self.counted_from(me, asked_at);
                let renewed = answer.is_ok();
                self.feed(me, Event::Renewed { asked_at, answer });
                // Until the engine has been told, it counts from the one before.
                if let Some(process) = self.process_mut(me).filter(|_| renewed) {
                    process.renewed = process.renewed.max(Some(issued));
                }
                return;
            }
            (Question::Take { .. }, reply) => Event::Taken(match reply {
                Some(Reply::Leases(leases)) => Ok(self.remember_leases(me, leases)),
                _ => Err(Unanswered),
            }),
            (Question::Release(_), reply) => Event::Released(reply.map(|_| ()).ok_or(Unanswered)),
            (Question::Walk(_), Some(Reply::Waiting(waiting))) => Event::Walked(Ok(waiting)),
            (Question::Walk(_), _) => Event::Walked(Err(Unanswered)),
            (Question::Requests(_), Some(Reply::Requests(all))) => Event::Requests(Ok(all)),
            (Question::Requests(_), _) => Event::Requests(Err(Unanswered)),
            (Question::Load { load, .. }, Some(Reply::Loaded(loaded))) => {
                Event::Loaded { load, answer: Ok(loaded) }
            }
            (Question::Load { load, .. }, _) => Event::Loaded { load, answer: Err(Unanswered) },
            (Question::Roster { application, reader }, reply) => {
                return self.roster_read(me, application, reader, (reply, issued));
            }
            (Question::Commit { lane, .. }, Some(Reply::Committed(committed))) => {
                return self.committed(me, lane, Some(committed));
            }
            (Question::Commit { lane, .. }, _) => return self.committed(me, lane, None),
            (Question::Disable { endpoint, .. }, Some(_)) => Event::Disabled { endpoint },
            (question @ Question::Disable { .. }, None) => return self.call(me, question),
            (Question::Changes { .. }, Some(Reply::Changes(changes))) => {
                Event::Changes(Ok(changes))
            }
            (Question::Changes { .. }, _) => Event::Changes(Err(Unanswered)),
            (Question::Name { name, arrival }, Some(Reply::Name(found))) => {
                return self.name_read(me, &name, arrival, found);
            }
            (Question::Name { arrival, .. }, _) => return self.refuse_arrival(me, arrival),
            (Question::Write(write), Some(Reply::Written(true))) => return self.written(me, write),
            (Question::Write(_), _) => return,
        };
        self.feed(me, event);
    }

    /// Corrects a process's guess of the time, as well as the round trip allows.
    fn correct_clock(&mut self, me: NodeRef, renewal: Renewal, issued: Duration) -> Renewal {
        let now = self.now;
        let single = self.plan.fleet == 1;
        if let Some(process) = self.process_mut(me).filter(|_| !single) {
            let guess = renewal.now.after(now.saturating_sub(issued) / 2);
            process.offset = guess.as_micros() - BEGINNING.after(now).as_micros();
        }
        renewal
    }

    /// Returns the moment from which on a lease is counted.
    fn counted_from(&self, me: NodeRef, asked_at: Duration) -> Duration {
        match (self.bug, self.process(me)) {
            (Some(Bug::LeaseFromTheAnswer), Some(process)) => process.moment(self.now).elapsed,
            (_, _) => asked_at,
        }
    }

    fn remember_leases(&mut self, me: NodeRef, leases: Vec<Lease>) -> Vec<Lease> {
        if let Some(process) = self.process_mut(me) {
            process.leases.extend(leases.iter().map(|lease| (lease.partition, *lease)));
        }
        leases
    }
}

impl Question {
    /// Returns what is needed to tell a process that its call failed.
    fn told_early(&self) -> Self {
        match self {
            Self::Renew { asked_at } => Self::Renew { asked_at: *asked_at },
            Self::Take { most } => Self::Take { most: *most },
            Self::Release(leases) => Self::Release(leases.clone()),
            Self::Walk(_) => Self::Walk(Vec::new()),
            Self::Requests(_) => Self::Requests(Vec::new()),
            Self::Load { load, what } => Self::Load { load: *load, what: *what },
            Self::Roster { application, reader } => {
                Self::Roster { application: *application, reader: *reader }
            }
            Self::Commit { lane, .. } => Self::Commit { lane: *lane, batch: Batch::default() },
            Self::Disable { application, endpoint, reason, tried } => {
                let (application, endpoint) = (*application, *endpoint);
                Self::Disable { application, endpoint, reason: *reason, tried: Arc::clone(tried) }
            }
            Self::Write(write) => Self::Write(write.clone()),
            Self::Changes { since } => Self::Changes { since: *since },
            Self::Name { name, arrival } => Self::Name { name: name.clone(), arrival: *arrival },
        }
    }
}
