//! Watches the leases of a fleet from outside. A server that could not renew for so long that it
//! must not believe in its lease any more has an excuse for duplicates, as a killed one has: the
//! design says so. Whoever reads a report wants to know whether that has happened.
//!
//! A server that was killed or stopped never renews again under its name, so every long gap between
//! two renewals of one name is a stall.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::time::Timestamp;
use tokio::task::JoinHandle;

use super::books::Outage;
use super::database;

/// A gap that cannot be told from a lost lease: trust ends after seven seconds.
const LONG: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(500);

/// Somebody who watches.
pub(crate) struct Stalls {
    seen: Arc<Mutex<Vec<Outage>>>,
    task: JoinHandle<()>,
}

impl Stalls {
    /// Begins to watch the fleet of a database.
    pub(crate) fn watch(database: String) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(watch(database, Arc::clone(&seen)));
        Self { seen, task }
    }

    /// Returns the stalls so far.
    pub(crate) fn seen(&self) -> Vec<Outage> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(url: String, seen: Arc<Mutex<Vec<Outage>>>) {
    let mut renewals: BTreeMap<String, i64> = BTreeMap::new();
    loop {
        // The database may be away for a moment: then there is nothing to see either.
        if let Ok(found) = database::renewals(&url).await {
            for (name, renewed) in found {
                let before = renewals.insert(name, renewed).unwrap_or(renewed);
                let (from, to) = (Timestamp::from_micros(before), Timestamp::from_micros(renewed));
                if to.since(from) > LONG {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.push(Outage { from, to, times: 1 });
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
