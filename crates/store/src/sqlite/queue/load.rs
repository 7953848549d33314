//! Loading: an endpoint's pending deliveries, and which endpoints have any.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::delivery::{Budget, Pending};
use domain::partition::Partition;
use rusqlite::{Connection, Row, params};

use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::queue::turn::{self, SCHEDULED};
use crate::queue::{Load, Loaded, PendingDelivery, Request, Waiting};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::row;
use crate::{Error, codes, limits};

/// How many endpoints one snapshot looks at.
const ENDPOINTS_PER_PIECE: u32 = 4_096;

/// A payload up to this length comes along with its row, because it mostly lies on the same page; a
/// longer one is looked for if there is room for it.
const SHORT: u64 = 2_048;

/// Finds the first deliveries of an endpoint. The payload's length is in the row's head, so this
/// reads short payloads only. [`pending_of`] reads the columns in this order.
pub(crate) const PENDING: &str = "SELECT
        d.message, d.partition, d.turn, d.due, d.attempts, d.ambiguous, d.last_wait, d.expires_at,
        d.recorded, d.settled_at, d.last_attempt_at, m.id, m.event_type, m.received_at, m.policy,
        m.content_type, m.payload IS NULL, coalesce(length(m.payload), 0),
        CASE WHEN length(m.payload) <= ?6 THEN m.payload END
    FROM deliveries AS d INDEXED BY deliveries_pending
    CROSS JOIN messages AS m ON m.key = d.message
    WHERE d.endpoint = ?1 AND d.state = 0 AND d.application = ?2
        AND d.turn >= ?4 AND d.turn < ?5
    ORDER BY d.turn, d.message LIMIT ?3";

/// Walks from endpoint to endpoint, whatever the backlog behind each, and finds the first delivery
/// of each, and of those of a FIFO endpoint that are scheduled.
pub(crate) const WAITING: &str = "WITH RECURSIVE walk (endpoint) AS (
        SELECT (SELECT endpoint FROM deliveries INDEXED BY deliveries_pending
            WHERE state = 0 AND endpoint > ?1 ORDER BY endpoint LIMIT 1)
        UNION ALL
        SELECT (SELECT endpoint FROM deliveries INDEXED BY deliveries_pending
            WHERE state = 0 AND endpoint > walk.endpoint ORDER BY endpoint LIMIT 1)
        FROM walk WHERE walk.endpoint IS NOT NULL
        LIMIT ?2
    )
    SELECT d.endpoint, d.application, d.partition, d.turn, d.due,
        CASE d.turn_order WHEN 0 THEN NULL ELSE (
            SELECT one.turn FROM deliveries AS one INDEXED BY deliveries_pending
            WHERE one.state = 0 AND one.endpoint = d.endpoint AND one.turn >= ?3
            ORDER BY one.turn LIMIT 1
        ) END AS scheduled
    FROM walk CROSS JOIN deliveries AS d ON d.endpoint = walk.endpoint AND d.message = (
        SELECT first.message FROM deliveries AS first INDEXED BY deliveries_pending
        WHERE first.state = 0 AND first.endpoint = walk.endpoint
        ORDER BY first.turn, first.message LIMIT 1
    )";

/// Needs the index `deliveries_pending` and the primary keys of both tables. One more than asked
/// for, to know whether these are all.
pub(crate) fn load(reading: &Reading<'_>, load: Load) -> Result<Loaded, Error> {
    let Load { application, endpoint, from, most, most_bytes } = load;
    let short = SHORT.min(most_bytes);
    reading.at_once(|| {
        let mut statement = reading.connection.prepare_cached(PENDING)?;
        let limit = i64::from(most) + 1;
        let parameters = params![endpoint.0, application.0, limit, from, load.until(), short];
        let mut rows = statement.query(parameters)?;
        let (mut deliveries, mut bytes, mut full) = (Vec::new(), 0_u64, false);
        for _ in 0..most {
            let Some(row) = rows.next()? else {
                return Ok(Loaded { deliveries, complete: true });
            };
            let key = DeliveryKey { application, endpoint, message: MessageKey(row.get(0)?) };
            let read = || Ok::<_, Error>((pending_of(row, key)?, row.get(LENGTH)?));
            // A damaged one is passed over: it must not stop those behind it.
            let read: Option<(PendingDelivery, u64)> = row::readable(reading.notes, row, read())?;
            let Some((mut delivery, length)) = read else { continue };
            bytes = bytes.saturating_add(length);
            // The first always comes along: a payload over the limit must not stop its endpoint.
            full = full || (!deliveries.is_empty() && bytes > most_bytes);
            if !full {
                delivery.payload = if length <= short {
                    row.get::<_, Option<Vec<u8>>>(PAYLOAD)?.map(Bytes::from)
                } else {
                    payload(reading.connection, key.message)?
                };
            }
            deliveries.push(delivery);
        }
        Ok(Loaded { deliveries, complete: rows.next()?.is_none() })
    })
}

pub(crate) fn waiting(
    reading: &Reading<'_>,
    partitions: &[Partition],
) -> Result<Vec<Waiting>, Error> {
    let mut found = Vec::new();
    let mut after = EndpointKey(i64::MIN);
    loop {
        let (piece, last) = piece(reading, after)?;
        let Some(last) = last else {
            return Ok(found);
        };
        after = last;
        found.extend(piece.into_iter().filter(|one| partitions.contains(&one.partition)));
        reading.next_piece();
    }
}

/// Where [`PENDING`] has the length of a payload, and the payload.
const LENGTH: usize = 17;
const PAYLOAD: usize = 18;

/// Reads the columns of [`PENDING`] by their places: to find one by its name takes longer than to read
/// it, and a backlog is thousands of rows.
fn pending_of(row: &Row<'_>, key: DeliveryKey) -> rusqlite::Result<PendingDelivery> {
    let budget = Budget {
        attempts: row.get(4)?,
        ambiguous: row.get(5)?,
        last_wait: row::span_of(row, 6)?,
        expires_at: row::time_if_any(row, 7)?,
    };
    Ok(PendingDelivery {
        key,
        partition: row::partition_at(row, 1)?,
        turn: row.get(2)?,
        pending: Pending { due: row::time(row, 3)?, budget },
        recorded: row.get(8)?,
        ended_before: row::time_if_any(row, 9)?,
        last_attempt_at: row::time_if_any(row, 10)?,
        message: row::id(row, 11)?,
        event_type: row.get(12)?,
        received_at: row::time(row, 13)?,
        policy: row.get(14)?,
        content_type: row.get(15)?,
        payload: None,
        expunged: row.get(16)?,
    })
}

/// Needs the primary key of `messages`.
pub(crate) fn payload(
    connection: &Connection,
    message: MessageKey,
) -> Result<Option<Bytes>, Error> {
    let sql = "SELECT payload FROM messages WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let payload: Option<Vec<u8>> = statement.query_row([message.0], |row| row.get(0))?;
    Ok(payload.map(Bytes::from))
}

/// Returns endpoints behind one, and the last that was looked at. Needs the index
/// `deliveries_pending` and the primary key of `deliveries`.
fn piece(
    reading: &Reading<'_>,
    after: EndpointKey,
) -> Result<(Vec<Waiting>, Option<EndpointKey>), Error> {
    let mut statement = reading.connection.prepare_cached(WAITING)?;
    let mut rows = statement.query(params![after.0, ENDPOINTS_PER_PIECE, SCHEDULED])?;
    let (mut found, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let endpoint = EndpointKey(row.get("endpoint")?);
        last = Some(endpoint);
        let read = row::partition(row).map_err(Error::from);
        // A delivery that is damaged must not hide those behind it: its endpoint knows, too.
        let partition = match row::readable(reading.notes, row, read)? {
            Some(partition) => Some(partition),
            None => reading.notes.readable(partition_of(reading.connection, endpoint))?.flatten(),
        };
        found.extend(partition.map(|partition| waiting_in(partition, row)).transpose()?);
    }
    Ok((found, last))
}

fn waiting_in(partition: Partition, row: &Row<'_>) -> Result<Waiting, Error> {
    Ok(Waiting {
        application: ApplicationKey(row.get("application")?),
        endpoint: EndpointKey(row.get("endpoint")?),
        partition,
        due: (row.get::<_, i64>("turn")? < SCHEDULED).then(|| row::time(row, "due")).transpose()?,
        scheduled: row.get::<_, Option<i64>>("scheduled")?.and_then(turn::due_if_scheduled),
    })
}

/// Returns an endpoint's own partition; if it cannot be read, an error that names the endpoint. Needs
/// the primary key of `endpoints`.
fn partition_of(
    connection: &Connection,
    endpoint: EndpointKey,
) -> Result<Option<Partition>, Error> {
    let sql = "SELECT key, application, partition FROM endpoints WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([endpoint.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    row::partition(row).map(Some).map_err(|error| row::at_row(row, error.into()))
}

/// Returns the requests for these partitions that can be read, as many as are read at once: first some
/// of each application, then the oldest. They come oldest first.
pub(crate) fn requests(
    reading: &Reading<'_>,
    partitions: &[Partition],
) -> Result<Vec<Request>, Error> {
    let applications = asking(reading.connection)?;
    let share = limits::requests_of_each(applications.len());
    let mut found = BTreeMap::new();
    for application in applications {
        let theirs = requests_of(reading, application, (partitions, share))?;
        found.extend(theirs.into_iter().map(|request| (request.number, request)));
    }
    while found.len() > limits::REQUESTS {
        found.pop_last();
    }
    add_oldest_requests(reading, partitions, &mut found)?;
    Ok(found.into_values().collect())
}

/// Returns the applications that requests are about. Needs the index `requests_application`, of which it
/// looks up one entry for each.
fn asking(connection: &Connection) -> Result<Vec<ApplicationKey>, Error> {
    let sql = "WITH RECURSIVE asking (application) AS (
            SELECT min(application) FROM requests
            UNION ALL
            SELECT (SELECT min(application) FROM requests WHERE application > asking.application)
            FROM asking WHERE application IS NOT NULL)
        SELECT application FROM asking WHERE application IS NOT NULL";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| row.get(0).map(ApplicationKey))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns an application's oldest requests for these partitions. Needs the index `requests_application`.
fn requests_of(
    reading: &Reading<'_>,
    application: ApplicationKey,
    (partitions, most): (&[Partition], usize),
) -> Result<Vec<Request>, Error> {
    let sql = "SELECT number, application, endpoint, partition, kind, message, at
        FROM requests INDEXED BY requests_application WHERE application = ?1 ORDER BY number";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let mut rows = statement.query([application.0])?;
    let mut found = Vec::new();
    while found.len() < most
        && let Some(row) = rows.next()?
    {
        found.extend(request_for(reading, partitions, row)?);
    }
    Ok(found)
}

/// Adds the oldest requests, as far as there is room. Needs the primary key of `requests`.
fn add_oldest_requests(
    reading: &Reading<'_>,
    partitions: &[Partition],
    found: &mut BTreeMap<i64, Request>,
) -> Result<(), Error> {
    let sql = "SELECT number, application, endpoint, partition, kind, message, at
        FROM requests ORDER BY number";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while found.len() < limits::REQUESTS
        && let Some(row) = rows.next()?
    {
        let read = request_for(reading, partitions, row)?;
        found.extend(read.map(|request| (request.number, request)));
    }
    Ok(())
}

fn request_for(
    reading: &Reading<'_>,
    partitions: &[Partition],
    row: &Row<'_>,
) -> Result<Option<Request>, Error> {
    let read = row::readable(reading.notes, row, request_of(row).map_err(Error::from))?;
    Ok(read.filter(|request| partitions.contains(&request.partition)))
}

fn request_of(row: &Row<'_>) -> rusqlite::Result<Request> {
    Ok(Request {
        number: row.get("number")?,
        application: ApplicationKey(row.get("application")?),
        endpoint: EndpointKey(row.get("endpoint")?),
        partition: row::partition(row)?,
        kind: codes::read_request(row.get("kind")?, row.get("message")?)?,
        at: row::time(row, "at")?,
    })
}
