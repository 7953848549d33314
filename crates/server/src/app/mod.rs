//! Everything that can be done, once: the API, the dashboard and the command line call this.
//!
//! A function here takes values that are checked, or checks them, and says in typed errors why it
//! did not do something. It knows neither HTTP nor HTML. What belongs to an application is reached
//! through a [`Scope`], which only [`App::enter`] makes: whoever has one was let in.
//!
//! # Layout
//! - `access`, `tokens`: who calls, and what they may do; `memory`: what is remembered of both
//! - `applications`, `endpoints`, `secrets`, `headers`, `event_types`: what people set up;
//!   `condition`: which version of it a request means
//! - `messages`, `attempts`, `deliveries`, `dead_letters`, `replays`, `statistics`: what becomes of
//!   messages
//! - `delivery_walk`: deliveries by way of their messages
//! - `pace`: how fast an application's tokens may change things
//! - `policies`: schedules as they are shown; `pages`: lists; `fields`: what is checked everywhere;
//!   `nesting`: how deep payloads may be
//! - `idempotency`: answers that are given again
//! - `accepting`: taking messages in through the node

mod accepting;
pub mod access;
pub mod applications;
pub mod attempts;
mod caps;
pub mod condition;
pub mod dead_letters;
pub mod deliveries;
mod delivery_walk;
pub mod endpoints;
mod error;
pub mod event_types;
pub mod fields;
pub mod headers;
pub mod idempotency;
mod memory;
pub mod messages;
pub mod nesting;
mod pace;
pub mod pages;
pub mod pauses;
pub mod policies;
pub mod replays;
pub mod secrets;
pub mod statistics;
pub mod tokens;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

pub use access::{Caller, Scope};
use domain::address::Guard;
use domain::ids::{Id, Noun, TaskId};
use domain::partition::Partition;
use domain::policy::Preset;
use domain::signing::Signing;
use domain::time::Timestamp;
pub use error::{Error, Fault, FaultKind, RefusalKind};
use store::keys::{ApplicationKey, EndpointKey};
use store::queue::RequestKind;
use store::{Catalog, Ledger};

use crate::clock::Clock;
use crate::config::Caps;
use crate::dice;

/// The answer of something that takes its time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Takes messages in: fans out, commits, answers when durable. The node implements it.
pub trait Accepting: Send + Sync {
    /// Takes a message in; answers when it and its deliveries are on disk.
    fn accept(&self, message: messages::NewMessage) -> Answer<'_, messages::Taken>;
    /// Tells whether any endpoint would be sent a message of this kind, as of the application's
    /// revision or a later one.
    fn receives(
        &self,
        application: ApplicationKey,
        revision: i64,
        kind: messages::Kind,
    ) -> Answer<'_, bool>;
    /// Tells the node that something was changed here that accepting or sending sees.
    fn changed(&self);
    /// Waits, for a while, until no node begins an attempt any more with what was replaced before;
    /// tells whether that is so.
    fn is_in_force(&self) -> Answer<'_, bool>;
    /// Leaves a request for whoever owns the endpoint's partition; answers when it is on disk.
    fn ask(&self, ask: Ask) -> Answer<'_, ()>;
    /// Tells the node that something waits for it that it would find later by itself.
    fn nudge(&self, nudge: Nudge);
}

/// What an endpoint's owner is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The endpoint's application.
    pub application: ApplicationKey,
    /// The endpoint.
    pub endpoint: EndpointKey,
    /// Its partition.
    pub partition: Partition,
    /// What to do.
    pub kind: RequestKind,
    /// When it was asked.
    pub at: Timestamp,
}

/// What waits for the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nudge {
    /// A request, such as the one that a cancel leaves.
    Requests(Partition),
    /// A replay task.
    Task(TaskId),
}

/// Whether a change is in force on every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollout {
    /// No attempt begins any more with what was replaced.
    Complete,
    /// A node has not said so. It does not begin an attempt either, once it has not heard of changes for
    /// two seconds.
    Pending,
}

/// Everything that can be done.
pub struct App {
    /// What people set up.
    pub catalog: Arc<dyn Catalog>,
    /// What people look at.
    pub ledger: Arc<dyn Ledger>,
    /// Who takes messages in.
    pub accepting: Arc<dyn Accepting>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Where deliveries may go. Shared with whoever sends them.
    pub guard: Arc<RwLock<Guard>>,
    /// What the operator set.
    pub settings: Settings,
    stopping: AtomicBool,
    remembered: memory::Remembered,
    pace: pace::Pace,
    running: idempotency::Running,
}

/// What the operator set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The policy where nothing nearer sets one.
    pub policy: Preset,
    /// How attempts are signed where nothing nearer says so.
    pub signing: Signing,
    /// How long messages are kept.
    pub retention: Duration,
    /// SHA-256 of the admin token, if it is set from outside.
    pub admin_token: Option<[u8; 32]>,
    /// Under which URL people reach this server, without a slash at its end.
    pub public_url: String,
    /// The most messages in one batch.
    pub batch_messages: usize,
    /// The most messages of one batch that are being accepted at a time.
    pub batch_concurrency: usize,
    /// Whether other nodes use the same store.
    pub shared: bool,
    /// How long a token is trusted without asking the store.
    pub token_age: Duration,
    /// How often in a second the tokens of one application may change its configuration.
    pub configuration_rate: u32,
    /// How much the owner of an application may set up.
    pub caps: Caps,
    /// The most tokens remembered.
    pub cached_tokens: usize,
    /// The most applications remembered.
    pub cached_applications: usize,
}

/// What an [`App`] stands on.
pub struct Parts {
    /// What people set up.
    pub catalog: Arc<dyn Catalog>,
    /// What people look at.
    pub ledger: Arc<dyn Ledger>,
    /// Who takes messages in.
    pub accepting: Arc<dyn Accepting>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Where deliveries may go.
    pub guard: Arc<RwLock<Guard>>,
    /// What the operator set.
    pub settings: Settings,
}

impl App {
    /// Puts an app together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { catalog, ledger, accepting, clock, guard, settings } = parts;
        let remembered = memory::Remembered::new(&settings);
        let pace = pace::Pace::new(settings.configuration_rate);
        Self {
            catalog,
            ledger,
            accepting,
            clock,
            guard,
            settings,
            stopping: AtomicBool::new(false),
            remembered,
            pace,
            running: idempotency::Running::default(),
        }
    }

    /// Says that the server is stopping, so that whoever asks for its health goes elsewhere.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Tells whether the server is stopping.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Waits, for a while, until what was changed is in force on every node.
    pub(crate) async fn rolled_out(&self) -> Result<Rollout, Error> {
        let is_in_force = self.accepting.is_in_force().await?;
        Ok(if is_in_force { Rollout::Complete } else { Rollout::Pending })
    }

    /// Makes an id.
    pub(crate) fn new_id<N: Noun>(&self) -> Id<N> {
        Id::new(self.clock.wall(), dice::for_id())
    }

    /// Makes the id of what a request makes: the promised one, if it has a key.
    pub(crate) fn id_for<N: Noun>(&self, caller: &Caller) -> Id<N> {
        caller.promise.as_ref().map_or_else(|| self.new_id(), idempotency::Promise::id)
    }

    /// Tells whether the store answers.
    ///
    /// # Errors
    /// If it does not, or the server is stopping.
    pub async fn health(&self) -> Result<(), Error> {
        if self.is_stopping() {
            return Err(Error::Unavailable("the server is stopping".to_owned()));
        }
        let page = store::page::Page { from: store::page::From::Start, limit: 1 };
        self.catalog.tokens(page).await.map(|_| ()).map_err(Error::from)
    }
}
