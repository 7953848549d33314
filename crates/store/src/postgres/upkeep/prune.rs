//! Removing what has outlived its time.
//!
//! One step removes a limited number of rows. Most of them are found by walks over messages, dead
//! letters and tombstones; a cursor remembers where each of them got, and it begins anew when it has
//! come to the end. An advisory lock keeps nodes from walking at the same time.

use std::time::Duration;

use domain::time::Timestamp;

use crate::postgres::failure::Failure;
use crate::postgres::io::link::Transaction;
use crate::postgres::row::field;
use crate::postgres::upkeep::{dead_letters, memories, messages, removal, tombstones};
use crate::queue::Done;

/// What a step may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) now: Timestamp,
    pub(crate) most: u32,
    pub(crate) dead_letters_kept: Duration,
}

/// Does one step.
pub(super) async fn prune(
    transaction: &mut Transaction<'_>,
    limits: Limits,
) -> Result<Done, Failure> {
    if !lock(transaction).await? {
        return Ok(Done::Changed(0));
    }
    let mut left = limits.most;
    left -= removal::secrets(transaction, limits.now, left).await?.min(left);
    // A deleted application of any size leaves half of the step to the deleted endpoints of others.
    left -= removal::applications(transaction, limits.now, left / 2).await?.min(left);
    let tombstones = tombstones::Walk::on(transaction, limits.now, left).await?;
    left -= tombstones.changed.min(left);
    left -= removal::applications(transaction, limits.now, left).await?.min(left);
    let mut walks_on = false;
    if !tombstones.is_alone {
        (left, walks_on) = walk_on(transaction, limits, left).await?;
    }
    walks_on |= tombstones.keep(transaction, walks_on).await?;
    left -= memories::forget(transaction, limits.now, left).await?.min(left);
    // Where the walk got is a change, too: the next step is to follow soon.
    Ok(Done::Changed((limits.most - left).max(u32::from(walks_on))))
}

/// Tells whether nobody else prunes now.
async fn lock(transaction: &mut Transaction<'_>) -> Result<bool, Failure> {
    let statement = "select pg_try_advisory_xact_lock(\
                     hashtextextended('redial prune ' || current_schema(), 0)) as locked";
    let row = transaction.one(statement, &[]).await?;
    Ok(row.map_or(Ok(false), |row| field(&row, "locked"))?)
}

/// Walks on over the messages and then over the dead letters. Returns how many rows may still be
/// removed, and whether it stopped before it came to the end of both. One after the other: two walks
/// that begin anew by themselves would hardly ever come to their ends in the same step, and there
/// would be no rest.
async fn walk_on(
    transaction: &mut Transaction<'_>,
    limits: Limits,
    mut left: u32,
) -> Result<(u32, bool), Failure> {
    if !dead_letters::is_under_way(transaction).await? {
        let walks_on;
        (left, walks_on) = messages::walk(transaction, limits, left).await?;
        if walks_on {
            return Ok((left, true));
        }
    }
    dead_letters::walk(transaction, limits, left).await
}
