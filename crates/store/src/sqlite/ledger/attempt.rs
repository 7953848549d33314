//! Attempts as they are looked at.

use std::time::Duration;

use bytes::Bytes;
use domain::ids::AttemptId;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::Error;
use crate::codes::{self, OutcomeColumns};
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{AttemptEntry, AttemptFilter};
use crate::page::{Direction, Listed, Page};
use crate::queue::{AttemptRecord, Phases};
use crate::sqlite::io::connection::erasing;
use crate::sqlite::io::reader::Reading;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::page::{self, List};
use crate::sqlite::row;

/// Walks an endpoint's attempts, newest first, without their headers and bodies.
pub(crate) const OF_ENDPOINT: &str =
    "SELECT a.id, a.status, a.began_at, m.event_type, m.application
    FROM attempts AS a CROSS JOIN messages AS m ON m.key = a.message
    WHERE a.endpoint = ?1 AND a.id {compare} ?2 ORDER BY a.id {direction} LIMIT ?3";

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
pub(crate) fn list(
    reading: &Reading<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    filter: &AttemptFilter,
    page: &Page<AttemptId>,
) -> Result<Listed<AttemptEntry, AttemptId>, Error> {
    let list = List {
        statement: OF_ENDPOINT,
        direction: Direction::Descending,
        whose: Some(endpoint.0),
        beginning: page::behind_all_ids(),
        at: page::at_id,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let id = row::id(row, "id")?;
        let its_own = ApplicationKey(row.get("application")?) == application;
        let event_type =
            row.get_ref("event_type")?.as_str().map_err(|error| row::odd("event_type", error))?;
        let began_at = row::time(row, "began_at")?;
        if !its_own || !filter.wants(row.get("status")?, event_type, began_at) {
            return Ok((id, None));
        }
        Ok((id, entry(reading.connection, endpoint, id)?.map(|(entry, _)| entry)))
    })
}

/// Returns the last attempt of a delivery. Needs the primary key of `deliveries`.
fn last(connection: &Connection, key: DeliveryKey) -> Result<Option<AttemptId>, Error> {
    let sql = "SELECT last_attempt FROM deliveries
        WHERE endpoint = ?1 AND message = ?2 AND application = ?3";
    let parameters = params![key.endpoint.0, key.message.0, key.application.0];
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(parameters, |row| row::id_if_any(row, "last_attempt"));
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
        .query_row(params![endpoint.0, id.as_bytes()], |row| row::id_if_any(row, "previous"));
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
            a.reused, a.retry_after_kept, a.hops, a.refusal, m.id AS message_id, m.event_type, m.application
        FROM attempts AS a CROSS JOIN messages AS m ON m.key = a.message
        WHERE a.endpoint = ?1 AND a.id = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![endpoint.0, id.as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let read = || -> Result<_> {
        let key = DeliveryKey {
            application: ApplicationKey(row.get("application")?),
            endpoint,
            message: MessageKey(row.get("message")?),
        };
        let entry = AttemptEntry {
            key,
            message: row::id(row, "message_id")?,
            event_type: row.get("event_type")?,
            number: row.get("number")?,
            next_due: row::time_if_any(row, "next_due")?,
            record: record_of(row)?,
        };
        Ok(Some((entry, row::id_if_any(row, "previous")?)))
    };
    read().map_err(|error| row::at_row(row, error.into()))
}

/// Reads an attempt from its columns.
fn record_of(row: &Row<'_>) -> Result<AttemptRecord> {
    let span = |column| {
        Ok::<_, rusqlite::Error>(row.get::<_, Option<u64>>(column)?.map(Duration::from_micros))
    };
    Ok(AttemptRecord {
        id: row::id(row, "id")?,
        began_at: row::time(row, "began_at")?,
        ended_at: row::time(row, "ended_at")?,
        trigger: codes::read_trigger(row.get("trigger")?)?,
        outcome: codes::read_outcome(OutcomeColumns {
            outcome: row.get("outcome")?,
            status: row.get("status")?,
            retry_after: row.get("retry_after")?,
            retry_after_at: row.get("retry_after_at")?,
        })?,
        retry_after_kept: span("retry_after_kept")?,
        phases: Phases {
            dns: span("dns")?,
            connect: span("connect")?,
            tls: span("tls")?,
            first_byte: span("first_byte")?,
            reused: row.get("reused")?,
        },
        request_headers: row::headers(row, "request_headers")?,
        response_headers: row::headers(row, "response_headers")?,
        response_body: Bytes::from(row.get::<_, Vec<u8>>("response_body")?),
        error: row.get("error")?,
        refusal: row.get("refusal")?,
        hops: row::document_if_any(row, "hops")?.unwrap_or_default(),
    })
}
