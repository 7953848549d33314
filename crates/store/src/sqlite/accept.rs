//! Accepting: three or four inserts for a message, and no reads unless something is in its way.
//!
//! The message is inserted first. If its id or its event id is taken, nothing happens, and only
//! then is it looked up what was there before. The idempotency key comes next; if it is taken, the
//! message is removed again. Nothing that follows can fail for the message's own sake. If what was
//! there before cannot be read, this message is refused and the others of the batch go on.

use domain::ids::MessageId;
use rusqlite::{Connection, OptionalExtension, Params, Statement, params};

use super::failure::is_about_the_item;
use super::hot::Hot;
use super::writer::Writing;
use super::{codec, failure};
use crate::keys::{EndpointKey, MessageKey};
use crate::queue::{Accept, Accepted, FirstState, NewDelivery};
use crate::{Error, limits};

pub(super) fn accept(
    writing: &mut Writing<'_>,
    hot: &mut Hot<'_>,
    accept: &Accept,
) -> Result<Accepted, Error> {
    let connection = writing.connection;
    let Some(known) = writing.memo.application(connection, accept.application)? else {
        return Ok(Accepted::ApplicationMissing);
    };
    if accept.named.is_some() && accept.named != known.uid {
        // A batch that is given again finds its own message whatever it is called by now.
        return Ok(own(connection, accept)?.unwrap_or(Accepted::NameMoved));
    }
    let hindrance = if known.revision == accept.revision {
        unknown_endpoint(writing, accept)?
    } else {
        Some(Accepted::Stale(known.revision))
    };
    if let Some(hindrance) = hindrance {
        // What was accepted before counts, whatever has changed since.
        return Ok(earlier(writing, accept)?.unwrap_or(hindrance));
    }
    let number = writing.memo.next_in_sequence(connection)?;
    match insert_message(&mut hot.message, number, accept) {
        Ok(0) => {}
        Ok(_) => match accept.idempotency {
            Some(hash) if insert_key(connection, accept, &hash)? == 0 => {
                remove_message(connection, number)?;
            }
            Some(_) | None => return new(writing, hot, number, accept),
        },
        Err(error) if is_about_the_item(&error) => {
            writing.memo.take_back(number);
            return Ok(Accepted::Refused(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    }
    writing.memo.take_back(number);
    let conflict = || Accepted::Refused("it collides with a message that is not there".to_owned());
    Ok(earlier(writing, accept)?.unwrap_or_else(conflict))
}

fn unknown_endpoint(writing: &mut Writing<'_>, accept: &Accept) -> Result<Option<Accepted>, Error> {
    let mut seen: Vec<_> = accept.deliveries.iter().map(|delivery| delivery.endpoint).collect();
    let application = accept.application;
    if let Some(unknown) = writing.memo.unknown(writing.connection, application, &seen)? {
        return Ok(Some(Accepted::Refused(format!("endpoint {} is not there", unknown.0))));
    }
    seen.sort_unstable();
    let twice = seen.windows(2).find(|pair| pair[0] == pair[1]);
    let text = |pair: &[EndpointKey]| format!("endpoint {} is named twice", pair[0].0);
    Ok(twice.map(|pair| Accepted::Refused(text(pair))))
}

fn new(
    writing: &mut Writing<'_>,
    hot: &mut Hot<'_>,
    number: i64,
    accept: &Accept,
) -> Result<Accepted, Error> {
    let mut turns = Vec::with_capacity(accept.deliveries.len());
    for delivery in &accept.deliveries {
        let turn = match delivery.turn(accept.message.received_at) {
            Some(turn) => turn,
            None => writing.memo.next_in_sequence(writing.connection)?,
        };
        insert_delivery(&mut hot.delivery, (number, turn), accept, delivery)?;
        turns.push(turn);
    }
    Ok(Accepted::New { message: MessageKey(number), turns })
}

/// Finds what the message collides with. If that cannot be read, nobody knows whether the message is
/// a repetition: it is refused, and nothing else of the batch is.
fn earlier(writing: &Writing<'_>, accept: &Accept) -> Result<Option<Accepted>, Error> {
    let found = writing.notes.readable(find_earlier(writing.connection, accept))?;
    let damaged = || Accepted::Refused("what it collides with cannot be read".to_owned());
    Ok(found.unwrap_or_else(|| Some(damaged())))
}

/// Looks for the message itself: it is there if its batch was committed before.
fn own(connection: &Connection, accept: &Accept) -> Result<Option<Accepted>, Error> {
    let Some(number) = find_message(connection, accept)? else { return Ok(None) };
    let turn = |delivery: &NewDelivery| find_turn(connection, number, delivery);
    let turns = accept.deliveries.iter().map(turn).collect::<Result<_, _>>()?;
    Ok(Some(Accepted::New { message: MessageKey(number), turns }))
}

/// Looks for the message itself, its idempotency key, and its event id.
fn find_earlier(connection: &Connection, accept: &Accept) -> Result<Option<Accepted>, Error> {
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

/// Writes to `messages`, its `messages_id` and, for an event id, `messages_event_id`.
pub(super) const INSERT_MESSAGE: &str = "INSERT INTO messages (
        key, application, id, event_type, event_id, channels, content_type, policy,
        idempotency, received_at, retained_until, fan_out, payload, deliver_at, only_endpoint
    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT DO NOTHING";

fn insert_message(
    statement: &mut Statement<'_>,
    number: i64,
    accept: &Accept,
) -> rusqlite::Result<usize> {
    let message = &accept.message;
    let channels = match &message.channels[..] {
        [] => None,
        channels => Some(codec::text_of(&channels)?),
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
        codec::fan_out(accept.deliveries.iter().map(|delivery| delivery.endpoint)),
        &message.payload[..],
        codec::micros_if_any(message.deliver_at),
        message.only.map(|endpoint| endpoint.0),
    ])
}

/// Needs the primary key of `messages`.
fn remove_message(connection: &Connection, number: i64) -> Result<(), Error> {
    connection.prepare_cached("DELETE FROM messages WHERE key = ?1")?.execute([number])?;
    Ok(())
}

/// Writes to `idempotency`. A key that has outlived its time is replaced.
fn insert_key(connection: &Connection, accept: &Accept, hash: &[u8; 32]) -> Result<usize, Error> {
    let sql = "INSERT INTO idempotency (application, hash, message, at) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (application, hash) DO UPDATE SET message = excluded.message, at = excluded.at
            WHERE excluded.at - at >= ?5";
    Ok(connection.prepare_cached(sql)?.execute(params![
        accept.application.0,
        hash,
        accept.message.id.as_bytes(),
        accept.message.received_at.as_micros(),
        codec::span(limits::IDEMPOTENCY),
    ])?)
}

/// Writes to `deliveries`, and to `deliveries_pending` or `deliveries_dead`.
pub(super) const INSERT_DELIVERY: &str = "INSERT INTO deliveries (
        endpoint, message, application, partition, turn_order, state, cause, turn, due,
        attempts, ambiguous, last_wait, expires_at, recorded, settled_at
    ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0, ?14)";

fn insert_delivery(
    statement: &mut Statement<'_>,
    (message, turn): (i64, i64),
    accept: &Accept,
    delivery: &NewDelivery,
) -> Result<(), Error> {
    let received_at = accept.message.received_at.as_micros();
    let (pending, cause) = match delivery.state {
        FirstState::Pending(pending) => (Some(pending), None),
        FirstState::Dead(cause) => (None, Some(codec::cause(cause))),
    };
    let state = if pending.is_some() { codec::PENDING } else { codec::DEAD };
    let budget = pending.map(|pending| pending.budget);
    statement.execute(params![
        delivery.endpoint.0,
        message,
        accept.application.0,
        delivery.partition.number(),
        codec::order(delivery.order),
        state,
        cause,
        turn,
        pending.map_or(0, |pending| pending.due.as_micros()),
        budget.map_or(0, |budget| budget.attempts),
        budget.map_or(0, |budget| budget.ambiguous),
        budget.map_or(0, |budget| codec::span(budget.last_wait)),
        budget.and_then(|budget| codec::micros_if_any(budget.expires_at)),
        pending.is_none().then_some(received_at),
    ])?;
    Ok(())
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
    let parameters = params![accept.application.0, hash, at, codec::span(limits::IDEMPOTENCY)];
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
    codec::id(row, column).map(Some).map_err(|error| failure::at_row(row, error.into()))
}
