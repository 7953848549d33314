//! Replays: a chunk of a task, written only if the task is where the chunk began.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use rusqlite::{Connection, OptionalExtension, params};

use crate::keys::{DeliveryKey, EndpointKey};
use crate::queue::{Chosen, Done, Order, Replay};
use crate::sqlite::io::writer::Writing;
use crate::sqlite::row;
use crate::sqlite::upkeep::missing::{self, Made};
use crate::{Error, codes};

/// Writes a chunk. The caller has seen to it that the lease is current.
pub(crate) fn replay(writing: &mut Writing<'_>, replay: &Replay) -> Result<Done, Error> {
    let connection = writing.connection;
    let as_chosen = match &replay.missing {
        Some(missing) => missing::is_as_chosen(writing, missing)?,
        None => true,
    };
    if !as_chosen || advance(connection, replay)? == 0 {
        return Ok(Done::Fenced);
    }
    let (mut replayed, mut gone) = (0, 0);
    let (mut endpoints, mut orders) = (BTreeSet::new(), BTreeMap::new());
    for chosen in &replay.deliveries {
        if is_gone(connection, chosen.key)? {
            gone += 1;
            continue;
        }
        let endpoint = chosen.key.endpoint;
        let order = match orders.entry(endpoint) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => *place.insert(order_by_now(connection, endpoint)?),
        };
        let Some(order) = order else { continue };
        let turn = match order {
            Order::Due => chosen.pending.due.as_micros(),
            Order::Fifo => writing.memo.next_in_sequence(connection)?,
        };
        let changed = revive(connection, chosen, (order, turn))?;
        match order {
            Order::Fifo if changed == 0 => writing.memo.take_back(turn),
            Order::Fifo | Order::Due => {}
        }
        if changed > 0 {
            endpoints.insert(endpoint);
        }
        replayed += changed;
    }
    let made = match &replay.missing {
        Some(missing) => missing::make(writing, missing, replay.at)?,
        None => Made::default(),
    };
    replayed += made.made;
    let passed_over = usize::try_from(replay.passed_over).unwrap_or(usize::MAX);
    let skipped = made.skipped.saturating_add(passed_over).saturating_add(gone);
    count(connection, replay, (replayed, skipped))?;
    for endpoint in endpoints {
        fill_tombstone(connection, endpoint)?;
    }
    Ok(Done::Changed(u32::try_from(replayed).unwrap_or(u32::MAX)))
}

/// Makes a settled delivery pending again if it is as it was chosen; returns the number of rows.
/// `settled_at` stays: by that it differs from what it was before, whatever else does not, and no
/// verdict on an attempt from before applies to it. Needs the primary key of `deliveries`; writes to
/// it and its partial indexes.
fn revive(
    connection: &Connection,
    chosen: &Chosen,
    (order, turn): (Order, i64),
) -> Result<usize, Error> {
    let sql = "UPDATE deliveries SET
            partition = ?1, turn_order = ?2, state = 0, cause = NULL, turn = ?3, due = ?4,
            attempts = ?5, ambiguous = ?6, last_wait = ?7, expires_at = ?8
        WHERE endpoint = ?9 AND message = ?10 AND application = ?11
            AND state <> 0 AND state = ?12 AND settled_at IS ?13";
    let Chosen { key, pending, .. } = chosen;
    Ok(connection.prepare_cached(sql)?.execute(params![
        chosen.partition.number(),
        codes::order(order),
        turn,
        pending.due.as_micros(),
        pending.budget.attempts,
        pending.budget.ambiguous,
        codes::micros(pending.budget.last_wait),
        row::micros_if_any(pending.budget.expires_at),
        key.endpoint.0,
        key.message.0,
        key.application.0,
        codes::delivery(chosen.state),
        row::micros_if_any(chosen.ended_at),
    ])?)
}

/// Tells whether there is nothing left to send. Needs the primary key of `messages`.
fn is_gone(connection: &Connection, key: DeliveryKey) -> Result<bool, Error> {
    let sql = "SELECT payload IS NULL FROM messages WHERE key = ?1 AND application = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([key.message.0, key.application.0], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(false))
}

/// Returns the order that an endpoint has by now, deleted or not. Needs the primary key of
/// `endpoints`.
fn order_by_now(connection: &Connection, endpoint: EndpointKey) -> Result<Option<Order>, Error> {
    let sql = "SELECT turn_order FROM endpoints WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([endpoint.0], row::order_of).optional()?)
}

/// Moves a running task from where the chunk began to where it ends; returns the number of rows.
/// Needs the primary key of `replay_tasks`.
fn advance(connection: &Connection, replay: &Replay) -> Result<usize, Error> {
    let sql = "UPDATE replay_tasks SET cursor = ?1, state = ?2, updated_at = ?3
        WHERE id = ?4 AND state = 0 AND cursor IS ?5";
    Ok(connection.prepare_cached(sql)?.execute(params![
        replay.next_cursor.map(|cursor| cursor.0),
        i64::from(replay.next_cursor.is_none()),
        replay.at.as_micros(),
        replay.task.as_bytes(),
        replay.cursor.map(|cursor| cursor.0),
    ])?)
}

/// Needs the primary key of `replay_tasks`.
fn count(
    connection: &Connection,
    replay: &Replay,
    (replayed, skipped): (usize, usize),
) -> Result<(), Error> {
    let sql = "UPDATE replay_tasks SET replayed = replayed + ?1, skipped = skipped + ?2
        WHERE id = ?3";
    let parameters = params![replayed, skipped, replay.task.as_bytes()];
    connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}

/// Lets pruning look again at a deleted endpoint that got something pending. Needs the primary
/// key of `endpoints`.
fn fill_tombstone(connection: &Connection, endpoint: EndpointKey) -> Result<(), Error> {
    let sql = "UPDATE endpoints SET emptied = 0 WHERE key = ?1 AND emptied = 1";
    connection.prepare_cached(sql)?.execute([endpoint.0])?;
    Ok(())
}
