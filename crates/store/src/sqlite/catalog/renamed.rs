//! Names that a migration had to change.

use rusqlite::{Connection, params};

use crate::catalog::{Renamed, Whose};
use crate::{Error, limits};

/// Forgets those that were told of, and returns the next. Needs the primary key of `renamed`.
pub(crate) fn next(connection: &Connection, told: &[Renamed]) -> Result<Vec<Renamed>, Error> {
    if let Some(last) = told.iter().map(|one| one.number).max() {
        let sql = "DELETE FROM renamed WHERE number <= ?1";
        connection.prepare_cached(sql)?.execute([last])?;
    }
    let sql = "SELECT number, kind, id, old, new FROM renamed ORDER BY number LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![limits::RENAMED], |row| {
        let whose = Whose::of(row.get("kind")?);
        let id = whose.shown(row.get_ref("id")?.as_blob()?);
        Ok(Renamed {
            number: row.get("number")?,
            whose,
            id,
            old: row.get("old")?,
            new: row.get("new")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
