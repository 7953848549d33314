//! The rosters that accepting and sending share, read when they are needed and kept while they are
//! current. The accept itself finds out whether they are: a stale one is refused by the store.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use domain::policy::Policy;
use engine::Event;
use engine::roster::{Policies, Roster};
use store::Catalog;
use store::keys::ApplicationKey;
use tokio::sync::Mutex;

use super::changes::Changes;
use super::inbox::Inbox;
use super::timeline::Timeline;

/// The most endpoints in all rosters that are kept.
const MOST_ENDPOINTS: usize = 100_000;
/// How many applications may be read at once.
const READERS: usize = 16;

/// The rosters of a node.
pub(crate) struct Rosters {
    catalog: Arc<dyn Catalog>,
    timeline: Arc<Timeline>,
    inbox: Arc<Inbox>,
    policies: RwLock<Arc<Policies>>,
    cached: RwLock<Cached>,
    /// What changed here and is being read.
    pub(super) changes: Changes,
    /// Whoever reads a roster holds one of these, so that a crowd that finds a roster stale reads
    /// it once.
    reading: [Mutex<()>; READERS],
}

#[derive(Default)]
struct Cached {
    rosters: BTreeMap<ApplicationKey, Arc<Roster>>,
    endpoints: usize,
}

impl Rosters {
    /// Begins with nothing read.
    pub(crate) fn new(
        catalog: Arc<dyn Catalog>,
        policies: Policies,
        timeline: Arc<Timeline>,
        inbox: Arc<Inbox>,
    ) -> Self {
        Self {
            catalog,
            timeline,
            inbox,
            policies: RwLock::new(Arc::new(policies)),
            cached: RwLock::default(),
            changes: Changes::default(),
            reading: Default::default(),
        }
    }

    /// Returns the policies that apply beyond endpoints and applications.
    pub(crate) fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.policies.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the policies of event types; tells whether they changed.
    pub(crate) fn set_event_types(&self, event_types: BTreeMap<String, Arc<Policy>>) -> bool {
        let before = self.policies();
        if before.event_types == event_types {
            return false;
        }
        let policies = Policies { server: before.server.clone(), event_types };
        *self.policies.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policies);
        true
    }

    /// Returns an application's roster, from memory if it is there.
    ///
    /// # Errors
    /// If the application is gone or the store fails.
    pub(crate) async fn current(
        &self,
        application: ApplicationKey,
    ) -> Result<Arc<Roster>, store::Error> {
        match self.cached(application) {
            Some(roster) => Ok(roster),
            None => self.read(application, None).await,
        }
    }

    /// Reads an application's roster again, unless somebody just did and it is new enough.
    ///
    /// # Errors
    /// If the application is gone or the store fails.
    pub(crate) async fn at_least(
        &self,
        application: ApplicationKey,
        revision: i64,
    ) -> Result<Arc<Roster>, store::Error> {
        self.read(application, Some(revision)).await
    }

    /// Forgets an application's roster: it changed here.
    pub(crate) fn forget(&self, application: ApplicationKey) {
        self.cached.write().unwrap_or_else(PoisonError::into_inner).remove(application);
    }

    async fn read(
        &self,
        application: ApplicationKey,
        at_least: Option<i64>,
    ) -> Result<Arc<Roster>, store::Error> {
        let reader = usize::try_from(application.0).unwrap_or(0) % READERS;
        let _turn = match self.reading.get(reader) {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        if let Some(roster) = self.cached(application)
            && at_least.is_none_or(|revision| roster.revision >= revision)
        {
            return Ok(roster);
        }
        let roster = self.read_now(application).await?;
        // Before the message that asked for it is handed over: what was changed before a message
        // was sent to us counts for that message.
        let answer = Ok(Some(Arc::clone(&roster)));
        self.inbox.post(Event::RosterSeen { application, answer });
        Ok(roster)
    }

    /// Reads an application's roster whatever is in memory.
    ///
    /// # Errors
    /// If the application is gone or the store fails.
    pub(crate) async fn read_now(
        &self,
        application: ApplicationKey,
    ) -> Result<Arc<Roster>, store::Error> {
        let read = self.catalog.fan_out(application, self.timeline.rows()).await;
        let fan_out = match read {
            Ok(fan_out) => fan_out,
            Err(error) => {
                self.forget(application);
                return Err(error);
            }
        };
        let roster = Arc::new(Roster::read(application, fan_out, &self.policies()));
        for member in &roster.members {
            if let Some(complaint) = &member.complaint {
                let endpoint = member.view.endpoint.id;
                tracing::warn!(endpoint.id = %endpoint, complaint, "a saved policy does not read");
            }
        }
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        cached.insert(Arc::clone(&roster));
        Ok(roster)
    }

    fn cached(&self, application: ApplicationKey) -> Option<Arc<Roster>> {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        cached.rosters.get(&application).cloned()
    }
}

impl Cached {
    fn insert(&mut self, roster: Arc<Roster>) {
        let newer = |known: &Arc<Roster>| known.version > roster.version;
        if self.rosters.get(&roster.application).is_some_and(newer) {
            return;
        }
        self.remove(roster.application);
        self.endpoints += roster.members.len() + 1;
        self.rosters.insert(roster.application, roster);
        // What is dropped is read again when it is needed; which one does not matter much.
        while self.endpoints > MOST_ENDPOINTS && self.rosters.len() > 1 {
            let Some(first) = self.rosters.keys().next().copied() else { break };
            self.remove(first);
        }
    }

    fn remove(&mut self, application: ApplicationKey) {
        if let Some(roster) = self.rosters.remove(&application) {
            self.endpoints -= roster.members.len() + 1;
        }
    }
}
