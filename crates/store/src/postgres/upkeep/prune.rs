//! Removing what has outlived its time.
//!
//! One step removes a limited number of rows. Most of them are found by walking messages by their
//! key; a cursor remembers where the walk got, and it begins anew when it has come to the end. Dead
//! letters and tombstones have walks of their own. An advisory lock keeps nodes from walking at the same time.

use std::time::Duration;

use domain::time::Timestamp;
use tokio_postgres::types::Type;

use super::super::codes;
use super::super::columns::{column, parameters, single};
use super::super::failure::Failure;
use super::super::link::Transaction;
use super::super::row::{field, moment};
use super::{cursor, dead_letters, memories, removal, tombstones};
use crate::limits;
use crate::queue::Done;

/// The name of the place where the walk over messages goes on.
const CURSOR: &str = "prune cursor";
/// The most rows that one step looks at: messages, and the deliveries of those whose time is over,
/// which are locked until it ends. The first message is looked at as a whole.
const MOST_WALKED: u32 = 2_000;
/// How many messages it looks at together.
const CHUNK: usize = 500;

/// What a step may do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) now: Timestamp,
    pub(super) most: u32,
    pub(super) dead_letter_retention: Duration,
}

/// A message as the walk sees it.
struct Walked {
    place: (i64, i64),
    hash: Option<Vec<u8>>,
    received_at: Timestamp,
    retained_until: Timestamp,
    /// How many deliveries have to be looked at: none before its time is over.
    deliveries: u32,
}

/// Messages that are looked at together.
struct Chunk {
    messages: Vec<Walked>,
    /// How many rows that are, with their deliveries.
    rows: u32,
    /// Whether there is no message behind them.
    is_last: bool,
}

impl Chunk {
    /// Cuts off what is too much for a step.
    fn of(mut messages: Vec<Walked>, most: u32) -> Self {
        let (mut rows, mut fitting) = (0_u32, 0);
        while let Some(message) = messages.get(fitting).filter(|_| rows < most) {
            rows = rows.saturating_add(1).saturating_add(message.deliveries);
            fitting += 1;
        }
        let is_last = fitting == messages.len() && fitting < CHUNK;
        messages.truncate(fitting);
        Self { messages, rows, is_last }
    }
}

/// Does one step.
pub(super) async fn prune(
    transaction: &mut Transaction<'_>,
    limits: Limits,
) -> Result<Done, Failure> {
    if !lock(transaction).await? {
        return Ok(Done::Changed(0));
    }
    let mut left = limits.most;
    left -= removal::secrets(transaction, limits.now, left).await?.min(left);
    let tombstones = tombstones::Walk::on(transaction, limits.now, left).await?;
    left -= tombstones.changed.min(left);
    left -= removal::applications(transaction, left).await?.min(left);
    let mut walks_on = false;
    if !tombstones.is_alone {
        (left, walks_on) = walk_on(transaction, limits, left).await?;
    }
    walks_on |= tombstones.keep(transaction, walks_on).await?;
    left -= memories::forget(transaction, limits.now, left).await?.min(left);
    // Where the walk got is a change, too: the next step is to follow soon.
    Ok(Done::Changed((limits.most - left).max(u32::from(walks_on))))
}

/// Tells whether nobody else prunes now.
async fn lock(transaction: &mut Transaction<'_>) -> Result<bool, Failure> {
    let statement = "select pg_try_advisory_xact_lock(\
                     hashtextextended('redial prune ' || current_schema(), 0)) as locked";
    let row = transaction.one(statement, &[]).await?;
    Ok(row.map_or(Ok(false), |row| field(&row, "locked"))?)
}

/// Walks on over the messages and then over the dead letters. Returns how many rows may still be
/// removed, and whether it stopped before it came to the end of both. One after the other: two walks
/// that begin anew by themselves would hardly ever come to their ends in the same step, and there
/// would be no rest.
async fn walk_on(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    mut left: u32,
) -> Result<(u32, bool), Failure> {
    if !dead_letters::is_under_way(transaction).await? {
        let walks_on;
        (left, walks_on) = walk(transaction, limits, left).await?;
        if walks_on {
            return Ok((left, true));
        }
    }
    dead_letters::walk(transaction, limits, left).await
}

/// Walks on, and returns how many rows may still be removed, and whether it stopped before it came to
/// the last message.
async fn walk(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    mut left: u32,
) -> Result<(u32, bool), Failure> {
    let [application, message] = cursor::read(transaction, CURSOR).await?;
    let began = (application, message);
    let (mut place, mut walked, mut wrapped) = (began, 0, began == (0, 0));
    let mut came_to_the_end = false;
    while left > 0 && walked < MOST_WALKED {
        let found = messages(transaction, place, limits.now).await?;
        let Chunk { messages, rows, is_last } = Chunk::of(found, MOST_WALKED - walked);
        walked = walked.saturating_add(rows);
        left -= forget_keys(transaction, limits.now, &messages).await?.min(left);
        let (removed, reached) = remove_over(transaction, limits, &messages, left).await?;
        left -= removed.min(left);
        if let Some(reached) = reached {
            // The budget is used up in the middle of the chunk.
            place = reached;
            break;
        }
        place = messages.last().map_or((0, 0), |message| message.place);
        if is_last {
            place = (0, 0);
            came_to_the_end = true;
            if wrapped {
                break;
            }
            wrapped = true;
        }
    }
    cursor::keep(transaction, CURSOR, [place.0, place.1]).await?;
    Ok((left, !came_to_the_end))
}

/// Index: the primary key of messages.
async fn messages(
    transaction: &mut Transaction<'_>,
    (application, message): (i64, i64),
    now: Timestamp,
) -> Result<Vec<Walked>, Failure> {
    let statement = "\
        select application, key, idempotency, received_at, retained_until, \
               case when retained_until < $4 then cardinality(fan_out) else 0 end as deliveries \
        from messages \
        where (application, key) > ($1, $2) order by application, key limit $3";
    let columns = [
        single(application, Type::INT8),
        single(message, Type::INT8),
        single(i64::try_from(CHUNK).unwrap_or(i64::MAX), Type::INT8),
        single(now.as_micros(), Type::INT8),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let walked = rows.iter().map(|row| {
        Ok(Walked {
            place: (field(row, "application")?, field(row, "key")?),
            hash: field(row, "idempotency")?,
            received_at: moment(row, "received_at")?,
            retained_until: moment(row, "retained_until")?,
            deliveries: u32::try_from(field::<i32>(row, "deliveries")?).unwrap_or(0),
        })
    });
    walked.collect()
}

/// Removes idempotency keys that no longer count, whoever has them by now.
///
/// Index: the primary key of idempotency.
async fn forget_keys(
    transaction: &mut Transaction<'_>,
    now: Timestamp,
    messages: &[Walked],
) -> Result<u32, Failure> {
    let old = |message: &&Walked| {
        message.hash.is_some() && now.since(message.received_at) >= limits::IDEMPOTENCY
    };
    let old: Vec<&Walked> = messages.iter().filter(old).collect();
    if old.is_empty() {
        return Ok(0);
    }
    let statement = "\
        delete from idempotency k \
        using unnest($1::bigint[], $2::bytea[]) i (application, hash) \
        where k.application = i.application and k.hash = i.hash and $3 - k.received_at >= $4";
    let columns = [
        column(&old, Type::INT8_ARRAY, |message| message.place.0),
        column(&old, Type::BYTEA_ARRAY, |message| message.hash.as_deref()),
        single(now.as_micros(), Type::INT8),
        single(codes::micros(limits::IDEMPOTENCY), Type::INT8),
    ];
    let removed = transaction.execute(statement, &parameters(&columns)).await?;
    Ok(u32::try_from(removed).unwrap_or(u32::MAX))
}

/// Removes messages whose time is over. Returns how many rows went with them, and where the walk
/// has to go on if not all could be looked at.
async fn remove_over(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    messages: &[Walked],
    left: u32,
) -> Result<(u32, Option<(i64, i64)>), Failure> {
    let over: Vec<&Walked> =
        messages.iter().filter(|message| message.retained_until < limits.now).collect();
    if over.is_empty() {
        return Ok((0, None));
    }
    lock_messages(transaction, &over).await?;
    let mut budget = i64::from(left);
    let (mut doomed, mut reached) = (Vec::new(), None);
    for (place, rows) in removable(transaction, limits, &over).await? {
        if budget <= 0 {
            // The one before it is where the walk goes on.
            reached = Some((place.0, place.1 - 1));
            break;
        }
        budget -= rows;
        doomed.push(place);
    }
    let removed = removal::messages(transaction, &doomed).await?;
    Ok((removed, reached))
}

/// Locks these messages, so that none gets a delivery that it did not have. In a statement of its
/// own: the next one sees what was made before.
///
/// Index: the primary key of messages.
async fn lock_messages(transaction: &mut Transaction<'_>, over: &[&Walked]) -> Result<(), Failure> {
    let statement = "\
        select 1 from messages m \
        join unnest($1::bigint[], $2::bigint[]) i (application, key) using (application, key) \
        order by m.application, m.key for update of m";
    let columns = [
        column(over, Type::INT8_ARRAY, |message| message.place.0),
        column(over, Type::INT8_ARRAY, |message| message.place.1),
    ];
    transaction.execute(statement, &parameters(&columns)).await?;
    Ok(())
}

/// Locks the deliveries of these messages, so that no replay begins now, and returns the messages
/// that may go with the number of rows that go with each.
///
/// Indexes: the primary keys of messages and deliveries.
async fn removable(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    over: &[&Walked],
) -> Result<Vec<((i64, i64), i64)>, Failure> {
    let statement = "\
        with over_time as materialized ( \
            select * from unnest($1::bigint[], $2::bigint[]) i (application, message)), \
        held as materialized ( \
            select d.application, d.message, d.state, d.settled_at, d.recorded \
            from over_time o \
            join messages m on m.application = o.application and m.key = o.message \
            cross join lateral unnest(m.fan_out) sent (endpoint) \
            join deliveries d on d.application = o.application \
                and d.endpoint = sent.endpoint and d.message = o.message \
            order by d.application, d.endpoint, d.message for update of d) \
        select o.application, o.message, \
               1 + count(held.message) + coalesce(sum(held.recorded), 0)::bigint as rows \
        from over_time o left join held using (application, message) \
        group by o.application, o.message \
        having not coalesce(bool_or( \
            held.state = 0 or (held.state = 2 and held.settled_at >= $3)), false) \
        order by o.application, o.message";
    let columns = [
        column(over, Type::INT8_ARRAY, |message| message.place.0),
        column(over, Type::INT8_ARRAY, |message| message.place.1),
        single(limits.now.before(limits.dead_letter_retention).as_micros(), Type::INT8),
    ];
    let rows = transaction.query(statement, &parameters(&columns)).await?;
    let found = rows
        .iter()
        .map(|row| Ok(((field(row, "application")?, field(row, "message")?), field(row, "rows")?)));
    found.collect()
}
