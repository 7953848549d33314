//! The upkeep lane: small steps, one after the other, in one transaction.
//!
//! A step that names a lease locks its partition first, and does nothing if its epoch is not
//! current; until the transaction ends nobody can take the partition over.

mod bury;
mod cursor;
pub(super) mod dead_letters;
mod fold;
mod memories;
mod messages;
mod missing;
mod number;
pub(super) mod outlived;
mod prune;
pub(super) mod removal;
mod replay;
pub(super) mod request;
pub(super) mod rollup;
mod run;
mod tokens;
pub(super) mod tombstones;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_postgres::types::Type;

use crate::keys::{ApplicationKey, Lease};
use crate::postgres::failure::{Failure, said};
use crate::postgres::io::gate;
use crate::postgres::io::link::{Pool, Transaction};
use crate::postgres::io::partitions::{self, Partitions};
use crate::postgres::queue::batch::{Again, Parts};
use crate::queue::{Done, Upkeep};

/// Does a batch of steps. Returns the answers, and the partitions that have new work.
pub(crate) async fn commit(
    pool: &Pool,
    dead_letters_kept: Duration,
    steps: &[Upkeep],
) -> Result<(Vec<Done>, Partitions), Failure> {
    let mut answers = vec![Done::Fenced; steps.len()];
    let mut parts = Parts::of(steps.len());
    while let Some(part) = parts.next() {
        match repeat(pool, dead_letters_kept, &steps[part.clone()]).await {
            Ok(done) => answers[part].clone_from_slice(&done),
            Err(Failure::Data { source, .. }) => {
                if let Some(bad) = parts.split(part) {
                    answers[bad] = Done::Refused(said(&source));
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok((answers, touched(steps)))
}

/// Repeats after conflicts and lost connections. What would do more the second time is recognised.
async fn repeat(
    pool: &Pool,
    dead_letters_kept: Duration,
    steps: &[Upkeep],
) -> Result<Vec<Done>, Failure> {
    let mut again = Again::default();
    loop {
        let mut transaction = again.begin(pool).await?;
        gate::pass(&mut transaction, replayed(steps));
        let result = answer(&mut transaction, dead_letters_kept, steps).await;
        match transaction.end(result).await {
            Err(failure) if again.after(&failure).await => {}
            result => return result,
        }
    }
}

async fn answer(
    transaction: &mut Transaction<'_>,
    dead_letters_kept: Duration,
    steps: &[Upkeep],
) -> Result<Vec<Done>, Failure> {
    let mut answers = Vec::with_capacity(steps.len());
    for step in steps {
        let done = match step {
            Upkeep::Bury(bury) => bury::bury(transaction, bury).await?,
            Upkeep::Number(number) => number::number(transaction, number).await?,
            Upkeep::Replay(replay) => replay::replay(transaction, replay).await?,
            Upkeep::Run { lease, application, endpoint, running } => {
                if is_current(transaction, *lease).await? {
                    run::run(transaction, (*application, *endpoint), running).await?
                } else {
                    Done::Fenced
                }
            }
            Upkeep::Ask { once, request } => {
                if memories::is_new(transaction, once).await? {
                    request::ask(transaction, request).await?;
                }
                Done::Changed(1)
            }
            Upkeep::Consume { lease, requests } => {
                request::consume(transaction, *lease, requests).await?
            }
            Upkeep::RollUp { lease, once, rollups } => {
                rollup::roll_up(transaction, *lease, (once, rollups)).await?
            }
            Upkeep::Fold { now, most } => fold::fold(transaction, *now, *most).await?,
            Upkeep::Prune { now, most } => {
                let limits = prune::Limits { now: *now, most: *most, dead_letters_kept };
                prune::prune(transaction, limits).await?
            }
        };
        answers.push(done);
    }
    Ok(answers)
}

/// Lists the applications that replays hold until they end.
fn replayed(steps: &[Upkeep]) -> BTreeSet<ApplicationKey> {
    let mut applications = BTreeSet::new();
    for step in steps {
        match step {
            Upkeep::Replay(replay) => {
                applications.extend(replay.deliveries.iter().map(|row| row.key.application));
                applications.extend(replay.missing.iter().map(|missing| missing.application));
            }
            Upkeep::Bury(_)
            | Upkeep::Number(_)
            | Upkeep::Run { .. }
            | Upkeep::Ask { .. }
            | Upkeep::Consume { .. }
            | Upkeep::RollUp { .. }
            | Upkeep::Fold { .. }
            | Upkeep::Prune { .. } => {}
        }
    }
    applications
}

fn touched(steps: &[Upkeep]) -> Partitions {
    let mut touched = Partitions::default();
    for step in steps {
        match step {
            Upkeep::Replay(replay) => {
                replay.deliveries.iter().for_each(|delivery| touched.insert(delivery.partition));
                let missing = replay.missing.iter().flat_map(|missing| &missing.deliveries);
                missing.for_each(|delivery| touched.insert(delivery.1));
            }
            Upkeep::Ask { request, .. } => touched.insert(request.partition),
            Upkeep::Bury(_)
            | Upkeep::Number(_)
            | Upkeep::Run { .. }
            | Upkeep::Consume { .. }
            | Upkeep::RollUp { .. }
            | Upkeep::Fold { .. }
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
    let number = partitions::number(lease.partition);
    let parameters = [(&number as _, Type::INT2), (&lease.epoch.0 as _, Type::INT8)];
    Ok(transaction.one(statement, &parameters).await?.is_some())
}

fn rows(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Answers with a number of rows.
fn changed(rows: u64) -> Done {
    Done::Changed(self::rows(rows))
}
