//! What a node does from time to time: pruning, sums, policies of event types, other nodes' calls,
//! damaged rows, the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::partition::Partition;
use domain::policy::Policy;
use engine::Event;
use engine::roster::read_policy;
use store::Catalog;
use store::page::{From, Page};
use store::queue::{Done, Upkeep};

use super::World;
use crate::committer::Rejected;

/// The most rows that one step of pruning removes.
const PRUNED_AT_ONCE: u32 = 200;
/// The wait between two steps while there is something to prune.
const WHILE_PRUNING: Duration = Duration::from_millis(10);
/// The wait after everything was looked at and nothing had to go.
const BETWEEN_PRUNING: Duration = Duration::from_secs(30);
/// How often sums are written.
const SUMS_EVERY: Duration = Duration::from_secs(10);
/// How often policies of event types are read.
const POLICIES_EVERY: Duration = Duration::from_secs(5);
/// The wait before listening again after the store failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked whether more rows were found damaged.
const COMPLAIN_EVERY: Duration = Duration::from_secs(30);
/// How often the store is asked for its time, where no renewal tells it: as often as one would.
const TIME_EVERY: Duration = Duration::from_secs(2);
/// The most event types on a page.
const PAGE: u32 = 250;

/// Removes what has outlived its time, in small steps. The owner of the first partition does it,
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
        tokio::time::sleep(wait).await;
    }
}

async fn prune_once(world: &World) -> Option<Done> {
    if !world.inbox.owns(Partition::from_number(0)?) {
        return None;
    }
    let step = Upkeep::Prune { now: world.timeline.rows(), most: PRUNED_AT_ONCE };
    match world.committer.upkeep(step).await {
        Ok(done) => Some(done),
        // Nobody expects a server that stops to prune.
        Err(Rejected::Closed) => None,
        Err(error @ (Rejected::Crowded(_) | Rejected::Store(_))) => {
            tracing::warn!(%error, "a step of pruning failed");
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
            Ok(partitions) => world.inbox.post(Event::Woken(partitions)),
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

/// Keeps the policies of event types fresh, and names each once that does not read.
pub(super) async fn policies(world: Arc<World>) {
    let mut told = BTreeMap::new();
    loop {
        match event_types(&*world.catalog).await {
            Ok(found) => {
                for (event_type, complaint) in &found.complaints {
                    if told.get(event_type) != Some(complaint) {
                        tracing::warn!(event_type, complaint, "a saved policy does not read");
                    }
                }
                told = found.complaints;
                if world.rosters.set_event_types(found.policies) {
                    world.inbox.post(Event::Policies(world.rosters.policies()));
                }
            }
            Err(error) => tracing::warn!(%error, "event types could not be read"),
        }
        let _called = tokio::time::timeout(POLICIES_EVERY, world.event_types.notified()).await;
    }
}

/// What event types set, by name.
#[derive(Debug, Default)]
pub(super) struct EventTypes {
    /// The policies that read.
    pub(super) policies: BTreeMap<String, Arc<Policy>>,
    /// What is wrong with the others: the next policy outwards applies instead.
    complaints: BTreeMap<String, String>,
}

/// Reads what event types set.
///
/// # Errors
/// If the store fails.
pub(super) async fn event_types(catalog: &dyn Catalog) -> Result<EventTypes, store::Error> {
    let mut found = EventTypes::default();
    let mut from = From::Start;
    loop {
        let listed = catalog.event_types(Page { from, limit: PAGE }).await?;
        for entry in listed.entries {
            match entry.settings.policy.as_ref().map(read_policy) {
                Some(Ok(read)) => drop(found.policies.insert(entry.name, read.policy)),
                Some(Err(error)) => drop(found.complaints.insert(entry.name, error.to_string())),
                None => {}
            }
        }
        match listed.reached {
            Some(reached) if !listed.done => from = From::After(reached),
            Some(_) | None => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;
    use serde_json::json;
    use store::catalog::{EventType, EventTypeSettings};
    use store::memory::{Memory, State};

    use super::*;

    #[tokio::test]
    async fn a_policy_of_an_event_type_that_does_not_read_is_named() {
        let at = Timestamp::EPOCH;
        let memory = Memory::new(State::default(), Box::new(move || at));
        let set = [
            ("good", Some(json!("redial"))),
            ("odd", Some(json!({ "policy": { "max_attempts": "many" } }))),
            ("without", None),
        ];
        for (name, policy) in set {
            let settings = EventTypeSettings { policy, ..Default::default() };
            let name = name.to_owned();
            let new = EventType { name, settings, created_at: at, updated_at: at };
            memory.create_event_type(new).await.unwrap();
        }
        let found = event_types(&memory).await.unwrap();
        assert_eq!(found.policies.keys().collect::<Vec<_>>(), ["good"]);
        assert_eq!(found.complaints.keys().collect::<Vec<_>>(), ["odd"]);
    }
}
