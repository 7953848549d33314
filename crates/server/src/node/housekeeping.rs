//! What a node does from time to time: pruning, sums, other nodes' calls, damaged rows, the time.

use std::sync::Arc;
use std::time::Duration;

use domain::partition::Partition;
use engine::Event;
use store::queue::{Done, Upkeep};

use super::World;
use crate::committer::Rejected;

/// The most rows that one step of pruning removes.
const PRUNED_AT_ONCE: u32 = 200;
/// The wait between two steps while there is something to prune.
const WHILE_PRUNING: Duration = Duration::from_millis(10);
/// The wait after everything was looked at and nothing had to go.
const BETWEEN_PRUNING: Duration = Duration::from_secs(30);
/// The most minutes whose sums one step adds to their hours.
const FOLDED_AT_ONCE: u32 = 200;
/// The wait before the first of these steps. Who counts again what a crash took must have done so: the sums
/// of an hour are taken for complete.
const BEFORE_FOLDING: Duration = Duration::from_secs(15 * 60);
/// The wait between two steps while there is something to fold, and otherwise.
const WHILE_FOLDING: Duration = Duration::from_millis(20);
const BETWEEN_FOLDING: Duration = Duration::from_secs(60);
/// How often sums are written.
const SUMS_EVERY: Duration = Duration::from_secs(10);
/// The wait before listening again after the store failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked whether more rows were found damaged.
const COMPLAIN_EVERY: Duration = Duration::from_secs(30);
/// How often the store is asked for its time, where no renewal tells it: as often as one would.
const TIME_EVERY: Duration = Duration::from_secs(2);

/// Removes what has outlived its time, in small steps, and buries what is pending for deleted endpoints:
/// so it is called after changes of the catalog. The owner of the first partition does it,
/// so that a fleet does not prune the same rows together.
pub(super) async fn prune(world: Arc<World>) {
    loop {
        let wait = match prune_once(&world).await {
            Some(Done::Changed(rows)) if rows > 0 => WHILE_PRUNING,
            Some(Done::Refused(reason)) => {
                tracing::warn!(%reason, "a step of pruning was refused");
                BETWEEN_PRUNING
            }
            Some(Done::Changed(_) | Done::Numbered { .. } | Done::Fenced) | None => BETWEEN_PRUNING,
        };
        let called = tokio::time::timeout(wait, world.pruning.notified()).await;
        if called.is_ok() {
            tokio::time::sleep(WHILE_PRUNING).await;
        }
    }
}

async fn prune_once(world: &World) -> Option<Done> {
    let step = Upkeep::Prune { now: world.timeline.rows(), most: PRUNED_AT_ONCE };
    alone(world, step, "a step of pruning failed").await
}

/// Adds the sums of old minutes to those of their hours, in small steps. The owner of the first partition
/// does it.
pub(super) async fn fold(world: Arc<World>) {
    tokio::time::sleep(BEFORE_FOLDING).await;
    loop {
        let wait = match fold_once(&world).await {
            Some(Done::Changed(minutes)) if minutes > 0 => WHILE_FOLDING,
            Some(Done::Refused(reason)) => {
                tracing::warn!(%reason, "a step that folds sums was refused");
                BETWEEN_FOLDING
            }
            Some(Done::Changed(_) | Done::Numbered { .. } | Done::Fenced) | None => BETWEEN_FOLDING,
        };
        tokio::time::sleep(wait).await;
    }
}

async fn fold_once(world: &World) -> Option<Done> {
    let step = Upkeep::Fold { now: world.timeline.rows(), most: FOLDED_AT_ONCE };
    alone(world, step, "a step that folds sums failed").await
}

/// Does a step of upkeep that one node of a fleet does for all: the owner of the first partition.
async fn alone(world: &World, step: Upkeep, failed: &'static str) -> Option<Done> {
    if !world.inbox.owns(Partition::from_number(0)?) {
        return None;
    }
    match world.committer.upkeep(step).await {
        Ok(done) => Some(done),
        // A server that stops does no such step.
        Err(Rejected::Closed) => None,
        Err(error @ (Rejected::Crowded(_) | Rejected::Store(_))) => {
            tracing::warn!(%error, "{failed}");
            None
        }
    }
}

/// Writes the sums that have gathered.
pub(super) async fn roll_up(world: Arc<World>) {
    loop {
        tokio::time::sleep(SUMS_EVERY).await;
        world.sums.flush(&world).await;
    }
}

/// Names each row once that does not read as what it should be, for whoever looks after the store.
/// What is wrong with it is not said: that may quote what is in it.
pub(super) async fn complain(world: Arc<World>) {
    let mut told = Vec::new();
    loop {
        tokio::time::sleep(COMPLAIN_EVERY).await;
        let damage = world.ledger.damage();
        for row in damage.iter().filter(|row| !told.contains(*row)) {
            tracing::error!(row = %row.what, "a row is damaged, and is passed over");
        }
        told = damage;
    }
}

/// Passes other nodes' calls on to the engine.
pub(super) async fn wakes(world: Arc<World>) {
    loop {
        match world.queue.woken().await {
            Ok(call) => world.inbox.post(Event::Woken(call)),
            Err(_) => tokio::time::sleep(AGAIN_AFTER).await,
        }
    }
}

/// Keeps to the store's clock, where nothing is sent and so nothing renewed.
pub(super) async fn time(world: Arc<World>) {
    loop {
        tokio::time::sleep(TIME_EVERY).await;
        if let Err(error) = world.timeline.hear(&*world.queue).await {
            tracing::warn!(%error, "the store did not tell its time");
        }
    }
}
