//! Which deliveries a replay task means, found chunk by chunk.
//!
//! Messages are walked upwards, so that an endpoint that keeps the order gets them in theirs. The
//! cursor is the last message that is done with.

use std::sync::Arc;

use domain::delivery::Pending;
use domain::endpoint::State;
use domain::ids::MessageId;
use domain::policy::Policy;
use engine::Roster;
use engine::roster::read_policy;
use store::catalog::Name;
use store::keys::{Cursor, EndpointKey, MessageKey};
use store::ledger::{DeliveryEntry, DeliveryFilter, MessageFilter, Task};
use store::page::{From, Page};
use store::queue::{Chosen, Missing};

use super::super::World;
use super::super::missing::CLOCKS_APART;
use crate::replay::{Wish, read_selection};

/// The most deliveries that one chunk looks at.
pub(in super::super) const CHUNK: u32 = 500;
/// What lies before all messages.
const BEGINNING: MessageKey = MessageKey(0);

/// What a chunk found.
pub(in super::super) struct Walked {
    /// What becomes pending again.
    pub(in super::super) chosen: Vec<Chosen>,
    /// What is made.
    pub(in super::super) missing: Option<Missing>,
    /// How many are meant, and stay as they are.
    pub(in super::super) passed_over: u32,
    /// Where it began.
    pub(in super::super) begins: Cursor,
    /// How far it got; none at the end.
    pub(in super::super) reached: Option<Cursor>,
}

impl Walked {
    /// Found nothing, and will not.
    pub(in super::super) const fn nothing() -> Self {
        let begins = Cursor(BEGINNING.0);
        Self { chosen: Vec::new(), missing: None, passed_over: 0, begins, reached: None }
    }
}

/// Finds one chunk.
pub(super) async fn walk(
    world: &World,
    task: &Task,
    roster: &Roster,
) -> Result<Walked, store::Error> {
    let wish = wish_of(task)?;
    let behind = behind(world, task, &wish).await?;
    let (entries, reached) = match task.endpoint {
        _ if !wish.selection.ids.is_empty() => (named(world, task, &wish).await?, None),
        Some(endpoint) => of_endpoint(world, task, endpoint, behind).await?,
        None => dead_letters(world, task, behind).await?,
    };
    // Rows are in the order of their commits, and one may have been longer on its way than others.
    let over = |last: &DeliveryEntry| wish.is_over_at(last.received_at.before(CLOCKS_APART));
    let over = entries.last().is_some_and(over);
    let (mut chosen, mut passed_over) = (Vec::new(), 0);
    for entry in &entries {
        let found = weigh(world, roster, &wish, entry);
        if found == Found::NotMeant || !on_channel(world, &wish, entry).await? {
            continue;
        }
        found.put(&mut chosen, &mut passed_over);
    }
    let reached = reached.filter(|_| !over).map(|message| Cursor(message.0));
    Ok(Walked { chosen, missing: None, passed_over, begins: Cursor(behind.0), reached })
}

/// Reads what a task means.
pub(in super::super) fn wish_of(task: &Task) -> Result<Wish, store::Error> {
    read_selection(&task.selection).ok_or_else(|| {
        let what = format!("the selection of task {}", task.id);
        store::Error::Damaged { what, text: "it was written by another version".to_owned() }
    })
}

/// Returns the message behind which a chunk begins.
async fn behind(world: &World, task: &Task, wish: &Wish) -> Result<MessageKey, store::Error> {
    if let Some(cursor) = task.cursor {
        return Ok(MessageKey(cursor.0));
    }
    let Some(since) = wish.selection.since else { return Ok(BEGINNING) };
    // The clock that ids are made by may be apart from the times of rows, and so may their commits:
    // what was made before this moment was committed before everything that is meant.
    let moment = since.before(CLOCKS_APART).before(CLOCKS_APART);
    let page = Page { from: From::After(MessageId::first_at(moment)), limit: 1 };
    let listed = world.ledger.messages(task.application, MessageFilter::default(), page).await?;
    // A wall clock that was set back may have made ids that are older than all that is meant.
    let before = listed.entries.first().filter(|message| message.received_at < since);
    Ok(before.map_or(BEGINNING, |message| message.key))
}

/// Finds the deliveries that a task names one by one, those of the oldest message first.
async fn named(
    world: &World,
    task: &Task,
    wish: &Wish,
) -> Result<Vec<DeliveryEntry>, store::Error> {
    let mut entries = Vec::new();
    for id in &wish.selection.ids {
        entries.extend(legible(world.ledger.delivery(task.application, *id).await)?);
    }
    entries.sort_by_key(|entry: &DeliveryEntry| entry.key.message);
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
pub(in super::super) fn pass_over(row: &str) {
    tracing::error!(row, "a row is damaged, and a replay passes it over");
}

/// Tells whether a delivery's message is on the channel that a task names, if it names one.
async fn on_channel(
    world: &World,
    wish: &Wish,
    entry: &DeliveryEntry,
) -> Result<bool, store::Error> {
    let Some(channel) = &wish.channel else { return Ok(true) };
    let (application, name) = (entry.key.application, Name::Id(entry.message));
    let found = world.ledger.message_without_payload(application, name).await;
    Ok(legible(found)?.is_some_and(|message| message.channels.contains(channel)))
}

/// Means every delivery, with what decides when it expires.
fn everything() -> DeliveryFilter {
    DeliveryFilter { with_policy: true, ..DeliveryFilter::default() }
}

/// Walks one endpoint's deliveries upwards.
async fn of_endpoint(
    world: &World,
    task: &Task,
    endpoint: EndpointKey,
    behind: MessageKey,
) -> Result<(Vec<DeliveryEntry>, Option<MessageKey>), store::Error> {
    let page = Page { from: From::Before(behind), limit: CHUNK };
    let listed = world.ledger.deliveries(task.application, endpoint, everything(), page).await?;
    let mut entries = listed.entries;
    entries.reverse();
    entries.retain(|entry| entry.key.message <= task.upper);
    let reached = listed.reached.filter(|reached| !listed.done && *reached < task.upper);
    Ok((entries, reached))
}

/// Walks an application's dead letters upwards. The cursor is a message, so a chunk ends with all
/// dead letters of its last one: what is left out comes first in the next.
async fn dead_letters(
    world: &World,
    task: &Task,
    behind: MessageKey,
) -> Result<(Vec<DeliveryEntry>, Option<MessageKey>), store::Error> {
    let mut from = From::Before((behind, EndpointKey(i64::MAX)));
    let mut entries: Vec<DeliveryEntry> = Vec::new();
    loop {
        let page = Page { from, limit: CHUNK };
        let listed = world.ledger.dead_letters(task.application, everything(), page).await?;
        let upwards = listed.entries.into_iter().rev();
        entries.extend(upwards.filter(|entry| entry.key.message <= task.upper));
        let on = |reached: &(MessageKey, EndpointKey)| !listed.done && reached.0 <= task.upper;
        let Some(reached) = listed.reached.filter(on) else { return Ok((entries, None)) };
        let last = reached.0;
        let first = entries.first().map(|entry| entry.key.message);
        if first.is_some_and(|first| first != last) {
            entries.retain(|entry| entry.key.message != last);
            return Ok((entries, Some(MessageKey(last.0.saturating_sub(1)))));
        }
        from = From::Before(reached);
    }
}

/// What a delivery is to a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) enum Found {
    /// It is not meant.
    NotMeant,
    /// It is meant, and its endpoint takes nothing: it would be buried again at once, under another
    /// cause, and the task would say that it was sent.
    PassedOver,
    /// It is to be sent again.
    Chosen(Chosen),
}

impl Found {
    /// Puts it where it belongs.
    pub(in super::super) fn put(self, chosen: &mut Vec<Chosen>, passed_over: &mut u32) {
        match self {
            Self::NotMeant => {}
            Self::PassedOver => *passed_over = passed_over.saturating_add(1),
            Self::Chosen(again) => chosen.push(again),
        }
    }
}

/// Tells what a delivery is to a task. What is to be sent again is described by the policy that
/// applies to it now.
pub(in super::super) fn weigh(
    world: &World,
    roster: &Roster,
    wish: &Wish,
    entry: &DeliveryEntry,
) -> Found {
    let Some(member) = roster.member(entry.key.endpoint) else { return Found::NotMeant };
    let endpoint = &member.view.endpoint;
    if !wish.means(entry, endpoint.id) {
        return Found::NotMeant;
    }
    match endpoint.state {
        State::Active | State::Paused => {}
        State::Disabled(_) | State::Deleted => return Found::PassedOver,
    }
    let (own, policies) = (own_policy(entry.policy.as_deref()), world.rosters.policies());
    let policy = roster.applicable(member, &entry.event_type, own.as_ref(), &policies);
    Found::Chosen(Chosen {
        key: entry.key,
        partition: endpoint.partition,
        state: entry.state,
        ended_at: entry.settled_at,
        pending: Pending::fresh(&policy.limits, world.timeline.rows()),
    })
}

/// Reads the policy that was set on a message. One that no longer reads gives way to the next.
pub(in super::super) fn own_policy(document: Option<&str>) -> Option<Arc<Policy>> {
    let document = serde_json::from_str(document?).ok()?;
    read_policy(&document).ok().map(|read| read.policy)
}
