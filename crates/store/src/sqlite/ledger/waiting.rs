//! What waits.

use std::collections::BTreeSet;

use domain::partition::Partition;
use domain::time::Timestamp;
use rusqlite::{OptionalExtension, params, params_from_iter};

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{Depth, MOST_COUNTED, MOST_WALKED, Tally, Within};
use crate::queue::Backlog;
use crate::queue::turn::{self, SCHEDULED};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::queue::load;
use crate::sqlite::row;

/// Finds the pending delivery of an endpoint that comes first in its order, but for scheduled ones.
pub(crate) const FIRST: &str = "SELECT message, application
    FROM deliveries INDEXED BY deliveries_pending
    WHERE endpoint = ?1 AND state = 0 AND turn < ?2 ORDER BY turn, message LIMIT 1";

/// Returns, of each of some FIFO endpoints, the delivery that comes first in its order. Needs the index
/// `deliveries_pending` and the primary key of `deliveries`.
pub(super) fn first_in_line(
    reading: &Reading<'_>,
    application: ApplicationKey,
    endpoints: &[EndpointKey],
) -> Result<Vec<DeliveryKey>, Error> {
    reading.at_once(|| {
        let mut statement = reading.connection.prepare_cached(FIRST)?;
        let mut found = Vec::with_capacity(endpoints.len());
        for endpoint in BTreeSet::from_iter(endpoints) {
            let read = statement.query_row(params![endpoint.0, SCHEDULED], |row| {
                Ok((MessageKey(row.get(0)?), ApplicationKey(row.get(1)?)))
            });
            let first = read.optional()?.filter(|(_, whose)| *whose == application);
            let key = |message| DeliveryKey { application, endpoint: *endpoint, message };
            found.extend(first.map(|(message, _)| key(message)));
        }
        Ok(found)
    })
}

/// Counts pending deliveries up to a limit: all of them, those of an application, those of an endpoint.
pub(crate) const COUNT_ALL: &str = "SELECT count(*) FROM (
    SELECT 1 FROM deliveries INDEXED BY deliveries_pending WHERE state = 0 LIMIT ?1)";
pub(crate) const COUNT_OF_APPLICATION: &str = "SELECT count(*) FROM (
    SELECT 1 FROM endpoints AS e INDEXED BY endpoints_id
    CROSS JOIN deliveries AS d INDEXED BY deliveries_pending ON d.endpoint = e.key AND d.state = 0
    WHERE e.application = ?2 LIMIT ?1)";
pub(crate) const COUNT_OF_ENDPOINT: &str = "SELECT count(*) FROM (
    SELECT 1 FROM deliveries INDEXED BY deliveries_pending
    WHERE endpoint = ?2 AND state = 0 LIMIT ?1)";

/// Finds the first turn of an endpoint from a turn on, and its due time.
pub(crate) const FROM: &str = "SELECT turn, due FROM deliveries INDEXED BY deliveries_pending
    WHERE endpoint = ?1 AND state = 0 AND turn >= ?2 ORDER BY turn, message LIMIT 1";

/// Counts what waits, up to a limit, and finds the earliest due time of those whose turn is first.
pub(super) fn depth(reading: &Reading<'_>, within: Within) -> Result<Depth, Error> {
    let most = i64::from(MOST_COUNTED) + 1;
    let count = |sql, whose: Option<i64>| {
        let mut statement = reading.connection.prepare_cached(sql)?;
        let parameters = [Some(most), whose].into_iter().flatten();
        statement.query_row(params_from_iter(parameters), |row| row.get::<_, u32>(0))
    };
    let counted = match within {
        Within::Whole => count(COUNT_ALL, None)?,
        Within::Application(key) => count(COUNT_OF_APPLICATION, Some(key.0))?,
        Within::Endpoint(_, key) => count(COUNT_OF_ENDPOINT, Some(key.0))?,
    };
    reading.next_piece();
    let oldest_due = match within {
        Within::Whole => {
            let waiting = load::waiting(reading, &Partition::all().collect::<Vec<_>>())?;
            Backlog::of(&waiting).oldest_due
        }
        Within::Application(key) => {
            let mut oldest = None;
            for endpoint in endpoints_of(reading, key)? {
                oldest = [oldest, first_due(reading, endpoint)?].into_iter().flatten().min();
            }
            oldest
        }
        Within::Endpoint(_, key) => first_due(reading, key)?,
    };
    Ok(Depth { waiting: Tally::up_to(MOST_COUNTED, counted, counted), oldest_due })
}

/// Returns when the first delivery of an endpoint is due: the one whose turn it is, or one that is
/// scheduled.
fn first_due(reading: &Reading<'_>, endpoint: EndpointKey) -> Result<Option<Timestamp>, Error> {
    let mut statement = reading.connection.prepare_cached(FROM)?;
    let mut first = |turn: i64| {
        let found = statement
            .query_row([endpoint.0, turn], |row| Ok((row.get::<_, i64>(0)?, row::time(row, 1)?)));
        Ok::<_, Error>(found.optional()?)
    };
    let Some((turn, due)) = first(i64::MIN)? else { return Ok(None) };
    // Turns of those that go by due time are far below: then this finds none.
    let scheduled = first(SCHEDULED)?.and_then(|(turn, _)| turn::due_if_scheduled(turn));
    Ok(Some(due).filter(|_| turn < SCHEDULED).into_iter().chain(scheduled).min())
}

/// Needs the index `endpoints_id`.
fn endpoints_of(
    reading: &Reading<'_>,
    application: ApplicationKey,
) -> Result<Vec<EndpointKey>, Error> {
    let sql = "SELECT key FROM endpoints INDEXED BY endpoints_id WHERE application = ?1 LIMIT ?2";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let rows = statement
        .query_map([application.0, i64::from(MOST_WALKED)], |row| Ok(EndpointKey(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
