//! Attempts as they are looked at.

use domain::ids::AttemptId;
use domain::replay::StatusClass;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::connection::erasing;
use super::reader::Reading;
use super::walk::{self, List};
use super::writer::Writing;
use super::{codec, failure, record};
use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{AttemptEntry, AttemptFilter};
use crate::page::{Listed, Page};

/// Walks an endpoint's attempts, newest first, without their headers and bodies.
pub(super) const OF_ENDPOINT: &str =
    "SELECT a.id, a.status, a.began_at, m.event_type, m.application
    FROM attempts AS a CROSS JOIN messages AS m ON m.key = a.message
    WHERE a.endpoint = ?1 AND a.id < ?2 ORDER BY a.id DESC LIMIT ?3";

pub(super) fn of_delivery(
    reading: &Reading<'_>,
    key: DeliveryKey,
) -> Result<Vec<AttemptEntry>, Error> {
    reading.at_once(|| {
        let mut next = last(reading.connection, key)?;
        let mut found = Vec::new();
        while let Some(id) = next {
            let read = entry(reading.connection, key.endpoint, id);
            next = match reading.notes.readable(read)?.flatten() {
                Some((entry, previous)) => {
                    found.push(entry);
                    previous
                }
                // A damaged one does not hide those before it.
                None => previous(reading.connection, key.endpoint, id)?,
            };
        }
        Ok(found)
    })
}

/// Needs the primary keys of `attempts` and `messages`.
pub(super) fn of_endpoint(
    reading: &Reading<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    filter: &AttemptFilter,
    page: &Page<AttemptId>,
) -> Result<Listed<AttemptEntry, AttemptId>, Error> {
    let list = List {
        onwards: OF_ENDPOINT,
        backwards: "SELECT a.id, a.status, a.began_at, m.event_type, m.application
            FROM attempts AS a CROSS JOIN messages AS m ON m.key = a.message
            WHERE a.endpoint = ?1 AND a.id > ?2 ORDER BY a.id LIMIT ?3",
        whose: Some(endpoint.0),
        beginning: walk::behind_all_ids(),
        at: walk::at_id,
        page,
    };
    walk::page(reading.connection, reading.notes, list, |row| {
        let id = codec::id(row, "id")?;
        let its_own = ApplicationKey(row.get("application")?) == application;
        if !its_own || !wanted(row, filter)? {
            return Ok((id, None));
        }
        Ok((id, entry(reading.connection, endpoint, id)?.map(|(entry, _)| entry)))
    })
}

fn wanted(row: &Row<'_>, filter: &AttemptFilter) -> rusqlite::Result<bool> {
    let class = StatusClass::of(row.get("status")?);
    let succeeded = class == StatusClass::Success;
    let began_at = codec::time(row, "began_at")?;
    let event_type: String = row.get("event_type")?;
    Ok(filter.succeeded.is_none_or(|wanted| wanted == succeeded)
        && filter.status_class.is_none_or(|wanted| wanted == class)
        && (filter.event_types.is_empty() || filter.event_types.contains(&event_type))
        && filter.since.is_none_or(|since| began_at >= since)
        && filter.until.is_none_or(|until| began_at < until))
}

/// Returns the last attempt of a delivery. Needs the primary key of `deliveries`.
fn last(connection: &Connection, key: DeliveryKey) -> Result<Option<AttemptId>, Error> {
    let sql = "SELECT last_attempt FROM deliveries
        WHERE endpoint = ?1 AND message = ?2 AND application = ?3";
    let parameters = params![key.endpoint.0, key.message.0, key.application.0];
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(parameters, |row| codec::id_if_any(row, "last_attempt"));
    Ok(found.optional()?.flatten())
}

/// Removes what an attempt sent and got back so that nothing is left of it in the file, and soon
/// nothing in the log. Needs the primary keys of `attempts` and `deliveries`.
pub(super) fn expunge(writing: &Writing<'_>, key: DeliveryKey, id: AttemptId) -> Result<(), Error> {
    let connection = writing.connection;
    let sql = "UPDATE attempts SET request_headers = '[]', response_headers = '[]',
            response_body = x''
        WHERE endpoint = ?1 AND id = ?2 AND message = ?3
            AND EXISTS (SELECT 1 FROM deliveries AS d
                WHERE d.endpoint = ?1 AND d.message = ?3 AND d.application = ?4)";
    let DeliveryKey { application, endpoint, message } = key;
    let parameters = params![endpoint.0, id.as_bytes(), message.0, application.0];
    let removed =
        erasing(connection, || Ok(connection.prepare_cached(sql)?.execute(parameters)?))?;
    writing.wal.empty_soon();
    match removed {
        0 => Err(Error::Missing("attempt")),
        _ => Ok(()),
    }
}

/// Returns the attempt before one. Needs the primary key of `attempts`.
fn previous(
    connection: &Connection,
    endpoint: EndpointKey,
    id: AttemptId,
) -> Result<Option<AttemptId>, Error> {
    let sql = "SELECT previous FROM attempts WHERE endpoint = ?1 AND id = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement
        .query_row(params![endpoint.0, id.as_bytes()], |row| codec::id_if_any(row, "previous"));
    Ok(found.optional()?.flatten())
}

/// Returns an attempt and the one before it. Needs the primary keys of `attempts` and `messages`.
fn entry(
    connection: &Connection,
    endpoint: EndpointKey,
    id: AttemptId,
) -> Result<Option<(AttemptEntry, Option<AttemptId>)>, Error> {
    let sql = "SELECT a.id, a.message, a.number, a.previous, a.began_at, a.ended_at, a.trigger,
            a.outcome, a.status, a.retry_after, a.retry_after_at, a.next_due, a.dns, a.connect,
            a.tls, a.first_byte, a.error, a.request_headers, a.response_headers, a.response_body,
            a.reused, a.retry_after_kept, m.id AS message_id, m.event_type, m.application
        FROM attempts AS a CROSS JOIN messages AS m ON m.key = a.message
        WHERE a.endpoint = ?1 AND a.id = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![endpoint.0, id.as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let read = || -> rusqlite::Result<_> {
        let key = DeliveryKey {
            application: ApplicationKey(row.get("application")?),
            endpoint,
            message: MessageKey(row.get("message")?),
        };
        let entry = AttemptEntry {
            key,
            message: codec::id(row, "message_id")?,
            event_type: row.get("event_type")?,
            number: row.get("number")?,
            next_due: codec::time_if_any(row, "next_due")?,
            record: record::of(row)?,
        };
        Ok(Some((entry, codec::id_if_any(row, "previous")?)))
    };
    read().map_err(|error| failure::at_row(row, error.into()))
}
