//! Requests that other nodes left for the owner: acted on once, then consumed under the lease.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::concurrency::Concurrency;
use domain::partition::Partition;
use store::keys::DeliveryKey;
use store::limits;
use store::queue::{Request, RequestKind, Upkeep};

use crate::announcement::Announcement;
use crate::burying::Step;
use crate::effect::Effect;
use crate::endpoint::At;
use crate::engine::{Act, Engine};
use crate::event::Unanswered;
use crate::horizon::Horizon;
use crate::recent::Recent;

/// The most deliveries that are remembered as hurried, and as cancelled.
const REMEMBERED: usize = 4_096;

/// What was asked for, and what has been done about it.
#[derive(Debug)]
pub(crate) struct Requests {
    reading: Option<Duration>,
    next: Duration,
    /// Whether the last reading may have left some out.
    full: bool,
    /// Requests that were acted on, and when removing them was answered.
    acted: BTreeMap<i64, Option<Duration>>,
    /// Deliveries whose next attempt a person asked for.
    hurried: Recent<()>,
    /// Deliveries that were cancelled: their hand-over or an attempt may still be on its way.
    cancelled: Recent<()>,
}

impl Default for Requests {
    fn default() -> Self {
        let (hurried, cancelled) = (Recent::new(REMEMBERED), Recent::new(REMEMBERED));
        Self {
            reading: None,
            next: Duration::ZERO,
            full: false,
            acted: BTreeMap::new(),
            hurried,
            cancelled,
        }
    }
}

impl Requests {
    /// Returns when they are read next, unless that is on its way.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.reading.is_none().then_some(self.next)
    }

    /// Has them read as soon as a reading that is on its way has answered.
    pub(crate) fn read_soon(&mut self) {
        self.next = Duration::ZERO;
    }

    /// Takes in that requests are removed from the store.
    pub(crate) fn consumed(&mut self, requests: &[i64], now: Duration) {
        for number in requests {
            if let Some(acted) = self.acted.get_mut(number) {
                *acted = Some(now);
            }
        }
    }

    /// Has those read that the last reading left out, now that some of it are removed.
    pub(crate) fn go_on(&mut self) {
        if std::mem::take(&mut self.full) {
            self.read_soon();
        }
    }

    /// Tells whether a person asked for this delivery's attempt, and forgets it.
    pub(crate) fn was_hurried(&mut self, key: &DeliveryKey) -> bool {
        !self.hurried.is_empty() && self.hurried.remove(key).is_some()
    }

    fn hurry(&mut self, key: DeliveryKey) {
        self.hurried.insert(key, ());
    }

    /// Tells whether a delivery was cancelled, before it was handed over or while it was being sent.
    pub(crate) fn was_cancelled(&self, key: &DeliveryKey) -> bool {
        !self.cancelled.is_empty() && self.cancelled.get(key).is_some()
    }

    /// Forgets that a delivery was cancelled.
    pub(crate) fn forget_cancel(&mut self, key: &DeliveryKey) {
        self.cancelled.remove(key);
    }

    fn cancel(&mut self, key: DeliveryKey) {
        self.cancelled.insert(key, ());
    }
}

impl Engine {
    pub(crate) fn read_requests_when_due(&mut self, act: &mut Act<'_>) {
        let now = act.now.elapsed;
        if self.requests.next().is_none_or(|next| now < next) {
            return;
        }
        self.requests.next = now.saturating_add(self.settings.requests_every);
        let partitions = self.leases.staying();
        if !partitions.is_empty() {
            self.requests.reading = Some(now);
            act.effects.push(Effect::ReadRequests(partitions));
        }
    }

    pub(crate) fn requested(
        &mut self,
        answer: Result<Vec<Request>, Unanswered>,
        act: &mut Act<'_>,
    ) {
        let Some(asked_at) = self.requests.reading.take() else { return };
        let Ok(requests) = answer else { return };
        // A reading that began after the removal cannot see the request any more.
        let seen = |consumed: &Option<Duration>| consumed.is_none_or(|moment| moment >= asked_at);
        self.requests.acted.retain(|_, consumed| seen(consumed));
        let mut done: BTreeMap<Partition, Vec<i64>> = BTreeMap::new();
        self.requests.full = requests.len() >= limits::REQUESTS;
        for request in requests {
            let held = self.leases.get(request.partition).is_some_and(|held| !held.leaving);
            if held && !self.requests.acted.contains_key(&request.number) {
                self.requests.acted.insert(request.number, None);
                done.entry(request.partition).or_default().push(request.number);
                self.act_on(&request, act);
            }
        }
        for (partition, requests) in done {
            let Some(lease) = self.leases.lease(partition) else { continue };
            let step = Step::Consume { lease, requests: requests.clone() };
            self.keep_up(step, Upkeep::Consume { lease, requests }, act);
        }
    }

    fn act_on(&mut self, request: &Request, act: &mut Act<'_>) {
        let at = (request.application, request.endpoint);
        let (application, endpoint) = at;
        match request.kind {
            RequestKind::ResetBreaker => {
                if !self.endpoints.contains(&at) {
                    self.remember(at, request.partition, None, act);
                }
                self.reset_breaker(at, act);
            }
            RequestKind::Refresh => self.rosters.refresh(application),
            RequestKind::RetryNow(message) => {
                let key = DeliveryKey { application, endpoint, message };
                if let Some(record) = self.endpoints.get_mut(&at) {
                    if !record.window.is_out(message) {
                        self.requests.hurry(key);
                    }
                    // What is known may be hidden behind a horizon of its old due.
                    if !record.window.hurry(message, request.at)
                        || record.window.head().is_none() && record.window.horizon().is_some()
                    {
                        record.window.lower(Horizon::unknown(act.now.rows));
                    }
                } else {
                    self.requests.hurry(key);
                    let horizon = Some(Horizon::unknown(act.now.rows));
                    self.remember(at, request.partition, horizon, act);
                }
            }
            RequestKind::Cancel(message) => {
                self.requests.cancel(DeliveryKey { application, endpoint, message });
                if let Some(record) = self.endpoints.get_mut(&at) {
                    record.window.cancel(message);
                    // It may have been the head of a sequence, or what the horizon was set to.
                    if record.window.horizon().is_some() {
                        record.window.lower(Horizon::unknown(act.now.rows));
                    }
                }
            }
        }
        self.look(at, act);
    }

    /// Closes a breaker by hand: now, or as soon as the running state is known and no settle is on its
    /// way that may bring one from before.
    pub(crate) fn reset_breaker(&mut self, at: At, act: &mut Act<'_>) {
        let (application, endpoint) = at;
        let Some(record) = self.endpoints.get_mut(&at) else { return };
        if !record.begun || record.settling > 0 {
            record.reset = true;
            return;
        }
        let before = record.running.breaker;
        record.running.breaker = before.reset();
        record.held_until = record.held_until.min(act.now.rows);
        if record.running.breaker.word() != before.word() {
            record.concurrency = Concurrency::default();
            act.announce(Announcement::Closed { application, endpoint });
        }
        self.write_running(at, act);
    }

    /// Resets a breaker that waited for the last settle, if it did.
    pub(crate) fn reset_if_asked(&mut self, at: At, act: &mut Act<'_>) {
        let Some(record) = self.endpoints.get_mut(&at) else { return };
        if record.begun && record.settling == 0 && std::mem::take(&mut record.reset) {
            self.reset_breaker(at, act);
        }
    }

    /// Has the running state written outside of a settle. If that is on its way already, what has
    /// changed is written after it.
    pub(crate) fn write_running(&mut self, at: At, act: &mut Act<'_>) {
        let (application, endpoint) = at;
        let Some(record) = self.endpoints.get_mut(&at).filter(|record| !record.writing) else {
            return;
        };
        let Some(lease) = self.leases.lease(record.partition) else { return };
        (record.writing, record.changed) = (true, false);
        let running = record.running;
        let upkeep = Upkeep::Run { lease, application, endpoint, running };
        self.keep_up(Step::Run { lease, at, running }, upkeep, act);
    }
}
