//! Upkeep, step by step: burying, running states, requests. Numbers, replays, sums and pruning have
//! files of their own.

mod bury;
mod cursor;
mod dead_letters;
mod fold;
mod memories;
mod messages;
pub(super) mod missing;
pub(super) mod number;
mod outlived;
pub(super) mod prune;
pub(super) mod removal;
mod replay;
pub(super) mod request;
mod rollup;
pub(super) mod run;
mod tokens;
pub(super) mod tombstones;

use crate::Error;
use crate::queue::{Bury, Done, Number, Upkeep};
use crate::sqlite::io::writer::Writing;

/// Does one step. One that meets a row which cannot be read is taken back and refused, so that it
/// harms nothing else in the batch.
pub(crate) fn keep_up_alone(writing: &mut Writing<'_>, step: &Upkeep) -> Result<Done, Error> {
    let connection = writing.connection;
    connection.prepare_cached("SAVEPOINT upkeep")?.execute([])?;
    let set_aside = writing.memo.set_aside();
    let done = match keep_up(writing, step) {
        Err(error @ Error::Damaged { .. }) => {
            connection.prepare_cached("ROLLBACK TO upkeep")?.execute([])?;
            writing.memo.take_back_to(set_aside);
            Done::Refused(error.to_string())
        }
        done => done?,
    };
    connection.prepare_cached("RELEASE upkeep")?.execute([])?;
    Ok(done)
}

fn keep_up(writing: &mut Writing<'_>, step: &Upkeep) -> Result<Done, Error> {
    let connection = writing.connection;
    let fence = match step {
        Upkeep::Bury(Bury { lease, .. })
        | Upkeep::Run { lease, .. }
        | Upkeep::Consume { lease, .. }
        | Upkeep::Number(Number { lease, .. }) => Some(*lease),
        Upkeep::Replay(replay) => Some(replay.lease),
        Upkeep::RollUp { lease, .. } => *lease,
        Upkeep::Ask { .. } | Upkeep::Fold { .. } | Upkeep::Prune { .. } => None,
    };
    if fence.is_some_and(|lease| !writing.memo.is_current(lease)) {
        return Ok(Done::Fenced);
    }
    let changed = match step {
        Upkeep::Bury(bury) => bury::bury(connection, bury)?,
        Upkeep::Number(scheduled) => return number::number(writing, scheduled),
        Upkeep::Replay(chunk) => return replay::replay(writing, chunk),
        Upkeep::Run { application, endpoint, running, .. } => {
            run::put(connection, *application, *endpoint, running)?
        }
        Upkeep::Ask { once, request } => {
            if memories::is_new(connection, once)? {
                request::ask(connection, request)?;
            }
            1
        }
        Upkeep::Consume { lease, requests } => request::consume(connection, *lease, requests)?,
        Upkeep::RollUp { once, rollups: sums, .. } => {
            if memories::is_new(connection, once)? {
                rollup::add_all(connection, sums)?;
            }
            sums.len()
        }
        Upkeep::Fold { now, most } => fold::fold(connection, *now, *most)?,
        Upkeep::Prune { now, most } => prune::prune(writing, *now, *most)?,
    };
    Ok(Done::Changed(u32::try_from(changed).unwrap_or(u32::MAX)))
}
