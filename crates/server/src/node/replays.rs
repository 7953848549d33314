//! Replay tasks: the owner of a task's partition walks it, chunk by chunk.
//!
//! A task is durable, and so is how far it has got: each chunk moves its cursor in the transaction
//! that makes the deliveries pending. Whoever takes over goes on where the last one stopped. What an
//! endpoint never got is found by walking messages; see `missing`.

use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Pending;
use domain::ids::{EndpointId, TaskId};
use domain::partition::Partition;
use domain::policy::Policy;
use engine::roster::read_policy;
use engine::{Event, Roster};
use store::catalog::Name;
use store::keys::{Cursor, DeliveryKey, EndpointKey, Lease, MessageKey};
use store::ledger::{DeliveryEntry, DeliveryFilter, Task, TaskKind, TaskState};
use store::page::{From, Page};
use store::queue::{Done, Missing, Replay, Upkeep};

use super::World;
use super::missing::{self, CLOCKS_APART};
use crate::replay::{Wish, read_selection};

/// The most deliveries that one chunk looks at.
pub(super) const CHUNK: u32 = 500;
/// How often tasks are looked for if nobody calls.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a task may still be overtaken by one that was made before it, on another node.
const STILL_YOUNG: Duration = Duration::from_secs(60);
/// How often all tasks are looked at, whatever is remembered of them. The id of a task is as old as
/// the request that began it, or as wrong as its maker's clock: it may lie among finished ones.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_secs(5 * 60);
/// The most tasks on a page.
const PAGE: u32 = 100;

pub(super) type Chosen = Vec<(DeliveryKey, Partition, Pending)>;

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
            walk(world, &task).await?
        }
    };
    let made = walked.missing.iter().flat_map(|missing| &missing.deliveries);
    let chosen = walked.chosen.iter().map(|it| it.1);
    let partitions: Vec<Partition> = chosen.chain(made.map(|it| it.1)).collect();
    let chunk = Replay {
        lease,
        task: task.id,
        cursor: task.cursor,
        next_cursor: walked.reached,
        deliveries: walked.chosen,
        missing: walked.missing,
        at: world.timeline.rows(),
    };
    let done = world.committer.upkeep(Upkeep::Replay(chunk)).await;
    // What is pending again is found by looking; the sooner the better. A chunk that seems to have
    // failed, or to be fenced, may have been done before its answer got lost.
    if !partitions.is_empty() {
        world.inbox.post(Event::Woken(partitions));
    }
    match done {
        Ok(Done::Changed(_)) => Ok(walked.reached.is_some()),
        Ok(Done::Fenced) => Ok(false),
        Ok(Done::Refused(text)) => Err(store::Error::Refused(text)),
        Err(error) => Err(store::Error::Unavailable { text: error.to_string(), source: None }),
    }
}

/// What a chunk found.
#[derive(Default)]
pub(super) struct Walked {
    /// What becomes pending again.
    pub(super) chosen: Chosen,
    /// What is made.
    pub(super) missing: Option<Missing>,
    /// How far it got; none at the end.
    pub(super) reached: Option<Cursor>,
}

async fn walk(world: &World, task: &Task) -> Result<Walked, store::Error> {
    let wish = wish_of(task)?;
    // Whatever is in memory: on another node the endpoint may be younger than what this one knows,
    // and what is passed over here is never looked at again.
    let roster = match world.rosters.read_now(task.application).await {
        Ok(roster) => roster,
        Err(store::Error::Missing(_)) => return Ok(Walked::default()),
        Err(error) => return Err(error),
    };
    let (entries, reached) = match task.endpoint {
        _ if !wish.selection.ids.is_empty() => (named(world, task, &wish).await?, None),
        Some(endpoint) => of_endpoint(world, task, endpoint).await?,
        None => dead_letters(world, task).await?,
    };
    // Rows are in the order of their commits, and one may have been longer on its way than others.
    let over = |last: &DeliveryEntry| wish.ends_before(last.received_at.after(CLOCKS_APART));
    let over = entries.last().is_some_and(over);
    let mut chosen = Vec::new();
    for entry in &entries {
        let Some(again) = pending_again(world, &roster, &wish, entry) else { continue };
        if on_channel(world, &wish, entry).await? {
            chosen.push(again);
        }
    }
    let reached = reached.filter(|_| !over).map(|message| Cursor(message.0));
    Ok(Walked { chosen, missing: None, reached })
}

/// Reads what a task means.
pub(super) fn wish_of(task: &Task) -> Result<Wish, store::Error> {
    read_selection(&task.selection).ok_or_else(|| {
        let what = format!("the selection of task {}", task.id);
        store::Error::Damaged { what, text: "it was written by another version".to_owned() }
    })
}

/// Returns the message up to which a task that walks downwards has got.
fn upper(task: &Task) -> MessageKey {
    task.cursor.map_or(MessageKey(task.upper.0.saturating_add(1)), |cursor| MessageKey(cursor.0))
}

/// Finds the deliveries that a task names one by one.
async fn named(
    world: &World,
    task: &Task,
    wish: &Wish,
) -> Result<Vec<DeliveryEntry>, store::Error> {
    let mut entries = Vec::new();
    for id in &wish.selection.ids {
        entries.extend(legible(world.ledger.delivery(task.application, *id).await)?);
    }
    Ok(entries)
}

/// Passes over a single row that is gone or damaged: a task that waited for it would wait for ever.
fn legible<T>(read: Result<T, store::Error>) -> Result<Option<T>, store::Error> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(store::Error::Missing(_)) => Ok(None),
        Err(store::Error::Damaged { what, .. }) => {
            pass_over(&what);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Names a row that is not replayed. What is wrong with it is not said: that may quote what is in it.
pub(super) fn pass_over(row: &str) {
    tracing::error!(row, "a row is damaged, and a replay passes it over");
}

/// Tells whether a delivery's message is on the channel that a task names, if it names one.
async fn on_channel(
    world: &World,
    wish: &Wish,
    entry: &DeliveryEntry,
) -> Result<bool, store::Error> {
    let Some(channel) = &wish.channel else { return Ok(true) };
    let found = world.ledger.message(entry.key.application, Name::Id(entry.message)).await;
    Ok(legible(found)?.is_some_and(|message| message.channels.contains(channel)))
}

/// Walks one endpoint's deliveries downwards.
async fn of_endpoint(
    world: &World,
    task: &Task,
    endpoint: EndpointKey,
) -> Result<(Vec<DeliveryEntry>, Option<MessageKey>), store::Error> {
    let page = Page { from: From::After(upper(task)), limit: CHUNK };
    let filter = DeliveryFilter::default();
    let listed = world.ledger.deliveries(task.application, endpoint, filter, page).await?;
    let reached = listed.reached.filter(|_| !listed.done);
    Ok((listed.entries, reached))
}

/// Walks an application's dead letters downwards. The cursor is a message, so a chunk ends with
/// all dead letters of its last one: what is left out comes first in the next.
async fn dead_letters(
    world: &World,
    task: &Task,
) -> Result<(Vec<DeliveryEntry>, Option<MessageKey>), store::Error> {
    let upper = upper(task);
    let mut from = From::After((upper, EndpointKey(i64::MAX)));
    let mut entries: Vec<DeliveryEntry> = Vec::new();
    loop {
        let page = Page { from, limit: CHUNK };
        let filter = DeliveryFilter::default();
        let listed = world.ledger.dead_letters(task.application, filter, page).await?;
        entries.extend(listed.entries.into_iter().filter(|entry| entry.key.message < upper));
        let Some(reached) = listed.reached.filter(|_| !listed.done) else {
            return Ok((entries, None));
        };
        let last = reached.0;
        let first = entries.first().map(|entry| entry.key.message);
        if first.is_some_and(|first| first != last) {
            entries.retain(|entry| entry.key.message != last);
            return Ok((entries, Some(MessageKey(last.0.saturating_add(1)))));
        }
        from = From::After(reached);
    }
}

/// Describes a delivery that is meant as one to be sent again, by the policy that applies to it now.
pub(super) fn pending_again(
    world: &World,
    roster: &Roster,
    wish: &Wish,
    entry: &DeliveryEntry,
) -> Option<(DeliveryKey, Partition, Pending)> {
    let member = roster.member(entry.key.endpoint)?;
    let endpoint = &member.view.endpoint;
    if !wish.means(entry, endpoint.id) {
        return None;
    }
    let (own, policies) = (own_policy(entry.policy.as_deref()), world.rosters.policies());
    let policy = roster.applicable(member, &entry.event_type, own.as_ref(), &policies);
    let pending = Pending::fresh(&policy.limits, world.timeline.rows());
    Some((entry.key, endpoint.partition, pending))
}

/// Reads the policy that was set on a message. One that no longer reads gives way to the next.
pub(super) fn own_policy(document: Option<&str>) -> Option<Arc<Policy>> {
    let document = serde_json::from_str(document?).ok()?;
    read_policy(&document).ok().map(|read| read.policy)
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
