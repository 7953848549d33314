//! Replay tasks: the owner of a task's partition walks it, chunk by chunk.
//!
//! A task is durable, and so is how far it has got: each chunk moves its cursor in the transaction
//! that makes the deliveries pending. Whoever takes over goes on where the last one stopped. What an
//! endpoint never got is found by walking messages; see `missing`. Tasks take turns, one chunk each;
//! see `turns`.

mod chunk;
mod turns;
pub(super) mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::ids::{EndpointId, TaskId};
use domain::partition::Partition;
use engine::Roster;
use futures_util::FutureExt as _;
use store::keys::{ApplicationKey, Lease};
use store::ledger::{TaskKind, TaskState};
use store::page::{From, Page};
use store::queue::Done;

use self::turns::{Gathered, Served};
use self::walk::Walked;
use super::World;
use super::missing;

/// How often tasks are looked for if nobody calls.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The most tasks on a page.
const PAGE: u32 = 100;

/// Runs all tasks that this node is responsible for.
pub(super) async fn run(world: Arc<World>) {
    let mut served = Served::default();
    loop {
        match look(&world, &mut served).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "replays are held up"),
        }
        let _called = tokio::time::timeout(LOOK_EVERY, world.replays.notified()).await;
    }
}

/// Gives turns until nobody wants one, or it is time to look again; tells whether that is at once,
/// which it is not while nothing moves. So a small task waits neither for a large one nor for many of
/// another application.
async fn look(world: &World, served: &mut Served) -> Result<bool, store::Error> {
    let mut turns = running(world, served).await?.turns(served);
    let again_at = world.timeline.moment().elapsed.saturating_add(LOOK_EVERY);
    let mut look = Look { world, read: BTreeSet::new() };
    let mut moved = false;
    while turns.round() > 0 {
        for _ in 0..turns.round() {
            let Some(turn) = turns.next(served) else { break };
            let stands = look.step(turn.task).await.unwrap_or_else(|error| {
                // One that cannot go on does not hold up the others.
                tracing::warn!(%error, task.id = %turn.task, "a replay is held up");
                Stands::Still
            });
            moved |= stands != Stands::Still;
            turns.end(turn, stands == Stands::BeforeMore);
        }
        let called = world.replays.notified().now_or_never().is_some();
        if called || world.timeline.moment().elapsed >= again_at {
            return Ok(called || moved);
        }
    }
    // What did not fit is waiting.
    Ok(turns.left_out && moved)
}

/// Gathers the running tasks that this node is responsible for.
async fn running(world: &World, served: &Served) -> Result<Gathered, store::Error> {
    let mut gathered = Gathered::default();
    let mut from = From::Start;
    loop {
        let listed = world.ledger.running_tasks(Page { from, limit: PAGE }).await?;
        for task in listed.entries {
            if lease_for(world, task.id).is_some() {
                gathered.add(served, task.application, task.id);
            }
        }
        match listed.reached {
            Some(reached) if !listed.done => from = From::After(reached),
            Some(_) | None => return Ok(gathered),
        }
    }
}

/// Returns the right to run a task.
fn lease_for(world: &World, task: TaskId) -> Option<Lease> {
    let partition = Partition::of(&EndpointId::from_bytes(*task.as_bytes()));
    let epoch = world.leases.borrow().get(&partition).copied()?;
    Some(Lease { partition, epoch })
}

/// Where a task stands after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// It has moved, and there is more to do.
    BeforeMore,
    /// It has come to its end.
    AtItsEnd,
    /// It did not move.
    Still,
}

/// A look at tasks that take turns.
struct Look<'a> {
    world: &'a World,
    /// The applications whose endpoints were read since the tasks were listed.
    read: BTreeSet<ApplicationKey>,
}

impl Look<'_> {
    /// Does one chunk.
    async fn step(&mut self, id: TaskId) -> Result<Stands, store::Error> {
        let world = self.world;
        let task = world.ledger.task(id).await?;
        let lease = lease_for(world, id).filter(|_| task.state == TaskState::Running);
        let Some(lease) = lease else { return Ok(Stands::Still) };
        let walked = match (self.roster(task.application).await?, task.kind, task.endpoint) {
            (None, ..) => Walked::nothing(),
            (Some(roster), TaskKind::ReplayMissing, Some(endpoint)) => {
                missing::walk(world, &task, &roster, endpoint).await?
            }
            (
                Some(roster),
                TaskKind::ReplayMissing | TaskKind::Recover | TaskKind::BulkReplay,
                _,
            ) => walk::walk(world, &task, &roster).await?,
        };
        let goes_on = walked.reached.is_some();
        match chunk::write(world, lease, &task, walked).await? {
            Done::Changed(_) if goes_on => Ok(Stands::BeforeMore),
            Done::Changed(_) => Ok(Stands::AtItsEnd),
            Done::Numbered { .. } | Done::Fenced => Ok(Stands::Still),
            Done::Refused(text) => Err(store::Error::Refused(text)),
        }
    }

    /// Returns an application's endpoints; none if it is gone. They are read once in a look, whatever
    /// is in memory: on another node an endpoint may be younger than what this one knows, and what is
    /// passed over is never looked at again. What is younger than the look is not meant by its tasks.
    async fn roster(
        &mut self,
        application: ApplicationKey,
    ) -> Result<Option<Arc<Roster>>, store::Error> {
        let rosters = &self.world.rosters;
        let read = if self.read.contains(&application) {
            rosters.current(application).await
        } else {
            rosters.read_now(application).await
        };
        match read {
            Ok(roster) => {
                self.read.insert(application);
                Ok(Some(roster))
            }
            Err(store::Error::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
