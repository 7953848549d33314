//! Reading what was changed in the catalog: each page of the list, and what event types set if that is
//! part of it. The engine asks for it once a second, and when it is called; a node that does not send
//! asks by itself, because event types decide when a message expires.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::policy::Policy;
use domain::time::Timestamp;
use engine::Event;
use engine::roster::read_policy;
use store::catalog::{Changes, Schemas};
use store::page::{From, Page};
use store::queue::Call;
use store::{Catalog, limits};
use tokio::sync::Notify;

use super::World;

/// How often a node asks that does not send.
const EVERY: Duration = Duration::from_secs(1);
/// How old what event types set may become, whatever is counted: a node of an earlier version counts
/// nothing.
const OLDEST: Duration = Duration::from_secs(30);
/// How long a change has upkeep look for what it has left to do. It is heard of each second.
const YOUNG: Duration = Duration::from_secs(3);
/// The most event types on a page.
const PAGE: u32 = 250;

/// What is known of event types.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Which version of event types was read, and when on the clock that never jumps.
    event_types: Mutex<Option<(i64, Duration)>>,
    /// What was wrong with policies when they were last read.
    complaints: Mutex<BTreeMap<String, String>>,
    /// Called when something was changed here, on a node that does not send.
    called: Notify,
}

/// Reads what was changed since a moment of the store's clock.
///
/// # Errors
/// If the store does not answer.
pub(super) async fn read(world: &World, since: Option<Timestamp>) -> Result<Changes, store::Error> {
    let mut changes = world.catalog.changes(since, None).await?;
    let mut read = changes.applications.len();
    while read == limits::CHANGES {
        let after = changes.applications.last().copied();
        let more = world.catalog.changes(since, after).await?.applications;
        read = more.len();
        changes.applications.extend(more);
    }
    let young = changes.now.before(YOUNG);
    if changes.applications.iter().any(|change| change.at >= young) {
        world.pruning.notify_one();
    }
    let now = world.timeline.moment().elapsed;
    if world.heard.is_old(changes.event_types, now) {
        let found = event_types(&*world.catalog).await?;
        world.heard.complain(found.complaints);
        if world.rosters.set_event_types(found.policies) {
            world.inbox.post(Event::Policies(world.rosters.policies()));
        }
        world.heard.keep(changes.event_types, now);
    }
    Ok(changes)
}

/// Hears that something was changed here.
pub(super) fn call(world: &World) {
    world.inbox.post(Event::Woken(Call::Changed));
    world.heard.called.notify_one();
}

/// Reads changes again and again, where no engine asks for them.
pub(super) async fn follow(world: Arc<World>) {
    let mut since = None;
    loop {
        match read(&world, since).await {
            Ok(changes) => since = Some(changes.now.before(limits::CHANGING)),
            Err(error) => tracing::warn!(%error, "changes could not be read"),
        }
        let _called = tokio::time::timeout(EVERY, world.heard.called.notified()).await;
    }
}

impl Heard {
    fn is_old(&self, version: i64, now: Duration) -> bool {
        let known = *self.event_types.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_none_or(|(known, read)| known != version || now >= read.saturating_add(OLDEST))
    }

    fn keep(&self, version: i64, now: Duration) {
        let known = Some((version, now));
        *self.event_types.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Logs each policy once that does not read.
    fn complain(&self, complaints: BTreeMap<String, String>) {
        let mut told = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        for (event_type, complaint) in &complaints {
            if told.get(event_type) != Some(complaint) {
                tracing::warn!(event_type, complaint, "a saved policy does not read");
            }
        }
        *told = complaints;
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
        let listed = catalog.event_types(Schemas::Omitted, Page { from, limit: PAGE }).await?;
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
