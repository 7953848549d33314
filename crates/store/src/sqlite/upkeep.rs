//! Upkeep, step by step: burying, running states, requests. Numbers, replays, sums and pruning have
//! files of their own.

use domain::partition::Partition;
use rusqlite::{Connection, Row, params};

use super::codec::{self, odd};
use super::reader::Reading;
use super::writer::Writing;
use super::{number, once, prune, replay, rollups, running, walk};
use crate::keys::{ApplicationKey, EndpointKey, Lease, MessageKey};
use crate::queue::turn::SCHEDULED;
use crate::queue::{Bury, Done, Doomed, Ending, Number, Request, RequestKind, Upkeep};
use crate::{Error, limits};

/// Does one step. One that meets a row which cannot be read is taken back and refused, so that it
/// harms nothing else in the batch.
pub(super) fn keep_up_alone(writing: &mut Writing<'_>, step: &Upkeep) -> Result<Done, Error> {
    let connection = writing.connection;
    connection.prepare_cached("SAVEPOINT upkeep")?.execute([])?;
    let set_aside = writing.memo.set_aside();
    let done = match keep_up(writing, step) {
        Err(error @ Error::Damaged { .. }) => {
            connection.prepare_cached("ROLLBACK TO upkeep")?.execute([])?;
            writing.memo.take_back_to(set_aside);
            Done::Refused(error.to_string())
        }
        done => done?,
    };
    connection.prepare_cached("RELEASE upkeep")?.execute([])?;
    Ok(done)
}

fn keep_up(writing: &mut Writing<'_>, step: &Upkeep) -> Result<Done, Error> {
    let connection = writing.connection;
    let fence = match step {
        Upkeep::Bury(Bury { lease, .. })
        | Upkeep::Run { lease, .. }
        | Upkeep::RollUp { lease, .. }
        | Upkeep::Consume { lease, .. }
        | Upkeep::Number(Number { lease, .. }) => Some(*lease),
        Upkeep::Replay(replay) => Some(replay.lease),
        Upkeep::Ask { .. } | Upkeep::Prune { .. } => None,
    };
    if fence.is_some_and(|lease| !writing.memo.is_current(lease)) {
        return Ok(Done::Fenced);
    }
    let changed = match step {
        Upkeep::Bury(bury) => bury_all(connection, bury)?,
        Upkeep::Number(scheduled) => return number::number(writing, scheduled),
        Upkeep::Replay(chunk) => return replay::replay(writing, chunk),
        Upkeep::Run { application, endpoint, running, .. } => {
            running::put(connection, *application, *endpoint, running)?
        }
        Upkeep::Ask { once, request } => {
            if once::is_new(connection, once)? {
                ask(connection, request)?;
            }
            1
        }
        Upkeep::Consume { lease, requests } => consume(connection, *lease, requests)?,
        Upkeep::RollUp { once, rollups: sums, .. } => {
            if once::is_new(connection, once)? {
                rollups::add_all(connection, sums)?;
            }
            sums.len()
        }
        Upkeep::Prune { now, most } => prune::prune(writing, *now, *most)?,
    };
    Ok(Done::Changed(u32::try_from(changed).unwrap_or(u32::MAX)))
}

fn bury_all(connection: &Connection, bury: &Bury) -> Result<usize, Error> {
    let mut buried = 0;
    for doomed in &bury.deliveries {
        buried += bury_one(connection, bury, doomed)?;
    }
    Ok(buried)
}

/// Needs the primary key of `deliveries`; writes to it, `deliveries_pending`, `deliveries_dead`.
fn bury_one(connection: &Connection, bury: &Bury, doomed: &Doomed) -> Result<usize, Error> {
    let sql = "UPDATE deliveries SET state = ?8, cause = ?1, settled_at = ?2
        WHERE endpoint = ?3 AND message = ?4 AND application = ?5
            AND state = 0 AND recorded = ?6 AND settled_at IS ?7";
    let (state, cause) = match bury.ending {
        Ending::Dead(cause) => (codec::DEAD, Some(codec::cause(cause))),
        Ending::Cancelled => (codec::CANCELLED, None),
    };
    Ok(connection.prepare_cached(sql)?.execute(params![
        cause,
        bury.at.as_micros(),
        bury.endpoint.0,
        doomed.message.0,
        bury.application.0,
        doomed.recorded,
        codec::micros_if_any(doomed.ended_before),
        state,
    ])?)
}

/// Leaves a request for an endpoint's owner.
pub(super) fn ask(connection: &Connection, request: &Request) -> Result<(), Error> {
    let (kind, message) = match request.kind {
        RequestKind::ResetBreaker => (0, None),
        RequestKind::Refresh => (1, None),
        RequestKind::RetryNow(message) => (2, Some(message)),
        RequestKind::Cancel(message) => (3, Some(message)),
        RequestKind::EndPause => (4, None),
    };
    if let RequestKind::RetryNow(message) = request.kind {
        hurry(connection, request, message)?;
    }
    insert_request(connection, request, kind, message)
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

fn insert_request(
    connection: &Connection,
    request: &Request,
    kind: i64,
    message: Option<MessageKey>,
) -> Result<(), Error> {
    let sql = "INSERT INTO requests (application, endpoint, partition, kind, message, at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(params![
        request.application.0,
        request.endpoint.0,
        request.partition.number(),
        kind,
        message.map(|message| message.0),
        request.at.as_micros(),
    ])?;
    Ok(())
}

fn consume(connection: &Connection, lease: Lease, requests: &[i64]) -> Result<usize, Error> {
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

/// Returns the requests for these partitions that can be read, oldest first, as many as are read at
/// once. Needs the primary key of `requests`.
pub(super) fn requests(
    reading: &Reading<'_>,
    partitions: &[Partition],
) -> Result<Vec<Request>, Error> {
    let sql = "SELECT number, application, endpoint, partition, kind, message, at
        FROM requests ORDER BY number";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut found: Vec<Request> = Vec::new();
    while found.len() < limits::REQUESTS
        && let Some(row) = rows.next()?
    {
        let read = request_of(row).map_err(Error::from);
        let read = walk::readable(reading.notes, row, read)?;
        found.extend(read.filter(|request| partitions.contains(&request.partition)));
    }
    Ok(found)
}

fn request_of(row: &Row<'_>) -> rusqlite::Result<Request> {
    let message = || row.get("message").map(MessageKey);
    let kind = match row.get("kind")? {
        0 => RequestKind::ResetBreaker,
        1 => RequestKind::Refresh,
        2 => RequestKind::RetryNow(message()?),
        3 => RequestKind::Cancel(message()?),
        4 => RequestKind::EndPause,
        number => return Err(odd("kind", number)),
    };
    Ok(Request {
        number: row.get("number")?,
        application: ApplicationKey(row.get("application")?),
        endpoint: EndpointKey(row.get("endpoint")?),
        partition: codec::partition(row)?,
        kind,
        at: codec::time(row, "at")?,
    })
}
