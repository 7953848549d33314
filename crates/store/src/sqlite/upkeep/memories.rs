//! What is remembered for a while: steps that may come again, answers, sums, tasks.

use domain::ids::TaskId;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::queue::{Minute, Once};
use crate::sqlite::upkeep::prune::Allowance;
use crate::sqlite::upkeep::tokens;
use crate::{Error, limits};

/// How many subjects a step of pruning looks at.
const SUBJECTS_PER_STEP: usize = 64;
/// A place before all subjects.
const FIRST_SUBJECT: (i64, i64) = (-1, 0);

/// Notes a step; answers whether it is new. Needs the primary key of `done_once`.
pub(super) fn is_new(connection: &Connection, once: &Once) -> Result<bool, Error> {
    let sql = "INSERT INTO done_once (at, id) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    let parameters = params![once.at.as_micros(), once.id];
    Ok(connection.prepare_cached(sql)?.execute(parameters)? > 0)
}

/// Removes what has been remembered for long enough, as far as the allowance goes.
pub(super) fn forget(
    connection: &Connection,
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    for forget in [tasks, tokens::forget, sums, answers, steps] {
        allowance.used(forget(connection, now, allowance.left())?);
    }
    Ok(())
}

/// Removes sums that have been kept for long enough: of so many subjects at a step, from where the
/// last step stopped.
fn sums(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
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

/// Forgets answers that were remembered for long enough. Needs the index `answers_at`.
fn answers(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
    let sql = "DELETE FROM answers WHERE hash IN (
            SELECT hash FROM answers INDEXED BY answers_at WHERE at <= ?1 ORDER BY at LIMIT ?2)";
    let parameters = params![now.before(limits::IDEMPOTENCY).as_micros(), limit(most)];
    Ok(connection.prepare_cached(sql)?.execute(parameters)?)
}

/// Forgets steps that were remembered for long enough. Needs the primary key of `done_once`.
fn steps(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
    let sql = "DELETE FROM done_once WHERE (at, id) IN (
            SELECT at, id FROM done_once WHERE at <= ?1 ORDER BY at, id LIMIT ?2)";
    let parameters = params![now.before(limits::REMEMBERED).as_micros(), limit(most)];
    Ok(connection.prepare_cached(sql)?.execute(parameters)?)
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// Forgets tasks that finished long enough ago. Their ids tell when they were started, so that
/// younger ones are not looked at. Needs the primary key of `replay_tasks`.
fn tasks(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
    let sql = "DELETE FROM replay_tasks WHERE id IN (
            SELECT id FROM replay_tasks WHERE id < ?1 AND state = 1 AND updated_at < ?2
            ORDER BY id LIMIT ?3)";
    let before = now.before(limits::TASKS);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let first = TaskId::first_at(before);
    let parameters = params![first.as_bytes(), before.as_micros(), most];
    Ok(connection.prepare_cached(sql)?.execute(parameters)?)
}
