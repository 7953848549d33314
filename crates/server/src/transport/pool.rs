//! Connections that wait to be used again.
//!
//! Each wait at their site, which is one receiver as one application reaches it under one state of
//! the guard; the last one to come is the first to go, so that the others grow old and are closed.
//! Nothing here runs by itself: [`Pool::sweep`] has to be called now and then.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::address::{POOL_MAX_AGE, PoolKey};
use domain::time::Timestamp;

use super::exchange::Wire;

/// How many connections wait, and how long.
#[derive(Debug, Clone, Copy)]
pub struct PoolLimits {
    /// The most that wait at one site.
    pub idle_per_site: usize,
    /// The most that wait at all sites together.
    pub idle_overall: usize,
    /// How long one waits before it is closed.
    pub idle_time: Duration,
    /// The age at which one is closed, used or not.
    pub age: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            // Many endpoints may be at one site, and a few busy sites must not fill the pool.
            idle_per_site: 256,
            idle_overall: 1_024,
            idle_time: Duration::from_secs(20),
            age: POOL_MAX_AGE,
        }
    }
}

/// All waiting connections.
pub(super) struct Pool {
    limits: PoolLimits,
    overall: Arc<AtomicUsize>,
    sites: Mutex<BTreeMap<PoolKey, Arc<Site>>>,
}

/// The connections that wait for one receiver.
pub(super) struct Site {
    idle: Mutex<Vec<Idle>>,
    /// Nothing waits here any more: the guard has changed since it was opened.
    closed: AtomicBool,
    overall: Arc<AtomicUsize>,
}

struct Idle {
    wire: Wire,
    since: Timestamp,
}

impl Pool {
    /// Makes an empty pool.
    pub(super) fn new(limits: PoolLimits) -> Self {
        Self { limits, overall: Arc::default(), sites: Mutex::default() }
    }

    /// Finds a site, or opens it.
    pub(super) fn site(&self, key: PoolKey) -> Arc<Site> {
        let open = || {
            let overall = Arc::clone(&self.overall);
            Arc::new(Site { idle: Mutex::default(), closed: AtomicBool::new(false), overall })
        };
        Arc::clone(locked(&self.sites).entry(key).or_insert_with(open))
    }

    /// Takes the connection that came last, if it is not too old.
    pub(super) fn take(&self, site: &Site, now: Timestamp) -> Option<Wire> {
        let mut idle = locked(&site.idle);
        while let Some(last) = idle.pop() {
            self.overall.fetch_sub(1, Ordering::Relaxed);
            if self.is_fresh(&last, now) {
                last.wire.suspect();
                return Some(last.wire);
            }
        }
        None
    }

    /// Lets a connection wait; it is closed if there is no room.
    pub(super) fn keep(&self, site: &Site, wire: Wire, now: Timestamp) {
        if now.since(wire.opened_at()) >= self.limits.age {
            return;
        }
        // One that finds no room at its own site does not make room at others.
        if locked(&site.idle).len() >= self.limits.idle_per_site {
            return;
        }
        if self.overall.load(Ordering::Relaxed) >= self.limits.idle_overall {
            self.make_room();
        }
        let mut idle = locked(&site.idle);
        if idle.len() < self.limits.idle_per_site && !site.closed.load(Ordering::Relaxed) {
            idle.push(Idle { wire, since: now });
            self.overall.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Closes what is too old or was closed by its peer, and forgets sites that nobody uses.
    pub(super) fn sweep(&self, now: Timestamp) {
        self.retain(|idle| self.is_fresh(idle, now) && idle.wire.is_alive());
        locked(&self.sites)
            .retain(|_, site| Arc::strong_count(site) > 1 || !locked(&site.idle).is_empty());
    }

    /// Closes all sites, what waits there, and what attempts under way would let wait there.
    pub(super) fn clear(&self) {
        for site in mem::take(&mut *locked(&self.sites)).into_values() {
            let mut idle = locked(&site.idle);
            // Marked under the lock, so that nobody comes in afterwards.
            site.closed.store(true, Ordering::Relaxed);
            self.overall.fetch_sub(idle.len(), Ordering::Relaxed);
            idle.clear();
        }
    }

    /// Returns how many connections wait.
    pub(super) fn idle(&self) -> usize {
        self.overall.load(Ordering::Relaxed)
    }

    fn is_fresh(&self, idle: &Idle, now: Timestamp) -> bool {
        now.since(idle.since) < self.limits.idle_time
            && now.since(idle.wire.opened_at()) < self.limits.age
    }

    /// Closes half of those that wait at the fullest site, or of all if no site has many; so a full
    /// pool is not searched each time, and busy sites do not cost quiet ones their connection.
    fn make_room(&self) {
        let sites = self.all_sites();
        let fullest = sites.iter().max_by_key(|site| locked(&site.idle).len());
        if let Some(site) = fullest
            && self.halve(site)
        {
            return;
        }
        let mut waiting: Vec<Timestamp> = Vec::with_capacity(self.idle());
        for site in sites {
            waiting.extend(locked(&site.idle).iter().map(|idle| idle.since));
        }
        waiting.sort_unstable();
        if let Some(median) = waiting.get(waiting.len() / 2).copied() {
            self.retain(|idle| idle.since > median);
        }
    }

    /// Closes the half of a site that has waited longest, if it has many; tells whether it had.
    fn halve(&self, site: &Site) -> bool {
        let mut idle = locked(&site.idle);
        let half = idle.len() / 2;
        if half == 0 || half < self.limits.idle_overall / 16 {
            return false;
        }
        // Who came last is last.
        idle.drain(..half);
        self.overall.fetch_sub(half, Ordering::Relaxed);
        true
    }

    fn retain(&self, mut keep: impl FnMut(&mut Idle) -> bool) {
        for site in self.all_sites() {
            let mut idle = locked(&site.idle);
            let before = idle.len();
            idle.retain_mut(&mut keep);
            self.overall.fetch_sub(before - idle.len(), Ordering::Relaxed);
        }
    }

    fn all_sites(&self) -> Vec<Arc<Site>> {
        locked(&self.sites).values().map(Arc::clone).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let left = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        self.overall.fetch_sub(left, Ordering::Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
