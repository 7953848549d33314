//! What an endpoint never got: messages from before it was there, or that its filter then refused.
//!
//! A task walks the application's messages upwards, from the moment it names, so that a line gets
//! them in their order. Its cursor is a millisecond: the ids of messages begin with that, and a
//! chunk ends with all messages of its last one. What the endpoint's filter takes today and no
//! delivery exists of is made; what exists and was never tried becomes pending again, and is sent
//! now, as with every replay. A message that was for one endpoint alone, such as an example, goes to
//! no other; what is made keeps a policy or a delivery time of its message's own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::delivery::Pending;
use domain::ids::{DeliveryId, MessageId};
use domain::names::{Channel, EventTypeName};
use domain::partition::Partition;
use domain::time::Timestamp;
use engine::roster::Facts;
use engine::{Member, Roster};
use store::keys::{Cursor, DeliveryKey, EndpointKey};
use store::ledger::{MessageEntry, MessageFilter, Task};
use store::page::{From, Page};
use store::queue::{FirstState, Missing, Order};

use super::World;
use super::replays::walk::{CHUNK, Walked, own_policy, pass_over, weigh, wish_of};
use crate::replay::Wish;

/// How far the clock that ids are made by, or the order of commits, may be from the times of rows.
pub(super) const CLOCKS_APART: Duration = Duration::from_secs(10 * 60);

/// Finds one chunk. It is fenced unless the roster is of the current revision.
pub(super) async fn walk(
    world: &World,
    task: &Task,
    roster: &Roster,
    endpoint: EndpointKey,
) -> Result<Walked, store::Error> {
    let wish = wish_of(task)?;
    let Some(member) = roster.member(endpoint).cloned() else { return Ok(Walked::nothing()) };
    let since = wish.selection.since.unwrap_or(Timestamp::EPOCH);
    let begin = task.cursor.map_or(since.before(CLOCKS_APART), |it| Timestamp::from_micros(it.0));
    let (messages, reached) = messages(world, task, &wish, begin).await?;
    let now = world.timeline.rows();
    let (application, revision) = (task.application, roster.revision);
    let mut missing = Missing { application, revision, deliveries: Vec::new() };
    let (mut chosen, mut passed_over) = (Vec::new(), 0);
    for message in messages.iter().filter(|message| message.key <= task.upper) {
        let id = DeliveryId::derive(&message.id, endpoint.0.cast_unsigned());
        match world.ledger.delivery(task.application, id).await {
            Ok(entry) => {
                weigh(world, roster, &wish, &entry).put(&mut chosen, &mut passed_over);
            }
            Err(store::Error::Missing(_)) => {
                missing.deliveries.extend(first(world, (roster, &member), message, now));
            }
            Err(store::Error::Damaged { what, .. }) => pass_over(&what),
            Err(error) => return Err(error),
        }
    }
    let (missing, begins) = (Some(missing), Cursor(begin.as_micros()));
    Ok(Walked { chosen, missing, passed_over, begins, reached })
}

/// Describes the delivery of a message that the endpoint takes, as if it were accepted now.
fn first(
    world: &World,
    (roster, member): (&Roster, &Arc<Member>),
    message: &MessageEntry,
    now: Timestamp,
) -> Option<(DeliveryKey, Partition, Order, Pending)> {
    let event_type = EventTypeName::parse(&message.event_type).ok()?;
    let channels: BTreeSet<Channel> =
        message.channels.iter().filter_map(|channel| Channel::parse(channel).ok()).collect();
    let fits = roster.takes(member.key(), &event_type, &channels);
    let foreign = message.only.is_some_and(|only| only != member.key());
    let deliver_at = message.deliver_at.filter(|at| *at > now);
    if !fits || foreign {
        return None;
    }
    let policy = own_policy(message.policy.as_deref());
    let facts = Facts {
        event_type: &event_type,
        channels: &channels,
        policy: policy.as_ref(),
        received_at: now,
        deliver_at,
    };
    let made = roster.fan_out_to(member.key(), &facts, &world.rosters.policies())?;
    match made.state {
        FirstState::Dead(_) => None,
        FirstState::Pending(pending) => {
            let (application, endpoint) = (message.application, made.endpoint);
            let key = DeliveryKey { application, endpoint, message: message.key };
            Some((key, made.partition, made.order, pending))
        }
    }
}

/// Returns the messages of the next chunk, oldest first, and the millisecond that comes next; none
/// at the end.
async fn messages(
    world: &World,
    task: &Task,
    wish: &Wish,
    begin: Timestamp,
) -> Result<(Vec<MessageEntry>, Option<Cursor>), store::Error> {
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
