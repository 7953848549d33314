//! Messages whose time is over, and their deliveries.
//!
//! Messages are walked by key, from where the last step stopped to the end; the next walk begins
//! anew. Of a message whose time is over each delivery goes that need not be kept, with its attempts,
//! and the message itself when none is left. A step may stop among the deliveries of a message, and
//! the next one goes on there: one message can have more of them than a step may look at.

use domain::ids::{AttemptId, MessageId};
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::writer::Writing;
use super::super::{codec, failure, missing, purge, walk};
use super::{Allowance, BYTES_OF_A_ROW, remove_row, remove_with_attempts};
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::retention::Term;
use crate::{Error, limits};

/// The most messages that a step looks at, together with the deliveries of those whose time is over,
/// and the most deliveries.
const LOOKED_AT: usize = 1_024;

/// Where a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    /// At this message, or at the first behind it.
    message: i64,
    /// So many of its deliveries were looked at.
    passed: usize,
    /// So many were listed then. A replay may have made more: then it is looked at from the start.
    listed: usize,
    /// Whether one of those that were looked at stays.
    stays: bool,
}

impl Place {
    fn at(message: i64) -> Self {
        Self { message, ..Self::default() }
    }
}

/// What a step may still do, and what it has done.
struct Step<'a> {
    now: Timestamp,
    allowance: &'a mut Allowance,
    /// How many deliveries it has looked at.
    looked_at: usize,
}

impl Step<'_> {
    /// Tells whether no further delivery is to be looked at. One is in any case.
    fn has_looked_enough(&self) -> bool {
        self.looked_at >= LOOKED_AT || (self.looked_at > 0 && self.allowance.has_walked_enough())
    }
}

/// Walks on; tells whether it stopped before it came to the last message.
pub(super) fn prune(
    writing: &mut Writing<'_>,
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<bool, Error> {
    let start = reached(writing.connection)?;
    let walked = next_messages(writing, start.message, now, allowance)?;
    // Whoever stops in the middle goes on there; whoever came to the end begins anew.
    let mut end = walked.stopped_at.map(Place::at);
    let mut step = Step { now, allowance, looked_at: 0 };
    for (number, message) in walked.messages.iter().enumerate() {
        let key = message.key.0;
        let place = if key == start.message { start } else { Place::at(key) };
        if step.allowance.is_used_up() || (number > 0 && step.allowance.has_walked_enough()) {
            end = Some(place);
            break;
        }
        prune_idempotency(writing.connection, message, &mut step)?;
        if let Some(place) = prune_message(writing, message, place, &mut step)? {
            end = Some(place);
            break;
        }
    }
    let place = end.unwrap_or_default();
    if place != start {
        keep_reached(writing.connection, place)?;
    }
    Ok(end.is_some())
}

/// What pruning needs to know of a message.
struct Candidate {
    key: MessageKey,
    application: ApplicationKey,
    id: MessageId,
    idempotency: Option<[u8; 32]>,
    term: Term,
    /// Read only if its time is over.
    fan_out: Vec<EndpointKey>,
    payload_bytes: usize,
}

impl Candidate {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: MessageKey(row.get("key")?),
            application: ApplicationKey(row.get("application")?),
            id: codec::id(row, "id")?,
            idempotency: row.get("idempotency")?,
            term: Term {
                received_at: codec::time(row, "received_at")?,
                deliver_at: codec::time_if_any(row, "deliver_at")?,
                retained_until: codec::time(row, "retained_until")?,
            },
            fan_out: codec::fan_out_of(row)?,
            payload_bytes: row.get("payload_bytes")?,
        })
    }

    /// Returns the endpoints that it went to, at once or later.
    fn endpoints(&self, connection: &Connection) -> Result<Vec<EndpointKey>, Error> {
        let mut endpoints = self.fan_out.clone();
        endpoints.extend(missing::added(connection, self.key)?);
        Ok(endpoints)
    }
}

/// Removes a message's idempotency key when its time is over.
fn prune_idempotency(
    connection: &Connection,
    message: &Candidate,
    step: &mut Step<'_>,
) -> Result<(), Error> {
    if step.now.since(message.term.received_at) >= limits::IDEMPOTENCY {
        step.allowance.used(remove_key(connection, message)?);
    }
    Ok(())
}

/// Removes what need not be kept of a message whose time is over, and the message itself if nothing
/// stays. Returns where it stopped, if that was not at the end.
fn prune_message(
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
                purge::retire(writing, endpoint, step.allowance)?;
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
        codec::PENDING => false,
        codec::DEAD => settled(now.before(writing.dead_letters_kept)),
        _ => settled(settled_before),
    };
    Ok(if goes { Fate::Goes { recorded, last_attempt } } else { Fate::Stays })
}

/// Needs the primary key of `meta`.
fn reached(connection: &Connection) -> Result<Place, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'pruned_up_to'";
    // What cannot be read is a walk that begins anew.
    let read = |row: &Row<'_>| Ok(row.get_ref(0)?.as_blob().ok().and_then(read_place));
    let found = connection.prepare_cached(sql)?.query_row([], read).optional()?;
    Ok(found.flatten().unwrap_or_default())
}

fn read_place(bytes: &[u8]) -> Option<Place> {
    let number = |bytes: &[u8; 8]| i64::from_be_bytes(*bytes);
    let count = |bytes: &[u8; 8]| usize::try_from(number(bytes)).ok();
    match bytes.as_chunks::<8>() {
        ([message, passed, listed, stays], []) => Some(Place {
            message: number(message),
            passed: count(passed)?,
            listed: count(listed)?,
            stays: number(stays) != 0,
        }),
        _ => None,
    }
}

/// Needs the primary key of `meta`.
fn keep_reached(connection: &Connection, place: Place) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES ('pruned_up_to', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let numbers = [place.message, count(place.passed), count(place.listed), i64::from(place.stays)];
    connection.prepare_cached(sql)?.execute([numbers.map(i64::to_be_bytes).concat()])?;
    Ok(())
}

/// Walks on over messages until there are enough. Needs the primary key of `messages`.
fn next_messages(
    writing: &Writing<'_>,
    first: i64,
    now: Timestamp,
    allowance: &Allowance,
) -> Result<Walked, Error> {
    // What comes behind the payload is read only where it is needed.
    let sql = "SELECT key, application, id, idempotency, received_at, retained_until,
            CASE WHEN retained_until < ?2 THEN fan_out ELSE x'' END AS fan_out,
            coalesce(length(payload), 0) AS payload_bytes,
            CASE WHEN retained_until < ?2 THEN deliver_at END AS deliver_at
        FROM messages WHERE key >= ?1 ORDER BY key";
    let mut statement = writing.connection.prepare_cached(sql)?;
    let mut rows = statement.query([first, now.as_micros()])?;
    let mut walked = Walked::default();
    let (mut looked_at, mut last) = (0, first);
    loop {
        if looked_at >= LOOKED_AT || (looked_at > 0 && allowance.has_searched_enough()) {
            walked.stopped_at = Some(last + 1);
            return Ok(walked);
        }
        let Some(row) = rows.next()? else { return Ok(walked) };
        last = row.get("key")?;
        let read = Candidate::of(row).map_err(Error::from);
        let message = walk::readable(writing.notes, row, read)?;
        looked_at += 1 + message.as_ref().map_or(0, |message| message.fan_out.len());
        walked.messages.extend(message);
    }
}

/// Messages that were walked by; the damaged ones are counted and stay.
#[derive(Default)]
struct Walked {
    messages: Vec<Candidate>,
    /// The place behind them, if it was enough before the end.
    stopped_at: Option<i64>,
}

/// What pruning needs to know of a delivery.
struct Standing {
    state: i64,
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
            settled_at: codec::time_if_any(row, "settled_at")?,
            recorded: row.get("recorded")?,
            last_attempt: codec::id_if_any(row, "last_attempt")?,
        })
    };
    read().map(Some).map_err(|error| failure::at_row(row, error.into()))
}

/// Removes a message's idempotency key, unless a later message has taken it over. Needs the
/// primary key of `idempotency`.
fn remove_key(connection: &Connection, message: &Candidate) -> Result<usize, Error> {
    let Some(hash) = message.idempotency else {
        return Ok(0);
    };
    let sql = "DELETE FROM idempotency WHERE application = ?1 AND hash = ?2 AND message = ?3";
    let parameters = params![message.application.0, hash, message.id.as_bytes()];
    Ok(connection.prepare_cached(sql)?.execute(parameters)?)
}
