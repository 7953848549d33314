//! What an attempt is made with, and whether that is still in force when its request is to be written.
//!
//! An attempt may wait for its endpoint's rate for as long as its policy allows. A change that was
//! confirmed meanwhile counts for it, too: the old URL is not called any more, the old secret does not
//! sign. Such an attempt is interrupted, which costs nothing, and begins anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Member, Sending};
use store::catalog::{Change, Changes};
use store::keys::ApplicationKey;

use super::rosters::Rosters;

/// How long a change is remembered: longer than any attempt waits.
const REMEMBERED: Duration = Duration::from_secs(15 * 60);

/// The newest versions of applications that changed lately, as far as they were heard of.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    latest: Mutex<BTreeMap<ApplicationKey, Change>>,
}

impl Versions {
    /// Takes in what was changed.
    pub(super) fn heard(&self, changes: &Changes) {
        let oldest = changes.now.before(REMEMBERED);
        let mut latest = self.lock();
        latest.retain(|_, change| change.at >= oldest);
        for change in &changes.applications {
            let known = latest.entry(change.application).or_insert(*change);
            if known.version < change.version {
                *known = *change;
            }
        }
    }

    /// Tells whether an attempt may be written as it was made. One whose application's change is being
    /// read may not.
    pub(super) fn is_in_force(&self, sending: &Sending, rosters: &Rosters) -> bool {
        let application = sending.delivery.key.application;
        let known = self.lock().get(&application).map_or(i64::MIN, |change| change.version);
        if known <= sending.version {
            return true;
        }
        let current = rosters.cached(application).filter(|roster| roster.version >= known);
        let current = current.as_ref().and_then(|roster| roster.member(sending.member.key()));
        current.is_some_and(|current| is_same(current, &sending.member))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ApplicationKey, Change>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells whether two versions of an endpoint are sent to in the same way.
fn is_same(one: &Member, other: &Member) -> bool {
    let (here, there) = (&one.view.endpoint, &other.view.endpoint);
    here.state == there.state
        && here.settings == there.settings
        && here.confidential == there.confidential
        && one.view.secrets == other.view.secrets
}
