//! Missing deliveries: made by a replay task for messages that an endpoint did not get.
//!
//! A message keeps the list of its endpoints, so that its deliveries are point look-ups; whatever is
//! made later is added to it.

use rusqlite::{Connection, OptionalExtension, params};

use super::writer::Writing;
use super::{codec, endpoints};
use crate::Error;
use crate::keys::{DeliveryKey, EndpointKey};
use crate::queue::{Missing, Order};

/// What became of a chunk's missing deliveries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Made {
    pub(super) made: usize,
    /// Those whose payload is gone.
    pub(super) skipped: usize,
}

/// Tells whether nothing has changed since they were chosen.
pub(super) fn is_as_chosen(writing: &mut Writing<'_>, missing: &Missing) -> Result<bool, Error> {
    let known = writing.memo.application(writing.connection, missing.application)?;
    Ok(known.is_some_and(|known| known.revision == missing.revision))
}

/// Makes them, but for what is there already.
pub(super) fn make(writing: &mut Writing<'_>, missing: &Missing) -> Result<Made, Error> {
    let connection = writing.connection;
    let mut made = Made::default();
    for (key, partition, order, pending) in &missing.deliveries {
        let DeliveryKey { application, endpoint, .. } = *key;
        let wanted = application == missing.application
            && endpoints::is_there(connection, application, endpoint)?;
        if !wanted || is_there(connection, *key)? {
            continue;
        }
        let Some(message) = message(connection, *key)? else { continue };
        if message.payload_gone {
            made.skipped += 1;
            continue;
        }
        let turn = match order {
            Order::Due => pending.due.as_micros(),
            Order::Fifo => writing.memo.next_in_sequence(connection)?,
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
            codec::order(*order),
            turn,
            pending.due.as_micros(),
            pending.budget.attempts,
            pending.budget.ambiguous,
            codec::span(pending.budget.last_wait),
            codec::micros_if_any(pending.budget.expires_at),
        ])?;
        add_to_fan_out(connection, *key, message.fan_out)?;
        made.made += 1;
    }
    Ok(made)
}

/// What making a delivery needs to know of its message.
struct Message {
    fan_out: Vec<EndpointKey>,
    payload_gone: bool,
}

/// Needs the primary key of `deliveries`.
fn is_there(connection: &Connection, key: DeliveryKey) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM deliveries WHERE endpoint = ?1 AND message = ?2";
    Ok(connection.prepare_cached(sql)?.exists([key.endpoint.0, key.message.0])?)
}

/// Needs the primary key of `messages`.
fn message(connection: &Connection, key: DeliveryKey) -> Result<Option<Message>, Error> {
    let sql = "SELECT fan_out, payload IS NULL AS payload_gone FROM messages
        WHERE key = ?1 AND application = ?2";
    let parameters = [key.message.0, key.application.0];
    let found = connection.prepare_cached(sql)?.query_row(parameters, |row| {
        Ok(Message { fan_out: codec::fan_out_of(row)?, payload_gone: row.get("payload_gone")? })
    });
    Ok(found.optional()?)
}

/// Needs the primary key of `messages`.
fn add_to_fan_out(
    connection: &Connection,
    key: DeliveryKey,
    fan_out: Vec<EndpointKey>,
) -> Result<(), Error> {
    let fan_out = codec::fan_out(fan_out.into_iter().chain([key.endpoint]));
    let sql = "UPDATE messages SET fan_out = ?1 WHERE key = ?2";
    connection.prepare_cached(sql)?.execute(params![fan_out, key.message.0])?;
    Ok(())
}
