//! Numbering: scheduled deliveries of a FIFO endpoint that are due take their places in its order.

use rusqlite::{Connection, OptionalExtension, params};

use crate::Error;
use crate::keys::{EndpointKey, MessageKey};
use crate::queue::{Done, Number, turn};
use crate::sqlite::io::writer::Writing;

/// The caller has seen to it that the lease is current.
pub(crate) fn number(writing: &mut Writing<'_>, number: &Number) -> Result<Done, Error> {
    let connection = writing.connection;
    let mut count = 0;
    for message in due(connection, number)? {
        let turn = writing.memo.next_in_sequence(connection)?;
        count += put(connection, (number.endpoint, message), turn)?;
    }
    let next = next(connection, number)?.and_then(turn::due_if_scheduled);
    Ok(Done::Numbered { count, next })
}

/// Finds them by due time and then by acceptance: a message's key is from the same numbers.
pub(crate) const DUE: &str = "SELECT message FROM deliveries INDEXED BY deliveries_pending
    WHERE endpoint = ?1 AND state = 0 AND application = ?2 AND turn >= ?3 AND turn <= ?4
    ORDER BY turn, message LIMIT ?5";

/// Needs the index `deliveries_pending` and the primary key of `deliveries`.
fn due(connection: &Connection, number: &Number) -> Result<Vec<MessageKey>, Error> {
    let mut statement = connection.prepare_cached(DUE)?;
    let parameters = params![
        number.endpoint.0,
        number.application.0,
        turn::SCHEDULED,
        turn::scheduled(number.until),
        number.most,
    ];
    let rows = statement.query_map(parameters, |row| row.get(0).map(MessageKey))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Needs the primary key of `deliveries`; writes to it and to `deliveries_pending`.
fn put(
    connection: &Connection,
    (endpoint, message): (EndpointKey, MessageKey),
    turn: i64,
) -> Result<u32, Error> {
    let sql = "UPDATE deliveries SET turn = ?1 WHERE endpoint = ?2 AND message = ?3";
    let changed = connection.prepare_cached(sql)?.execute([turn, endpoint.0, message.0])?;
    Ok(u32::try_from(changed).unwrap_or(u32::MAX))
}

/// Returns the turn of the first that is still scheduled. Needs the index `deliveries_pending`.
fn next(connection: &Connection, number: &Number) -> Result<Option<i64>, Error> {
    let sql = "SELECT turn FROM deliveries INDEXED BY deliveries_pending
        WHERE endpoint = ?1 AND state = 0 AND turn >= ?2 ORDER BY turn LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let parameters = [number.endpoint.0, turn::SCHEDULED];
    Ok(statement.query_row(parameters, |row| row.get(0)).optional()?)
}
