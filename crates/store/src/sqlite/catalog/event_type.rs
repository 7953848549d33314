//! Event types.

use domain::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;
use crate::catalog::{Changed, Check, Edit, EventType, Schemas, edit};
use crate::page::{Direction, Listed, Page};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::page::{self, List};
use crate::sqlite::row;

/// Creates one. Needs the primary key of `event_types`.
pub(crate) fn create(connection: &Connection, event_type: &EventType) -> Result<(), Error> {
    let sql = "INSERT INTO event_types (name, settings, created_at, updated_at)
        VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO NOTHING";
    match write(connection, sql, event_type)? {
        0 => Err(Error::Taken { what: "event type", name: event_type.name.clone() }),
        _ => changed(connection),
    }
}

/// Changes one by a function of its row as it is. Needs the primary key of `event_types`.
pub(super) fn change(
    connection: &Connection,
    name: &str,
    change: &Edit<EventType>,
    at: Timestamp,
) -> Result<Changed<EventType>, Error> {
    let before = find(connection, name)?;
    let Some(after) = edit::event_type(&before, change, at)? else {
        return Ok(Changed::nothing(before));
    };
    let sql = "UPDATE event_types SET settings = ?2, created_at = ?3, updated_at = ?4
        WHERE name = ?1";
    write(connection, sql, &after)?;
    changed(connection)?;
    Ok(Changed { before, after })
}

/// Counts a change, so that the nodes read event types again. Needs the primary key of `counters`.
fn changed(connection: &Connection) -> Result<(), Error> {
    let sql = "UPDATE counters SET value = value + 1 WHERE name = 'event_types'";
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Returns how often event types were changed. Needs the primary key of `counters`.
pub(super) fn changes(connection: &Connection) -> Result<i64, Error> {
    let sql = "SELECT value FROM counters WHERE name = 'event_types'";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Returns how many rows it wrote.
fn write(connection: &Connection, sql: &str, event_type: &EventType) -> Result<usize, Error> {
    Ok(connection.prepare_cached(sql)?.execute(params![
        event_type.name,
        row::text_of(&event_type.settings)?,
        event_type.created_at.as_micros(),
        event_type.updated_at.as_micros(),
    ])?)
}

/// Needs the primary key of `event_types`.
pub(crate) fn find(connection: &Connection, name: &str) -> Result<EventType, Error> {
    let sql = "SELECT name, settings, created_at, updated_at FROM event_types WHERE name = ?1";
    let found = connection.prepare_cached(sql)?.query_row([name], of).optional()?;
    found.ok_or(Error::Missing("event type"))
}

/// Needs the primary key of `event_types`.
pub(crate) fn remove(
    connection: &Connection,
    name: &str,
    check: &Check<EventType>,
) -> Result<(), Error> {
    check(&find(connection, name)?).map_err(Error::Declined)?;
    connection.prepare_cached("DELETE FROM event_types WHERE name = ?1")?.execute([name])?;
    changed(connection)
}

/// Needs the primary key of `event_types`.
pub(crate) fn list(
    reading: &Reading<'_>,
    schemas: Schemas,
    page: &Page<String>,
) -> Result<Listed<EventType, String>, Error> {
    let list = List {
        statement: "SELECT name, settings, created_at, updated_at FROM event_types
            WHERE name {compare} ?1 ORDER BY name {direction} LIMIT ?2",
        direction: Direction::Ascending,
        whose: None,
        beginning: vec![Value::Text(String::new())],
        at: |name: &String| vec![Value::Text(name.clone())],
        bytes: EventType::bytes,
        page,
    };
    page::page(reading.connection, reading.notes, list, |row| {
        let event_type = of(row)?.with(schemas);
        Ok((event_type.name.clone(), Some(event_type)))
    })
}

fn of(row: &Row<'_>) -> rusqlite::Result<EventType> {
    Ok(EventType {
        name: row.get("name")?,
        settings: row::document(row, "settings")?,
        created_at: row::time(row, "created_at")?,
        updated_at: row::time(row, "updated_at")?,
    })
}
