//! Whether messages can be taken in, for whoever spreads requests over servers.
//!
//! What the last commit said counts while it is fresh. Otherwise, and after a commit that failed, a probe
//! is written. Anybody may ask, and as often as they like: at most one look is under way, and none follows
//! another within [`KEPT`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::time::Timestamp;
use store::Queue;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::committer::Committer;
use crate::disk::room;
use crate::words::sized;

/// For how long a commit that was written tells that the next one will be.
const FRESH: Duration = Duration::from_secs(5);
/// For how long the answer of a look is given again.
const KEPT: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the store's files are, and how much room they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Their directory.
    pub directory: PathBuf,
    /// How many bytes the largest message takes: with less free, some are refused.
    pub least: u64,
}

/// Looks whether messages can be taken in.
pub(crate) struct Readiness {
    queue: Arc<dyn Queue>,
    committer: Committer,
    clock: Arc<dyn Clock>,
    disk: Option<Disk>,
    looking: AtomicBool,
    looks: watch::Sender<Look>,
}

/// What the last look found; before the first one there is nothing to find fault with.
#[derive(Debug, Clone)]
struct Look {
    number: u64,
    ended_at: Option<Timestamp>,
    found: Result<(), Arc<str>>,
}

impl Readiness {
    pub(crate) fn new(
        queue: Arc<dyn Queue>,
        committer: Committer,
        clock: Arc<dyn Clock>,
        disk: Option<Disk>,
    ) -> Arc<Self> {
        let looks = watch::Sender::new(Look { number: 0, ended_at: None, found: Ok(()) });
        Arc::new(Self { queue, committer, clock, disk, looking: AtomicBool::new(false), looks })
    }

    /// Tells whether messages can be taken in; if not, why, for the operator.
    pub(crate) async fn ask(self: &Arc<Self>) -> Result<(), Arc<str>> {
        let mut looks = self.looks.subscribe();
        let last = looks.borrow_and_update().clone();
        if self.is_current(&last) {
            return last.found;
        }
        self.look();
        let answered = looks.wait_for(|look| look.number > last.number);
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(look)) => look.found.clone(),
            Ok(Err(_)) | Err(_) => Err(format!("no write was answered within {PATIENCE:?}").into()),
        }
    }

    fn is_current(&self, look: &Look) -> bool {
        let Some(ended_at) = look.ended_at else { return false };
        // A commit that failed since then says more.
        let failed = self.committer.last().is_some_and(|last| !last.written && last.at > ended_at);
        !failed && self.clock.now().since(ended_at) < KEPT
    }

    /// Looks in a task of its own, which goes on if nobody waits any more: a disk that does not answer
    /// gets one probe, however many ask.
    fn look(self: &Arc<Self>) {
        if self.looking.swap(true, Ordering::SeqCst) {
            return;
        }
        let looking = Looking(Arc::clone(self));
        tokio::spawn(async move {
            let found = looking.0.find_out().await;
            looking.0.tell(found);
        });
    }

    async fn find_out(&self) -> Result<(), Arc<str>> {
        if let Some(text) = self.lacks_room().await {
            return Err(text.into());
        }
        let now = self.clock.now();
        let last = self.committer.last();
        if last.is_some_and(|last| last.written && now.since(last.at) < FRESH) {
            return Ok(());
        }
        self.queue.probe().await.map_err(|error| error.to_string().into())
    }

    /// What cannot be looked at is left to the probe.
    async fn lacks_room(&self) -> Option<String> {
        let Disk { directory, least } = self.disk.clone()?;
        let place = directory.clone();
        let room = tokio::task::spawn_blocking(move || room(&place)).await.ok()?.ok()?;
        (room.free < least).then(|| {
            format!(
                "only {} are free in {}, and a message may need {}; make room there",
                sized(room.free),
                directory.display(),
                sized(least)
            )
        })
    }

    fn tell(&self, found: Result<(), Arc<str>>) {
        match (&self.looks.borrow().found, &found) {
            (Ok(()), Err(text)) => tracing::error!("messages cannot be stored: {text}"),
            (Err(_), Ok(())) => tracing::info!("messages can be stored again"),
            (Ok(()), Ok(())) | (Err(_), Err(_)) => {}
        }
        let ended_at = Some(self.clock.now());
        self.looks.send_modify(|look| *look = Look { number: look.number + 1, ended_at, found });
    }
}

/// A look that is under way, until it is dropped.
struct Looking(Arc<Readiness>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.looking.store(false, Ordering::SeqCst);
    }
}
