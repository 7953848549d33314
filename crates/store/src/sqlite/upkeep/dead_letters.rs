//! Dead letters whose own time is over: they go, also if their message stays.
//!
//! They are walked in the order of their index, so many at a step, from where the last step stopped
//! to the end. The next walk begins anew.

use domain::ids::AttemptId;
use domain::time::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::Error;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::sqlite::io::writer::Writing;
use crate::sqlite::row;
use crate::sqlite::upkeep::prune::Allowance;
use crate::sqlite::upkeep::{cursor, removal, tombstones};

/// The most dead letters that a step looks at, whether they go or not.
const LOOKED_AT: usize = 256;

/// The name of the place where the walk goes on.
const CURSOR: &str = "dead_letters_up_to";

/// Where a walk stands: an application, a message and an endpoint.
type Place = [i64; 3];

/// A place before all dead letters.
const BEGINNING: Place = [i64::MIN; 3];

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
pub(crate) fn prune(
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
            removal::remove_with_attempts(writing, one.key, one.last_attempt)?;
            tombstones::retire(writing, endpoint, allowance)?;
        }
        before = [application.0, message.0, endpoint.0];
    }
    if place != start {
        cursor::keep(writing.connection, CURSOR, place)?;
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
    let mut rows = statement.query(params![start[0], start[1], start[2], LOOKED_AT])?;
    let mut passed = Vec::new();
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        passed.extend(row::readable(writing.notes, row, of(row).map_err(Error::from))?);
        if count == LOOKED_AT || allowance.has_searched_enough() {
            let place = [row.get("application")?, row.get("message")?, row.get("endpoint")?];
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
        settled_at: row::time_if_any(row, "settled_at")?,
        recorded: row.get("recorded")?,
        last_attempt: row::id_if_any(row, "last_attempt")?,
    })
}

fn reached(connection: &Connection) -> Result<Place, Error> {
    Ok(cursor::read(connection, CURSOR)?.unwrap_or(BEGINNING))
}
