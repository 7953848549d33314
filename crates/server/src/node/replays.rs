//! Replay tasks: the owner of a task's partition walks it, chunk by chunk.
//!
//! A task is durable, and so is how far it has got: each chunk moves its cursor in the transaction
//! that makes the deliveries pending. Whoever takes over goes on where the last one stopped. What an
//! endpoint never got is found by walking messages; see `missing`.

mod chunk;
pub(super) mod walk;

use std::sync::Arc;
use std::time::Duration;

use domain::ids::{EndpointId, TaskId};
use domain::partition::Partition;
use store::keys::Lease;
use store::ledger::{Task, TaskKind, TaskState};
use store::page::{From, Page};
use store::queue::Done;

use super::World;
use super::missing;

/// How often tasks are looked for if nobody calls.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a task may still be overtaken by one that was made before it, on another node.
const STILL_YOUNG: Duration = Duration::from_secs(60);
/// How often all tasks are looked at, whatever is remembered of them. The id of a task is as old as
/// the request that began it, or as wrong as its maker's clock: it may lie among finished ones.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(5 * 60);
/// The most tasks on a page.
const PAGE: u32 = 100;

/// Runs all tasks that this node is responsible for.
pub(super) async fn run(world: Arc<World>) {
    let mut memory = Memory::default();
    loop {
        memory.begin(world.timeline.moment().elapsed);
        match look(&world, &mut memory.finished).await {
            // A small task does not wait until a large one is done.
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "replays are held up"),
        }
        let _called = tokio::time::timeout(LOOK_EVERY, world.replays.notified()).await;
    }
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
struct Memory {
    /// This task and all older ones were finished when they were last looked at.
    finished: Option<TaskId>,
    /// When all of them are looked at again.
    all_at: Duration,
}

impl Memory {
    /// Begins a look; from time to time with nothing remembered.
    fn begin(&mut self, now: Duration) {
        if now >= self.all_at {
            *self = Self { finished: None, all_at: now.saturating_add(LOOK_AT_ALL_EVERY) };
        }
    }
}

/// Does one chunk of each task; tells whether there is more to do.
async fn look(world: &World, finished: &mut Option<TaskId>) -> Result<bool, store::Error> {
    let mut more = false;
    for task in unfinished(world, finished).await? {
        let Some(lease) = lease_for(world, &task) else { continue };
        match step(world, &task.id, lease).await {
            Ok(goes_on) => more |= goes_on,
            // One that cannot go on does not hold up the others.
            Err(error) => tracing::warn!(%error, task.id = %task.id, "a replay is held up"),
        }
    }
    Ok(more)
}

/// Lists the tasks that are not finished. From some task on, all older ones were finished when they
/// were last looked at, and stay so: they are not read again.
async fn unfinished(
    world: &World,
    finished: &mut Option<TaskId>,
) -> Result<Vec<Task>, store::Error> {
    let (mut running, mut over) = (Vec::new(), None);
    let young = world.timeline.rows().before(STILL_YOUNG);
    let mut from = From::Start;
    loop {
        let listed = world.ledger.tasks(None, Page { from, limit: PAGE }).await?;
        for task in listed.entries {
            if finished.is_some_and(|finished| task.id <= finished) {
                *finished = over.or(*finished);
                return Ok(running);
            }
            if task.state == TaskState::Running {
                over = None;
                running.push(task);
            } else if task.id.made_at() < young {
                over = over.or(Some(task.id));
            }
        }
        match listed.reached {
            Some(reached) if !listed.done => from = From::After(reached),
            Some(_) | None => {
                *finished = over;
                return Ok(running);
            }
        }
    }
}

/// Returns the right to run a task that has more to do.
fn lease_for(world: &World, task: &Task) -> Option<Lease> {
    match task.state {
        TaskState::Finished => None,
        TaskState::Running => {
            let partition = Partition::of(&EndpointId::from_bytes(*task.id.as_bytes()));
            let epoch = world.leases.borrow().get(&partition).copied()?;
            Some(Lease { partition, epoch })
        }
    }
}

/// Does one chunk; tells whether there is more.
async fn step(world: &World, id: &TaskId, lease: Lease) -> Result<bool, store::Error> {
    let task = world.ledger.task(*id).await?;
    if task.state == TaskState::Finished {
        return Ok(false);
    }
    let walked = match (task.kind, task.endpoint) {
        (TaskKind::ReplayMissing, Some(endpoint)) => missing::walk(world, &task, endpoint).await?,
        (TaskKind::ReplayMissing | TaskKind::Recover | TaskKind::BulkReplay, _) => {
            walk::walk(world, &task).await?
        }
    };
    let goes_on = walked.reached.is_some();
    match chunk::write(world, lease, &task, walked).await? {
        Done::Changed(_) => Ok(goes_on),
        Done::Fenced => Ok(false),
        Done::Refused(text) => Err(store::Error::Refused(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_time_to_time_finished_tasks_are_looked_at_too() {
        let mut memory = Memory::default();
        memory.begin(Duration::ZERO);
        memory.finished = Some(TaskId::from_bytes([7; 20]));
        memory.begin(LOOK_AT_ALL_EVERY - Duration::from_secs(1));
        assert!(memory.finished.is_some());
        memory.begin(LOOK_AT_ALL_EVERY);
        assert_eq!(memory.finished, None);
    }
}
