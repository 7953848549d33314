//! Writing a message, its idempotency key and its deliveries.

use rusqlite::{Connection, Statement, params};

use crate::queue::{Accept, FirstState, NewDelivery};
use crate::sqlite::row;
use crate::{Error, codes, limits};

/// Writes to `messages`, its `messages_id` and, for an event id, `messages_event_id`.
pub(crate) const INSERT_MESSAGE: &str = "INSERT INTO messages (
        key, application, id, event_type, event_id, channels, content_type, policy,
        idempotency, received_at, retained_until, fan_out, payload, deliver_at, only_endpoint
    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT DO NOTHING";

pub(super) fn insert_message(
    statement: &mut Statement<'_>,
    number: i64,
    accept: &Accept,
) -> rusqlite::Result<usize> {
    let message = &accept.message;
    let channels = match &message.channels[..] {
        [] => None,
        channels => Some(row::text_of(&channels)?),
    };
    statement.execute(params![
        number,
        accept.application.0,
        message.id.as_bytes(),
        message.event_type,
        message.event_id,
        channels,
        message.content_type,
        message.policy,
        accept.idempotency,
        message.received_at.as_micros(),
        message.retained_until.as_micros(),
        row::fan_out(accept.deliveries.iter().map(|delivery| delivery.endpoint)),
        &message.payload[..],
        row::micros_if_any(message.deliver_at),
        message.only.map(|endpoint| endpoint.0),
    ])
}

/// Needs the primary key of `messages`.
pub(super) fn remove_message(connection: &Connection, number: i64) -> Result<(), Error> {
    connection.prepare_cached("DELETE FROM messages WHERE key = ?1")?.execute([number])?;
    Ok(())
}

/// Writes to `idempotency`. A key that has outlived its time is replaced.
pub(super) fn insert_key(
    connection: &Connection,
    accept: &Accept,
    hash: &[u8; 32],
) -> Result<usize, Error> {
    let sql = "INSERT INTO idempotency (application, hash, message, at) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (application, hash) DO UPDATE SET message = excluded.message, at = excluded.at
            WHERE excluded.at - at >= ?5";
    Ok(connection.prepare_cached(sql)?.execute(params![
        accept.application.0,
        hash,
        accept.message.id.as_bytes(),
        accept.message.received_at.as_micros(),
        codes::micros(limits::IDEMPOTENCY),
    ])?)
}

/// Writes to `deliveries`, and to `deliveries_pending` or `deliveries_dead`.
pub(crate) const INSERT_DELIVERY: &str = "INSERT INTO deliveries (
        endpoint, message, application, partition, turn_order, state, cause, turn, due,
        attempts, ambiguous, last_wait, expires_at, recorded, settled_at
    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0, ?14)";

pub(super) fn insert_delivery(
    statement: &mut Statement<'_>,
    (message, turn): (i64, i64),
    accept: &Accept,
    delivery: &NewDelivery,
) -> Result<(), Error> {
    let received_at = accept.message.received_at.as_micros();
    let (pending, cause) = match delivery.state {
        FirstState::Pending(pending) => (Some(pending), None),
        FirstState::Dead(cause) => (None, Some(codes::cause(cause))),
    };
    let state = if pending.is_some() { codes::PENDING } else { codes::DEAD };
    let budget = pending.map(|pending| pending.budget);
    statement.execute(params![
        delivery.endpoint.0,
        message,
        accept.application.0,
        delivery.partition.number(),
        codes::order(delivery.order),
        state,
        cause,
        turn,
        pending.map_or(0, |pending| pending.due.as_micros()),
        budget.map_or(0, |budget| budget.attempts),
        budget.map_or(0, |budget| budget.ambiguous),
        budget.map_or(0, |budget| codes::micros(budget.last_wait)),
        budget.and_then(|budget| row::micros_if_any(budget.expires_at)),
        pending.is_none().then_some(received_at),
    ])?;
    Ok(())
}
