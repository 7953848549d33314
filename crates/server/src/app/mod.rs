//! Everything that can be done, once: the API, the dashboard and the command line call this.
//!
//! A function here takes values that are checked, or checks them, and says in typed errors why it
//! did not do something. It knows neither HTTP nor HTML. What belongs to an application is reached
//! through a [`Scope`], which only [`App::enter`] makes: whoever has one was let in.
//!
//! # Layout
//! - `access`, `tokens`, `portal`: who calls, and what they may do; `memory`: what is remembered of both
//! - `applications`, `endpoints`, `secrets`, `headers`, `event_types`: what people set up;
//!   `condition`: which version of it a request means; `permitted`: how far a caller may go
//! - `messages`, `attempts`, `deliveries`, `dead_letters`, `replays`, `statistics`, `figures`: what
//!   becomes of messages
//! - `delivery_walk`: deliveries by way of their messages; `waits`: what holds those that are pending;
//!   `places`: where an entry of a list stands
//! - `pace`: how fast an application's tokens may change things; `turns`: how many of the store's readers its
//!   requests hold
//! - `policies`: schedules as they are shown; `pages`: lists; `fields`: what is checked everywhere;
//!   `nesting`: how deep payloads may be
//! - `idempotency`: answers that are given again

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
pub mod figures;
pub mod headers;
pub mod idempotency;
mod memory;
pub mod messages;
pub mod nesting;
mod pace;
pub mod pages;
pub mod pauses;
mod permitted;
mod places;
pub mod policies;
pub mod portal;
pub mod replays;
pub mod secrets;
pub mod statistics;
pub mod tokens;
mod turns;
pub mod waits;

use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

pub use access::{Caller, Scope};
use domain::address::Guard;
use domain::ids::{Id, Noun, TaskId};
use domain::partition::Partition;
use domain::policy::Preset;
use domain::rights::Rights;
use domain::time::Timestamp;
pub use error::{Error, Fault, FaultKind, RefusalKind};
use store::keys::{ApplicationKey, EndpointKey};
use store::ledger::Within;
use store::queue::{Minute, RequestKind, Rollup};
use store::{Catalog, Ledger, Vault};
pub use turns::HeldTurn;

use crate::clock::Clock;
use crate::config::Caps;
use crate::dice;

/// How long the store may take to be read, for whoever asks how the server is.
const READ_WITHIN: Duration = Duration::from_secs(2);

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
    /// Tells whether messages can be taken in.
    fn is_ready(&self) -> Answer<'_, ()>;
    /// Tells the node that something was changed here that accepting or sending sees.
    fn changed(&self);
    /// Waits, for a while, until no node begins an attempt any more with what was replaced before;
    /// tells whether that is so.
    fn is_in_force(&self) -> Answer<'_, bool>;
    /// Leaves a request for whoever owns the endpoint's partition; answers when it is on disk.
    fn ask(&self, ask: Ask) -> Answer<'_, ()>;
    /// Returns the sums of some minutes, all together, with what the node has not written yet.
    fn sums(&self, within: Within, minutes: Range<Minute>) -> Answer<'_, Rollup>;
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

/// How the server is.
#[derive(Debug)]
pub struct Health {
    /// Whether the store can be read.
    pub reads: Result<(), Error>,
    /// Whether messages can be taken in.
    pub writes: Result<(), Error>,
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
    vault: Arc<Vault>,
    stopping: AtomicBool,
    remembered: memory::Remembered,
    pace: pace::Pace,
    turns: turns::StoreTurns,
    running: idempotency::Running,
}

/// What the operator set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The policy where nothing nearer sets one.
    pub policy: Preset,
    /// How long messages are kept.
    pub retention: Duration,
    /// SHA-256 of the admin token, if it is set from outside.
    pub admin_token: Option<[u8; 32]>,
    /// SHA-256 of the token for commands on this machine, if there is one.
    pub local_token: Option<[u8; 32]>,
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
    /// What tokens for one application may do beside reading, unless they were granted something else.
    pub portal: Rights,
    /// The most tokens remembered.
    pub cached_tokens: usize,
    /// The most applications remembered.
    pub cached_applications: usize,
    /// How many readers, or connections, the store has.
    pub readers: usize,
    /// The most requests that wait for their turn to use one of them.
    pub waiting_requests: usize,
    /// How long each of them waits.
    pub read_wait: Duration,
}

/// What an [`App`] stands on.
pub struct Parts {
    /// What people set up.
    pub catalog: Arc<dyn Catalog>,
    /// What people look at.
    pub ledger: Arc<dyn Ledger>,
    /// What seals places in lists. All nodes have the same.
    pub vault: Arc<Vault>,
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
        let Parts { catalog, ledger, vault, accepting, clock, guard, settings } = parts;
        let remembered = memory::Remembered::new(&settings);
        let pace = pace::Pace::new(settings.configuration_rate);
        let turns = turns::StoreTurns::new(&settings);
        Self {
            catalog,
            ledger,
            accepting,
            clock,
            guard,
            settings,
            vault,
            stopping: AtomicBool::new(false),
            remembered,
            pace,
            turns,
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

    /// Waits, for a while, until what a caller changed is in force on every node.
    pub(crate) async fn rolled_out(&self, caller: &Caller) -> Result<Rollout, Error> {
        caller.turn.give_back();
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

    /// Looks at how the server is: whether the store answers, and whether it takes messages in. A server
    /// that is stopping is well no more.
    pub async fn health(&self) -> Health {
        let stopping = || Error::Unavailable("the server is stopping".to_owned());
        if self.is_stopping() {
            return Health { reads: Err(stopping()), writes: Err(stopping()) };
        }
        let reads = tokio::time::timeout(READ_WITHIN, self.is_store_well());
        let (reads, writes) = tokio::join!(reads, self.accepting.is_ready());
        let silent = || Error::Unavailable(format!("no read was answered within {READ_WITHIN:?}"));
        let reads = if reads.unwrap_or(false) { Ok(()) } else { Err(silent()) };
        Health { reads, writes }
    }
}
