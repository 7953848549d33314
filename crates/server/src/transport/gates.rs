//! The gates of all endpoints: a request passes its endpoint's when its connection is ready, and is
//! written then.
//!
//! The rule is [`domain::rate::Gate`]; here is the waiting. Whoever came first goes first, and nobody
//! waits longer than the attempt's deadline. When the gates close, all who wait go back: a server that
//! stops gives its time to what is written. Nothing here runs by itself: [`Gates::sweep`] has to be
//! called now and then.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
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
    closing: Arc<Closing>,
}

/// Whether the gates are closed to whoever has to wait.
#[derive(Default)]
struct Closing {
    closed: AtomicBool,
    told: Notify,
}

/// The gates are closed, and the request would have had to wait.
#[derive(Debug)]
pub(super) struct Closed;

/// The gate of one endpoint.
pub(super) struct Gate {
    rule: Mutex<rate::Gate>,
    /// Held by the first of those who wait.
    turn: tokio::sync::Mutex<()>,
    ended: Notify,
    closing: Arc<Closing>,
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
            let (rule, turn) = (Mutex::new(rate::Gate::begin(now)), tokio::sync::Mutex::default());
            let closing = Arc::clone(&self.closing);
            Arc::new(Gate { rule, turn, ended: Notify::new(), closing })
        };
        Arc::clone(locked(&self.all).entry(endpoint).or_insert_with(build))
    }

    /// Sends all back who wait, now and from now on.
    pub(super) fn close(&self) {
        self.closing.closed.store(true, Ordering::SeqCst);
        self.closing.told.notify_waiters();
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

impl Closing {
    /// Returns when the gates are closed.
    async fn wait(&self) {
        let mut told = pin!(self.told.notified());
        // Listening comes first: a close in between is seen one way or the other.
        told.as_mut().enable();
        if !self.closed.load(Ordering::SeqCst) {
            told.await;
        }
    }
}

impl Gate {
    /// Passes, as soon as the rate and those who wait already allow it.
    pub(super) async fn pass<'a>(
        &'a self,
        rate: Rate,
        far_end: FarEnd,
        clock: &'a dyn Clock,
    ) -> Result<Passage<'a>, Closed> {
        let free = self.turn.try_lock().is_ok_and(|_turn| {
            let passed = locked(&self.rule).pass(rate, far_end, clock.now());
            passed.is_ok()
        });
        if !free {
            // Boxed, because hardly anybody waits and every attempt would have room for it.
            Box::pin(async {
                tokio::select! {
                    biased;
                    () = self.closing.wait() => Err(Closed),
                    () = self.wait(rate, far_end, clock) => Ok(()),
                }
            })
            .await?;
        }
        // Made last: whoever gives up waiting has not passed, and ends nothing.
        Ok(Passage { gate: self, far_end, clock })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn who_waits_at_a_gate_goes_back_when_it_closes_and_who_need_not_wait_passes() {
        let (gates, clock) = (Gates::default(), SystemClock::start());
        let rate = Rate::per_second(1).unwrap();
        let gate = gates.of(EndpointKey(1), clock.now());
        let written = gate.pass(rate, FarEnd::System, &clock).await.unwrap();
        let close = async {
            tokio::task::yield_now().await;
            gates.close();
        };
        let (one, other, ()) = tokio::join!(
            gate.pass(rate, FarEnd::System, &clock),
            gate.pass(rate, FarEnd::System, &clock),
            close,
        );
        assert!(one.is_err() && other.is_err());
        assert!(gate.pass(rate, FarEnd::System, &clock).await.is_err());
        drop(written);
        let fresh = gates.of(EndpointKey(2), clock.now());
        assert!(fresh.pass(rate, FarEnd::System, &clock).await.is_ok());
    }
}
