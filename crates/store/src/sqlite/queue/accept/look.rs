//! What was there before: the message itself, its idempotency key, its event id.

use domain::ids::MessageId;
use rusqlite::{Connection, OptionalExtension, Params, Statement, params};

use crate::keys::MessageKey;
use crate::queue::{Accept, Accepted, NewDelivery};
use crate::sqlite::row;
use crate::{Error, codes, limits};

/// Looks for the message itself: it is there if its batch was committed before.
pub(super) fn own(connection: &Connection, accept: &Accept) -> Result<Option<Accepted>, Error> {
    let Some(number) = find_message(connection, accept)? else { return Ok(None) };
    let turn = |delivery: &NewDelivery| find_turn(connection, number, delivery);
    let turns = accept.deliveries.iter().map(turn).collect::<Result<_, _>>()?;
    Ok(Some(Accepted::New { message: MessageKey(number), turns }))
}

/// Looks for the message itself, its idempotency key, and its event id.
pub(super) fn find_earlier(
    connection: &Connection,
    accept: &Accept,
) -> Result<Option<Accepted>, Error> {
    if let Some(own) = own(connection, accept)? {
        return Ok(Some(own));
    }
    if let Some(hash) = accept.idempotency
        && let Some(message) = find_key(connection, accept, &hash)?
    {
        return Ok(Some(Accepted::Repeated(message)));
    }
    let taken = match &accept.message.event_id {
        Some(event_id) => find_event_id(connection, accept, event_id)?,
        None => None,
    };
    Ok(taken.map(Accepted::EventIdTaken))
}

/// Needs the index `messages_id`.
fn find_message(connection: &Connection, accept: &Accept) -> Result<Option<i64>, Error> {
    let sql = "SELECT key FROM messages WHERE application = ?1 AND id = ?2";
    let parameters = params![accept.application.0, accept.message.id.as_bytes()];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0)).optional()?)
}

/// Needs the primary key of `deliveries`.
fn find_turn(connection: &Connection, message: i64, delivery: &NewDelivery) -> Result<i64, Error> {
    let sql = "SELECT turn FROM deliveries WHERE endpoint = ?1 AND message = ?2";
    let parameters = params![delivery.endpoint.0, message];
    let turn =
        connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0)).optional()?;
    Ok(turn.unwrap_or(0))
}

/// Needs the primary key of `idempotency`.
fn find_key(
    connection: &Connection,
    accept: &Accept,
    hash: &[u8; 32],
) -> Result<Option<MessageId>, Error> {
    let sql = "SELECT application, hash, message FROM idempotency
        WHERE application = ?1 AND hash = ?2 AND ?3 - at < ?4";
    let at = accept.message.received_at.as_micros();
    let parameters = params![accept.application.0, hash, at, codes::micros(limits::IDEMPOTENCY)];
    find_id(&mut *connection.prepare_cached(sql)?, parameters, "message")
}

/// Needs the index `messages_event_id`.
fn find_event_id(
    connection: &Connection,
    accept: &Accept,
    event_id: &str,
) -> Result<Option<MessageId>, Error> {
    let sql = "SELECT key, application, id FROM messages WHERE application = ?1 AND event_id = ?2";
    let parameters = params![accept.application.0, event_id];
    find_id(&mut *connection.prepare_cached(sql)?, parameters, "id")
}

/// Returns the id in the one row that a statement finds; of one that cannot be read, an error that
/// names the row.
fn find_id(
    statement: &mut Statement<'_>,
    parameters: impl Params,
    column: &str,
) -> Result<Option<MessageId>, Error> {
    let mut rows = statement.query(parameters)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    row::id(row, column).map(Some).map_err(|error| row::at_row(row, error.into()))
}
