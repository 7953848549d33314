//! What an endpoint never got: messages from before it was there, or that its filter then refused.
//!
//! A task walks the application's messages upwards, from the moment it names, so that a line gets
//! them in their order. Its cursor is a millisecond: the ids of messages begin with that, and a
//! chunk ends with all messages of its last one. What the endpoint's filter takes today and no
//! delivery exists of is made; what exists and was never tried becomes pending again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Pending;
use domain::endpoint::Reception;
use domain::ids::{DeliveryId, MessageId};
use domain::names::{Channel, EventTypeName};
use domain::time::Timestamp;
use engine::{Member, Roster};
use store::keys::{Cursor, DeliveryKey, EndpointKey};
use store::ledger::{MessageEntry, MessageFilter, Task};
use store::page::{From, Page};
use store::queue::Missing;

use super::World;
use super::replays::{CHUNK, Walked, pending_again, wish_of};
use crate::replay::Wish;

/// How far the clock that ids are made by may be from the one that rows are on.
const CLOCKS_APART: Duration = Duration::from_secs(10 * 60);

/// Finds one chunk.
pub(super) async fn walk(
    world: &World,
    task: &Task,
    endpoint: EndpointKey,
) -> Result<Walked, store::Error> {
    let wish = wish_of(task)?;
    // Whatever is in memory: the chunk is fenced unless this is the current revision.
    let roster = match world.rosters.read_now(task.application).await {
        Ok(roster) => roster,
        Err(store::Error::Missing(_)) => return Ok(Walked::default()),
        Err(error) => return Err(error),
    };
    let Some(member) = roster.member(endpoint).cloned() else { return Ok(Walked::default()) };
    let (messages, reached) = messages(world, task, &wish).await?;
    let now = world.timeline.rows();
    let (application, revision) = (task.application, roster.revision);
    let mut missing = Missing { application, revision, deliveries: Vec::new() };
    let mut chosen = Vec::new();
    for message in messages.iter().filter(|message| message.key <= task.upper) {
        let id = DeliveryId::derive(&message.id, endpoint.0.cast_unsigned());
        match world.ledger.delivery(task.application, id).await {
            Ok(entry) => chosen.extend(pending_again(world, &roster, &wish, (&entry, now))),
            Err(store::Error::Missing(_)) => {
                missing.deliveries.extend(first(world, (&roster, &member), message, now));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Walked { chosen, missing: Some(missing), reached })
}

/// Describes the delivery of a message that the endpoint takes.
fn first(
    world: &World,
    (roster, member): (&Roster, &Arc<Member>),
    message: &MessageEntry,
    now: Timestamp,
) -> Option<(DeliveryKey, domain::partition::Partition, store::queue::Order, Pending)> {
    let endpoint = &member.view.endpoint;
    match endpoint.state.reception() {
        Reception::Pending => {}
        Reception::Dead(_) | Reception::None => return None,
    }
    let event_type = EventTypeName::parse(&message.event_type).ok()?;
    let channels: BTreeSet<Channel> =
        message.channels.iter().filter_map(|channel| Channel::parse(channel).ok()).collect();
    let filter = member.filter.as_ref()?;
    if !filter.matches(&event_type, &channels) {
        return None;
    }
    let policies = world.rosters.policies();
    let policy = roster.applicable(member, &message.event_type, None, &policies);
    let (application, message) = (message.application, message.key);
    let key = DeliveryKey { application, endpoint: endpoint.key, message };
    Some((key, endpoint.partition, endpoint.order, Pending::fresh(&policy.limits, now)))
}

/// Returns the messages of the next chunk, oldest first, and the millisecond that comes next; none
/// at the end.
async fn messages(
    world: &World,
    task: &Task,
    wish: &Wish,
) -> Result<(Vec<MessageEntry>, Option<Cursor>), store::Error> {
    let since = wish.selection.since.unwrap_or(Timestamp::EPOCH);
    let begin = task.cursor.map_or(since.before(CLOCKS_APART), |it| Timestamp::from_micros(it.0));
    let filter = MessageFilter {
        since: wish.selection.since,
        until: wish.selection.until,
        ..MessageFilter::default()
    };
    let mut from = MessageId::first_at(begin);
    let mut found: Vec<MessageEntry> = Vec::new();
    loop {
        let page = Page { from: From::Before(from), limit: CHUNK };
        let listed = world.ledger.messages(task.application, filter.clone(), page).await?;
        found.extend(listed.entries.into_iter().rev());
        let Some(reached) = listed.reached.filter(|_| !listed.done) else {
            return Ok((found, None));
        };
        let (last, next) = (reached.made_at(), from_start_of(reached));
        // What came after the task was started went to the endpoint by itself.
        if last > task.created_at.after(CLOCKS_APART) {
            return Ok((found, None));
        }
        if last > begin {
            found.retain(|message| message.id < next);
            return Ok((found, Some(Cursor(last.as_micros()))));
        }
        from = reached;
    }
}

/// Returns the first id of the millisecond that an id was made in.
fn from_start_of(id: MessageId) -> MessageId {
    MessageId::first_at(id.made_at())
}
