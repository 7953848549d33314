//! Messages whose time is over, and their deliveries.
//!
//! Messages are walked by key, from where the last step stopped to the end; the next walk begins
//! anew. Of a message whose time is over each delivery goes that need not be kept, with its attempts,
//! and the message itself when none is left. A step may stop among the deliveries of a message, and
//! the next one goes on there: one message can have more of them than a step may look at.

use domain::ids::MessageId;
use domain::time::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::retention::Term;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::row;
use crate::sqlite::upkeep::prune::Allowance;
use crate::sqlite::upkeep::{cursor, missing, outlived};
use crate::{Error, limits};

/// The name of the place where the walk goes on.
const CURSOR: &str = "pruned_up_to";
/// The most messages that a step looks at, together with the deliveries of those whose time is over,
/// and the most deliveries.
const LOOKED_AT: usize = 1_024;

/// Where a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// At this message, or at the first behind it.
    pub(super) message: i64,
    /// So many of its deliveries were looked at.
    pub(super) passed: usize,
    /// So many were listed then. A replay may have made more: then it is looked at from the start.
    pub(super) listed: usize,
    /// Whether one of those that were looked at stays.
    pub(super) stays: bool,
}

impl Place {
    pub(super) fn at(message: i64) -> Self {
        Self { message, ..Self::default() }
    }
}

/// What a step may still do, and what it has done.
pub(super) struct Step<'a> {
    pub(super) now: Timestamp,
    pub(super) allowance: &'a mut Allowance,
    /// How many deliveries it has looked at.
    pub(super) looked_at: usize,
}

impl Step<'_> {
    /// Tells whether no further delivery is to be looked at. One is in any case.
    pub(super) fn has_looked_enough(&self) -> bool {
        self.looked_at >= LOOKED_AT || (self.looked_at > 0 && self.allowance.has_walked_enough())
    }
}

/// Walks on; tells whether it stopped before it came to the last message.
pub(crate) fn prune(
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
        if let Some(place) = outlived::prune_message(writing, message, place, &mut step)? {
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
pub(super) struct Candidate {
    pub(super) key: MessageKey,
    pub(super) application: ApplicationKey,
    pub(super) id: MessageId,
    pub(super) idempotency: Option<[u8; 32]>,
    pub(super) term: Term,
    /// Read only if its time is over.
    pub(super) fan_out: Vec<EndpointKey>,
    pub(super) payload_bytes: usize,
}

impl Candidate {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: MessageKey(row.get("key")?),
            application: ApplicationKey(row.get("application")?),
            id: row::id(row, "id")?,
            idempotency: row.get("idempotency")?,
            term: Term {
                received_at: row::time(row, "received_at")?,
                deliver_at: row::time_if_any(row, "deliver_at")?,
                retained_until: row::time(row, "retained_until")?,
            },
            fan_out: row::fan_out_of(row)?,
            payload_bytes: row.get("payload_bytes")?,
        })
    }

    /// Returns the endpoints that it went to, at once or later.
    pub(super) fn endpoints(&self, connection: &Connection) -> Result<Vec<EndpointKey>, Error> {
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

fn reached(connection: &Connection) -> Result<Place, Error> {
    Ok(cursor::read(connection, CURSOR)?.and_then(read_place).unwrap_or_default())
}

fn read_place([message, passed, listed, stays]: [i64; 4]) -> Option<Place> {
    let count = |number: i64| usize::try_from(number).ok();
    Some(Place { message, passed: count(passed)?, listed: count(listed)?, stays: stays != 0 })
}

fn keep_reached(connection: &Connection, place: Place) -> Result<(), Error> {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let numbers = [place.message, count(place.passed), count(place.listed), i64::from(place.stays)];
    cursor::keep(connection, CURSOR, numbers)
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
        let message = row::readable(writing.notes, row, read)?;
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

/// Removes a message's idempotency key, unless a later message has taken it over. Needs the
/// primary key of `idempotency`.
pub(super) fn remove_key(connection: &Connection, message: &Candidate) -> Result<usize, Error> {
    let Some(hash) = message.idempotency else {
        return Ok(0);
    };
    let sql = "DELETE FROM idempotency WHERE application = ?1 AND hash = ?2 AND message = ?3";
    let parameters = params![message.application.0, hash, message.id.as_bytes()];
    Ok(connection.prepare_cached(sql)?.execute(parameters)?)
}
