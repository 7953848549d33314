//! Tombstones: what is pending for deleted endpoints is buried, and what nothing refers to any more
//! goes.

use domain::delivery::Cause;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::Subject;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::upkeep::cursor;
use crate::sqlite::upkeep::prune::Allowance;
use crate::sqlite::upkeep::removal::{
    SOME_ATTEMPTS, remove_endpoint, remove_secrets, remove_some, remove_sums,
};
use crate::sqlite::upkeep::rollup;
use crate::{Error, codes};

/// The name of the application that had the last turn.
const CURSOR: &str = "tombstones cursor";
/// An application's turn takes this part of a step.
const SHARE: usize = 8;

/// Buries what is pending for deleted endpoints, in turns by application: however much is pending for one,
/// another's is buried within a few steps. What nothing refers to any more goes.
pub(crate) fn endpoints(
    writing: &mut Writing<'_>,
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    let share = (allowance.left() / SHARE).max(1);
    let start = cursor::read(writing.connection, CURSOR)?.map_or(i64::MIN, |[last]| last);
    let mut last = start;
    while !allowance.is_used_up() {
        let next = next_deleted(writing.connection, last)?;
        let next =
            next.map_or_else(|| next_deleted(writing.connection, i64::MIN), |it| Ok(Some(it)));
        let Some((application, endpoint)) = next? else { break };
        last = application;
        let most = share.min(allowance.left());
        let buried = bury(writing.connection, endpoint, now, most)?;
        allowance.used(buried);
        // There may be more of it.
        if buried == most {
            continue;
        }
        remove_secrets(writing.connection, endpoint)?;
        mark_emptied(writing.connection, endpoint, true)?;
        retire(writing, endpoint, allowance)?;
    }
    if last == start { Ok(()) } else { cursor::keep(writing.connection, CURSOR, [last]) }
}

/// Removes the tombstone of an endpoint that nothing refers to any more, its sums, for which nobody
/// can ask, and the attempts that a broken chain has left behind. What the allowance is not enough for is left to the next step, which begins with
/// endpoints that are not emptied.
pub(crate) fn retire(
    writing: &mut Writing<'_>,
    endpoint: EndpointKey,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    let connection = writing.connection;
    let Some(application) = unreferenced(connection, endpoint)? else {
        return Ok(());
    };
    remove_some(connection, SOME_ATTEMPTS, endpoint, allowance)?;
    remove_sums(connection, Subject::Endpoint(endpoint), allowance)?;
    if allowance.is_used_up() {
        return mark_emptied(connection, endpoint, false);
    }
    remove_endpoint(connection, endpoint)?;
    writing.memo.forget_endpoints(application);
    allowance.used(1);
    Ok(())
}

/// Returns a deleted endpoint that is not emptied, of the application after this one, and that
/// application. Needs the index `tombstones`.
fn next_deleted(connection: &Connection, after: i64) -> Result<Option<(i64, EndpointKey)>, Error> {
    let sql = "SELECT application, key FROM endpoints INDEXED BY tombstones
        WHERE state = 3 AND emptied = 0 AND application > ?1 ORDER BY application, key LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement
        .query_row([after], |row| Ok((row.get(0)?, EndpointKey(row.get(1)?))))
        .optional()?;
    Ok(found)
}

/// Needs the index `deliveries_pending`; writes to `deliveries`, its partial indexes.
fn bury(
    connection: &Connection,
    endpoint: EndpointKey,
    now: Timestamp,
    most: usize,
) -> Result<usize, Error> {
    let sql = "UPDATE deliveries SET state = 2, cause = ?1, settled_at = ?2
        WHERE endpoint = ?3 AND message IN (
            SELECT message FROM deliveries INDEXED BY deliveries_pending
            WHERE endpoint = ?3 AND state = 0 ORDER BY turn, message LIMIT ?4)";
    let cause = codes::cause(Cause::EndpointDeleted);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let parameters = params![cause, now.as_micros(), endpoint.0, most];
    let buried = connection.prepare_cached(sql)?.execute(parameters)?;
    if let Some(application) = rollup::application_of(connection, endpoint)? {
        let whose = (ApplicationKey(application), endpoint);
        rollup::bury(connection, whose, (Cause::EndpointDeleted, buried), now)?;
    }
    Ok(buried)
}

/// Needs the primary key of `endpoints`.
fn mark_emptied(
    connection: &Connection,
    endpoint: EndpointKey,
    emptied: bool,
) -> Result<(), Error> {
    let sql = "UPDATE endpoints SET emptied = ?1 WHERE key = ?2";
    connection.prepare_cached(sql)?.execute(params![emptied, endpoint.0])?;
    Ok(())
}

/// Returns the application of a tombstone that nothing refers to. Needs the primary keys of
/// `endpoints` and `deliveries`.
fn unreferenced(
    connection: &Connection,
    endpoint: EndpointKey,
) -> Result<Option<ApplicationKey>, Error> {
    let sql = "SELECT application FROM endpoints
        WHERE key = ?1 AND state = 3 AND emptied = 1
            AND NOT EXISTS (SELECT 1 FROM deliveries WHERE endpoint = ?1)";
    let mut statement = connection.prepare_cached(sql)?;
    let application = statement.query_row([endpoint.0], |row| row.get(0)).optional()?;
    Ok(application.map(ApplicationKey))
}
