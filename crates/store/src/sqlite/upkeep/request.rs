//! Requests to the owner of an endpoint.

use rusqlite::{Connection, params};

use crate::keys::{Lease, MessageKey};
use crate::queue::turn::SCHEDULED;
use crate::queue::{Request, RequestKind};
use crate::{Error, codes};

/// Leaves a request for an endpoint's owner.
pub(crate) fn ask(connection: &Connection, request: &Request) -> Result<(), Error> {
    if let RequestKind::RetryNow(message) = request.kind {
        hurry(connection, request, message)?;
    }
    insert_request(connection, request)
}

/// Makes a pending delivery due; one that is scheduled gets its number next. Needs the primary key of `deliveries`; writes to it and
/// `deliveries_pending`.
fn hurry(connection: &Connection, request: &Request, message: MessageKey) -> Result<(), Error> {
    let sql = "UPDATE deliveries SET
            due = min(due, ?1),
            turn = CASE WHEN turn_order = 0 THEN min(due, ?1)
                WHEN turn >= ?5 THEN ?5 + min(due, ?1) ELSE turn END
        WHERE endpoint = ?2 AND message = ?3 AND application = ?4 AND state = 0";
    connection.prepare_cached(sql)?.execute(params![
        request.at.as_micros(),
        request.endpoint.0,
        message.0,
        request.application.0,
        SCHEDULED,
    ])?;
    Ok(())
}

fn insert_request(connection: &Connection, request: &Request) -> Result<(), Error> {
    let (kind, message) = codes::request(request.kind);
    let sql = "INSERT INTO requests (application, endpoint, partition, kind, message, at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(params![
        request.application.0,
        request.endpoint.0,
        request.partition.number(),
        kind,
        message,
        request.at.as_micros(),
    ])?;
    Ok(())
}

pub(super) fn consume(
    connection: &Connection,
    lease: Lease,
    requests: &[i64],
) -> Result<usize, Error> {
    let mut consumed = 0;
    for number in requests {
        consumed += remove_request(connection, lease, *number)?;
    }
    Ok(consumed)
}

/// Needs the primary key of `requests`.
fn remove_request(connection: &Connection, lease: Lease, number: i64) -> Result<usize, Error> {
    let sql = "DELETE FROM requests WHERE number = ?1 AND partition = ?2";
    Ok(connection.prepare_cached(sql)?.execute(params![number, lease.partition.number()])?)
}
