//! The rosters that accepting and sending share, read when they are needed and kept while they are
//! current. The accept itself finds out whether they are: a stale one is refused by the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use domain::policy::Policy;
use engine::Event;
use engine::roster::{Policies, Roster};
use store::Catalog;
use store::catalog::FanOut;
use store::keys::ApplicationKey;

use super::inbox::Inbox;
use super::timeline::Timeline;
use crate::turns::{Bounds, Turns};

/// How many bytes of settings are few enough to be taken in between two answers.
const FEW: usize = 64 << 10;
/// What an entry takes beside its roster, about.
const ENTRY: usize = 128;

/// One read at a time for each application. Accepts and the engine wait for it, and bound themselves how many do.
const ONE_EACH: Bounds = Bounds { each: 1, all: usize::MAX, waiting: usize::MAX };

/// The rosters of a node.
pub(crate) struct Rosters {
    catalog: Arc<dyn Catalog>,
    timeline: Arc<Timeline>,
    inbox: Arc<Inbox>,
    policies: RwLock<Arc<Policies>>,
    cached: RwLock<Cached>,
    /// Who reads a roster has its application's turn, so that many who find it stale read it once,
    /// and one application keeps only one reader of the store busy.
    turns: Arc<Turns<ApplicationKey>>,
    /// How many reads have begun.
    reads: AtomicU64,
}

/// What is kept in memory.
struct Cached {
    rosters: BTreeMap<ApplicationKey, Kept>,
    bytes: usize,
    most: usize,
    uses: AtomicU64,
}

struct Kept {
    roster: Arc<Roster>,
    /// Which read it is the answer to.
    began: u64,
    /// Which use was its last.
    used: AtomicU64,
}

impl Rosters {
    /// Begins with nothing read, and keeps so many bytes at the most.
    pub(crate) fn new(
        catalog: Arc<dyn Catalog>,
        policies: Policies,
        timeline: Arc<Timeline>,
        inbox: Arc<Inbox>,
        most: usize,
    ) -> Self {
        Self {
            catalog,
            timeline,
            inbox,
            policies: RwLock::new(Arc::new(policies)),
            cached: RwLock::new(Cached::new(most)),
            turns: Turns::new(ONE_EACH),
            reads: AtomicU64::new(0),
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
        let _turn = self.turns.take(application).await;
        if let Some(roster) = self.cached(application)
            && at_least.is_none_or(|revision| roster.revision >= revision)
        {
            return Ok(roster);
        }
        let began = self.timeline.moment().elapsed;
        let roster = self.read_in_turn(application).await?;
        // Before the message that asked for it is handed over: what was changed before a message
        // was sent to us counts for that message.
        self.inbox.post(Event::RosterSeen { roster: Arc::clone(&roster), began });
        Ok(roster)
    }

    /// Reads an application's roster whatever is in memory, unless a read that began after this was
    /// asked for has ended meanwhile.
    ///
    /// # Errors
    /// If the application is gone or the store fails.
    pub(crate) async fn read_now(
        &self,
        application: ApplicationKey,
    ) -> Result<Arc<Roster>, store::Error> {
        let asked = self.reads.load(Ordering::SeqCst);
        let _turn = self.turns.take(application).await;
        if let Some(roster) = self.lock_read().read_since(application, asked) {
            return Ok(roster);
        }
        self.read_in_turn(application).await
    }

    async fn read_in_turn(&self, application: ApplicationKey) -> Result<Arc<Roster>, store::Error> {
        let began = self.reads.fetch_add(1, Ordering::SeqCst);
        let read = self.catalog.fan_out(application, self.timeline.rows()).await;
        let fan_out = match read {
            Ok(fan_out) => fan_out,
            Err(error) => {
                self.forget(application);
                return Err(error);
            }
        };
        let roster = Arc::new(made(application, fan_out, self.policies()).await?);
        for member in &roster.members {
            if let Some(complaint) = &member.complaint {
                let endpoint = member.view.endpoint.id;
                tracing::warn!(endpoint.id = %endpoint, complaint, "a saved policy does not read");
            }
        }
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        cached.insert(Arc::clone(&roster), began);
        Ok(roster)
    }

    /// Returns an application's roster if it is in memory.
    pub(super) fn cached(&self, application: ApplicationKey) -> Option<Arc<Roster>> {
        self.lock_read().find(application)
    }

    fn lock_read(&self) -> RwLockReadGuard<'_, Cached> {
        self.cached.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a roster of what was read: a large one apart, because nothing else is answered meanwhile.
async fn made(
    application: ApplicationKey,
    fan_out: FanOut,
    policies: Arc<Policies>,
) -> Result<Roster, store::Error> {
    let large = Roster::bytes_to_read(&fan_out) > FEW;
    let make = move || Roster::read(application, fan_out, &policies).slim();
    if !large {
        return Ok(make());
    }
    tokio::task::spawn_blocking(make).await.map_err(|error| {
        let text = "an application's endpoints could not be taken in".to_owned();
        store::Error::Unavailable { text, source: Some(Box::new(error)) }
    })
}

impl Cached {
    fn new(most: usize) -> Self {
        Self { rosters: BTreeMap::new(), bytes: 0, most, uses: AtomicU64::new(0) }
    }

    fn find(&self, application: ApplicationKey) -> Option<Arc<Roster>> {
        let kept = self.rosters.get(&application)?;
        kept.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(Arc::clone(&kept.roster))
    }

    fn read_since(&self, application: ApplicationKey, asked: u64) -> Option<Arc<Roster>> {
        let kept = self.rosters.get(&application).filter(|kept| kept.began >= asked)?;
        Some(Arc::clone(&kept.roster))
    }

    fn insert(&mut self, roster: Arc<Roster>, began: u64) {
        let newer = |known: &Kept| known.roster.version > roster.version;
        if self.rosters.get(&roster.application).is_some_and(newer) {
            return;
        }
        self.remove(roster.application);
        self.bytes += roster.bytes() + ENTRY;
        let used = AtomicU64::new(self.uses.fetch_add(1, Ordering::Relaxed));
        self.rosters.insert(roster.application, Kept { roster, began, used });
        if self.bytes > self.most {
            self.evict();
        }
    }

    /// Drops those that were not used for longest, until there is some room again. The one that was
    /// used last stays, however large it is: it is read again otherwise for each message.
    fn evict(&mut self) {
        let used = self.rosters.iter();
        let mut used: Vec<_> =
            used.map(|(key, kept)| (kept.used.load(Ordering::Relaxed), *key)).collect();
        used.sort_unstable();
        used.pop();
        for (_, application) in used {
            if self.bytes <= self.most - self.most / 8 {
                return;
            }
            self.remove(application);
        }
    }

    fn remove(&mut self, application: ApplicationKey) {
        if let Some(kept) = self.rosters.remove(&application) {
            self.bytes -= kept.roster.bytes() + ENTRY;
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::ApplicationId;
    use domain::policy;
    use engine::roster::Read;

    use super::*;

    fn roster(application: i64, version: i64) -> Arc<Roster> {
        let server = Read::from(policy::preset("redial").unwrap());
        let policies = Policies { server, event_types: BTreeMap::new() };
        let application = ApplicationKey(application);
        let fan_out = FanOut {
            application: ApplicationId::from_bytes([1; 20]),
            revision: 1,
            version,
            policy: None,
            rate: None,
            endpoints: Vec::new(),
        };
        Arc::new(Roster::read(application, fan_out, &policies))
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_when_there_are_too_many_bytes() {
        let each = roster(1, 1).bytes() + ENTRY;
        let mut cached = Cached::new(8 * each);
        for application in 0..8 {
            cached.insert(roster(application, 1), 0);
        }
        assert!(cached.find(ApplicationKey(0)).is_some());
        cached.insert(roster(8, 1), 0);
        let kept: Vec<i64> = cached.rosters.keys().map(|key| key.0).collect();
        assert_eq!(kept, [0, 3, 4, 5, 6, 7, 8]);
        assert_eq!(cached.bytes, 7 * each);
        let mut small = Cached::new(1);
        small.insert(roster(1, 1), 0);
        small.insert(roster(2, 1), 0);
        assert!(small.find(ApplicationKey(1)).is_none());
        assert!(small.find(ApplicationKey(2)).is_some(), "the last one stays however large");
    }

    #[test]
    fn a_read_answers_those_who_asked_before_it_began() {
        let mut cached = Cached::new(1 << 20);
        cached.insert(roster(1, 2), 5);
        assert!(cached.read_since(ApplicationKey(1), 5).is_some());
        assert!(cached.read_since(ApplicationKey(1), 6).is_none());
        cached.insert(roster(1, 1), 7);
        assert!(cached.read_since(ApplicationKey(1), 6).is_none(), "an older one is not kept");
    }
}
