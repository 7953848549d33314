//! The shell around the engine: it tells the machine what happened and does what it says.
//!
//! Nothing is decided here. What the engine wants done is carried out, and each answer becomes an
//! event; what goes wrong on the way becomes one, too. A node can be dropped at any point: whatever
//! matters is in the store.
//!
//! # Layout
//! - `core`: the task that owns the engine; `inbox`: what waits for it
//! - `effects`: carrying out what it says; `attempts`: what is in flight; `versions`: whether what an attempt
//!   is made with is still in force
//! - `intake`: taking messages in, `accepting` for the app; `rosters`: the endpoints they fan out to; `changes`: what was
//!   changed in the catalog
//! - `replays`, `missing`, `housekeeping`: replay tasks, pruning
//! - `sums`, `recount`: per-minute sums, and what a crash took of them
//! - `supervision`: what happens if one of these panics; `suspects`: what made the engine panic
//! - `timeline`: the time of the rows; `readiness`: whether messages can be taken in

mod accepting;
mod attempts;
mod changes;
mod core;
mod effects;
mod housekeeping;
mod inbox;
mod intake;
mod missing;
mod readiness;
mod recount;
mod replays;
mod rosters;
mod sums;
mod supervision;
mod suspects;
mod timeline;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::partition::Partition;
use engine::commit::Limits;
use engine::roster::Read;
use engine::{Announcement, Event, Policies};
use store::keys::{Epoch, Node as Name};
use store::{Catalog, Ledger, Queue};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, broadcast, watch};
use tokio::task::JoinHandle;

pub use self::attempts::{Carrier, Outward};
use self::inbox::Inbox;
pub use self::intake::{Draft, NotTaken};
pub use self::readiness::Disk;
use self::readiness::Readiness;
use self::rosters::Rosters;
use self::sums::Sums;
pub(crate) use self::supervision::again_and_again;
use self::supervision::{Trouble, Vital, repeated};
use self::timeline::Timeline;
use crate::clock::Clock;
use crate::committer::{self, Committer, Listener, Transactions};
use crate::dice;

/// How many announcements a slow listener may lag behind before it misses some.
const ANNOUNCEMENTS: usize = 1_024;
/// How many endpoints are disabled at the same time.
const DISABLING: usize = 4;
/// What is kept of the time to stop, at most, for settling and giving back what was interrupted.
const LAST_STEPS: Duration = Duration::from_secs(3);

/// What a node is made of.
pub struct Parts {
    /// The hot path of the store.
    pub queue: Arc<dyn Queue>,
    /// What people set up.
    pub catalog: Arc<dyn Catalog>,
    /// What people look at.
    pub ledger: Arc<dyn Ledger>,
    /// The way out.
    pub carrier: Arc<dyn Carrier>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where those run who hand messages in. What is committed is answered there, so that nobody who
    /// waits for an answer waits for whoever sends.
    pub answering: Handle,
}

/// How a node is started.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The engine's limits.
    pub engine: engine::Settings,
    /// The limits of lanes and batches.
    pub lanes: Limits,
    /// How the store writes the lanes.
    pub transactions: Transactions,
    /// The server's policy and endpoint defaults.
    pub policy: Read,
    /// Whether this node sends, or only takes messages in.
    pub sends: bool,
    /// The most deliveries that wait to be handed over from accepting to sending.
    pub handed_over: usize,
    /// How long stopping may take, all in all. Attempts in flight may end within most of it.
    pub grace: Duration,
    /// Where the store's files are, if it has any.
    pub disk: Option<Disk>,
}

/// A running node.
pub struct Node {
    world: Arc<World>,
    committer: Vital,
    tasks: Vec<JoinHandle<()>>,
    core: Option<Vital>,
    trouble: Trouble,
    grace: Duration,
}

/// How stopping went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything was settled and given back.
    InTime,
    /// Not everything; the rest goes on at the next start.
    TooLate,
    /// This part failed meanwhile.
    Broken(&'static str),
}

/// What all parts of a node share.
pub(crate) struct World {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) committer: Committer,
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) rosters: Rosters,
    pub(crate) sums: Arc<Sums>,
    /// Held by whoever disables an endpoint.
    pub(crate) disabling: Semaphore,
    /// What is owned, under which epochs.
    pub(crate) leases: watch::Sender<BTreeMap<Partition, Epoch>>,
    /// Called when a replay task was started here.
    pub(crate) replays: Notify,
    pub(crate) heard: changes::Heard,
    pub(crate) versions: versions::Versions,
    /// Called when changes of the catalog were heard of: something may be deleted.
    pub(crate) pruning: Notify,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) announcements: broadcast::Sender<Announcement>,
}

impl Node {
    /// Starts a node. It knows the time of the rows from the beginning: a message that is taken in
    /// by a clock that is ahead would be sent late. And it knows the policies of event types: a
    /// delivery that is judged without its own may be buried after its first attempts.
    ///
    /// # Errors
    /// If the store does not tell its time, or its event types.
    pub async fn start(parts: Parts, settings: Settings) -> Result<Self, store::Error> {
        let timeline = Arc::new(Timeline::start(Arc::clone(&parts.clock)));
        timeline.hear(&*parts.queue).await?;
        let event_types = changes::event_types(&*parts.catalog).await?.policies;
        let policies = Policies { server: settings.policy.clone(), event_types };
        Ok(Self::begin(parts, settings, timeline, policies))
    }

    fn begin(
        parts: Parts,
        settings: Settings,
        timeline: Arc<Timeline>,
        policies: Policies,
    ) -> Self {
        let Settings { engine, lanes, transactions, sends, handed_over, grace, disk, .. } =
            settings;
        let inbox = Arc::new(Inbox::new(if sends { handed_over } else { 0 }));
        let sums = Arc::new(Sums::default());
        let listener = Arc::new(inbox::Ears {
            inbox: Arc::clone(&inbox),
            timeline: Arc::clone(&timeline),
            sums: Arc::clone(&sums),
        });
        let (committer, committing) = {
            let _entered = parts.answering.enter();
            Committer::start(committer::Settings {
                queue: Arc::clone(&parts.queue),
                clock: timeline.clock(),
                limits: lanes,
                transactions,
                listener: listener as Arc<dyn Listener>,
            })
        };
        let (queue, clock) = (Arc::clone(&parts.queue), timeline.clock());
        let readiness = Readiness::new(queue, committer.clone(), clock, disk);
        let world = Arc::new(World {
            rosters: Rosters::new(
                Arc::clone(&parts.catalog),
                policies,
                Arc::clone(&timeline),
                Arc::clone(&inbox),
                usize::try_from(engine.roster_memory).unwrap_or(usize::MAX),
            ),
            queue: parts.queue,
            catalog: parts.catalog,
            ledger: parts.ledger,
            carrier: parts.carrier,
            committer,
            timeline,
            inbox,
            sums,
            disabling: Semaphore::new(DISABLING),
            leases: watch::Sender::new(BTreeMap::new()),
            replays: Notify::new(),
            heard: changes::Heard::default(),
            versions: versions::Versions::default(),
            pruning: Notify::new(),
            readiness,
            announcements: broadcast::Sender::new(ANNOUNCEMENTS),
        });
        let trouble = Trouble::default();
        let mut tasks = vec![
            repeated("naming damaged rows", &world, housekeeping::complain),
            repeated("summing up", &world, housekeeping::roll_up),
        ];
        let core = sends.then(|| {
            tasks.push(repeated("hearing other nodes", &world, housekeeping::wakes));
            tasks.push(repeated("pruning", &world, housekeeping::prune));
            tasks.push(repeated("folding sums", &world, housekeeping::fold));
            tasks.push(repeated("replaying", &world, replays::run));
            tasks.push(repeated("counting again", &world, recount::run));
            trouble.watch("what sends", tokio::spawn(core::run(Arc::clone(&world), engine)))
        });
        if core.is_none() {
            tasks.push(repeated("reading the time", &world, housekeeping::time));
            tasks.push(repeated("reading changes", &world, changes::follow));
        }
        let committer = trouble.watch("the committer", committing);
        Self { world, committer, tasks, core, trouble, grace }
    }

    /// Waits until a part fails without which the node cannot go on, and names it.
    pub fn failed(&self) -> impl Future<Output = &'static str> + use<> {
        self.trouble.happens()
    }

    /// Hears what the engine announces from now on.
    #[must_use]
    pub fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.world.announcements.subscribe()
    }

    /// Returns a clock that tells the time of the rows.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.world.timeline) as _
    }

    /// Returns a handle for whoever takes messages in.
    #[must_use]
    pub fn intake(&self) -> Intake {
        Intake { world: Arc::clone(&self.world) }
    }

    /// Stops: attempts in flight end or are interrupted, everything is settled, and the partitions
    /// are given back. What has not ended when the grace time is over is left to whoever comes next.
    pub async fn stop(self) {
        self.stop_beside(std::future::ready(())).await;
    }

    /// Stops while somebody else still answers those who hand messages in. There is one deadline for
    /// both, and nobody waits for it if a part fails that the others wait for.
    pub async fn stop_beside(mut self, answering: impl Future<Output = ()>) -> Ending {
        let (grace, failed) = (self.grace, self.failed());
        let ending = tokio::select! {
            biased;
            what = failed => Ending::Broken(what),
            wound_up = tokio::time::timeout(grace, self.wind_up(answering)) => match wound_up {
                Ok(()) => Ending::InTime,
                Err(_) => Ending::TooLate,
            },
        };
        self.core.iter().for_each(Vital::abort);
        self.committer.abort();
        ending
    }

    async fn wind_up(&mut self, answering: impl Future<Output = ()>) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.world.inbox.stop(Event::Stop);
        // The time that is left belongs to what has been written.
        self.world.carrier.stop_waiting();
        let last = LAST_STEPS.min(self.grace / 4);
        let first = self.grace.saturating_sub(last);
        let sending = async {
            let Some(core) = &mut self.core else { return };
            if tokio::time::timeout(first, core.ended()).await.is_err() {
                self.world.inbox.stop(Event::StopNow);
                // A store that is gone must not keep the process: what is not settled is sent again
                // by whoever takes over.
                core.ended().await;
            }
        };
        let _answered = tokio::join!(tokio::time::timeout(first, answering), sending);
        self.world.sums.flush_fast(&self.world).await;
        self.world.committer.close();
        self.committer.ended().await;
    }
}

/// Takes messages in, and hears what changed. Clones share a node.
#[derive(Clone)]
pub struct Intake {
    world: Arc<World>,
}

/// Makes a name that no other node has or had.
#[must_use]
pub fn unique_name(host: &str) -> Name {
    let mut random = [0; 8];
    dice::entropy(&mut random);
    Name(format!("{host}-{:016x}", u64::from_be_bytes(random)))
}
