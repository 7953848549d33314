//! How much an application's endpoints are. It is counted when it is first needed, and kept with the
//! application from then on.

use rusqlite::{Connection, Row, params};

use crate::Error;
use crate::catalog::{Admission, Size};
use crate::keys::ApplicationKey;
use crate::sqlite::catalog::endpoint;
use crate::sqlite::io::writer::Writing;

/// Replaces a part of an application's size by another, if that is admitted. It comes before the change
/// that it is about.
pub(crate) fn replace(
    writing: &Writing<'_>,
    application: ApplicationKey,
    (part, by): (Size, Size),
    admission: &Admission,
) -> Result<(), Error> {
    if part == by {
        return Ok(());
    }
    let known = find(writing.connection, application)?;
    let before = known.map_or_else(|| endpoint::size(writing, application), Ok)?;
    keep(writing.connection, application, before.replace((part, by), admission)?)
}

/// Needs the primary key of `applications`.
fn find(connection: &Connection, application: ApplicationKey) -> Result<Option<Size>, Error> {
    let sql = "SELECT endpoints, patterns, bytes FROM applications WHERE key = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([application.0], of)?)
}

/// Needs the primary key of `applications`.
fn keep(connection: &Connection, application: ApplicationKey, size: Size) -> Result<(), Error> {
    let sql = "UPDATE applications SET endpoints = ?2, patterns = ?3, bytes = ?4 WHERE key = ?1";
    let Size { endpoints, patterns, bytes } = size;
    let parameters = params![application.0, endpoints, patterns, bytes];
    connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}

fn of(row: &Row<'_>) -> rusqlite::Result<Option<Size>> {
    let Some(endpoints) = row.get("endpoints")? else { return Ok(None) };
    Ok(Some(Size { endpoints, patterns: row.get("patterns")?, bytes: row.get("bytes")? }))
}
