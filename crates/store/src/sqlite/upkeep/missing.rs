//! Missing deliveries: made by a replay task for messages that an endpoint did not get.
//!
//! A message keeps the list of its endpoints, so that its deliveries are point look-ups. What is
//! made later is listed apart, in rows that are small whatever the payload.

use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::keys::{DeliveryKey, EndpointKey, MessageKey};
use crate::queue::{Missing, turn};
use crate::sqlite::catalog::endpoint;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::row;
use crate::{Error, codes};

/// What became of a chunk's missing deliveries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Made {
    pub(crate) made: usize,
    /// Those with nothing to send.
    pub(crate) skipped: usize,
}

/// Tells whether nothing has changed since they were chosen.
pub(super) fn is_as_chosen(writing: &mut Writing<'_>, missing: &Missing) -> Result<bool, Error> {
    let known = writing.memo.application(writing.connection, missing.application)?;
    Ok(known.is_some_and(|known| known.revision == missing.revision))
}

/// Makes them, but for what is there already, or was.
pub(super) fn make(
    writing: &mut Writing<'_>,
    missing: &Missing,
    at: Timestamp,
) -> Result<Made, Error> {
    let connection = writing.connection;
    let mut made = Made::default();
    for (key, partition, order, pending) in &missing.deliveries {
        let DeliveryKey { application, endpoint, .. } = *key;
        let wanted = application == missing.application
            && endpoint::is_there(connection, application, endpoint)?;
        if !wanted {
            continue;
        }
        // A damaged one is passed over: it must not stop the task.
        let read = writing.notes.readable(message(connection, *key))?;
        let Some(message) = read.flatten() else { continue };
        if message.fan_out.contains(&endpoint) || is_added(connection, *key)? {
            continue;
        }
        if message.payload_gone || message.retained_until < at {
            made.skipped += 1;
            continue;
        }
        let turn = match turn::first(*order, pending.due, at) {
            Some(turn) => turn,
            None => writing.memo.next_in_sequence(connection)?,
        };
        let sql = "INSERT INTO deliveries (
                endpoint, message, application, partition, turn_order, state, turn, due,
                attempts, ambiguous, last_wait, expires_at, recorded
            ) VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, ?10, ?11, 0)";
        connection.prepare_cached(sql)?.execute(params![
            key.endpoint.0,
            key.message.0,
            key.application.0,
            partition.number(),
            codes::order(*order),
            turn,
            pending.due.as_micros(),
            pending.budget.attempts,
            pending.budget.ambiguous,
            codes::micros(pending.budget.last_wait),
            row::micros_if_any(pending.budget.expires_at),
        ])?;
        add(connection, *key)?;
        made.made += 1;
    }
    Ok(made)
}

/// What making a delivery needs to know of its message.
struct Message {
    fan_out: Vec<EndpointKey>,
    payload_gone: bool,
    retained_until: Timestamp,
}

/// Needs the primary key of `messages`.
fn message(connection: &Connection, key: DeliveryKey) -> Result<Option<Message>, Error> {
    let sql = "SELECT fan_out, retained_until, payload IS NULL AS payload_gone FROM messages
        WHERE key = ?1 AND application = ?2";
    let parameters = [key.message.0, key.application.0];
    let found = connection.prepare_cached(sql)?.query_row(parameters, |row| {
        Ok(Message {
            fan_out: row::fan_out_of(row)?,
            payload_gone: row.get("payload_gone")?,
            retained_until: row::time(row, "retained_until")?,
        })
    });
    Ok(found.optional()?)
}

/// Needs the primary key of `added_deliveries`.
fn is_added(connection: &Connection, key: DeliveryKey) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM added_deliveries WHERE message = ?1 AND endpoint = ?2";
    Ok(connection.prepare_cached(sql)?.exists([key.message.0, key.endpoint.0])?)
}

/// Needs the primary key of `added_deliveries`.
fn add(connection: &Connection, key: DeliveryKey) -> Result<(), Error> {
    let sql = "INSERT INTO added_deliveries (message, endpoint) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute([key.message.0, key.endpoint.0])?;
    Ok(())
}

/// Returns the endpoints that a message went to later. Needs the primary key of
/// `added_deliveries`.
pub(crate) fn added(
    connection: &Connection,
    message: MessageKey,
) -> Result<Vec<EndpointKey>, Error> {
    let sql = "SELECT endpoint FROM added_deliveries WHERE message = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([message.0], |row| row.get(0).map(EndpointKey))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Forgets them with their message. Needs the primary key of `added_deliveries`.
pub(super) fn forget_added(connection: &Connection, message: MessageKey) -> Result<(), Error> {
    let sql = "DELETE FROM added_deliveries WHERE message = ?1";
    connection.prepare_cached(sql)?.execute([message.0])?;
    Ok(())
}
