//! Tokens that expired or were revoked long ago: they go, so many at a step.
//!
//! There may be many, one for each visit to a portal, and no index of when they end. They are walked
//! by id, from where the last step stopped; the walk is slow beside the time they are kept.

use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::upkeep::cursor;
use crate::{Error, limits};

/// The name of the place where the walk goes on.
const CURSOR: &str = "tokens_up_to";
/// How many tokens a step of pruning looks at.
const LOOKED_AT: i64 = 256;

/// Forgets tokens that expired or were revoked long enough ago: so many are looked at in a step, from
/// where the last step stopped.
pub(crate) fn forget(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
    let start = cursor::read_text(connection, CURSOR)?;
    let end = end_of_step(connection, &start)?;
    let removed = remove_between(connection, (&start, end.as_deref()), now, most)?;
    // With nothing left of the allowance there may be something left between these.
    let next = if removed < most { end.unwrap_or_default() } else { start.clone() };
    if next != start {
        cursor::keep_text(connection, CURSOR, &next)?;
    }
    Ok(removed)
}

/// Returns the last token that a step looks at; none if it comes to the end. Needs the primary key
/// of `tokens`.
fn end_of_step(connection: &Connection, start: &str) -> Result<Option<String>, Error> {
    let sql = "SELECT id FROM tokens WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![start, LOOKED_AT - 1], |row| row.get(0)).optional()?)
}

/// Needs the primary key of `tokens`.
fn remove_between(
    connection: &Connection,
    (start, end): (&str, Option<&str>),
    now: Timestamp,
    most: usize,
) -> Result<usize, Error> {
    let sql = "DELETE FROM tokens WHERE id IN (
            SELECT id FROM tokens WHERE id > ?1 AND (?2 IS NULL OR id <= ?2)
                AND (expires_at < ?3 OR revoked_at < ?3)
            ORDER BY id LIMIT ?4)";
    let before = now.before(limits::TOKENS).as_micros();
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute(params![start, end, before, most])?)
}
