//! A crash between doing something and remembering what was answered: whoever asks again with the
//! same key gets what was made, and nothing is made twice.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use domain::address::Guard;
use domain::policy;
use domain::time::Timestamp;
use redial::app::idempotency::{Begun, StoredAnswer};
use redial::app::messages::{Kind, NewMessage, Taken};
use redial::app::tokens::{Reach, Wish};
use redial::app::{Accepting, Answer, App, Ask, Caller, Error, Nudge, Parts, Settings};
use redial::clock::{Clock, SystemClock};
use redial::config::{Configuration, Sources};
use sha2::{Digest as _, Sha256};
use store::keys::ApplicationKey;
use store::memory::{Memory, State};
use store::sqlite::{self, Sqlite};
use tempfile::TempDir;

use super::ADMIN;

const KEY: [u8; 32] = [7; 32];

/// Nobody sends anything.
struct Idle;

impl Accepting for Idle {
    fn accept(&self, _: NewMessage) -> Answer<'_, Taken> {
        Box::pin(async { Err(Error::Unavailable("nobody accepts".to_owned())) })
    }

    fn receives(&self, _: ApplicationKey, _: i64, _: Kind) -> Answer<'_, bool> {
        Box::pin(async { Ok(false) })
    }

    fn changed(&self) {}

    fn is_in_force(&self) -> Answer<'_, bool> {
        Box::pin(async { Ok(true) })
    }

    fn ask(&self, _: Ask) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn nudge(&self, _: Nudge) {}
}

/// Opens an app on a store, as after a start.
async fn open(data: &Path) -> App {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let rows = Arc::clone(&clock);
    let random = |bytes: &mut [u8]| bytes.fill(3);
    let settings = sqlite::Settings::new(data, random, Arc::new(move || rows.now()));
    let opened = tokio::task::spawn_blocking(move || Sqlite::open(settings)).await.unwrap();
    app_on(Arc::new(opened.unwrap()), clock, false)
}

/// Puts an app together on a store that others may share, with nobody who sends.
pub(super) fn app_on<Store>(store: Arc<Store>, clock: Arc<dyn Clock>, shared: bool) -> App
where
    Store: store::Catalog + store::Ledger + 'static,
{
    let egress = Configuration::read(Sources::default()).unwrap().egress;
    App::new(Parts {
        catalog: Arc::clone(&store) as _,
        ledger: store,
        accepting: Arc::new(Idle),
        clock,
        guard: Arc::new(RwLock::new(Guard::new(egress))),
        settings: Settings {
            policy: policy::preset("redial").unwrap().clone(),
            retention: Duration::from_secs(86_400),
            admin_token: Some(Sha256::digest(ADMIN.as_bytes()).into()),
            public_url: String::new(),
            batch_messages: 1,
            batch_concurrency: 1,
            shared,
            token_age: Duration::from_secs(1),
            signing: Default::default(),
            configuration_rate: 10,
            caps: Configuration::read(Sources::default()).unwrap().limits.caps,
            cached_tokens: 1,
            cached_applications: 1,
        },
    })
}

/// Comes in as a request with a key does.
async fn caller(app: &App) -> Caller {
    let caller = app.authenticate(ADMIN).await.unwrap();
    Caller { promise: Some(app.promise(KEY).await.unwrap()), ..caller }
}

#[tokio::test]
async fn what_was_made_before_a_crash_is_found_by_the_request_that_is_repeated() {
    let directory = TempDir::new().unwrap();
    let mut seen = Vec::new();
    for again in [false, true, true] {
        let app = open(directory.path()).await;
        let caller = caller(&app).await;
        assert_eq!(caller.promise.as_ref().unwrap().again(), again);
        let name = Some("x".to_owned());
        let draft = redial::app::applications::Draft { name, ..Default::default() };
        let application = app.create_application(&caller, draft).await.unwrap();
        let scope = app.enter(&caller, &application.id.to_string()).await.unwrap();
        let draft = redial::app::endpoints::Draft::of("https://receiver.example/".to_owned());
        let endpoint = app.create_endpoint(&scope, draft).await.unwrap();
        let draft = redial::app::event_types::Draft::default();
        let event_type = app.create_event_type(&caller, "a.b".to_owned(), draft).await.unwrap();
        let name = endpoint.id.to_string();
        let secret = app.rotate_secret(&scope, &name, None, None).await.unwrap().key;
        assert_eq!(app.secret(&scope, &name).await.unwrap(), secret);
        let (reach, lasts) = (Reach::Everything, None);
        let wish = Wish { name: "robot".to_owned(), reach, read_only: false, lasts };
        let token = app.create_token(caller.promise.as_ref(), wish).await.unwrap().0;
        app.authenticate(&token).await.unwrap();
        seen.push((application.id, endpoint.id, event_type.created_at, secret, token));
        // The process ends here, and no answer was remembered.
        assert!(app.remembered_answer(KEY).await.unwrap().is_none());
    }
    assert!(seen.iter().all(|it| *it == seen[0]), "{seen:?}");
    let app = open(directory.path()).await;
    let page = redial::app::pages::Wanted::read(None, None).unwrap();
    assert_eq!(app.applications(&page).await.unwrap().entries.len(), 1);
    assert_eq!(app.tokens(&page).await.unwrap().entries.len(), 1);
    let (application, endpoint, ..) = &seen[0];
    let caller = app.authenticate(ADMIN).await.unwrap();
    let scope = app.enter(&caller, &application.to_string()).await.unwrap();
    let endpoint = app.endpoint(&scope, &endpoint.to_string()).await.unwrap();
    let now = app.clock.now();
    let secrets = app.catalog.secrets(endpoint.application, endpoint.key, now).await.unwrap();
    assert_eq!(secrets.len(), 2, "the first one, and the one it was rotated to");
}

/// A clock that stands until it is set.
struct Standing(AtomicI64);

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

#[tokio::test]
async fn a_key_that_a_dead_node_had_in_hand_is_taken_over_with_its_promise() {
    let clock = Arc::new(Standing(AtomicI64::new(1_800_000_000)));
    let rows = Arc::clone(&clock);
    let memory = Arc::new(Memory::new(State::default(), Box::new(move || rows.now())));
    let node = || app_on(Arc::clone(&memory), Arc::clone(&clock) as _, true);
    let (dead, one, two) = (node(), node(), node());
    let Begun::Now(held, promise) = dead.begin(KEY).await.unwrap() else { panic!("answered") };
    assert!(!promise.again());
    std::mem::forget(held);
    // Its claim has run out: of two others one goes on, and the other waits for its answer.
    clock.0.fetch_add(16, Ordering::Relaxed);
    let Begun::Now(held, again) = one.begin(KEY).await.unwrap() else { panic!("answered") };
    assert!(again.again());
    assert_eq!(again.hash(), promise.hash());
    let answer = StoredAnswer { status: 201, headers: Vec::new(), body: "{}".into() };
    // Asked in this order: the first has found the claim before the second answers.
    let (waited, _) =
        tokio::join!(biased; two.begin(KEY), one.remember_answer(KEY, answer.clone()));
    let Begun::Before(stored) = waited.unwrap() else { panic!("done twice") };
    assert_eq!(stored, answer);
    drop(held);
}
