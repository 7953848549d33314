//! Sums per minute.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::odd;
use super::reader::Reading;
use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::{Minute, Rollup, Subject};
use crate::{Error, limits};

/// How many subjects a step of pruning looks at.
const SUBJECTS_PER_STEP: usize = 64;
/// A place before all subjects.
const FIRST_SUBJECT: (i64, i64) = (-1, 0);

/// Adds to the sums of those who are there.
pub(super) fn add_all(connection: &Connection, rollups: &[Rollup]) -> Result<(), Error> {
    let mut living: BTreeMap<i64, bool> = BTreeMap::new();
    for rollup in rollups {
        if let Subject::Application(key) = rollup.subject
            && let Entry::Vacant(unknown) = living.entry(key.0)
        {
            unknown.insert(is_living(connection, key)?);
        }
    }
    let is_living = |application: &i64| living.get(application).copied().unwrap_or(false);
    for rollup in rollups {
        let is_there = match rollup.subject {
            Subject::Whole => true,
            Subject::Application(key) => is_living(&key.0),
            Subject::Endpoint(key) => {
                application_of(connection, key)?.is_some_and(|its| is_living(&its))
            }
        };
        if is_there {
            add(connection, rollup)?;
        }
    }
    Ok(())
}

/// Needs the primary key of `applications`.
fn is_living(connection: &Connection, application: ApplicationKey) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM applications WHERE key = ?1 AND deleted_at IS NULL)";
    Ok(connection.prepare_cached(sql)?.query_row([application.0], |row| row.get(0))?)
}

/// Needs the primary key of `endpoints`.
fn application_of(connection: &Connection, endpoint: EndpointKey) -> Result<Option<i64>, Error> {
    let sql = "SELECT application FROM endpoints WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([endpoint.0], |row| row.get(0)).optional()?)
}

/// Adds to the sums of a minute.
fn add(connection: &Connection, rollup: &Rollup) -> Result<(), Error> {
    let known = find(connection, rollup.subject, rollup.minute)?;
    let mut sums = known.unwrap_or_else(|| Rollup::empty(rollup.subject, rollup.minute));
    sums.add(rollup);
    put(connection, &sums)
}

/// Needs the primary key of `rollups`.
fn find(connection: &Connection, whose: Subject, minute: Minute) -> Result<Option<Rollup>, Error> {
    let sql = "SELECT minute, succeeded, failed, delivered, dead, latencies FROM rollups
        WHERE subject = ?1 AND key = ?2 AND minute = ?3";
    let (number, key) = subject(whose);
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([number, key, minute.0], |row| of(row, whose)).optional()?)
}

/// Needs the primary key of `rollups`.
fn put(connection: &Connection, rollup: &Rollup) -> Result<(), Error> {
    let sql = "INSERT INTO rollups (
            subject, key, minute, succeeded, failed, delivered, dead, latencies
        ) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (subject, key, minute) DO UPDATE SET
            succeeded = excluded.succeeded, failed = excluded.failed,
            delivered = excluded.delivered, dead = excluded.dead, latencies = excluded.latencies";
    let (subject, key) = subject(rollup.subject);
    let bytes: Vec<u8> = rollup.latencies.iter().flat_map(|count| count.to_be_bytes()).collect();
    let sum = |sum: u64| i64::try_from(sum).unwrap_or(i64::MAX);
    connection.prepare_cached(sql)?.execute(params![
        subject,
        key,
        rollup.minute.0,
        sum(rollup.succeeded),
        sum(rollup.failed),
        sum(rollup.delivered),
        sum(rollup.dead),
        bytes,
    ])?;
    Ok(())
}

/// Returns a subject's sums. Needs the primary key of `rollups`.
pub(super) fn between(
    reading: &Reading<'_>,
    whose: Subject,
    from: Minute,
    to: Minute,
) -> Result<Vec<Rollup>, Error> {
    let sql = "SELECT minute, succeeded, failed, delivered, dead, latencies FROM rollups
        WHERE subject = ?1 AND key = ?2 AND minute >= ?3 AND minute < ?4 ORDER BY minute";
    let (number, key) = subject(whose);
    let mut statement = reading.connection.prepare_cached(sql)?;
    let rows = statement.query_map([number, key, from.0, to.0], |row| of(row, whose))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Removes sums that have been kept for long enough: of so many subjects at a step, from where the
/// last step stopped.
pub(super) fn forget(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
    let oldest = Minute::of(now.before(limits::ROLLUPS));
    let (mut place, mut removed) = (forgotten_up_to(connection)?, 0);
    for _ in 0..SUBJECTS_PER_STEP {
        let Some(next) = next_subject(connection, place)? else {
            place = FIRST_SUBJECT;
            break;
        };
        let rows = remove_before(connection, next, oldest, most - removed)?;
        removed += rows;
        if removed == most {
            break;
        }
        place = next;
    }
    set_forgotten_up_to(connection, place)?;
    Ok(removed)
}

/// Needs the primary key of `meta`.
fn forgotten_up_to(connection: &Connection) -> Result<(i64, i64), Error> {
    let sql = "SELECT name, value FROM meta WHERE name IN ('sums_subject', 'sums_key')
        ORDER BY name DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let values = statement.query_map([], |row| Ok(row.get_ref(1)?.as_i64().ok()))?;
    let values = values.collect::<rusqlite::Result<Vec<_>>>()?;
    // What is not there, or cannot be read, is a walk that begins anew.
    Ok(if let [Some(subject), Some(key)] = values[..] { (subject, key) } else { FIRST_SUBJECT })
}

/// Needs the primary key of `meta`.
fn set_forgotten_up_to(connection: &Connection, (subject, key): (i64, i64)) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES ('sums_subject', ?1), ('sums_key', ?2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value <> excluded.value";
    connection.prepare_cached(sql)?.execute([subject, key])?;
    Ok(())
}

/// Needs the primary key of `rollups`.
fn next_subject(
    connection: &Connection,
    (subject, key): (i64, i64),
) -> Result<Option<(i64, i64)>, Error> {
    let sql = "SELECT subject, key FROM rollups WHERE (subject, key) > (?1, ?2)
        ORDER BY subject, key LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([subject, key], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?)
}

/// Needs the primary key of `rollups`.
fn remove_before(
    connection: &Connection,
    (subject, key): (i64, i64),
    oldest: Minute,
    most: usize,
) -> Result<usize, Error> {
    let sql = "DELETE FROM rollups WHERE subject = ?1 AND key = ?2 AND minute IN (
            SELECT minute FROM rollups WHERE subject = ?1 AND key = ?2 AND minute < ?3
            ORDER BY minute LIMIT ?4)";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute([subject, key, oldest.0, most])?)
}

/// Returns a subject as it is stored.
pub(super) const fn subject(subject: Subject) -> (i64, i64) {
    match subject {
        Subject::Whole => (0, 0),
        Subject::Application(key) => (1, key.0),
        Subject::Endpoint(key) => (2, key.0),
    }
}

fn of(row: &Row<'_>, subject: Subject) -> rusqlite::Result<Rollup> {
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
