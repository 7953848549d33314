//! Pruning: what has outlived its time goes, so many rows at a step.
//!
//! Messages and dead letters are walked, each from where the last step stopped. A delivery goes with
//! its attempts, and a message when none of its deliveries is left; a delivery that has more rows than
//! a step may change has a step of its own. Pages that become free go back to the file system.
//!
//! Whoever accepts waits for a step. What is looked at may have to come from the disk, so that a walk
//! also ends when its time is over, and goes on from there.

mod messages;

use std::time::Duration;

use domain::ids::AttemptId;
use domain::time::Timestamp;
use rusqlite::{Connection, params};

use super::connection::free_pages;
use super::writer::Writing;
use super::{Clock, codec, dead_letters, failure, missing, once, purge, rollups, tasks, tokens};
use crate::Error;
use crate::keys::{DeliveryKey, EndpointKey, MessageKey};

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
    purge::applications(writing, now, &mut allowance)?;
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
    if !among_dead_letters && messages::prune(writing, now, allowance)? {
        return Ok(true);
    }
    dead_letters::prune(writing, now, allowance)
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
