//! Pruning: what has outlived its time goes, so many rows at a step.
//!
//! Messages are walked by key, from where the last step stopped, and at most once around. A message
//! goes with its deliveries, attempts and idempotency key or not at all; one that has more rows than
//! a step may change has a step of its own. Dead letters can go before: they have a time of their
//! own. Pages that become free go back to the file system.
//!
//! Whoever accepts waits for a step. What is looked at may have to come from the disk, so that a walk
//! also ends when its time is over, and goes on from there.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::ids::{AttemptId, MessageId};
use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::connection::free_pages;
use super::writer::Writing;
use super::{
    Clock, codec, dead_letters, failure, missing, once, purge, rollups, tasks, tokens, walk,
};
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::{Error, limits};

/// The most rows that a step looks at, whether they go or not: messages, and the deliveries of those
/// whose time is over. The first message is looked at as a whole.
const LOOKED_AT: usize = 1_024;
/// The longest that the walks of a step look, and how much of that is for finding what may go: at least
/// one row is looked at in any case.
const LONGEST_WALK: Duration = Duration::from_millis(2);
const LONGEST_SEARCH: Duration = Duration::from_millis(1);
/// So many bytes of a payload count as one more row: to free its pages takes time, too.
pub(super) const BYTES_OF_A_ROW: usize = 16 * 1024;
/// Free pages that are kept for what comes next, and the most that a step gives back.
const SPARE_PAGES: i64 = 256;
const PAGES_PER_STEP: i64 = 128;

/// How many rows a step may still change, and for how long it may look for them.
pub(super) struct Allowance {
    most: usize,
    used: usize,
    clock: Clock,
    began_at: Timestamp,
}

impl Allowance {
    pub(super) fn of(most: usize, clock: &Clock) -> Self {
        Self { most, used: 0, clock: clock.clone(), began_at: clock() }
    }

    /// Tells whether the time for finding what may go is over.
    pub(super) fn has_searched_enough(&self) -> bool {
        (self.clock)().since(self.began_at) >= LONGEST_SEARCH
    }

    /// Tells whether the time for the walks is over.
    pub(super) fn has_walked_enough(&self) -> bool {
        (self.clock)().since(self.began_at) >= LONGEST_WALK
    }

    pub(super) fn left(&self) -> usize {
        self.most.saturating_sub(self.used)
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.left() == 0
    }

    pub(super) fn used(&mut self, rows: usize) {
        self.used += rows;
    }

    /// Uses it for something that is done as a whole; the first thing always fits.
    pub(super) fn take(&mut self, rows: usize) -> bool {
        let fits = self.most > 0 && (self.used == 0 || rows <= self.left());
        if fits {
            self.used += rows;
        }
        fits
    }
}

/// Does one step and returns how many rows it changed. If it removed none but there is more to look
/// at, or pages are still to be given back, where it got counts as one: the next step follows soon.
pub(super) fn prune(writing: &mut Writing<'_>, now: Timestamp, most: u32) -> Result<usize, Error> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut allowance = Allowance::of(most, writing.clock);
    purge::applications(writing, &mut allowance)?;
    purge::endpoints(writing, now, &mut allowance)?;
    let secrets = remove_secrets(writing.connection, now, allowance.left())?;
    allowance.used(secrets);
    let walks_on = walk(writing, now, &mut allowance)?;
    allowance.used(tasks::forget(writing.connection, now, allowance.left())?);
    allowance.used(tokens::forget(writing.connection, now, allowance.left())?);
    allowance.used(rollups::forget(writing.connection, now, allowance.left())?);
    allowance.used(once::forget_answers(writing.connection, now, allowance.left())?);
    allowance.used(once::forget_steps(writing.connection, now, allowance.left())?);
    let gives_more = give_back(writing)?;
    Ok(allowance.used.max(usize::from(walks_on || gives_more)))
}

/// Walks on over the messages and then over the dead letters; tells whether it stopped before it came
/// to the end of both. One after the other: two walks that begin anew by themselves would hardly ever
/// come to their ends in the same step, and there would be no rest.
fn walk(
    writing: &mut Writing<'_>,
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<bool, Error> {
    let among_dead_letters = dead_letters::is_under_way(writing.connection)?;
    if !among_dead_letters && prune_messages(writing, now, allowance)? {
        return Ok(true);
    }
    dead_letters::prune(writing, now, allowance)
}

/// Walks the messages from where the last step stopped, once around; tells whether it stopped before
/// it came to the last one.
fn prune_messages(
    writing: &mut Writing<'_>,
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<bool, Error> {
    let connection = writing.connection;
    let start = pruned_up_to(connection)?;
    let mut walk = Walked::default();
    next_messages(writing, (start, i64::MAX), (now, allowance), &mut walk)?;
    let mut walks_on = walk.stopped;
    if !walks_on && start > 0 {
        next_messages(writing, (0, start - 1), (now, allowance), &mut walk)?;
    }
    // Whoever stops in the middle goes on there; whoever looked at everything begins anew.
    let mut stopped_at = walk.last.filter(|_| walk.stopped).map_or(0, |last| last + 1);
    for (number, message) in walk.messages.iter().enumerate() {
        if allowance.is_used_up() || (number > 0 && allowance.has_walked_enough()) {
            (stopped_at, walks_on) = (message.key.0, true);
            break;
        }
        prune_idempotency(connection, message, now, allowance)?;
        let goes = message.retained_until < now && is_over(writing, message, now)?;
        if goes && !remove_message(writing, message, allowance)? {
            (stopped_at, walks_on) = (message.key.0, true);
            break;
        }
    }
    if stopped_at != start {
        set_pruned_up_to(connection, stopped_at)?;
    }
    Ok(walks_on)
}

/// What pruning needs to know of a message.
struct Candidate {
    key: MessageKey,
    application: i64,
    id: MessageId,
    idempotency: Option<[u8; 32]>,
    received_at: Timestamp,
    retained_until: Timestamp,
    /// Read only if its time is over.
    fan_out: Vec<EndpointKey>,
    payload_bytes: usize,
}

impl Candidate {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: MessageKey(row.get("key")?),
            application: row.get("application")?,
            id: codec::id(row, "id")?,
            idempotency: row.get("idempotency")?,
            received_at: codec::time(row, "received_at")?,
            retained_until: codec::time(row, "retained_until")?,
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
    now: Timestamp,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    if now.since(message.received_at) >= limits::IDEMPOTENCY {
        allowance.used(remove_key(connection, message)?);
    }
    Ok(())
}

/// Tells whether no delivery of a message has to be kept any longer. One that cannot be read has to
/// be, and so has its message: it must not keep the others from being pruned.
fn is_over(writing: &Writing<'_>, message: &Candidate, now: Timestamp) -> Result<bool, Error> {
    for endpoint in message.endpoints(writing.connection)? {
        let found = find_delivery(writing.connection, endpoint, message.key);
        let kept = match writing.notes.readable(found)? {
            Some(None) => false,
            None | Some(Some(Standing { state: codec::PENDING, .. })) => true,
            Some(Some(Standing { state: codec::DEAD, settled_at, .. })) => {
                settled_at.is_some_and(|settled| settled.after(writing.dead_letters_kept) >= now)
            }
            Some(Some(_)) => false,
        };
        if kept {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a message with all that is its; answers whether the allowance was enough for it.
fn remove_message(
    writing: &mut Writing<'_>,
    message: &Candidate,
    allowance: &mut Allowance,
) -> Result<bool, Error> {
    let connection = writing.connection;
    let endpoints = message.endpoints(connection)?;
    let mut rows = 1 + endpoints.len() + message.payload_bytes / BYTES_OF_A_ROW;
    let mut last_attempts = Vec::new();
    for endpoint in &endpoints {
        if let Some(delivery) = find_delivery(connection, *endpoint, message.key)? {
            rows += delivery.recorded;
            last_attempts.push((*endpoint, delivery.last_attempt));
        }
    }
    if !allowance.take(rows) {
        return Ok(false);
    }
    for (endpoint, last_attempt) in last_attempts {
        let application = ApplicationKey(message.application);
        let key = DeliveryKey { application, endpoint, message: message.key };
        remove_with_attempts(writing, key, last_attempt)?;
    }
    remove_key(connection, message)?;
    remove_row(connection, message.key)?;
    for endpoint in BTreeSet::from_iter(endpoints) {
        purge::retire(writing, endpoint, allowance)?;
    }
    Ok(true)
}

/// Removes a delivery and the chain of its attempts. The chain ends at an attempt that does not say
/// which was before it: those stay until their endpoint goes, and keep nothing else.
pub(super) fn remove_with_attempts(
    writing: &Writing<'_>,
    key: DeliveryKey,
    last_attempt: Option<AttemptId>,
) -> Result<(), Error> {
    let mut attempt = last_attempt;
    while let Some(id) = attempt {
        let previous = remove_attempt(writing.connection, key.endpoint, id);
        attempt = writing.notes.readable(previous)?.flatten();
    }
    remove_delivery(writing.connection, key.endpoint, key.message)
}

/// What pruning needs to know of a delivery.
struct Standing {
    state: i64,
    settled_at: Option<Timestamp>,
    recorded: usize,
    last_attempt: Option<AttemptId>,
}

/// Needs the primary key of `meta`.
fn pruned_up_to(connection: &Connection) -> Result<i64, Error> {
    let sql = "SELECT value FROM meta WHERE name = 'pruned_up_to'";
    // What cannot be read is a walk that begins anew.
    let read = |row: &Row<'_>| Ok(row.get_ref(0)?.as_i64().unwrap_or(0));
    let found = connection.prepare_cached(sql)?.query_row([], read).optional()?;
    Ok(found.unwrap_or(0))
}

/// Needs the primary key of `meta`.
fn set_pruned_up_to(connection: &Connection, key: i64) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, value) VALUES ('pruned_up_to', ?1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([key])?;
    Ok(())
}

/// Walks on over messages until there are enough. Needs the primary key of `messages`.
fn next_messages(
    writing: &Writing<'_>,
    (first, last): (i64, i64),
    (now, allowance): (Timestamp, &Allowance),
    walked: &mut Walked,
) -> Result<(), Error> {
    let sql = "SELECT key, application, id, idempotency, received_at, retained_until,
            CASE WHEN retained_until < ?3 THEN fan_out ELSE x'' END AS fan_out,
            coalesce(length(payload), 0) AS payload_bytes
        FROM messages WHERE key BETWEEN ?1 AND ?2 ORDER BY key";
    let mut statement = writing.connection.prepare_cached(sql)?;
    let mut rows = statement.query([first, last, now.as_micros()])?;
    loop {
        walked.stopped =
            walked.rows >= LOOKED_AT || (walked.rows > 0 && allowance.has_searched_enough());
        if walked.stopped {
            return Ok(());
        }
        let Some(row) = rows.next()? else { return Ok(()) };
        walked.last = Some(row.get("key")?);
        let read = Candidate::of(row).map_err(Error::from);
        let message = walk::readable(writing.notes, row, read)?;
        walked.rows += 1 + message.as_ref().map_or(0, |message| message.fan_out.len());
        walked.messages.extend(message);
    }
}

/// Messages that were walked by; the damaged ones are counted and stay.
#[derive(Default)]
struct Walked {
    messages: Vec<Candidate>,
    /// How many rows there are to look at, with their deliveries.
    rows: usize,
    last: Option<i64>,
    /// Whether it was enough before the end.
    stopped: bool,
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

/// Removes an attempt, and returns the one before it; if that cannot be read, an error that names the
/// attempt. Needs the primary key of `attempts`.
fn remove_attempt(
    connection: &Connection,
    endpoint: EndpointKey,
    id: AttemptId,
) -> Result<Option<AttemptId>, Error> {
    let sql = "DELETE FROM attempts WHERE endpoint = ?1 AND id = ?2
        RETURNING endpoint, message, id, previous";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![endpoint.0, id.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    codec::id_if_any(row, "previous").map_err(|error| failure::at_row(row, error.into()))
}

/// Needs the primary key of `deliveries`.
fn remove_delivery(
    connection: &Connection,
    endpoint: EndpointKey,
    message: MessageKey,
) -> Result<(), Error> {
    let sql = "DELETE FROM deliveries WHERE endpoint = ?1 AND message = ?2";
    connection.prepare_cached(sql)?.execute([endpoint.0, message.0])?;
    Ok(())
}

/// Removes a message's idempotency key, unless a later message has taken it over. Needs the
/// primary key of `idempotency`.
fn remove_key(connection: &Connection, message: &Candidate) -> Result<usize, Error> {
    let Some(hash) = message.idempotency else {
        return Ok(0);
    };
    let sql = "DELETE FROM idempotency WHERE application = ?1 AND hash = ?2 AND message = ?3";
    let parameters = params![message.application, hash, message.id.as_bytes()];
    Ok(connection.prepare_cached(sql)?.execute(parameters)?)
}

/// Removes a message's own row, and the list of what was made for it later. Needs the primary key
/// of `messages`.
pub(super) fn remove_row(connection: &Connection, key: MessageKey) -> Result<(), Error> {
    connection.prepare_cached("DELETE FROM messages WHERE key = ?1")?.execute([key.0])?;
    missing::forget_added(connection, key)
}

/// Needs the index `endpoint_secrets_expiring`.
fn remove_secrets(connection: &Connection, now: Timestamp, most: usize) -> Result<usize, Error> {
    let sql = "DELETE FROM endpoint_secrets WHERE (endpoint, number) IN (
            SELECT endpoint, number FROM endpoint_secrets INDEXED BY endpoint_secrets_expiring
            WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(sql)?.execute(params![now.as_micros(), most])?)
}

/// Gives some free pages back to the file system; tells whether there are more. Some are kept for
/// what comes next, unless they may hold something that was expunged.
fn give_back(writing: &Writing<'_>) -> Result<bool, Error> {
    let connection = writing.connection;
    let kept = if writing.wal.wants_no_free_pages() { 0 } else { SPARE_PAGES };
    let free = free_pages(connection)?;
    let pages = (free - kept).min(PAGES_PER_STEP);
    if pages <= 0 {
        return Ok(false);
    }
    // It takes no parameters, and each step of the statement gives back one page.
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    // A file that was restored from a dump may not be able to give any back.
    let left = free_pages(connection)?;
    Ok(left > kept && left < free)
}
