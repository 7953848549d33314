//! Where a walk of upkeep goes on: some numbers, or a text, under a name.

use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension};

use crate::Error;

/// Returns where a walk goes on; nothing if it begins.
pub(super) fn read<const N: usize>(
    connection: &Connection,
    name: &str,
) -> Result<Option<[i64; N]>, Error> {
    let sql = "SELECT value FROM meta WHERE name = ?1";
    // What cannot be read is a walk that begins anew.
    let found = connection.prepare_cached(sql)?.query_row([name], |row| {
        let (numbers, rest) = row.get_ref(0)?.as_blob().unwrap_or_default().as_chunks::<8>();
        let numbers: Vec<i64> = numbers.iter().map(|bytes| i64::from_be_bytes(*bytes)).collect();
        Ok(numbers.try_into().ok().filter(|_| rest.is_empty()))
    });
    Ok(found.optional()?.flatten())
}

/// Keeps where a walk goes on.
pub(super) fn keep<const N: usize>(
    connection: &Connection,
    name: &str,
    place: [i64; N],
) -> Result<(), Error> {
    put(connection, name, &place.map(i64::to_be_bytes).concat())
}

/// Returns the text where a walk goes on; an empty one if it begins.
pub(super) fn read_text(connection: &Connection, name: &str) -> Result<String, Error> {
    let sql = "SELECT value FROM meta WHERE name = ?1";
    let found = connection
        .prepare_cached(sql)?
        .query_row([name], |row| Ok(row.get_ref(0)?.as_str().unwrap_or_default().to_owned()));
    Ok(found.optional()?.unwrap_or_default())
}

/// Keeps the text where a walk goes on.
pub(super) fn keep_text(connection: &Connection, name: &str, place: &str) -> Result<(), Error> {
    put(connection, name, &place)
}

/// Needs the primary key of `meta`.
fn put(connection: &Connection, name: &str, value: &dyn ToSql) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES (?1, ?2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([&name as &dyn ToSql, value])?;
    Ok(())
}
