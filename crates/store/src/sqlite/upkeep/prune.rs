//! Pruning: what has outlived its time goes, so many rows at a step.
//!
//! Messages and dead letters are walked, each from where the last step stopped. A delivery goes with
//! its attempts, and a message when none of its deliveries is left; a delivery that has more rows than
//! a step may change has a step of its own. Pages that become free go back to the file system.
//!
//! Whoever accepts waits for a step. What is looked at may have to come from the disk, so that a walk
//! also ends when its time is over, and goes on from there.

use std::time::Duration;

use domain::time::Timestamp;

use crate::Error;
use crate::sqlite::Clock;
use crate::sqlite::io::connection::free_pages;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::upkeep::{dead_letters, memories, messages, removal, tombstones};

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
pub(crate) struct Allowance {
    most: usize,
    used: usize,
    clock: Clock,
    began_at: Timestamp,
}

impl Allowance {
    pub(crate) fn of(most: usize, clock: &Clock) -> Self {
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

    /// Returns half of what is left: what uses it leaves as much to others.
    fn half(&self) -> Self {
        let most = self.left() / 2;
        Self { most, used: 0, clock: self.clock.clone(), began_at: self.began_at }
    }

    pub(crate) fn left(&self) -> usize {
        self.most.saturating_sub(self.used)
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.left() == 0
    }

    pub(crate) fn used(&mut self, rows: usize) {
        self.used += rows;
    }

    /// Uses it for something that is done as a whole; the first thing always fits.
    pub(crate) fn take(&mut self, rows: usize) -> bool {
        let fits = self.most > 0 && (self.used == 0 || rows <= self.left());
        if fits {
            self.used += rows;
        }
        fits
    }
}

/// Does one step and returns how many rows it changed. If it removed none but there is more to look
/// at, or pages are still to be given back, where it got counts as one: the next step follows soon.
pub(crate) fn prune(writing: &mut Writing<'_>, now: Timestamp, most: u32) -> Result<usize, Error> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut allowance = Allowance::of(most, writing.clock);
    let secrets = removal::secrets(writing.connection, now, allowance.left())?;
    allowance.used(secrets);
    // A deleted application of any size leaves half of the step to the deleted endpoints of others.
    let mut half = allowance.half();
    removal::applications(writing, now, &mut half)?;
    allowance.used(half.used);
    tombstones::endpoints(writing, now, &mut allowance)?;
    removal::applications(writing, now, &mut allowance)?;
    let walks_on = walk(writing, now, &mut allowance)?;
    memories::forget(writing.connection, now, &mut allowance)?;
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
