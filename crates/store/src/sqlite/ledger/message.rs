//! Messages as they are looked at.

use domain::ids::MessageId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;
use crate::catalog::Name;
use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::ledger::{MessageEntry, MessageFilter, Payload};
use crate::page::{Direction, Listed, Page};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::page::{self, List};
use crate::sqlite::queue::load;
use crate::sqlite::row;

/// Walks an application's messages, newest first.
pub(crate) const NEWEST_FIRST: &str = "SELECT
        key, application, id, event_type, event_id, channels, content_type, policy, deliver_at,
        only_endpoint, received_at, payload IS NULL AS payload_gone
    FROM messages INDEXED BY messages_id
    WHERE application = ?1 AND id {compare} ?2 ORDER BY id {direction} LIMIT ?3";

pub(crate) fn find(
    reading: &Reading<'_>,
    application: ApplicationKey,
    name: &Name<MessageId>,
) -> Result<MessageEntry, Error> {
    reading.at_once(|| {
        let found = find_without_payload(reading, application, name)?;
        with_payload(reading.connection, found)
    })
}

pub(super) fn find_without_payload(
    reading: &Reading<'_>,
    application: ApplicationKey,
    name: &Name<MessageId>,
) -> Result<MessageEntry, Error> {
    let found = match name {
        Name::Id(id) => by_id(reading.connection, application, *id)?,
        Name::Uid(event_id) => by_event_id(reading.connection, application, event_id)?,
    };
    found.ok_or(Error::Missing("message"))
}

/// Needs the index `messages_id`.
pub(crate) fn list(
    reading: &Reading<'_>,
    application: ApplicationKey,
    filter: &MessageFilter,
    page: &Page<MessageId>,
) -> Result<Listed<MessageEntry, MessageId>, Error> {
    let list = List {
        statement: NEWEST_FIRST,
        direction: Direction::Descending,
        whose: Some(application.0),
        beginning: page::behind_all_ids(),
        at: page::at_id,
        bytes: MessageEntry::bytes,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let entry = of(row)?;
        let id = entry.id;
        if !filter.wants(&entry.event_type, &entry.channels, entry.received_at) {
            return Ok((id, None));
        }
        let entry =
            if filter.with_payload { with_payload(reading.connection, entry)? } else { entry };
        Ok((id, Some(entry)))
    })
}

fn with_payload(connection: &Connection, entry: MessageEntry) -> Result<MessageEntry, Error> {
    let payload = load::payload(connection, entry.key)?.map_or(Payload::Gone, Payload::Kept);
    Ok(MessageEntry { payload, ..entry })
}

/// Needs the index `messages_id`.
fn by_id(
    connection: &Connection,
    application: ApplicationKey,
    id: MessageId,
) -> Result<Option<MessageEntry>, Error> {
    let sql = "SELECT key, application, id, event_type, event_id, channels, content_type, policy,
            deliver_at, only_endpoint, received_at, payload IS NULL AS payload_gone
        FROM messages WHERE application = ?1 AND id = ?2";
    let parameters = params![application.0, id.as_bytes()];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, of).optional()?)
}

/// Needs the index `messages_event_id`.
fn by_event_id(
    connection: &Connection,
    application: ApplicationKey,
    event_id: &str,
) -> Result<Option<MessageEntry>, Error> {
    let sql = "SELECT key, application, id, event_type, event_id, channels, content_type, policy,
            deliver_at, only_endpoint, received_at, payload IS NULL AS payload_gone
        FROM messages WHERE application = ?1 AND event_id = ?2";
    let parameters = params![application.0, event_id];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, of).optional()?)
}

fn of(row: &Row<'_>) -> rusqlite::Result<MessageEntry> {
    let channels = match row.get_ref("channels")?.as_str_or_null()? {
        None => Vec::new(),
        Some(_) => row::document(row, "channels")?,
    };
    Ok(MessageEntry {
        key: MessageKey(row.get("key")?),
        application: ApplicationKey(row.get("application")?),
        id: row::id(row, "id")?,
        event_type: row.get("event_type")?,
        event_id: row.get("event_id")?,
        channels,
        content_type: row.get("content_type")?,
        policy: row.get("policy")?,
        deliver_at: row::time_if_any(row, "deliver_at")?,
        only: row.get::<_, Option<i64>>("only_endpoint")?.map(EndpointKey),
        received_at: row::time(row, "received_at")?,
        payload: if row.get("payload_gone")? { Payload::Gone } else { Payload::Omitted },
    })
}
