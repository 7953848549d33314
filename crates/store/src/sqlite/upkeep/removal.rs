//! Purging: what is left of deleted applications and endpoints goes, so many rows at a step.

use domain::ids::AttemptId;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::queue::Subject;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::row;
use crate::sqlite::upkeep::missing;
use crate::sqlite::upkeep::prune::{self, Allowance};
use crate::{Error, codes, limits};

/// How many messages a statement fetches at a time.
const AT_A_TIME: i64 = 64;

/// Removes what belongs to deleted applications, their own rows last. Nothing is read of it but
/// keys, so nothing damaged holds it up.
pub(crate) fn applications(
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
        remove_requests(connection, application, allowance)?;
        allowance.used(remove_tokens(connection, application, allowance.left())?);
        if allowance.is_used_up() || !allowance.take(1) {
            return Ok(());
        }
        remove_tasks(connection, application)?;
        remove_application(connection, application)?;
        writing.memo.forget_endpoints(application);
    }
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
            remove_row(connection, message)?;
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
pub(super) const SOME_ATTEMPTS: &str = "DELETE FROM attempts WHERE endpoint = ?1 AND id IN (
    SELECT id FROM attempts WHERE endpoint = ?1 LIMIT ?2)";

/// Removes deliveries of an endpoint. Needs the primary key of `deliveries`.
const SOME_DELIVERIES: &str = "DELETE FROM deliveries WHERE endpoint = ?1 AND message IN (
    SELECT message FROM deliveries WHERE endpoint = ?1 LIMIT ?2)";

/// Removes as many rows of an endpoint as the allowance leaves.
pub(super) fn remove_some(
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
pub(super) fn remove_sums(
    connection: &Connection,
    subject: Subject,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    let sql = "DELETE FROM rollups WHERE subject = ?1 AND key = ?2 AND minute IN (
            SELECT minute FROM rollups WHERE subject = ?1 AND key = ?2 LIMIT ?3)";
    for (subject, key) in [codes::subject(subject), codes::hours_of(subject)] {
        let most = i64::try_from(allowance.left()).unwrap_or(i64::MAX);
        allowance.used(connection.prepare_cached(sql)?.execute(params![subject, key, most])?);
    }
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

/// Needs the index `requests_application`.
fn remove_requests(
    connection: &Connection,
    application: ApplicationKey,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    let sql = "DELETE FROM requests WHERE number IN (
            SELECT number FROM requests WHERE application = ?1 LIMIT ?2)";
    let most = i64::try_from(allowance.left()).unwrap_or(i64::MAX);
    allowance.used(connection.prepare_cached(sql)?.execute(params![application.0, most])?);
    Ok(())
}

/// Needs the primary key of `applications`.
fn remove_application(connection: &Connection, application: ApplicationKey) -> Result<(), Error> {
    let sql = "DELETE FROM applications WHERE key = ?1";
    connection.prepare_cached(sql)?.execute([application.0])?;
    Ok(())
}

/// Removes an endpoint's row, its secrets and its running state.
pub(super) fn remove_endpoint(connection: &Connection, endpoint: EndpointKey) -> Result<(), Error> {
    remove_secrets(connection, endpoint)?;
    remove_state(connection, endpoint)?;
    remove_endpoint_row(connection, endpoint)
}

/// Needs the primary key of `endpoint_secrets`.
pub(super) fn remove_secrets(connection: &Connection, endpoint: EndpointKey) -> Result<(), Error> {
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

/// Needs the index `endpoint_secrets_expiring`.
pub(crate) fn secrets(
    connection: &Connection,
    now: Timestamp,
    most: usize,
) -> Result<usize, Error> {
    let sql = "DELETE FROM endpoint_secrets WHERE (endpoint, number) IN (
            SELECT endpoint, number FROM endpoint_secrets INDEXED BY endpoint_secrets_expiring
            WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute(params![now.as_micros(), most])?)
}

/// Removes a delivery and the chain of its attempts. The chain ends at an attempt that does not say
/// which was before it: those stay until their endpoint goes, and keep nothing else.
pub(crate) fn remove_with_attempts(
    writing: &Writing<'_>,
    key: DeliveryKey,
    last_attempt: Option<AttemptId>,
) -> Result<(), Error> {
    let mut attempt = last_attempt;
    while let Some(id) = attempt {
        let previous = remove_attempt(writing.connection, key.endpoint, id);
        attempt = writing.notes.readable(previous)?.flatten();
    }
    remove_delivery(writing.connection, key.endpoint, key.message)
}

/// Removes an attempt, and returns the one before it; if that cannot be read, an error that names the
/// attempt. Needs the primary key of `attempts`.
fn remove_attempt(
    connection: &Connection,
    endpoint: EndpointKey,
    id: AttemptId,
) -> Result<Option<AttemptId>, Error> {
    let sql = "DELETE FROM attempts WHERE endpoint = ?1 AND id = ?2
        RETURNING endpoint, message, id, previous";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![endpoint.0, id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    row::id_if_any(row, "previous").map_err(|error| row::at_row(row, error.into()))
}

/// Needs the primary key of `deliveries`.
fn remove_delivery(
    connection: &Connection,
    endpoint: EndpointKey,
    message: MessageKey,
) -> Result<(), Error> {
    let sql = "DELETE FROM deliveries WHERE endpoint = ?1 AND message = ?2";
    connection.prepare_cached(sql)?.execute([endpoint.0, message.0])?;
    Ok(())
}

/// Removes a message's own row, and the list of what was made for it later. Needs the primary key
/// of `messages`.
pub(super) fn remove_row(connection: &Connection, key: MessageKey) -> Result<(), Error> {
    connection.prepare_cached("DELETE FROM messages WHERE key = ?1")?.execute([key.0])?;
    missing::forget_added(connection, key)
}

/// Removes tokens of an application. Needs the primary key of `applications` and the index
/// `tokens_application`.
fn remove_tokens(
    connection: &Connection,
    application: ApplicationKey,
    most: usize,
) -> Result<usize, Error> {
    let sql = "DELETE FROM tokens WHERE id IN (
            SELECT id FROM tokens
            WHERE application = (SELECT id FROM applications WHERE key = ?1) LIMIT ?2)";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute([application.0, most])?)
}
