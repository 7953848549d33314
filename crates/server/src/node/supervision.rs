//! What happens if a part of a node panics.
//!
//! A panic ends the task that it happens in, and nobody else notices: without its committer a server
//! would take messages in and answer nobody. What has nothing of its own to lose begins anew. What
//! has is named to whoever runs the node, who ends the process: everything that matters is in the
//! store, and a start reads it from there.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use super::World;

/// The wait before something that panicked begins anew.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Where it is told which part failed.
#[derive(Clone)]
pub(super) struct Trouble {
    what: Arc<watch::Sender<Option<&'static str>>>,
}

impl Default for Trouble {
    fn default() -> Self {
        Self { what: Arc::new(watch::Sender::new(None)) }
    }
}

/// A part without which a node cannot go on.
pub(super) struct Vital {
    watcher: JoinHandle<()>,
    task: AbortHandle,
}

impl Trouble {
    /// Watches a part.
    pub(super) fn watch<T: Send + 'static>(
        &self,
        what: &'static str,
        task: JoinHandle<T>,
    ) -> Vital {
        let (trouble, abort) = (self.clone(), task.abort_handle());
        let watcher = tokio::spawn(async move {
            if task.await.is_err_and(|error| error.is_panic()) {
                tracing::error!(part = what, "a part panicked that cannot begin anew");
                trouble.what.send_replace(Some(what));
            }
        });
        Vital { watcher, task: abort }
    }

    /// Waits until one fails, and names it.
    pub(super) fn happens(&self) -> impl Future<Output = &'static str> + use<> {
        let mut heard = self.what.subscribe();
        async move {
            let failed = heard.wait_for(Option::is_some).await.ok().and_then(|what| *what);
            match failed {
                Some(what) => what,
                // Nobody is left who could fail.
                None => std::future::pending().await,
            }
        }
    }
}

impl Vital {
    /// Waits until it has ended, in whatever way.
    pub(super) async fn ended(&mut self) {
        if !self.watcher.is_finished() {
            let _ended = (&mut self.watcher).await;
        }
    }

    /// Ends it.
    pub(super) fn abort(&self) {
        self.task.abort();
    }
}

/// Runs what a node does besides, and begins it anew if it panics.
pub(super) fn repeated<Running>(
    what: &'static str,
    world: &Arc<World>,
    run: fn(Arc<World>) -> Running,
) -> JoinHandle<()>
where
    Running: Future<Output = ()> + Send + 'static,
{
    let world = Arc::clone(world);
    tokio::spawn(again_and_again(what, move || run(Arc::clone(&world))))
}

/// Runs something that has nothing of its own to lose, and begins it anew if it panics.
pub(crate) async fn again_and_again<Running>(what: &'static str, run: impl Fn() -> Running)
where
    Running: Future<Output = ()> + Send + 'static,
{
    loop {
        // A set, because it ends what is in it when it is dropped.
        let mut only = JoinSet::new();
        only.spawn(run());
        match only.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(part = what, "a part panicked; it begins anew");
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            Some(_) | None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_panics_begins_anew_until_it_ends_by_itself() {
        let times = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&times);
        again_and_again("a test", move || {
            let count = Arc::clone(&count);
            async move { assert!(count.fetch_add(1, Ordering::Relaxed) >= 2, "not yet") }
        })
        .await;
        assert_eq!(times.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_vital_part_that_panics_is_named_and_one_that_ends_is_not() {
        let trouble = Trouble::default();
        let mut good = trouble.watch("the good one", tokio::spawn(async {}));
        good.ended().await;
        let aborted = tokio::spawn(std::future::pending::<()>());
        let mut aborted = trouble.watch("the aborted one", aborted);
        aborted.abort();
        aborted.ended().await;
        let bad: JoinHandle<()> = tokio::spawn(async { panic!("as told") });
        let mut bad = trouble.watch("the bad one", bad);
        bad.ended().await;
        assert_eq!(trouble.happens().await, "the bad one");
    }
}
