//! What need not be kept of a message whose time is over.

use domain::ids::AttemptId;
use domain::time::Timestamp;
use rusqlite::Connection;

use crate::keys::{DeliveryKey, EndpointKey, MessageKey};
use crate::sqlite::io::writer::Writing;
use crate::sqlite::row;
use crate::sqlite::upkeep::messages::{Candidate, Place, Step, remove_key};
use crate::sqlite::upkeep::prune::BYTES_OF_A_ROW;
use crate::sqlite::upkeep::removal::{remove_row, remove_with_attempts};
use crate::sqlite::upkeep::tombstones;
use crate::{Error, codes};

/// Removes what need not be kept of a message whose time is over, and the message itself if nothing
/// stays. Returns where it stopped, if that was not at the end.
pub(super) fn prune_message(
    writing: &mut Writing<'_>,
    message: &Candidate,
    mut place: Place,
    step: &mut Step<'_>,
) -> Result<Option<Place>, Error> {
    let Some(settled_before) = message.term.settled_before(step.now) else {
        return Ok(None);
    };
    let endpoints = message.endpoints(writing.connection)?;
    if place.listed != endpoints.len() {
        place = Place { listed: endpoints.len(), ..Place::at(message.key.0) };
    }
    for endpoint in endpoints.into_iter().skip(place.passed) {
        if step.has_looked_enough() {
            return Ok(Some(place));
        }
        step.looked_at += 1;
        let key = DeliveryKey { application: message.application, endpoint, message: message.key };
        match fate(writing, key, settled_before, step.now)? {
            Fate::Gone => {}
            Fate::Stays => place.stays = true,
            Fate::Goes { recorded, last_attempt } => {
                if !step.allowance.take(1 + recorded) {
                    return Ok(Some(place));
                }
                remove_with_attempts(writing, key, last_attempt)?;
                tombstones::retire(writing, endpoint, step.allowance)?;
            }
        }
        place.passed += 1;
    }
    if !place.stays {
        if !step.allowance.take(1 + message.payload_bytes / BYTES_OF_A_ROW) {
            return Ok(Some(place));
        }
        remove_key(writing.connection, message)?;
        remove_row(writing.connection, message.key)?;
    }
    Ok(None)
}

/// What becomes of a delivery whose message's time is over.
enum Fate {
    /// It went before.
    Gone,
    Stays,
    Goes {
        recorded: usize,
        last_attempt: Option<AttemptId>,
    },
}

/// Tells what becomes of a delivery. One that cannot be read stays, and so does its message: it must
/// not keep the others from being pruned.
fn fate(
    writing: &Writing<'_>,
    key: DeliveryKey,
    settled_before: Timestamp,
    now: Timestamp,
) -> Result<Fate, Error> {
    let found = find_delivery(writing.connection, key.endpoint, key.message);
    let Some(found) = writing.notes.readable(found)? else {
        return Ok(Fate::Stays);
    };
    let Some(Standing { state, settled_at, recorded, last_attempt }) = found else {
        return Ok(Fate::Gone);
    };
    let settled = |before: Timestamp| settled_at.is_none_or(|at| at < before);
    let goes = match state {
        codes::PENDING => false,
        codes::DEAD => settled(now.before(writing.dead_letters_kept)),
        _ => settled(settled_before),
    };
    Ok(if goes { Fate::Goes { recorded, last_attempt } } else { Fate::Stays })
}

/// What pruning needs to know of a delivery.
struct Standing {
    state: i16,
    settled_at: Option<Timestamp>,
    recorded: usize,
    last_attempt: Option<AttemptId>,
}

/// Returns where a delivery stands; of one that cannot be read, an error that names it. Needs the
/// primary key of `deliveries`.
fn find_delivery(
    connection: &Connection,
    endpoint: EndpointKey,
    message: MessageKey,
) -> Result<Option<Standing>, Error> {
    let sql = "SELECT endpoint, message, state, settled_at, recorded, last_attempt FROM deliveries
        WHERE endpoint = ?1 AND message = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([endpoint.0, message.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let read = || -> rusqlite::Result<_> {
        Ok(Standing {
            state: row.get("state")?,
            settled_at: row::time_if_any(row, "settled_at")?,
            recorded: row.get("recorded")?,
            last_attempt: row::id_if_any(row, "last_attempt")?,
        })
    };
    read().map(Some).map_err(|error| row::at_row(row, error.into()))
}
