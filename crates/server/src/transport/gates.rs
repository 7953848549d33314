//! The gates of all endpoints: a request passes its endpoint's when its connection is ready, and is
//! written then.
//!
//! The rule is [`domain::rate::Gate`]; here is the waiting. Whoever came first goes first, and nobody
//! waits longer than the attempt's deadline. Nothing here runs by itself: [`Gates::sweep`] has to be
//! called now and then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::rate::{self, FarEnd, Rate, Wait};
use domain::time::Timestamp;
use store::keys::EndpointKey;
use tokio::sync::Notify;

use crate::clock::Clock;

/// All gates, by endpoint.
#[derive(Default)]
pub(super) struct Gates {
    all: Mutex<BTreeMap<EndpointKey, Arc<Gate>>>,
}

/// The gate of one endpoint.
pub(super) struct Gate {
    rule: Mutex<rate::Gate>,
    /// Held by the first of those who wait.
    turn: tokio::sync::Mutex<()>,
    ended: Notify,
}

/// One request that passed; dropping it says that the request has ended.
pub(super) struct Passage<'a> {
    gate: &'a Gate,
    far_end: FarEnd,
    clock: &'a dyn Clock,
}

impl Gates {
    /// Finds an endpoint's gate, or builds it.
    pub(super) fn of(&self, endpoint: EndpointKey, now: Timestamp) -> Arc<Gate> {
        let build = || {
            let rule = Mutex::new(rate::Gate::begin(now));
            Arc::new(Gate { rule, turn: tokio::sync::Mutex::default(), ended: Notify::new() })
        };
        Arc::clone(locked(&self.all).entry(endpoint).or_insert_with(build))
    }

    /// Forgets gates that nobody is at and that have nothing to remember.
    pub(super) fn sweep(&self, now: Timestamp) {
        let in_use = |gate: &Arc<Gate>| Arc::strong_count(gate) > 1;
        locked(&self.all).retain(|_, gate| {
            let rests = locked(&gate.rule).rests(now);
            in_use(gate) || !rests
        });
    }
}

impl Gate {
    /// Passes, as soon as the rate and those who wait already allow it.
    pub(super) async fn pass<'a>(
        &'a self,
        rate: Rate,
        far_end: FarEnd,
        clock: &'a dyn Clock,
    ) -> Passage<'a> {
        let free = self.turn.try_lock().is_ok_and(|_turn| {
            let passed = locked(&self.rule).pass(rate, far_end, clock.now());
            passed.is_ok()
        });
        if !free {
            // Boxed, because hardly anybody waits and every attempt would have room for it.
            Box::pin(self.wait(rate, far_end, clock)).await;
        }
        // Made last: whoever gives up waiting has not passed, and ends nothing.
        Passage { gate: self, far_end, clock }
    }

    async fn wait(&self, rate: Rate, far_end: FarEnd, clock: &dyn Clock) {
        let _turn = self.turn.lock().await;
        loop {
            let now = clock.now();
            let passed = locked(&self.rule).pass(rate, far_end, now);
            match passed {
                Ok(()) => return,
                Err(Wait::Until(at)) => tokio::time::sleep(at.since(now)).await,
                Err(Wait::ForAnEnd) => self.ended.notified().await,
            }
        }
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        match self.far_end {
            FarEnd::Program => {}
            FarEnd::System => {
                locked(&self.gate.rule).ended(self.clock.now());
                self.gate.ended.notify_one();
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
