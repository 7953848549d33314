//! Folding: the sums of old minutes are added to those of their hour, so that a range of months is read
//! in a few thousand rows.

use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::queue::{Minute, Rollup, Subject};
use crate::sqlite::ledger;
use crate::sqlite::upkeep::rollup;
use crate::{Error, codes, limits};

/// How many subjects a step looks at.
const SUBJECTS_PER_STEP: usize = 64;

/// Folds the oldest minutes of some subjects, from where the last step stopped. Returns how many minutes
/// that were.
pub(super) fn fold(connection: &Connection, now: Timestamp, most: u32) -> Result<usize, Error> {
    let until = Minute::of(now.before(limits::MINUTES)).hour();
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut place, mut folded) = (folded_up_to(connection)?, 0);
    for _ in 0..SUBJECTS_PER_STEP {
        let Some(next) = next_subject(connection, place)? else {
            place = None;
            break;
        };
        folded += match fold_some(connection, next, until, most - folded) {
            // What cannot be read stays as it is, and harms no other subject.
            Err(Error::Damaged { .. }) => 0,
            some => some?,
        };
        // What the allowance was not enough for is next.
        if folded == most {
            break;
        }
        place = Some(next);
    }
    set_folded_up_to(connection, place)?;
    Ok(folded)
}

/// Folds minutes of a subject before a moment, at most so many.
fn fold_some(
    connection: &Connection,
    subject: Subject,
    until: Minute,
    most: usize,
) -> Result<usize, Error> {
    let minutes = minutes_before(connection, subject, until, most)?;
    for minute in &minutes {
        let sum = Rollup { minute: minute.minute.hour(), ..minute.clone() };
        rollup::add(connection, codes::hours_of(subject), &sum)?;
        remove(connection, minute)?;
    }
    Ok(minutes.len())
}

/// Needs the primary key of `rollups`.
fn minutes_before(
    connection: &Connection,
    subject: Subject,
    until: Minute,
    most: usize,
) -> Result<Vec<Rollup>, Error> {
    let sql = "SELECT * FROM rollups WHERE subject = ?1 AND key = ?2 AND minute < ?3
        ORDER BY minute LIMIT ?4";
    let ((number, key), most) = (codes::subject(subject), i64::try_from(most).unwrap_or(i64::MAX));
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement
        .query_map(params![number, key, until.0, most], |row| ledger::rollup::of(row, subject))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Needs the primary key of `rollups`.
fn remove(connection: &Connection, sum: &Rollup) -> Result<(), Error> {
    let sql = "DELETE FROM rollups WHERE subject = ?1 AND key = ?2 AND minute = ?3";
    let (number, key) = codes::subject(sum.subject);
    connection.prepare_cached(sql)?.execute(params![number, key, sum.minute.0])?;
    Ok(())
}

/// Returns the next subject that has sums by minute. Needs the primary key of `rollups`.
fn next_subject(connection: &Connection, after: Option<Subject>) -> Result<Option<Subject>, Error> {
    let sql = "SELECT subject, key FROM rollups WHERE (subject, key) > (?1, ?2)
        ORDER BY subject, key LIMIT 1";
    let (number, key) = after.map_or((-1, 0), codes::subject);
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![number, key], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?.and_then(codes::read_subject))
}

/// Needs the primary key of `meta`.
fn folded_up_to(connection: &Connection) -> Result<Option<Subject>, Error> {
    let sql = "SELECT name, value FROM meta WHERE name IN ('folded_subject', 'folded_key')
        ORDER BY name DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let values = statement.query_map([], |row| Ok(row.get_ref(1)?.as_i64().ok()))?;
    let values = values.collect::<rusqlite::Result<Vec<_>>>()?;
    // What is not there, or cannot be read, is a walk that begins anew.
    let [Some(number), Some(key)] = values[..] else { return Ok(None) };
    Ok(i16::try_from(number).ok().and_then(|number| codes::read_subject((number, key))))
}

/// Needs the primary key of `meta`.
fn set_folded_up_to(connection: &Connection, place: Option<Subject>) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES ('folded_subject', ?1), ('folded_key', ?2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value <> excluded.value";
    let (number, key) = place.map_or((-1, 0), codes::subject);
    connection.prepare_cached(sql)?.execute(params![number, key])?;
    Ok(())
}
