//! Hearing of changes of the catalog: which of them an engine knows, and up to when.
//!
//! An engine asks the store once a second what was changed, and at once when it is called. An
//! application whose roster is older than a change gets no attempt until its roster was read again, and
//! without an answer for two seconds no attempt begins at all. So two seconds after a change was
//! committed no attempt begins with what it replaced, whatever calls were lost; and as soon as an
//! engine has confirmed a moment, none begins with what was replaced before it.

use std::time::Duration;

use domain::time::Timestamp;
use store::catalog::{Change, Changes};
use store::limits;

use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::effect::Effect;
use crate::protocol::event::Unanswered;
use crate::protocol::settings::Settings;

/// The shortest pause between an answer and the next question, however many calls there are.
const PAUSE: Duration = Duration::from_millis(20);
/// How long somebody may wait for the confirmation of a change, and some more.
const AWAITED: Duration = Duration::from_secs(5);
/// How long after a question that was not answered it is asked again.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// What is known of changes.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    /// When the question was asked that is on its way.
    asking: Option<Duration>,
    /// When the newest question was asked that has an answer: all that was committed before is known.
    heard_at: Option<Duration>,
    /// When the last question was asked, answered or not.
    asked_at: Option<Duration>,
    /// The next question is not asked before.
    not_before: Duration,
    /// Whether a call came since the last question was asked.
    called: bool,
    /// Whether the question on its way was asked because of a call.
    answers_call: bool,
    /// From which moment of the store's clock on changes are asked for.
    since: Option<Timestamp>,
    event_types: Option<i64>,
    /// Up to which moment of the store's clock changes are known and not confirmed.
    unconfirmed: Option<Timestamp>,
}

impl Hearing {
    /// Has changes asked for soon: there are some.
    pub(crate) fn call(&mut self) {
        self.called = true;
    }

    /// Returns when the newest question was asked that has an answer.
    pub(crate) fn heard_at(&self) -> Option<Duration> {
        self.heard_at
    }

    /// Tells whether what is known is young enough for an attempt to begin.
    pub(crate) fn is_current(&self, now: Duration, settings: &Settings) -> bool {
        let until = |heard: Duration| heard.saturating_add(settings.changes_trusted);
        self.heard_at.is_some_and(|heard| now < until(heard)) || planted::has(Bug::TrustOldChanges)
    }

    /// Returns when the next question is due, unless one is on its way. After a call it waits for
    /// rosters that are being read, but not for longer than usual: else one application that
    /// changes all the time would never have a roster that is current.
    pub(crate) fn next(&self, reading: bool, settings: &Settings) -> Option<Duration> {
        if self.asking.is_some() {
            return None;
        }
        let Some(asked_at) = self.asked_at else { return Some(Duration::ZERO) };
        let usual = asked_at.saturating_add(settings.changes_every);
        let soon = self.called && !reading;
        Some(if soon { self.not_before.min(usual) } else { usual.max(self.not_before) })
    }

    fn ask(&mut self, now: Duration) -> Effect {
        (self.asking, self.asked_at) = (Some(now), Some(now));
        self.answers_call = std::mem::take(&mut self.called);
        Effect::ReadChanges { since: self.since }
    }

    /// Takes in an answer; tells whether somebody may wait for its confirmation: after a call, and for a
    /// while after a change, should its call have been lost.
    fn answered(&mut self, changes: &Changes, now: Duration) -> bool {
        self.heard_at = self.asking.take().or(self.heard_at);
        self.not_before = now.saturating_add(PAUSE);
        self.since = Some(changes.now.before(limits::CHANGING));
        let young = changes.now.before(AWAITED);
        let is_young = |change: &Change| change.at >= young;
        let counted = self.event_types.replace(changes.event_types);
        self.answers_call
            || changes.applications.iter().any(is_young)
            || counted.is_some_and(|counted| counted != changes.event_types)
    }
}

impl Engine {
    pub(crate) fn read_changes_when_due(&mut self, act: &mut Act<'_>) {
        let now = act.now.elapsed;
        let due = self.hearing.next(self.rosters.is_reading(), &self.settings);
        if due.is_some_and(|due| due <= now) {
            act.effects.push(self.hearing.ask(now));
        }
    }

    /// Takes in what was changed.
    pub(crate) fn changes_heard(&mut self, answer: Result<Changes, Unanswered>, act: &Act<'_>) {
        let now = act.now.elapsed;
        let Ok(changes) = answer else {
            self.hearing.asking = None;
            self.hearing.not_before = now.saturating_add(AGAIN_AFTER);
            self.hearing.called = true;
            return;
        };
        if self.hearing.answered(&changes, now) {
            self.hearing.unconfirmed = Some(changes.now);
        }
        if planted::has(Bug::IgnoreChanges) {
            return;
        }
        for change in &changes.applications {
            self.rosters.changed(change.application, change.version);
        }
    }

    /// Confirms what is known, as soon as no attempt can begin any more with what was replaced.
    pub(crate) fn confirm_changes(&mut self, act: &mut Act<'_>) {
        self.rosters.catch_up();
        if self.rosters.is_any_overtaken() {
            return;
        }
        if let Some(heard) = self.hearing.unconfirmed.take() {
            act.effects.push(Effect::Confirm { heard });
        }
    }
}
