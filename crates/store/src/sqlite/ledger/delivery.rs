//! Deliveries as they are looked at.

use domain::ids::{DeliveryId, MessageId};
use domain::partition::Partition;
use domain::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{DeliveryEntry, DeliveryFilter, settled_at};
use crate::page::{Direction, Listed, Page};
use crate::queue::{Request, RequestKind};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::page::{self, List};
use crate::sqlite::row;
use crate::sqlite::upkeep::{missing, request};

/// Walks an endpoint's deliveries, newest message first.
pub(crate) const OF_ENDPOINT: &str = "SELECT
        d.endpoint, d.message, d.application, d.state, d.cause, d.due, d.attempts, d.ambiguous,
        d.last_wait, d.expires_at, d.recorded, d.last_attempt, d.last_status, d.settled_at,
        m.id AS message_id, m.event_type, m.received_at, m.policy
    FROM deliveries AS d CROSS JOIN messages AS m ON m.key = d.message
    WHERE d.endpoint = ?1 AND d.message {compare} ?2 ORDER BY d.message {direction} LIMIT ?3";

pub(crate) fn find(
    reading: &Reading<'_>,
    application: ApplicationKey,
    id: DeliveryId,
) -> Result<DeliveryEntry, Error> {
    reading.at_once(|| {
        for (message, message_id) in near(reading.connection, application, id)? {
            // A number that no row can have stands for no endpoint.
            let endpoint = i64::try_from(id.endpoint_row(&message_id)).map_or(-1, |row| row);
            let key = DeliveryKey { application, endpoint: EndpointKey(endpoint), message };
            if let Some(entry) = entry(reading.connection, key)? {
                return Ok(entry);
            }
        }
        Err(Error::Missing("delivery"))
    })
}

pub(super) fn of_message(
    reading: &Reading<'_>,
    application: ApplicationKey,
    message: MessageKey,
) -> Result<Vec<DeliveryEntry>, Error> {
    reading.at_once(|| {
        let mut endpoints = fan_out(reading.connection, message)?;
        endpoints.sort_unstable();
        let mut entries = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            let key = DeliveryKey { application, endpoint, message };
            let found = entry(reading.connection, key).map_err(|error| damaged(key, error));
            let found = reading.notes.readable(found)?.flatten();
            entries.extend(found.map(DeliveryEntry::without_policy));
        }
        Ok(entries)
    })
}

/// Needs the primary keys of `deliveries` and `messages`.
pub(crate) fn list(
    reading: &Reading<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    filter: &DeliveryFilter,
    page: &Page<MessageKey>,
) -> Result<Listed<DeliveryEntry, MessageKey>, Error> {
    let list = List {
        statement: OF_ENDPOINT,
        direction: Direction::Descending,
        whose: Some(endpoint.0),
        beginning: vec![Value::Integer(i64::MAX)],
        at: |message: &MessageKey| vec![Value::Integer(message.0)],
        bytes: DeliveryEntry::bytes,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let entry = of(row)?;
        let message = entry.key.message;
        let its_own = entry.key.application == application;
        Ok((message, Some(entry).filter(|_| its_own).and_then(|entry| filter.takes(entry))))
    })
}

pub(super) fn cancel(
    writing: &Writing<'_>,
    key: DeliveryKey,
    at: Timestamp,
) -> Result<DeliveryEntry, Error> {
    let connection = writing.connection;
    let found = entry(connection, key)?.ok_or(Error::Missing("delivery"))?;
    found.state.cancel().map_err(|refusal| Error::Refused(refusal.to_string()))?;
    let DeliveryKey { application, endpoint, message } = key;
    let partition = mark_cancelled(connection, key, at)?.ok_or(Error::Missing("delivery"))?;
    let kind = RequestKind::Cancel(message);
    request::ask(connection, &Request { number: 0, application, endpoint, partition, kind, at })?;
    entry(connection, key)?.ok_or(Error::Missing("delivery"))
}

pub(super) fn retry_now(
    writing: &Writing<'_>,
    key: DeliveryKey,
    at: Timestamp,
) -> Result<DeliveryEntry, Error> {
    let connection = writing.connection;
    let found = entry(connection, key)?.ok_or(Error::Missing("delivery"))?;
    found.state.retry_now(at).map_err(|refusal| Error::Refused(refusal.to_string()))?;
    let DeliveryKey { application, endpoint, message } = key;
    let (partition, kind) = (partition(connection, key)?, RequestKind::RetryNow(message));
    request::ask(connection, &Request { number: 0, application, endpoint, partition, kind, at })?;
    entry(connection, key)?.ok_or(Error::Missing("delivery"))
}

/// Needs the primary key of `deliveries`.
fn partition(connection: &Connection, key: DeliveryKey) -> Result<Partition, Error> {
    let sql = "SELECT partition FROM deliveries WHERE endpoint = ?1 AND message = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([key.endpoint.0, key.message.0], row::partition)?)
}

/// Returns the messages that a delivery of this id could carry. Needs the index `messages_id`.
fn near(
    connection: &Connection,
    application: ApplicationKey,
    id: DeliveryId,
) -> Result<Vec<(MessageKey, MessageId)>, Error> {
    let sql = "SELECT key, id FROM messages WHERE application = ?1 AND id BETWEEN ?2 AND ?3";
    let (low, high) = id.message_range();
    let mut statement = connection.prepare_cached(sql)?;
    let parameters = params![application.0, low.as_bytes(), high.as_bytes()];
    let rows = statement
        .query_map(parameters, |row| Ok((MessageKey(row.get("key")?), row::id(row, "id")?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the endpoints that a message went to, at once or later. Needs the primary key of
/// `messages`.
pub(super) fn fan_out(
    connection: &Connection,
    message: MessageKey,
) -> Result<Vec<EndpointKey>, Error> {
    let sql = "SELECT fan_out FROM messages WHERE key = ?1";
    let found = connection.prepare_cached(sql)?.query_row([message.0], row::fan_out_of);
    let mut endpoints = found.optional()?.unwrap_or_default();
    endpoints.extend(missing::added(connection, message)?);
    Ok(endpoints)
}

/// Needs the primary keys of `deliveries` and `messages`.
fn entry(connection: &Connection, key: DeliveryKey) -> Result<Option<DeliveryEntry>, Error> {
    let sql = "SELECT d.endpoint, d.message, d.application, d.state, d.cause, d.due, d.attempts,
            d.ambiguous, d.last_wait, d.expires_at, d.recorded, d.last_attempt, d.last_status,
            d.settled_at, m.id AS message_id, m.event_type, m.received_at, m.policy
        FROM deliveries AS d CROSS JOIN messages AS m ON m.key = d.message
        WHERE d.endpoint = ?1 AND d.message = ?2 AND d.application = ?3";
    let parameters = params![key.endpoint.0, key.message.0, key.application.0];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, of).optional()?)
}

/// Says of a damaged delivery which one it is.
fn damaged(key: DeliveryKey, error: Error) -> Error {
    let DeliveryKey { endpoint, message, .. } = key;
    match error {
        Error::Damaged { text, .. } => {
            let what = format!("the delivery of message {} to endpoint {}", message.0, endpoint.0);
            Error::Damaged { what, text }
        }
        Error::Unavailable { .. }
        | Error::Taken { .. }
        | Error::Missing(_)
        | Error::Refused(_)
        | Error::Declined(_)
        | Error::CannotOpen(_) => error,
    }
}

/// Cancels a delivery if it is pending; returns its partition. Needs the primary key of
/// `deliveries`; writes to it and `deliveries_pending`.
pub(super) fn mark_cancelled(
    connection: &Connection,
    key: DeliveryKey,
    at: Timestamp,
) -> Result<Option<Partition>, Error> {
    let sql = "UPDATE deliveries SET state = 3, settled_at = ?1
        WHERE endpoint = ?2 AND message = ?3 AND application = ?4 AND state = 0
        RETURNING partition";
    let parameters = params![at.as_micros(), key.endpoint.0, key.message.0, key.application.0];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, row::partition).optional()?)
}

pub(super) fn of(row: &Row<'_>) -> rusqlite::Result<DeliveryEntry> {
    let key = DeliveryKey {
        application: ApplicationKey(row.get("application")?),
        endpoint: EndpointKey(row.get("endpoint")?),
        message: MessageKey(row.get("message")?),
    };
    let message = row::id(row, "message_id")?;
    let state = row::delivery_of(row)?;
    Ok(DeliveryEntry {
        key,
        id: DeliveryId::derive(&message, key.endpoint.0.cast_unsigned()),
        message,
        event_type: row.get("event_type")?,
        received_at: row::time(row, "received_at")?,
        policy: row.get("policy")?,
        state,
        settled_at: settled_at(state, row::time_if_any(row, "settled_at")?),
        recorded: row.get("recorded")?,
        last_attempt: row::id_if_any(row, "last_attempt")?,
        last_status: row.get("last_status")?,
    })
}
