//! Stopping: nothing is started any more, what is in flight ends and is settled, everything is
//! given back, and then it is over.

use store::keys::Lease;

use crate::effect::Effect;
use crate::engine::{Act, Engine};

/// How often giving back is tried; after that the leases run out by themselves.
const RELEASES: u32 = 3;

/// How far stopping has come.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    failures: u32,
    later: Vec<Lease>,
    said: bool,
}

impl Stopping {
    /// Takes in whether leases were given back.
    pub(crate) fn released(&mut self, done: bool, asked: Vec<Lease>) {
        if !done {
            self.failures += 1;
            self.later.extend(asked);
        }
    }

    /// Remembers leases to be given back when the store has answered.
    pub(crate) fn release_later(&mut self, leases: Vec<Lease>) {
        self.later.extend(leases);
    }

    /// Returns the leases to be given back now.
    pub(crate) fn release_again(&mut self) -> Vec<Lease> {
        let again = std::mem::take(&mut self.later);
        if self.failures < RELEASES { again } else { Vec::new() }
    }
}

impl Engine {
    pub(crate) fn stop(&mut self, act: &mut Act<'_>) {
        if self.stopping.is_none() {
            self.stopping = Some(Stopping::default());
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
            && self.steps.is_empty();
        if let Some(stopping) = self.stopping.as_mut().filter(|stopping| over && !stopping.said) {
            stopping.said = true;
            act.effects.push(Effect::Stopped);
        }
    }
}
