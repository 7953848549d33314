//! Sums by minute.

use rusqlite::{Row, params};

use crate::queue::{Minute, Rollup, Subject};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::row::odd;
use crate::{Error, codes};

/// Returns a subject's sums. Needs the primary key of `rollups`.
pub(crate) fn list(
    reading: &Reading<'_>,
    whose: Subject,
    from: Minute,
    to: Minute,
) -> Result<Vec<Rollup>, Error> {
    let sql = "SELECT minute, succeeded, failed, delivered, dead, latencies FROM rollups
        WHERE subject = ?1 AND key = ?2 AND minute >= ?3 AND minute < ?4 ORDER BY minute";
    let (number, key) = codes::subject(whose);
    let mut statement = reading.connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![number, key, from.0, to.0], |row| of(row, whose))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn of(row: &Row<'_>, subject: Subject) -> rusqlite::Result<Rollup> {
    Ok(Rollup {
        subject,
        minute: Minute(row.get("minute")?),
        succeeded: row.get("succeeded")?,
        failed: row.get("failed")?,
        delivered: row.get("delivered")?,
        dead: row.get("dead")?,
        latencies: latencies_of(row)?,
    })
}

fn latencies_of(row: &Row<'_>) -> rusqlite::Result<Vec<u32>> {
    let bytes = row.get_ref("latencies")?.as_blob()?;
    let (counts, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(odd("latencies", format_args!("{} bytes", bytes.len())));
    }
    Ok(counts.iter().map(|count| u32::from_be_bytes(*count)).collect())
}
