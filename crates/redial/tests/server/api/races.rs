//! What changes while somebody works on it.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use domain::delivery::{Budget, Pending};
use domain::ids::MessageId;
use domain::time::Timestamp;
use futures_util::FutureExt as _;
use redial::app::endpoints::{Draft, Endpoint};
use redial::app::{App, Error, Scope};
use redial::clock::{Clock, SystemClock};
use store::catalog::{EventType, EventTypeSettings, Name};
use store::keys::{DeliveryKey, MessageKey};
use store::memory::{Memory, State};
use store::queue::{Accept, Accepted, Batch, FirstState, NewDelivery, NewMessage, Order};
use store::{Catalog as _, Ledger as _, Queue as _};

use super::ADMIN;
use super::promises::app_on;

/// A clock that settles a delivery, or makes an event type, when it is next asked for the time.
struct Meddling {
    clock: SystemClock,
    memory: Arc<Memory>,
    settles: Mutex<Option<DeliveryKey>>,
    makes: Mutex<Option<EventType>>,
}

impl Meddling {
    fn with(memory: &Arc<Memory>, clock: SystemClock) -> Arc<Self> {
        let (settles, makes) = (Mutex::default(), Mutex::default());
        Arc::new(Self { clock, memory: Arc::clone(memory), settles, makes })
    }
}

impl Clock for Meddling {
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        if let Some(key) = self.settles.lock().unwrap().take() {
            self.memory.cancel(key, now).now_or_never().unwrap().unwrap();
        }
        if let Some(event_type) = self.makes.lock().unwrap().take() {
            self.memory.create_event_type(event_type).now_or_never().unwrap().unwrap();
        }
        now
    }

    fn wall(&self) -> Timestamp {
        self.clock.wall()
    }
}

/// Makes an application with an endpoint.
async fn begin(app: &App) -> (Scope, Endpoint) {
    let caller = app.authenticate(ADMIN).await.unwrap();
    let name = Some("x".to_owned());
    let draft = redial::app::applications::Draft { name, ..Default::default() };
    let application = app.create_application(&caller, draft).await.unwrap();
    let scope = app.enter(&caller, &application.id.to_string()).await.unwrap();
    let draft = Draft::of("https://receiver.example/".to_owned());
    let endpoint = app.create_endpoint(&scope, draft).await.unwrap();
    (scope, endpoint)
}

/// Puts a message with one pending delivery into the store.
async fn accept(memory: &Memory, scope: &Scope, endpoint: &Endpoint, now: Timestamp) -> MessageKey {
    let application = memory.application(Name::Id(scope.application().id)).await.unwrap();
    let budget =
        Budget { attempts: 0, ambiguous: 0, last_wait: Default::default(), expires_at: None };
    let accept = Accept {
        application: application.key,
        named: None,
        revision: application.revision,
        message: NewMessage {
            id: MessageId::new(now, [1; 16]),
            event_type: "a".to_owned(),
            event_id: None,
            channels: Vec::new(),
            payload: Bytes::from_static(b"{}"),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: now,
            retained_until: Timestamp::FAR_FUTURE,
        },
        idempotency: None,
        deliveries: vec![NewDelivery {
            endpoint: endpoint.key,
            partition: endpoint.partition,
            order: Order::Due,
            state: FirstState::Pending(Pending { due: now, budget }),
        }],
    };
    let batch = Batch { accepts: vec![accept], ..Batch::default() };
    let committed = memory.commit(Arc::new(batch)).await.unwrap();
    let Accepted::New { message, .. } = committed.accepts[0] else { panic!("{committed:?}") };
    message
}

#[tokio::test]
async fn a_delivery_that_is_settled_while_it_is_being_sent_again_is_replayed() {
    let clock = SystemClock::start();
    let memory = Arc::new(Memory::new(State::default(), Box::new(move || clock.now())));
    let meddling = Meddling::with(&memory, clock);
    let app = app_on(Arc::clone(&memory), Arc::clone(&meddling) as _, false);
    let (scope, endpoint) = begin(&app).await;
    let message = accept(&memory, &scope, &endpoint, clock.now()).await;
    let application = endpoint.application;
    let entry = memory.deliveries_of(application, message).await.unwrap().remove(0);
    assert_eq!(entry.state.word(), "pending");
    // From here on the next look at the clock finds the delivery settled behind it.
    let key = DeliveryKey { application, endpoint: endpoint.key, message };
    *meddling.settles.lock().unwrap() = Some(key);
    app.replay_one(&scope, &entry.id.to_string()).await.unwrap();
    assert_eq!(*meddling.settles.lock().unwrap(), None);
    let page = redial::app::pages::Wanted::read(None, None).unwrap();
    let tasks = app.tasks(scope.caller(), &page, |_| true).await.unwrap().entries;
    assert_eq!(tasks.len(), 1, "a replay was started");
}

#[tokio::test]
async fn an_event_type_that_somebody_else_makes_meanwhile_is_made_once() {
    let clock = SystemClock::start();
    let memory = Arc::new(Memory::new(State::default(), Box::new(move || clock.now())));
    let meddling = Meddling::with(&memory, clock);
    let app = app_on(Arc::clone(&memory), Arc::clone(&meddling) as _, false);
    let caller = app.authenticate(ADMIN).await.unwrap();
    let settings = EventTypeSettings { description: "theirs".to_owned(), ..Default::default() };
    let (name, now) = ("a.b".to_owned(), clock.now());
    let theirs = EventType { name: name.clone(), settings, created_at: now, updated_at: now };
    *meddling.makes.lock().unwrap() = Some(theirs.clone());
    let ours = app.create_event_type(&caller, name.clone(), Default::default()).await;
    assert!(matches!(ours, Err(Error::EventTypeExists(_))), "{ours:?}");
    assert_eq!(memory.event_type(name).await.unwrap(), theirs);
}
