//! Stopping: nothing is started any more, what is in flight ends and is settled, everything is
//! given back, and then it is over.
//!
//! A store that does not take something back is asked again, without end: how long stopping may take
//! is for the shell to say, which drops the engine when that time is over.

use std::time::Duration;

use domain::time::Timestamp;
use store::keys::Lease;

use crate::engine::{Act, Engine};
use crate::protocol::effect::Effect;

/// The wait before the store is asked again to take back what it did not.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// How far stopping has come.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    /// What is to be given back.
    later: Vec<Lease>,
    /// And when, at the earliest.
    again_at: Duration,
    said: bool,
}

impl Stopping {
    /// Takes in whether leases were given back.
    pub(crate) fn released(&mut self, done: bool, asked: Vec<Lease>, now: Duration) {
        if !done {
            self.later.extend(asked);
            self.again_at = now.saturating_add(AGAIN_AFTER);
        }
    }

    /// Remembers leases to be given back when the store has answered.
    pub(crate) fn release_later(&mut self, leases: Vec<Lease>) {
        self.later.extend(leases);
    }

    /// Keeps leases that are busy, to look at them again in a while.
    pub(crate) fn keep(&mut self, busy: Vec<Lease>, now: Duration) {
        if !busy.is_empty() {
            self.again_at = now.saturating_add(AGAIN_AFTER);
            self.later.retain(|lease| !busy.contains(lease));
            self.later.extend(busy);
        }
    }

    /// Returns when something is to be given back.
    pub(crate) fn next(&self) -> Option<Duration> {
        (!self.later.is_empty()).then_some(self.again_at)
    }

    /// Returns the leases to be given back now.
    pub(crate) fn release_again(&mut self, now: Duration) -> Vec<Lease> {
        if now < self.again_at { Vec::new() } else { std::mem::take(&mut self.later) }
    }
}

impl Engine {
    pub(crate) fn stop(&mut self, act: &mut Act<'_>) {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping::default());
            // Nothing begins here any more, whatever is changed.
            act.effects.push(Effect::Confirm { heard: Timestamp::FAR_FUTURE });
            self.leases.mark_all_leaving();
            self.look_at_all(act);
        }
    }

    pub(crate) fn stop_now(&mut self, act: &mut Act<'_>) {
        self.stop(act);
        self.leases.hurried = true;
        let flying = self.attempts.in_flight();
        act.effects.extend(flying.into_iter().map(Effect::Abort));
    }

    pub(crate) fn finish_stopping(&mut self, act: &mut Act<'_>) {
        let over = self.leases.is_empty()
            && self.leases.taking.is_none()
            && self.leases.releasing.is_empty()
            && self.attempts.is_empty()
            && self.steps.is_empty()
            // It was announced, and nobody else does it.
            && self.disabling.is_empty();
        let ends = |stopping: &&mut Stopping| over && stopping.next().is_none() && !stopping.said;
        if let Some(stopping) = self.stopping.as_mut().filter(ends) {
            stopping.said = true;
            act.effects.push(Effect::Stopped);
        }
    }
}
