//! Plays the shell: carries effects out against the store in memory, at once unless a test keeps
//! them back, and moves two clocks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::dice::Dice;
use domain::endpoint::State as EndpointState;
use domain::ids::{ApplicationId, AttemptId, EndpointId, MessageId};
use domain::outcome::Outcome;
use domain::policy::preset;
use domain::time::Timestamp;
use store::catalog::{
    ApplicationSettings, Confidential, Endpoint, EndpointEdit, EndpointSettings, NewApplication,
    NewEndpoint, Secret,
};
use store::keys::{ApplicationKey, EndpointKey, Lease, MessageKey, Node};
use store::memory::State;
use store::queue::turn::SCHEDULED;
use store::queue::{
    Accept, Accepted, AttemptRecord, Batch, FirstState, Load, NewDelivery, NewMessage, Once, Order,
    PendingDelivery, Phases, Request, RequestKind, Settle, Upkeep,
};

use crate::roster::{Policies, Read, Roster};
use crate::{Announcement, Effect, End, Engine, Event, Moment, Number, Sending, Settings};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Effects that a test can keep back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Renew,
    Take,
    Release,
    Walk,
    Load,
    Roster,
    Changes,
    Settle,
    Upkeep,
    Requests,
    Disable,
}

pub(crate) struct Scene {
    pub(crate) engine: Engine,
    pub(crate) store: State,
    pub(crate) now: Moment,
    pub(crate) wake: Option<Duration>,
    pub(crate) application: ApplicationKey,
    pub(crate) flying: Vec<Sending>,
    pub(crate) aborted: Vec<Number>,
    pub(crate) announced: Vec<Announcement>,
    pub(crate) settles: Vec<Settle>,
    pub(crate) upkeep: Vec<Upkeep>,
    pub(crate) counts: BTreeMap<&'static str, usize>,
    /// What was confirmed, in this order.
    pub(crate) confirmed: Vec<Timestamp>,
    pub(crate) stopped: bool,
    /// What messages say.
    pub(crate) payload: Bytes,
    /// The most payload bytes that were in memory after any step.
    pub(crate) most_held: u64,
    /// Kinds that are not answered by themselves.
    pub(crate) keep: Vec<Kind>,
    pub(crate) kept: VecDeque<Effect>,
    queue: VecDeque<Event>,
    /// How many requests were left so far.
    asked: u128,
    made: u64,
}

pub(crate) fn policies() -> Arc<Policies> {
    let read = Read::from(preset("redial").unwrap());
    Arc::new(Policies { server: read, event_types: BTreeMap::new() })
}

pub(crate) fn node() -> Node {
    Node("a".into())
}

impl Scene {
    /// An application without endpoints, and an engine that owns everything.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl Fn(&mut Settings)) -> Self {
        let mut scene = Self::before_start(change);
        scene.start();
        scene
    }

    pub(crate) fn before_start(change: impl Fn(&mut Settings)) -> Self {
        let mut settings = Settings::of(node());
        change(&mut settings);
        let now = Moment { elapsed: SECOND, rows: Timestamp::from_seconds(1_700_000_000) };
        let mut store = State::default();
        let new = NewApplication {
            id: ApplicationId::new(now.rows, [1; 16]),
            uid: None,
            settings: ApplicationSettings::default(),
            at: now.rows,
        };
        let application = store.create_application(new).unwrap().key;
        Self {
            engine: Engine::new(settings),
            store,
            now,
            wake: None,
            application,
            asked: 0,
            flying: vec![],
            aborted: vec![],
            announced: vec![],
            settles: vec![],
            upkeep: vec![],
            counts: BTreeMap::new(),
            confirmed: vec![],
            stopped: false,
            payload: Bytes::from_static(b"{}"),
            most_held: 0,
            keep: vec![],
            kept: VecDeque::new(),
            queue: VecDeque::new(),
            made: 1,
        }
    }

    pub(crate) fn start(&mut self) {
        self.tell(Event::Policies(policies()));
        self.pass(SECOND);
    }

    pub(crate) fn endpoint(&mut self) -> Endpoint {
        self.endpoint_with(Order::Due, EndpointSettings::default())
    }

    pub(crate) fn fifo(&mut self) -> Endpoint {
        self.endpoint_with(Order::Fifo, EndpointSettings::default())
    }

    pub(crate) fn endpoint_with(&mut self, order: Order, settings: EndpointSettings) -> Endpoint {
        let application = self.application;
        self.endpoint_of(application, order, settings)
    }

    pub(crate) fn endpoint_of(
        &mut self,
        application: ApplicationKey,
        order: Order,
        settings: EndpointSettings,
    ) -> Endpoint {
        self.made += 1;
        let at = self.now.rows;
        let new = NewEndpoint {
            application,
            id: EndpointId::new(at, self.bytes()),
            uid: None,
            state: EndpointState::Active,
            order,
            settings,
            confidential: Confidential::default(),
            secret: Secret { text: "whsec_x".into(), created_at: at, expires_at: None },
            at,
        };
        self.store.create_endpoint(new).unwrap()
    }

    /// Bytes that no other id has.
    fn bytes(&self) -> [u8; 16] {
        (u128::from(self.made) << 64).to_be_bytes()
    }

    pub(crate) fn application(&mut self) -> ApplicationKey {
        self.made += 1;
        let new = NewApplication {
            id: ApplicationId::new(self.now.rows, self.bytes()),
            uid: None,
            settings: ApplicationSettings::default(),
            at: self.now.rows,
        };
        self.store.create_application(new).unwrap().key
    }

    pub(crate) fn set_state(&mut self, endpoint: &Endpoint, state: EndpointState) {
        self.change(endpoint, move |row| row.state = state);
    }

    pub(crate) fn change(
        &mut self,
        endpoint: &Endpoint,
        edit: impl Fn(&mut Endpoint) + Send + Sync + 'static,
    ) {
        let change = EndpointEdit::of(move |row| {
            let mut row = row.clone();
            edit(&mut row);
            Ok(row)
        });
        let place = (endpoint.application, endpoint.key);
        self.store.change_endpoint(place, &change, self.now.rows).unwrap();
    }

    /// Sets an endpoint's policy, and has its owner read it.
    pub(crate) fn set_policy(&mut self, endpoint: &Endpoint, policy: Option<serde_json::Value>) {
        self.change(endpoint, move |row| row.settings.policy.clone_from(&policy));
        self.ask(endpoint, RequestKind::Refresh);
        self.pass(2 * SECOND);
    }

    /// Accepts a message for one endpoint without telling the engine.
    pub(crate) fn accept(&mut self, endpoint: &Endpoint) -> PendingDelivery {
        let due = self.now.rows;
        self.accept_due(endpoint, due)
    }

    pub(crate) fn accept_due(&mut self, endpoint: &Endpoint, due: Timestamp) -> PendingDelivery {
        let application = endpoint.application;
        let fan_out = self.store.fan_out(application, self.now.rows).unwrap();
        let policies = policies();
        let limits = policies.server.policy.limits;
        let count = *self.counts.entry("accepted").and_modify(|n| *n += 1).or_insert(1);
        let mut random = [7; 16];
        random[1..9].copy_from_slice(&count.to_be_bytes());
        let id = MessageId::new(self.now.rows, random);
        let message = NewMessage {
            id,
            event_type: "a.b".into(),
            event_id: None,
            channels: vec![],
            payload: self.payload.clone(),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: self.now.rows,
            retained_until: Timestamp::FAR_FUTURE,
        };
        let pending = domain::delivery::Pending::fresh(&limits, due);
        let delivery = NewDelivery {
            endpoint: endpoint.key,
            partition: endpoint.partition,
            order: endpoint.order,
            state: FirstState::Pending(pending),
        };
        let deliveries = vec![delivery];
        let revision = fan_out.revision;
        let accept =
            Accept { application, named: None, revision, message, idempotency: None, deliveries };
        let batch = Batch { accepts: vec![accept], ..Batch::default() };
        let answer = self.store.commit(batch).accepts.remove(0);
        let Accepted::New { message, .. } = answer else { panic!("{answer:?}") };
        let rows = self.stored(endpoint, u64::MAX);
        rows.into_iter().find(|row| row.key.message == message).unwrap()
    }

    /// Returns what is pending for an endpoint, scheduled or not.
    fn stored(&self, endpoint: &Endpoint, most_bytes: u64) -> Vec<PendingDelivery> {
        let (application, endpoint, most) = (endpoint.application, endpoint.key, u32::MAX);
        let load = |from| Load { application, endpoint, from, most, most_bytes };
        let stored = |from| self.store.load(load(from)).deliveries;
        [stored(i64::MIN), stored(SCHEDULED)].concat()
    }

    /// Accepts a message and hands it over.
    pub(crate) fn send(&mut self, endpoint: &Endpoint) -> MessageKey {
        let delivery = self.accept(endpoint);
        let message = delivery.key.message;
        self.hand_over(delivery);
        message
    }

    pub(crate) fn hand_over(&mut self, delivery: PendingDelivery) {
        let issued_at = self.now.elapsed;
        self.tell(Event::HandedOver { issued_at, deliveries: vec![delivery] });
    }

    /// Asks the owner for something, as another node would.
    pub(crate) fn ask(&mut self, endpoint: &Endpoint, kind: RequestKind) {
        let request = Request {
            number: 0,
            application: endpoint.application,
            endpoint: endpoint.key,
            partition: endpoint.partition,
            kind,
            at: self.now.rows,
        };
        self.asked += 1;
        let once = Once { at: self.now.rows, id: self.asked.to_be_bytes() };
        let upkeep = vec![Upkeep::Ask { once, request }];
        self.store.commit(Batch { upkeep, ..Batch::default() });
    }

    /// Ends the attempt that has been flying for longest.
    pub(crate) fn end(&mut self, outcome: Outcome) -> Sending {
        let sending = self.flying.remove(0);
        self.end_of(&sending, outcome);
        sending
    }

    pub(crate) fn end_of(&mut self, sending: &Sending, outcome: Outcome) {
        let end = End::Recorded(Box::new(self.record(sending, outcome)));
        self.tell(Event::Ended { attempt: sending.attempt, end, dice: Dice::thrown(0) });
    }

    pub(crate) fn panic(&mut self) {
        let attempt = self.flying.remove(0).attempt;
        self.tell(Event::Ended { attempt, end: End::Panicked, dice: Dice::thrown(0) });
    }

    pub(crate) fn record(&self, sending: &Sending, outcome: Outcome) -> AttemptRecord {
        let mut random = [9; 16];
        random[1..9].copy_from_slice(&sending.attempt.0.to_be_bytes());
        AttemptRecord {
            id: AttemptId::new(self.now.rows, random),
            began_at: self.now.rows,
            ended_at: self.now.rows,
            trigger: sending.trigger,
            outcome,
            retry_after_kept: None,
            phases: Phases::default(),
            request_headers: store::Headers::default(),
            response_headers: store::Headers::default(),
            response_body: Bytes::new(),
            error: None,
            refusal: None,
            hops: Vec::new(),
        }
    }

    /// Tells the engine something, and everything that follows from it at this moment.
    pub(crate) fn tell(&mut self, event: Event) {
        self.queue.push_back(event);
        while let Some(event) = self.queue.pop_front() {
            let mut effects = Vec::new();
            self.engine.step(self.now, event, &mut effects);
            self.most_held = self.most_held.max(self.engine.held_bytes());
            effects.into_iter().for_each(|effect| self.carry_out(effect));
        }
    }

    /// Lets time pass; the engine is woken whenever it wished to be.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now.elapsed + span;
        for _ in 0..1_000_000 {
            let Some(wake) = self.wake.filter(|wake| *wake <= end) else {
                self.jump(end - self.now.elapsed);
                return;
            };
            self.wake = None;
            self.jump(wake.saturating_sub(self.now.elapsed));
            self.tell(Event::TimePassed);
        }
        panic!("the engine wakes itself without end");
    }

    /// Lets time pass without waking the engine.
    pub(crate) fn jump(&mut self, span: Duration) {
        self.now.elapsed += span;
        self.now.rows = self.now.rows.after(span);
    }

    fn carry_out(&mut self, effect: Effect) {
        let kind = match &effect {
            Effect::Renew => Kind::Renew,
            Effect::Take { .. } => Kind::Take,
            Effect::Release(_) => Kind::Release,
            Effect::Walk(_) => Kind::Walk,
            Effect::ReadRequests(_) => Kind::Requests,
            Effect::Load { .. } => Kind::Load,
            Effect::ReadRoster(_) => Kind::Roster,
            Effect::ReadChanges { .. } => Kind::Changes,
            Effect::Confirm { heard } => return self.confirmed.push(*heard),
            Effect::Settle { .. } => Kind::Settle,
            Effect::Upkeep { .. } => Kind::Upkeep,
            Effect::Disable { .. } => Kind::Disable,
            Effect::Send(sending) => return self.flying.push(Sending::clone(sending)),
            Effect::Abort(number) => return self.aborted.push(*number),
            Effect::Announce(announcement) => return self.announced.push(announcement.clone()),
            Effect::WakeAt(moment) => {
                self.wake = Some(*moment);
                return;
            }
            Effect::Stopped => {
                self.stopped = true;
                return;
            }
        };
        if self.keep.contains(&kind) {
            self.kept.push_back(effect);
        } else {
            let answer = self.answer(effect);
            self.queue.push_back(answer);
        }
    }

    /// Lets an effect take effect in the store, now, and returns the answer.
    pub(crate) fn answer(&mut self, effect: Effect) -> Event {
        let (asked_at, rows) = (self.now.elapsed, self.now.rows);
        match effect {
            Effect::Renew => {
                *self.counts.entry("renewals").or_default() += 1;
                let answer = Ok(self.store.renew(node(), rows));
                Event::Renewed { asked_at, answer }
            }
            Effect::Take { most } => Event::Taken(Ok(self.store.take(&node(), most, rows))),
            Effect::Release(leases) => {
                self.store.release(&node(), &leases);
                Event::Released(Ok(()))
            }
            Effect::Walk(partitions) => {
                *self.counts.entry("walks").or_default() += 1;
                Event::Walked(Ok(self.store.waiting(&partitions)))
            }
            Effect::ReadRequests(partitions) => {
                let requests = self.store.requests(&partitions);
                let most = self.counts.entry("requests at once").or_default();
                *most = requests.len().max(*most);
                Event::Requests(Ok(requests))
            }
            Effect::Load { load, what } => {
                *self.counts.entry("loads").or_default() += 1;
                Event::Loaded { load, answer: Ok(self.store.load(what)) }
            }
            Effect::ReadRoster(application) => {
                *self.counts.entry("rosters").or_default() += 1;
                let fan_out = self.store.fan_out(application, rows).ok();
                let read = |fan_out| Arc::new(Roster::read(application, fan_out, &policies()));
                Event::Roster { application, answer: Ok(fan_out.map(read)) }
            }
            Effect::ReadChanges { since } => {
                *self.counts.entry("changes").or_default() += 1;
                Event::Changes(Ok(self.store.changes(rows, since, None)))
            }
            Effect::Settle { attempt, settle } => {
                self.settles.push(Settle::clone(&settle));
                let batch = Batch { settles: vec![*settle], ..Batch::default() };
                Event::Settled { attempt, answer: self.store.commit(batch).settles.remove(0) }
            }
            Effect::Upkeep { step, upkeep } => {
                self.upkeep.push(upkeep.clone());
                let batch = Batch { upkeep: vec![upkeep], ..Batch::default() };
                Event::Upkept { step, answer: self.store.commit(batch).upkeep.remove(0) }
            }
            Effect::Disable { application, endpoint, reason } => {
                let endpoints = self.store.fan_out(application, rows).unwrap().endpoints;
                let mut found = endpoints.into_iter().map(|view| view.endpoint);
                let current = found.find(|found| found.key == endpoint).unwrap();
                self.set_state(&current, EndpointState::Disabled(reason));
                Event::Disabled { endpoint }
            }
            Effect::Send(_)
            | Effect::Abort(_)
            | Effect::Announce(_)
            | Effect::Confirm { .. }
            | Effect::WakeAt(_)
            | Effect::Stopped => panic!("{effect:?} has no answer"),
        }
    }

    /// Answers everything that was kept back.
    pub(crate) fn answer_kept(&mut self) {
        while let Some(effect) = self.kept.pop_front() {
            let answer = self.answer(effect);
            self.tell(answer);
        }
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.counts.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn lease(&self, endpoint: &Endpoint) -> Option<Lease> {
        self.engine.leases.lease(endpoint.partition)
    }

    pub(crate) fn flying_to(&self, endpoint: EndpointKey) -> usize {
        self.flying.iter().filter(|sending| sending.delivery.key.endpoint == endpoint).count()
    }

    pub(crate) fn pending(&self, endpoint: &Endpoint) -> usize {
        self.stored(endpoint, 0).len()
    }
}
