//! Counting deliveries, and removing dead letters by hand.

use std::ops::Range;

use domain::ids::MessageId;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::keys::{ApplicationKey, EndpointKey};
use crate::ledger::{Counts, MOST_COUNTED, MOST_WALKED, Tally, Within};
use crate::sqlite::io::reader::Reading;
use crate::sqlite::row;
use crate::{Error, limits};

/// Walks an endpoint's deliveries between two messages, newest first.
pub(super) const BETWEEN: &str = "SELECT d.application, d.state, d.cause, d.due, d.attempts,
        d.ambiguous, d.last_wait, d.expires_at, m.received_at
    FROM deliveries AS d CROSS JOIN messages AS m ON m.key = d.message
    WHERE d.endpoint = ?1 AND d.message > ?2 AND d.message < ?3
    ORDER BY d.message DESC LIMIT ?4";

/// Counts an endpoint's deliveries whose message was received within some time. Needs the primary
/// keys of `deliveries` and `messages`.
pub(super) fn by_state(
    reading: &Reading<'_>,
    (application, endpoint): (ApplicationKey, EndpointKey),
    range: &Range<Timestamp>,
) -> Result<Counts, Error> {
    reading.at_once(|| {
        let (first, last) = keys_around(reading.connection, application, range)?;
        let mut statement = reading.connection.prepare_cached(BETWEEN)?;
        let most = i64::from(MOST_WALKED);
        let mut rows = statement.query([endpoint.0, first, last, most + 1])?;
        let mut counts = Counts::begin();
        let mut walked = 0;
        while let Some(row) = rows.next()? {
            if walked == most {
                counts.complete = false;
                break;
            }
            walked += 1;
            let read = || Ok::<_, Error>((row::delivery_of(row)?, row::time(row, "received_at")?));
            let theirs = row.get::<_, i64>("application")? == application.0;
            if let Some((state, received_at)) = row::readable(reading.notes, row, read())?
                && theirs
                && range.contains(&received_at)
            {
                counts.add(state);
            }
        }
        Ok(counts)
    })
}

/// Counts dead letters. Needs the index `deliveries_dead`.
pub(crate) fn dead_letters(reading: &Reading<'_>, within: Within) -> Result<Tally, Error> {
    let (application, endpoint) = match within {
        Within::Whole => return all_dead_letters(reading),
        Within::Application(application) => (application, None),
        Within::Endpoint(application, endpoint) => (application, Some(endpoint)),
    };
    let sql = "SELECT count(*), count(*) FILTER (WHERE ?3 IS NULL OR endpoint = ?3)
        FROM (SELECT endpoint FROM deliveries INDEXED BY deliveries_dead
            WHERE application = ?1 AND state = 2 LIMIT ?2)";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let endpoint = endpoint.map(|endpoint| endpoint.0);
    let parameters = params![application.0, i64::from(MOST_COUNTED) + 1, endpoint];
    let (walked, counted) =
        statement.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Tally::up_to(MOST_COUNTED, walked, counted))
}

/// Needs the index `deliveries_dead`.
fn all_dead_letters(reading: &Reading<'_>) -> Result<Tally, Error> {
    let sql = "SELECT count(*) FROM (
            SELECT 1 FROM deliveries INDEXED BY deliveries_dead WHERE state = 2 LIMIT ?1)";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let counted = statement.query_row([i64::from(MOST_COUNTED) + 1], |row| row.get(0))?;
    Ok(Tally::up_to(MOST_COUNTED, counted, counted))
}

/// Returns the last message before, and the first behind, those that were received within some
/// time: ids tell when a message was made, and none is on its way for long.
fn keys_around(
    connection: &Connection,
    application: ApplicationKey,
    range: &Range<Timestamp>,
) -> Result<(i64, i64), Error> {
    let earliest = MessageId::first_at(range.start.before(limits::UNDER_WAY));
    let latest = MessageId::first_at(range.end.after(limits::UNDER_WAY));
    let first = last_before(connection, application, earliest)?.unwrap_or(i64::MIN);
    let last = first_from(connection, application, latest)?.unwrap_or(i64::MAX);
    Ok((first, last))
}

/// Needs the index `messages_id`.
fn last_before(
    connection: &Connection,
    application: ApplicationKey,
    id: MessageId,
) -> Result<Option<i64>, Error> {
    let sql = "SELECT key FROM messages WHERE application = ?1 AND id < ?2
        ORDER BY id DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let parameters = params![application.0, id.as_bytes()];
    Ok(statement.query_row(parameters, |row| row.get(0)).optional()?)
}

/// Needs the index `messages_id`.
fn first_from(
    connection: &Connection,
    application: ApplicationKey,
    id: MessageId,
) -> Result<Option<i64>, Error> {
    let sql = "SELECT key FROM messages WHERE application = ?1 AND id >= ?2 ORDER BY id LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let parameters = params![application.0, id.as_bytes()];
    Ok(statement.query_row(parameters, |row| row.get(0)).optional()?)
}
