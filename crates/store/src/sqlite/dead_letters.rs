//! Dead letters whose own time is over: they go, also if their message stays.
//!
//! They are walked in the order of their index, so many at a step, from where the last step stopped
//! to the end. The next walk begins anew.

use domain::ids::AttemptId;
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::prune::{self, Allowance};
use super::writer::Writing;
use super::{codec, purge, walk};
use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};

/// The most dead letters that a step looks at, whether they go or not.
const LOOKED_AT: usize = 256;

/// Where a walk stands: an application, a message and an endpoint.
type Place = (i64, i64, i64);

/// A place before all dead letters.
const BEGINNING: Place = (i64::MIN, i64::MIN, i64::MIN);

/// Walks on from one dead letter to the next.
pub(super) const ONWARDS: &str =
    "SELECT application, message, endpoint, settled_at, recorded, last_attempt
    FROM deliveries INDEXED BY deliveries_dead
    WHERE state = 2 AND (application, message, endpoint) > (?1, ?2, ?3)
    ORDER BY application, message, endpoint LIMIT ?4";

/// What is known of a dead letter on the way.
struct Passed {
    key: DeliveryKey,
    settled_at: Option<Timestamp>,
    recorded: usize,
    last_attempt: Option<AttemptId>,
}

/// Tells whether the last step stopped among them.
pub(super) fn is_under_way(connection: &Connection) -> Result<bool, Error> {
    Ok(reached(connection)? != BEGINNING)
}

/// Removes what has been kept for long enough; tells whether it stopped before it came to the end.
pub(super) fn prune(
    writing: &mut Writing<'_>,
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<bool, Error> {
    if allowance.is_used_up() {
        return Ok(true);
    }
    let start = reached(writing.connection)?;
    let (last, passed) = pass(writing, start, allowance)?;
    let mut place = last.unwrap_or(BEGINNING);
    let mut walks_on = last.is_some();
    let mut before = start;
    for (number, one) in passed.into_iter().enumerate() {
        let DeliveryKey { application, message, endpoint } = one.key;
        let over = one.settled_at.is_some_and(|at| at.after(writing.dead_letters_kept) < now);
        let late = number > 0 && allowance.has_walked_enough();
        if over && (late || !allowance.take(1 + one.recorded)) {
            (place, walks_on) = (before, true);
            break;
        }
        if over {
            prune::remove_with_attempts(writing, one.key, one.last_attempt)?;
            purge::retire(writing, endpoint, allowance)?;
        }
        before = (application.0, message.0, endpoint.0);
    }
    if place != start {
        keep_reached(writing.connection, place)?;
    }
    Ok(walks_on)
}

/// Returns the place where it stopped, unless that is the end, and what is known of those behind one
/// that can be read. Needs the index `deliveries_dead` and the primary key of `deliveries`.
fn pass(
    writing: &Writing<'_>,
    start: Place,
    allowance: &Allowance,
) -> Result<(Option<Place>, Vec<Passed>), Error> {
    let mut statement = writing.connection.prepare_cached(ONWARDS)?;
    let mut rows = statement.query(params![start.0, start.1, start.2, LOOKED_AT])?;
    let mut passed = Vec::new();
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        passed.extend(walk::readable(writing.notes, row, of(row).map_err(Error::from))?);
        if count == LOOKED_AT || allowance.has_searched_enough() {
            let place = (row.get("application")?, row.get("message")?, row.get("endpoint")?);
            return Ok((Some(place), passed));
        }
    }
    Ok((None, passed))
}

fn of(row: &Row<'_>) -> rusqlite::Result<Passed> {
    Ok(Passed {
        key: DeliveryKey {
            application: ApplicationKey(row.get("application")?),
            endpoint: EndpointKey(row.get("endpoint")?),
            message: MessageKey(row.get("message")?),
        },
        settled_at: codec::time_if_any(row, "settled_at")?,
        recorded: row.get("recorded")?,
        last_attempt: codec::id_if_any(row, "last_attempt")?,
    })
}

/// Needs the primary key of `meta`.
fn reached(connection: &Connection) -> Result<Place, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'dead_letters_up_to'";
    let found = connection.prepare_cached(sql)?.query_row([], |row| {
        // What cannot be read is a walk that begins anew.
        Ok(row.get_ref(0)?.as_blob().ok().and_then(read_place).unwrap_or(BEGINNING))
    });
    Ok(found.optional()?.unwrap_or(BEGINNING))
}

fn read_place(bytes: &[u8]) -> Option<Place> {
    match bytes.as_chunks::<8>() {
        ([application, message, endpoint], []) => {
            let number = |bytes: &[u8; 8]| i64::from_be_bytes(*bytes);
            Some((number(application), number(message), number(endpoint)))
        }
        _ => None,
    }
}

/// Needs the primary key of `meta`.
fn keep_reached(connection: &Connection, place: Place) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES ('dead_letters_up_to', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    let (application, message, endpoint) = place;
    let bytes = [application, message, endpoint].map(i64::to_be_bytes).concat();
    connection.prepare_cached(sql)?.execute([bytes])?;
    Ok(())
}
