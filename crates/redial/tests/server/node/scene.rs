//! An application with one endpoint on a store in memory, and a node that sends to nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{Cause, Delivery, Pending};
use domain::endpoint::State;
use domain::ids::{ApplicationId, EndpointId, MessageId, TaskId};
use domain::names::EventTypeName;
use domain::time::Timestamp;
use engine::Number;
use engine::roster::read_policy;
use redial::clock::{Clock, SystemClock};
use redial::committer::Transactions;
use redial::node::{Draft, Ending, Intake, Node, NotTaken, Parts, Settings, unique_name};
use serde_json::{Value, json};
use store::catalog::{
    Application, ApplicationSettings, Confidential, Endpoint, EndpointSettings, Name,
    NewApplication, NewEndpoint, Secret,
};
use store::keys::{ApplicationKey, EndpointKey, MessageKey};
use store::ledger::{DeliveryEntry, DeliveryFilter, NewTask, Task, TaskKind, TaskState};
use store::memory::{Memory, State as Rows};
use store::page::{From, Page};
use store::queue::{Accept, Accepted, Batch, FirstState, NewDelivery, NewMessage, Order};
use store::{Catalog as _, Ledger, Queue};

use super::script::Script;
pub(super) use super::script::Step;

/// A node with an application and an endpoint.
pub(super) struct Scene {
    pub(super) node: Node,
    intake: Intake,
    script: Arc<Script>,
    store: Store,
    sent: AtomicUsize,
}

/// What outlives a node.
#[derive(Clone)]
pub(super) struct Store {
    memory: Arc<Memory>,
    application: Application,
    endpoint: Endpoint,
}

/// What a node may be given instead of the usual.
struct Given {
    queue: Arc<dyn Queue>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
}

impl Scene {
    pub(super) async fn begin(steps: &[Step]) -> Self {
        Self::begin_at(Arc::new(SystemClock::start()), steps).await
    }

    /// Begins with an endpoint that keeps the order.
    pub(super) async fn begin_in_order(steps: &[Step]) -> Self {
        Self::begin_as(Arc::new(SystemClock::start()), Order::Fifo, steps).await
    }

    /// Begins on a store with this clock.
    pub(super) async fn begin_at(clock: Arc<dyn Clock>, steps: &[Step]) -> Self {
        Self::begin_as(clock, Order::Due, steps).await
    }

    async fn begin_as(clock: Arc<dyn Clock>, order: Order, steps: &[Step]) -> Self {
        let at = clock.now();
        let memory = Arc::new(Memory::new(Rows::default(), Box::new(move || clock.now())));
        let id = ApplicationId::new(at, [1; 16]);
        let settings = ApplicationSettings { name: "scene".to_owned(), ..Default::default() };
        let new = NewApplication { id, uid: None, settings, at };
        let application = memory.create_application(new).await.unwrap();
        let new = new_endpoint(application.key, at, ([2; 16], order));
        let endpoint = memory.create_endpoint(new).await.unwrap();
        Self::on(Store { memory, application, endpoint }, steps).await
    }

    pub(super) async fn on(store: Store, steps: &[Step]) -> Self {
        let queue = Arc::clone(&store.memory) as Arc<dyn Queue>;
        Self::over(store, queue, steps).await
    }

    /// Begins on a store whose hot path somebody meddles with.
    pub(super) async fn over(store: Store, queue: Arc<dyn Queue>, steps: &[Step]) -> Self {
        let clock = Arc::new(SystemClock::start());
        let ledger = Arc::clone(&store.memory) as _;
        Self::with(store, Given { queue, ledger, clock }, settings(), steps).await
    }

    /// Begins on a store with a ledger that somebody meddles with.
    pub(super) async fn reading(store: Store, ledger: Arc<dyn Ledger>, steps: &[Step]) -> Self {
        let queue = Arc::clone(&store.memory) as _;
        let clock = Arc::new(SystemClock::start());
        Self::with(store, Given { queue, ledger, clock }, settings(), steps).await
    }

    /// Begins another node on the same store, with a clock of its own.
    pub(super) async fn beside(&self, clock: Arc<dyn Clock>, sends: bool) -> Self {
        let memory = &self.store.memory;
        let given = Given { queue: memory.clone(), ledger: memory.clone(), clock };
        let settings = Settings { sends, ..settings() };
        Self::with(self.store.clone(), given, settings, &[Step::Answer(200)]).await
    }

    async fn with(store: Store, given: Given, settings: Settings, steps: &[Step]) -> Self {
        let script = Arc::new(Script::of(steps));
        let parts = Parts {
            queue: given.queue,
            catalog: Arc::clone(&store.memory) as _,
            ledger: given.ledger,
            carrier: Arc::clone(&script) as _,
            clock: given.clock,
            answering: tokio::runtime::Handle::current(),
        };
        let node = Node::start(parts, settings).await.unwrap();
        let (intake, sent) = (node.intake(), AtomicUsize::new(0));
        Self { node, intake, script, store, sent }
    }

    /// Takes a message in.
    pub(super) async fn send(&self) -> MessageId {
        self.send_as(|_| {}).await
    }

    /// Takes a message in that differs from the usual one.
    pub(super) async fn send_as(&self, differ: impl FnOnce(&mut Draft)) -> MessageId {
        let (id, taken) = self.hand_in_as(differ).await;
        assert!(matches!(taken, Ok(Accepted::New { .. })), "{taken:?}");
        id
    }

    /// Hands a message in; it may be refused.
    pub(super) async fn hand_in(&self) -> (MessageId, Result<Accepted, NotTaken>) {
        self.hand_in_as(|_| {}).await
    }

    async fn hand_in_as(
        &self,
        differ: impl FnOnce(&mut Draft),
    ) -> (MessageId, Result<Accepted, NotTaken>) {
        let now = self.intake.now();
        let mut random = [0; 16];
        let number = self.sent.fetch_add(1, Ordering::SeqCst);
        random[4..12].copy_from_slice(&number.to_be_bytes());
        let id = MessageId::new(now, random);
        let mut draft = Draft {
            application: self.store.application.key,
            named: None,
            message: new_message(id, now),
            event_type: EventTypeName::parse("scene.made").unwrap(),
            channels: Default::default(),
            policy: None,
            deliver_at: None,
            idempotency: None,
            only: None,
        };
        differ(&mut draft);
        (draft.message.deliver_at, draft.message.only) = (draft.deliver_at, draft.only);
        (id, self.intake.take_in(draft).await)
    }

    /// Waits until a part of the node fails, and names it.
    pub(super) async fn failed(&self) -> &'static str {
        self.node.failed().await
    }

    /// Removes a message's payload.
    pub(super) async fn expunge(&self, message: MessageId) {
        let Store { memory, application, .. } = &self.store;
        let found = memory.message(application.key, Name::Id(message)).await.unwrap();
        memory.expunge(application.key, found.key, self.now()).await.unwrap();
    }

    pub(super) fn arrivals(&self) -> usize {
        self.script.arrivals.load(Ordering::SeqCst)
    }

    /// Returns the numbers of all attempts, as they were begun.
    pub(super) fn numbers(&self) -> Vec<Number> {
        self.script.numbers.lock().unwrap().clone()
    }

    /// Returns the messages of all attempts, as they were begun.
    pub(super) fn messages(&self) -> Vec<MessageId> {
        self.script.messages.lock().unwrap().clone()
    }

    /// Returns the rows' time at each attempt, as the way out was told.
    pub(super) fn rows_at_attempts(&self) -> Vec<Timestamp> {
        self.script.rows.lock().unwrap().clone()
    }

    /// Waits until so many attempts were begun.
    pub(super) async fn arrived(&self, count: usize) {
        until(|| async { (self.arrivals() >= count).then_some(()) }).await;
    }

    /// Looks at the message's delivery.
    pub(super) async fn look(&self, message: MessageId) -> DeliveryEntry {
        entry(&self.store, message).await
    }

    /// Waits until the message's delivery is settled.
    pub(super) async fn settled(&self, message: MessageId) -> DeliveryEntry {
        self.settled_for(message, &self.store.endpoint).await
    }

    /// Waits until the message's delivery for an endpoint is settled.
    pub(super) async fn settled_for(
        &self,
        message: MessageId,
        endpoint: &Endpoint,
    ) -> DeliveryEntry {
        until(|| async {
            let entry = entry_of(&self.store, message, endpoint).await;
            (!matches!(entry.state, Delivery::Pending(_))).then_some(entry)
        })
        .await
    }

    /// Waits until the message's delivery is in a state.
    pub(super) async fn becomes(&self, message: MessageId, state: Delivery) -> DeliveryEntry {
        until(|| async {
            let entry = entry(&self.store, message).await;
            (entry.state == state).then_some(entry)
        })
        .await
    }

    pub(super) async fn endpoint_becomes(&self, state: State) {
        let Store { memory, application, endpoint } = &self.store;
        until(|| async {
            let found = memory.endpoint(application.key, Name::Id(endpoint.id)).await.unwrap();
            (found.state == state).then_some(())
        })
        .await;
    }

    /// Starts a task that replays all dead letters of the endpoint.
    pub(super) async fn replay(&self) -> Task {
        self.replay_for(&self.store.endpoint).await
    }

    /// Makes another endpoint, past this node.
    pub(super) async fn created_elsewhere(&self, order: Order) -> EndpointKey {
        let Store { memory, application, .. } = &self.store;
        let new = new_endpoint(application.key, self.intake.now(), ([4; 16], order));
        memory.create_endpoint(new).await.unwrap().key
    }

    /// Returns the endpoints that a message went to.
    pub(super) async fn endpoints_of(&self, message: MessageId) -> Vec<EndpointKey> {
        let Store { memory, application, .. } = &self.store;
        let found = memory.message(application.key, Name::Id(message)).await.unwrap();
        let deliveries = memory.deliveries_of(application.key, found.key).await.unwrap();
        deliveries.iter().map(|entry| entry.key.endpoint).collect()
    }

    /// Makes another endpoint, has it sent what it did not get, and returns what it has then.
    pub(super) async fn late_endpoint(&self, order: Order) -> Vec<DeliveryEntry> {
        let Store { memory, application, .. } = &self.store;
        let late = self.created_elsewhere(order).await;
        let task = self.start(TaskKind::ReplayMissing, late, selection("undelivered")).await;
        self.done(task).await;
        let page = Page { from: From::Start, limit: 100 };
        let filter = DeliveryFilter::default();
        memory.deliveries(application.key, late, filter, page).await.unwrap().entries
    }

    /// Starts a task that replays all dead letters of an endpoint, and waits until it is done.
    pub(super) async fn replay_for(&self, endpoint: &Endpoint) -> Task {
        let task = self.start(TaskKind::Recover, endpoint.key, selection("dead")).await;
        self.done(task).await
    }

    /// Waits until a task is done.
    pub(super) async fn done(&self, task: TaskId) -> Task {
        until(|| async {
            let task = self.store.memory.task(task).await.unwrap();
            (task.state == TaskState::Finished).then_some(task)
        })
        .await
    }

    /// Starts a task.
    pub(super) async fn start(
        &self,
        kind: TaskKind,
        endpoint: impl Into<Option<EndpointKey>>,
        selection: Value,
    ) -> TaskId {
        let id = TaskId::new(self.intake.now(), [3; 16]);
        let task = NewTask {
            id,
            application: self.store.application.key,
            endpoint: endpoint.into(),
            kind,
            selection,
            by: "scene".to_owned(),
            at: self.intake.now(),
        };
        self.store.memory.start_task(task).await.unwrap();
        self.intake.replay_started();
        id
    }

    /// Writes dead letters of messages that were received at these moments, past the node.
    pub(super) async fn dead_letters(
        &self,
        moments: impl IntoIterator<Item = Timestamp>,
    ) -> Vec<MessageId> {
        let Store { memory, application, endpoint } = &self.store;
        let revision = memory.fan_out(application.key, self.intake.now()).await.unwrap().revision;
        let accept = |(number, at): (u64, Timestamp)| {
            let mut random = [8; 16];
            random[4..12].copy_from_slice(&number.to_be_bytes());
            Accept {
                application: application.key,
                named: None,
                revision,
                message: new_message(MessageId::new(at, random), at),
                idempotency: None,
                deliveries: vec![NewDelivery {
                    endpoint: endpoint.key,
                    partition: endpoint.partition,
                    order: endpoint.order,
                    state: FirstState::Dead(Cause::Permanent),
                }],
            }
        };
        let accepts: Vec<Accept> = (0..).zip(moments).map(accept).collect();
        let ids = accepts.iter().map(|accept| accept.message.id).collect();
        memory.commit(Arc::new(Batch { accepts, ..Batch::default() })).await.unwrap();
        ids
    }

    /// Returns the only endpoint, but for late ones.
    pub(super) fn endpoint(&self) -> EndpointKey {
        self.store.endpoint.key
    }

    /// Returns the time of the rows.
    pub(super) fn now(&self) -> Timestamp {
        self.intake.now()
    }

    /// Makes another endpoint with a dead letter, without a word to the node, as another one would.
    pub(super) async fn elsewhere(&self) -> (Endpoint, MessageId) {
        self.elsewhere_as(FirstState::Dead(Cause::Permanent)).await
    }

    /// The same with a delivery that is to be sent.
    pub(super) async fn pending_elsewhere(&self) -> (Endpoint, MessageId) {
        let limits = settings().policy.policy.limits;
        let pending = Pending::fresh(&limits, self.intake.now());
        self.elsewhere_as(FirstState::Pending(pending)).await
    }

    /// The same with three, and their keys.
    pub(super) async fn several_pending_elsewhere(
        &self,
    ) -> (Endpoint, [(MessageId, MessageKey); 3]) {
        let endpoint = self.endpoint_elsewhere().await;
        let limits = settings().policy.policy.limits;
        let mut messages = Vec::new();
        for number in 1..=3 {
            let state = FirstState::Pending(Pending::fresh(&limits, self.intake.now()));
            messages.push(self.accept_elsewhere(&endpoint, state, [number; 16]).await);
        }
        (endpoint, messages.try_into().unwrap())
    }

    async fn elsewhere_as(&self, state: FirstState) -> (Endpoint, MessageId) {
        let endpoint = self.endpoint_elsewhere().await;
        let (id, _) = self.accept_elsewhere(&endpoint, state, [9; 16]).await;
        (endpoint, id)
    }

    async fn endpoint_elsewhere(&self) -> Endpoint {
        let Store { memory, application, .. } = &self.store;
        let new = new_endpoint(application.key, self.intake.now(), ([9; 16], Order::Due));
        memory.create_endpoint(new).await.unwrap()
    }

    async fn accept_elsewhere(
        &self,
        endpoint: &Endpoint,
        state: FirstState,
        random: [u8; 16],
    ) -> (MessageId, MessageKey) {
        let Store { memory, application, .. } = &self.store;
        let at = self.intake.now();
        let id = MessageId::new(at, random);
        let accept = Accept {
            application: application.key,
            named: None,
            revision: memory.fan_out(application.key, at).await.unwrap().revision,
            message: new_message(id, at),
            idempotency: None,
            deliveries: vec![NewDelivery {
                endpoint: endpoint.key,
                partition: endpoint.partition,
                order: endpoint.order,
                state,
            }],
        };
        let batch = Batch { accepts: vec![accept], ..Batch::default() };
        let committed = memory.commit(Arc::new(batch)).await.unwrap();
        let [Accepted::New { message, .. }] = committed.accepts[..] else {
            panic!("{committed:?}");
        };
        (id, message)
    }

    /// Stops the node and tells how that went.
    pub(super) async fn stop(self) -> Ending {
        self.node.stop_beside(std::future::ready(())).await
    }

    /// Stops the node and returns what outlives it.
    pub(super) async fn end(self) -> Store {
        self.node.stop().await;
        self.store
    }
}

fn new_endpoint(
    application: ApplicationKey,
    at: Timestamp,
    (random, order): ([u8; 16], Order),
) -> NewEndpoint {
    NewEndpoint {
        application,
        id: EndpointId::new(at, random),
        uid: None,
        state: State::Active,
        order,
        settings: EndpointSettings::default(),
        confidential: Confidential::default(),
        secret: Secret { text: "whsec_c2NlbmU=".into(), created_at: at, expires_at: None },
        at,
    }
}

impl Store {
    /// Returns the store itself.
    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

pub(super) async fn entry(store: &Store, message: MessageId) -> DeliveryEntry {
    entry_of(store, message, &store.endpoint).await
}

pub(super) async fn entry_of(
    store: &Store,
    message: MessageId,
    endpoint: &Endpoint,
) -> DeliveryEntry {
    let Store { memory, application, .. } = store;
    let found = memory.message(application.key, Name::Id(message)).await.unwrap();
    let deliveries = memory.deliveries_of(application.key, found.key).await.unwrap();
    deliveries.into_iter().find(|entry| entry.key.endpoint == endpoint.key).unwrap()
}

/// What a task means that means everything in these states.
pub(super) fn selection(states: &str) -> Value {
    json!({
        "ids": [], "endpoint": null, "causes": [], "status_class": null, "since": null,
        "until": null, "states": states, "never_tried": false, "event_types": [], "channel": null,
    })
}

fn new_message(id: MessageId, now: Timestamp) -> NewMessage {
    NewMessage {
        id,
        event_type: "scene.made".to_owned(),
        event_id: None,
        channels: Vec::new(),
        payload: Bytes::from_static(b"{}"),
        content_type: None,
        policy: None,
        deliver_at: None,
        only: None,
        received_at: now,
        retained_until: now.after(Duration::from_secs(86_400)),
    }
}

fn settings() -> Settings {
    let quick = json!({
        "policy": { "schedule": { "kind": "fixed", "waits": ["100ms"] }, "max_attempts": 5 }
    });
    let policy = read_policy(&quick).unwrap();
    Settings {
        engine: engine::Settings::of(unique_name("scene")),
        lanes: Default::default(),
        transactions: Transactions::Together,
        policy,
        sends: true,
        handed_over: 1_000,
        disk: None,
        grace: Duration::from_secs(2),
    }
}

/// Asks again and again, for twenty seconds at the most.
pub(super) async fn until<T, Asking: Future<Output = Option<T>>>(ask: impl Fn() -> Asking) -> T {
    for _ in 0..2_000 {
        if let Some(found) = ask().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen within twenty seconds");
}
