//! The rosters in memory: read when an endpoint has work, read again when changed or old, and evicted, least
//! recently used first, when their application has no work and memory is short.
//!
//! A roster is outdated as soon as a later version is known to exist: nothing is decided by it until it
//! was read again. While an application changes faster than it is read, each answer is good for the
//! step that takes it in; what was heard while it was on its way counts after that step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use store::keys::ApplicationKey;

use crate::planted::{self, Bug};
use crate::protocol::effect::Effect;
use crate::protocol::event::Unanswered;
use crate::roster::Roster;

/// The most rosters that are read at once.
const READS: usize = 32;
/// How long after a question that was not answered it is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// What is known of an application.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// Its roster; none if it has not been read, or the application is gone.
    pub(crate) roster: Option<Arc<Roster>>,
    /// When the question behind `roster` was asked; none if there has been no answer.
    pub(crate) asked_at: Option<Duration>,
    /// When the question that is on its way was asked.
    reading: Option<Duration>,
    waiting: bool,
    /// Whether something changed since the question on its way was asked.
    again: bool,
    /// The latest version that the roster must have.
    least: i64,
    /// A later one that was heard of while the question was on its way.
    later: Option<i64>,
    used_at: Duration,
}

impl Entry {
    /// Tells whether a later version is known to exist.
    pub(crate) fn is_outdated(&self) -> bool {
        let outdated = self.roster.as_ref().is_some_and(|roster| roster.version < self.least);
        outdated && !planted::has(Bug::SendOutdated)
    }

    /// Tells whether it is good for this step only, because a later version was heard of meanwhile; and
    /// since when the store said what it says.
    pub(crate) fn is_overtaken(&self) -> Option<Duration> {
        self.later.and(self.asked_at)
    }

    fn is_newer_than(&self, roster: &Roster) -> bool {
        self.roster.as_ref().is_some_and(|known| known.version > roster.version)
    }
}

/// All rosters in memory.
#[derive(Debug, Default)]
pub(crate) struct Rosters {
    entries: BTreeMap<ApplicationKey, Entry>,
    queue: VecDeque<ApplicationKey>,
    reading: usize,
    bytes: usize,
    paused_until: Duration,
    /// Those for which a later version was heard of while they were being read.
    overtaken: BTreeSet<ApplicationKey>,
}

impl Rosters {
    /// Returns what is known of an application, which counts as using it.
    pub(crate) fn using(&mut self, application: ApplicationKey, now: Duration) -> &Entry {
        let entry = self.entries.entry(application).or_default();
        entry.used_at = now;
        entry
    }

    /// Returns an application's roster.
    pub(crate) fn get(&self, application: ApplicationKey) -> Option<&Arc<Roster>> {
        self.entries.get(&application)?.roster.as_ref()
    }

    /// Has a roster read, unless that is on its way.
    pub(crate) fn want(&mut self, application: ApplicationKey) {
        let entry = self.entries.entry(application).or_default();
        if entry.reading.is_none() && !entry.waiting {
            entry.waiting = true;
            self.queue.push_back(application);
        }
    }

    /// Has a roster read by a question that is asked from now on.
    pub(crate) fn refresh(&mut self, application: ApplicationKey) {
        let Some(entry) = self.entries.get_mut(&application) else { return };
        entry.again = entry.reading.is_some();
        self.want(application);
    }

    /// Takes in that a version exists.
    pub(crate) fn changed(&mut self, application: ApplicationKey, version: i64) {
        let Some(entry) = self.entries.get_mut(&application) else { return };
        let known = entry.roster.as_ref().map(|roster| roster.version);
        if known.is_some_and(|known| known >= version) || version <= entry.least {
            return;
        }
        let is_usable = known.is_some_and(|known| known >= entry.least);
        if entry.reading.is_some() && !is_usable {
            // It may be in the answer. If not, the answer still serves for one step.
            entry.later = entry.later.max(Some(version));
            self.overtaken.insert(application);
        } else {
            entry.least = version;
            entry.again = entry.reading.is_some();
            self.want(application);
        }
    }

    /// Takes in, once a step has used what was answered, the later versions that were heard of.
    pub(crate) fn catch_up(&mut self) {
        let answered = |key: &ApplicationKey| {
            self.entries.get(key).is_none_or(|entry| entry.reading.is_none())
        };
        let answered: Vec<_> = self.overtaken.iter().copied().filter(answered).collect();
        for application in answered {
            self.overtaken.remove(&application);
            let entry = self.entries.get_mut(&application);
            if let Some(version) = entry.and_then(|entry| entry.later.take()) {
                self.changed(application, version);
            }
        }
    }

    /// Tells whether what is answered next may be good for a step only.
    pub(crate) fn is_any_overtaken(&self) -> bool {
        !self.overtaken.is_empty()
    }

    /// Tells whether any is being read, or is about to be.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading > 0 || !self.queue.is_empty()
    }

    /// Asks what can be asked now.
    pub(crate) fn ask(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if now < self.paused_until {
            return;
        }
        while self.reading < READS {
            let Some(application) = self.queue.pop_front() else { return };
            let Some(entry) = self.entries.get_mut(&application) else { continue };
            entry.waiting = false;
            entry.reading = Some(now);
            self.reading += 1;
            effects.push(Effect::ReadRoster(application));
        }
    }

    /// Returns when there is something to ask.
    pub(crate) fn next(&self) -> Option<Duration> {
        (self.reading < READS && !self.queue.is_empty()).then_some(self.paused_until)
    }

    /// Takes in a roster that was not asked for; tells whether anything is known from it. It says
    /// nothing about running states since a take-over: it may have been read before. Of an application
    /// that was not known, changes were not followed: then it must have been read since they were last
    /// heard.
    pub(crate) fn seen(
        &mut self,
        roster: Arc<Roster>,
        began: Duration,
        heard: Option<Duration>,
    ) -> bool {
        let application = roster.application;
        let is_followed = self.entries.contains_key(&application);
        let is_young = heard.is_some_and(|heard| began >= heard);
        if !is_followed && !is_young {
            self.want(application);
            return false;
        }
        let entry = self.entries.entry(application).or_default();
        entry.asked_at.get_or_insert(Duration::ZERO);
        // One of the same version may have been read before the one that is known.
        if entry.roster.as_ref().is_some_and(|known| known.version >= roster.version) {
            return false;
        }
        let bytes = roster.bytes();
        let before = entry.roster.replace(roster);
        self.bytes = self.bytes + bytes - before.map_or(0, |before| before.bytes());
        true
    }

    /// Takes in the answer to a question; tells whether anything is known from it.
    pub(crate) fn answered(
        &mut self,
        application: ApplicationKey,
        answer: Result<Option<Arc<Roster>>, Unanswered>,
        now: Duration,
    ) -> bool {
        let entry = self.entries.entry(application).or_default();
        let asked_at = entry.reading.take();
        if asked_at.is_some() {
            self.reading = self.reading.saturating_sub(1);
        }
        let again = std::mem::take(&mut entry.again);
        let Ok(roster) = answer else {
            self.paused_until = now.saturating_add(AGAIN_AFTER);
            self.want(application);
            return false;
        };
        let older = roster.as_ref().is_some_and(|new| entry.is_newer_than(new));
        if !older {
            let bytes = |roster: &Option<Arc<Roster>>| roster.as_ref().map_or(0, |r| r.bytes());
            self.bytes = self.bytes + bytes(&roster) - bytes(&entry.roster);
            entry.roster = roster;
        }
        if !older {
            entry.asked_at = asked_at.or(entry.asked_at).or(Some(Duration::ZERO));
        }
        if again || (older && asked_at.is_some()) || entry.is_outdated() {
            self.want(application);
        }
        true
    }

    /// Drops a roster whose running states are known to be outdated.
    pub(crate) fn outdate(&mut self, application: ApplicationKey) {
        if let Some(entry) = self.entries.get_mut(&application) {
            entry.asked_at = Some(Duration::ZERO);
        }
    }

    /// Drops the rosters that nobody needs: first those not used for longest, until the others fit.
    pub(crate) fn prune(&mut self, most: u64, needed: impl Fn(ApplicationKey) -> bool) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if self.held() <= most {
            return;
        }
        let idle = |(key, entry): &(&ApplicationKey, &Entry)| {
            entry.reading.is_none() && !entry.waiting && !needed(**key)
        };
        let unused = self.entries.iter().filter(idle);
        let mut unused: Vec<_> = unused.map(|(key, entry)| (entry.used_at, *key)).collect();
        unused.sort_unstable();
        for (_, application) in unused {
            if self.held() <= most {
                return;
            }
            let entry = self.entries.remove(&application);
            let roster = entry.and_then(|entry| entry.roster);
            self.bytes -= roster.map_or(0, |roster| roster.bytes());
        }
    }

    /// Returns how many bytes there are. Applications that are gone count too.
    fn held(&self) -> usize {
        self.bytes.saturating_add(self.entries.len() * size_of::<Entry>())
    }
}

#[cfg(test)]
mod tests;
