//! Sums by minute, and by hour once they are old.

use rusqlite::{Row, params};

use crate::queue::{Minute, Rollup, Rollups, Subject};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::row::odd;
use crate::{Error, codes};

/// Returns a subject's sums. Needs the primary key of `rollups`.
pub(crate) fn list(
    reading: &Reading<'_>,
    whose: Subject,
    from: Minute,
    to: Minute,
) -> Result<Rollups, Error> {
    let sql = "SELECT * FROM rollups
        WHERE subject = ?1 AND key = ?2 AND minute >= ?3 AND minute < ?4 ORDER BY minute";
    let read = |(number, key): (i16, i64)| {
        let mut statement = reading.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![number, key, from.0, to.0], |row| of(row, whose))?;
        Ok::<Vec<Rollup>, Error>(rows.collect::<Result<_, _>>()?)
    };
    // As of one moment: in between, sums could go from their minutes to their hour.
    reading.at_once(|| {
        Ok(Rollups { minutes: read(codes::subject(whose))?, hours: read(codes::hours_of(whose))? })
    })
}

pub(crate) fn of(row: &Row<'_>, subject: Subject) -> rusqlite::Result<Rollup> {
    let mut sums = Rollup::empty(subject, Minute(row.get("minute")?));
    let numbers = [
        "accepted",
        "dead_at_once",
        "succeeded",
        "failed",
        "first_attempts",
        "delivered",
        "delivered_at_first",
        "dead",
    ];
    for (sum, name) in sums.numbers_mut().into_iter().zip(numbers) {
        *sum = row.get(name)?;
    }
    let lists = ["attempt_times", "latencies", "causes", "buried"];
    for (list, name) in sums.lists_mut().into_iter().zip(lists) {
        *list = list_of(row, name)?;
    }
    Ok(sums)
}

fn list_of(row: &Row<'_>, name: &str) -> rusqlite::Result<Vec<u32>> {
    let bytes = row.get_ref(name)?.as_blob()?;
    let (counts, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(odd(name, format_args!("{} bytes", bytes.len())));
    }
    Ok(counts.iter().map(|count| u32::from_be_bytes(*count)).collect())
}
