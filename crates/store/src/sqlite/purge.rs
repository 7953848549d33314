//! Purging: what is left of deleted applications and endpoints goes, so many rows at a step.

use domain::delivery::Cause;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::prune::{self, Allowance};
use super::writer::Writing;
use super::{codec, rollups, tokens};
use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::queue::Subject;
use crate::{Error, limits};

/// How many messages a statement fetches at a time.
const AT_A_TIME: i64 = 64;

/// Removes what belongs to deleted applications, their own rows last. Nothing is read of it but
/// keys, so nothing damaged holds it up.
pub(super) fn applications(
    writing: &mut Writing<'_>,
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    let connection = writing.connection;
    while !allowance.is_used_up() {
        let Some(application) = deleted_application(connection, now)? else {
            return Ok(());
        };
        while let Some(endpoint) = endpoint_of(connection, application)? {
            remove_some(connection, SOME_ATTEMPTS, endpoint, allowance)?;
            remove_some(connection, SOME_DELIVERIES, endpoint, allowance)?;
            remove_sums(connection, Subject::Endpoint(endpoint), allowance)?;
            // With nothing left of the allowance there may be something left of these.
            if allowance.is_used_up() || !allowance.take(1) {
                return Ok(());
            }
            remove_endpoint(connection, endpoint)?;
        }
        if !messages(connection, application, allowance)? {
            return Ok(());
        }
        remove_sums(connection, Subject::Application(application), allowance)?;
        remove_keys(connection, application, allowance)?;
        allowance.used(tokens::remove_with(connection, application, allowance.left())?);
        if allowance.is_used_up() || !allowance.take(1) {
            return Ok(());
        }
        remove_tasks(connection, application)?;
        remove_requests(connection, application)?;
        remove_application(connection, application)?;
        writing.memo.forget_endpoints(application);
    }
    Ok(())
}

/// Buries what is pending for deleted endpoints. What nothing refers to any more goes.
pub(super) fn endpoints(
    writing: &mut Writing<'_>,
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    while !allowance.is_used_up() {
        let Some(endpoint) = deleted_endpoint(writing.connection)? else {
            return Ok(());
        };
        allowance.used(bury(writing.connection, endpoint, now, allowance.left())?);
        if allowance.is_used_up() {
            return Ok(());
        }
        remove_secrets(writing.connection, endpoint)?;
        mark_emptied(writing.connection, endpoint, true)?;
        retire(writing, endpoint, allowance)?;
    }
    Ok(())
}

/// Removes the tombstone of an endpoint that nothing refers to any more, its sums, for which nobody
/// can ask, and the attempts that a broken chain has left behind. What the allowance is not enough for is left to the next step, which begins with
/// endpoints that are not emptied.
pub(super) fn retire(
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

/// Removes an application's messages; answers whether these were all.
fn messages(
    connection: &Connection,
    application: ApplicationKey,
    allowance: &mut Allowance,
) -> Result<bool, Error> {
    loop {
        let some = messages_of(connection, application)?;
        if some.is_empty() {
            return Ok(true);
        }
        for (message, bytes) in some {
            if !allowance.take(1 + bytes / prune::BYTES_OF_A_ROW) {
                return Ok(false);
            }
            prune::remove_row(connection, message)?;
        }
    }
}

/// Returns an application whose deletion every node has found among the changes. Needs the index
/// `applications_deleted`.
fn deleted_application(
    connection: &Connection,
    now: Timestamp,
) -> Result<Option<ApplicationKey>, Error> {
    let sql = "SELECT key FROM applications INDEXED BY applications_deleted
        WHERE deleted_at IS NOT NULL AND deleted_at <= ?1 ORDER BY key LIMIT 1";
    let before = now.before(limits::CHANGING).as_micros();
    let key = connection.prepare_cached(sql)?.query_row([before], |row| row.get(0)).optional()?;
    Ok(key.map(ApplicationKey))
}

/// Returns some messages, and how large their payloads are. Needs the index `messages_id`.
fn messages_of(
    connection: &Connection,
    application: ApplicationKey,
) -> Result<Vec<(MessageKey, usize)>, Error> {
    let sql = "SELECT key, coalesce(length(payload), 0) FROM messages INDEXED BY messages_id
        WHERE application = ?1 ORDER BY id LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement
        .query_map([application.0, AT_A_TIME], |row| Ok((MessageKey(row.get(0)?), row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Needs the index `endpoints_id`.
fn endpoint_of(
    connection: &Connection,
    application: ApplicationKey,
) -> Result<Option<EndpointKey>, Error> {
    let sql = "SELECT key FROM endpoints INDEXED BY endpoints_id WHERE application = ?1 LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let key = statement.query_row([application.0], |row| row.get(0)).optional()?;
    Ok(key.map(EndpointKey))
}

/// Removes attempts of an endpoint. Needs the primary key of `attempts`.
const SOME_ATTEMPTS: &str = "DELETE FROM attempts WHERE endpoint = ?1 AND id IN (
    SELECT id FROM attempts WHERE endpoint = ?1 LIMIT ?2)";

/// Removes deliveries of an endpoint. Needs the primary key of `deliveries`.
const SOME_DELIVERIES: &str = "DELETE FROM deliveries WHERE endpoint = ?1 AND message IN (
    SELECT message FROM deliveries WHERE endpoint = ?1 LIMIT ?2)";

/// Removes as many rows of an endpoint as the allowance leaves.
fn remove_some(
    connection: &Connection,
    sql: &str,
    endpoint: EndpointKey,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    let most = i64::try_from(allowance.left()).unwrap_or(i64::MAX);
    allowance.used(connection.prepare_cached(sql)?.execute([endpoint.0, most])?);
    Ok(())
}

/// Needs the primary key of `rollups`.
fn remove_sums(
    connection: &Connection,
    subject: Subject,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    let sql = "DELETE FROM rollups WHERE subject = ?1 AND key = ?2 AND minute IN (
            SELECT minute FROM rollups WHERE subject = ?1 AND key = ?2 LIMIT ?3)";
    let (subject, key) = rollups::subject(subject);
    let most = i64::try_from(allowance.left()).unwrap_or(i64::MAX);
    allowance.used(connection.prepare_cached(sql)?.execute(params![subject, key, most])?);
    Ok(())
}

/// Needs the primary key of `idempotency`.
fn remove_keys(
    connection: &Connection,
    application: ApplicationKey,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    let sql = "DELETE FROM idempotency WHERE application = ?1 AND hash IN (
            SELECT hash FROM idempotency WHERE application = ?1 LIMIT ?2)";
    let most = i64::try_from(allowance.left()).unwrap_or(i64::MAX);
    allowance.used(connection.prepare_cached(sql)?.execute(params![application.0, most])?);
    Ok(())
}

/// Needs the index `replay_tasks_application`.
fn remove_tasks(connection: &Connection, application: ApplicationKey) -> Result<(), Error> {
    let sql = "DELETE FROM replay_tasks WHERE application = ?1";
    connection.prepare_cached(sql)?.execute([application.0])?;
    Ok(())
}

/// Walks the whole table; there are never many.
fn remove_requests(connection: &Connection, application: ApplicationKey) -> Result<(), Error> {
    let sql = "DELETE FROM requests WHERE application = ?1";
    connection.prepare_cached(sql)?.execute([application.0])?;
    Ok(())
}

/// Needs the primary key of `applications`.
fn remove_application(connection: &Connection, application: ApplicationKey) -> Result<(), Error> {
    let sql = "DELETE FROM applications WHERE key = ?1";
    connection.prepare_cached(sql)?.execute([application.0])?;
    Ok(())
}

/// Removes an endpoint's row, its secrets and its running state.
fn remove_endpoint(connection: &Connection, endpoint: EndpointKey) -> Result<(), Error> {
    remove_secrets(connection, endpoint)?;
    remove_state(connection, endpoint)?;
    remove_endpoint_row(connection, endpoint)
}

/// Needs the primary key of `endpoint_secrets`.
fn remove_secrets(connection: &Connection, endpoint: EndpointKey) -> Result<(), Error> {
    let sql = "DELETE FROM endpoint_secrets WHERE endpoint = ?1";
    connection.prepare_cached(sql)?.execute([endpoint.0])?;
    Ok(())
}

/// Needs the primary key of `endpoint_state`.
fn remove_state(connection: &Connection, endpoint: EndpointKey) -> Result<(), Error> {
    let sql = "DELETE FROM endpoint_state WHERE endpoint = ?1";
    connection.prepare_cached(sql)?.execute([endpoint.0])?;
    Ok(())
}

/// Needs the primary key of `endpoints`.
fn remove_endpoint_row(connection: &Connection, endpoint: EndpointKey) -> Result<(), Error> {
    connection.prepare_cached("DELETE FROM endpoints WHERE key = ?1")?.execute([endpoint.0])?;
    Ok(())
}

/// Needs the index `endpoints_deleted`.
fn deleted_endpoint(connection: &Connection) -> Result<Option<EndpointKey>, Error> {
    let sql = "SELECT key FROM endpoints INDEXED BY endpoints_deleted
        WHERE state = 3 AND emptied = 0 ORDER BY key LIMIT 1";
    let key = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(key.map(EndpointKey))
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
    let cause = codec::cause(Cause::EndpointDeleted);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let parameters = params![cause, now.as_micros(), endpoint.0, most];
    Ok(connection.prepare_cached(sql)?.execute(parameters)?)
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
