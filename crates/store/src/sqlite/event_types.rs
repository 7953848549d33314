//! Event types.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec;
use super::reader::Reading;
use super::walk::{self, List};
use crate::Error;
use crate::catalog::EventType;
use crate::page::{Listed, Page};

/// Creates one. Needs the primary key of `event_types`.
pub(super) fn create(connection: &Connection, event_type: &EventType) -> Result<(), Error> {
    let sql = "INSERT INTO event_types (name, settings, created_at, updated_at)
        VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO NOTHING";
    match write(connection, sql, event_type)? {
        0 => Err(Error::Taken { what: "event type", name: event_type.name.clone() }),
        _ => Ok(()),
    }
}

/// Creates or replaces one. Needs the primary key of `event_types`.
pub(super) fn put(connection: &Connection, event_type: &EventType) -> Result<(), Error> {
    let sql = "INSERT INTO event_types (name, settings, created_at, updated_at)
        VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (name) DO UPDATE SET settings = excluded.settings,
            created_at = excluded.created_at, updated_at = excluded.updated_at";
    write(connection, sql, event_type).map(drop)
}

/// Returns how many rows it wrote.
fn write(connection: &Connection, sql: &str, event_type: &EventType) -> Result<usize, Error> {
    Ok(connection.prepare_cached(sql)?.execute(params![
        event_type.name,
        codec::text_of(&event_type.settings)?,
        event_type.created_at.as_micros(),
        event_type.updated_at.as_micros(),
    ])?)
}

/// Needs the primary key of `event_types`.
pub(super) fn find(connection: &Connection, name: &str) -> Result<EventType, Error> {
    let sql = "SELECT name, settings, created_at, updated_at FROM event_types WHERE name = ?1";
    let found = connection.prepare_cached(sql)?.query_row([name], of).optional()?;
    found.ok_or(Error::Missing("event type"))
}

/// Needs the primary key of `event_types`.
pub(super) fn remove(connection: &Connection, name: &str) -> Result<(), Error> {
    let sql = "DELETE FROM event_types WHERE name = ?1";
    match connection.prepare_cached(sql)?.execute([name])? {
        0 => Err(Error::Missing("event type")),
        _ => Ok(()),
    }
}

/// Needs the primary key of `event_types`.
pub(super) fn list(
    reading: &Reading<'_>,
    page: &Page<String>,
) -> Result<Listed<EventType, String>, Error> {
    let list = List {
        onwards: "SELECT name, settings, created_at, updated_at FROM event_types
            WHERE name > ?1 ORDER BY name LIMIT ?2",
        backwards: "SELECT name, settings, created_at, updated_at FROM event_types
            WHERE name < ?1 ORDER BY name DESC LIMIT ?2",
        whose: None,
        beginning: vec![Value::Text(String::new())],
        at: |name: &String| vec![Value::Text(name.clone())],
        page,
    };
    walk::page(reading.connection, reading.notes, list, |row| {
        let event_type = of(row)?;
        Ok((event_type.name.clone(), Some(event_type)))
    })
}

fn of(row: &Row<'_>) -> rusqlite::Result<EventType> {
    Ok(EventType {
        name: row.get("name")?,
        settings: codec::document(row, "settings")?,
        created_at: codec::time(row, "created_at")?,
        updated_at: codec::time(row, "updated_at")?,
    })
}
