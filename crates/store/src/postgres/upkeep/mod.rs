//! The upkeep lane: small steps, one after the other, in one transaction.
//!
//! A step that names a lease locks its partition first, and does nothing if its epoch is not
//! current; until the transaction ends nobody can take the partition over.

mod bury;
mod prune;
mod removal;
mod replay;
mod request;
mod rollup;
mod run;

use std::time::Duration;

use tokio_postgres::types::Type;

pub(super) use self::request::ask;
pub(super) use self::rollup::subject;
use super::failure::Failure;
use super::link::{Access, Pool, Transaction};
use super::queue::{Again, Partitions, number};
use crate::keys::Lease;
use crate::queue::{Done, Upkeep};

/// Does a batch of steps. Returns the answers, and the partitions that have new work.
pub(super) async fn commit(
    pool: &Pool,
    dead_letter_retention: Duration,
    steps: Vec<Upkeep>,
) -> Result<(Vec<Done>, Partitions), Failure> {
    if steps.is_empty() {
        return Ok(<_>::default());
    }
    let mut again = Again::default();
    loop {
        let mut transaction = pool.begin(Access::Write).await?;
        let result = answer(&mut transaction, dead_letter_retention, &steps).await;
        match transaction.end(result).await {
            Ok(answers) => return Ok((answers, touched(&steps))),
            // Sums would be added twice if a lost commit had taken effect: only what was surely
            // rolled back is repeated here.
            Err(failure @ Failure::Conflict(_)) if again.after(&failure).await => {}
            Err(failure) => return Err(failure),
        }
    }
}

async fn answer(
    transaction: &mut Transaction<'_>,
    dead_letter_retention: Duration,
    steps: &[Upkeep],
) -> Result<Vec<Done>, Failure> {
    let mut answers = Vec::with_capacity(steps.len());
    for step in steps {
        let done = match step {
            Upkeep::Bury(bury) => bury::bury(transaction, bury).await?,
            Upkeep::Replay(replay) => replay::replay(transaction, replay).await?,
            Upkeep::Run { lease, application, endpoint, running } => {
                if is_current(transaction, *lease).await? {
                    run::run(transaction, (*application, *endpoint), running).await?
                } else {
                    Done::Fenced
                }
            }
            Upkeep::Ask(request) => {
                ask(transaction, request).await?;
                Done::Changed(1)
            }
            Upkeep::Consume { lease, requests } => {
                request::consume(transaction, *lease, requests).await?
            }
            Upkeep::RollUp(rollups) => rollup::roll_up(transaction, rollups).await?,
            Upkeep::Prune { now, most } => {
                let limits = prune::Limits { now: *now, most: *most, dead_letter_retention };
                prune::prune(transaction, limits).await?
            }
        };
        answers.push(done);
    }
    Ok(answers)
}

fn touched(steps: &[Upkeep]) -> Partitions {
    let mut touched = Partitions::default();
    for step in steps {
        match step {
            Upkeep::Replay(replay) => {
                replay.deliveries.iter().for_each(|delivery| touched.insert(delivery.1));
            }
            Upkeep::Ask(request) => touched.insert(request.partition),
            Upkeep::Bury(_)
            | Upkeep::Run { .. }
            | Upkeep::Consume { .. }
            | Upkeep::RollUp(_)
            | Upkeep::Prune { .. } => {}
        }
    }
    touched
}

/// Locks a partition against being taken over, if the lease on it is current.
///
/// Index: the primary key of partitions.
async fn is_current(transaction: &mut Transaction<'_>, lease: Lease) -> Result<bool, Failure> {
    let statement = "select 1 from partitions where number = $1 and epoch = $2 for share";
    let number = number(lease.partition);
    let parameters = [(&number as _, Type::INT2), (&lease.epoch.0 as _, Type::INT8)];
    Ok(transaction.one(statement, &parameters).await?.is_some())
}

/// Answers with a number of rows.
fn changed(rows: u64) -> Done {
    Done::Changed(u32::try_from(rows).unwrap_or(u32::MAX))
}
