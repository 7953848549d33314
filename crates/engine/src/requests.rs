//! Requests that other nodes left for the owner: acted on once, then consumed under the lease.
//!
//! A breaker's reset is consumed only when it is written. Until then nothing but memory knows of it,
//! and should that be lost, whoever owns the endpoint next reads the request again.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::concurrency::Concurrency;
use domain::partition::Partition;
use domain::time::Timestamp;
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

/// The resets of one endpoint's breaker that are not written.
#[derive(Debug)]
struct Reset {
    partition: Partition,
    requests: Vec<i64>,
}

/// What was asked for, and what has been done about it.
#[derive(Debug)]
pub(crate) struct Requests {
    reading: Option<Duration>,
    next: Duration,
    /// Whether the last reading may have left some out.
    full: bool,
    /// Requests that were acted on, and when removing them was answered.
    acted: BTreeMap<i64, Option<Duration>>,
    /// Resets that are under way.
    resets: BTreeMap<At, Reset>,
    /// Those whose endpoint memory has let go, with when it had begun to know it.
    left: Vec<(At, Duration, Reset)>,
    /// Requests to be removed: nothing is left to be done about them.
    done: BTreeMap<Partition, Vec<i64>>,
    /// Deliveries whose next attempt a person asked for.
    hurried: Recent<()>,
    /// Deliveries that were cancelled and were not out: their hand-over may still be on its way. The
    /// window marks those that were.
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
            resets: BTreeMap::new(),
            left: Vec::new(),
            done: BTreeMap::new(),
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

    /// Takes in that a request is acted on.
    fn begin(&mut self, request: &Request) {
        let Request { number, partition, .. } = *request;
        self.acted.insert(number, None);
        if request.kind == RequestKind::ResetBreaker {
            let none = || Reset { partition, requests: Vec::new() };
            let at = (request.application, request.endpoint);
            self.resets.entry(at).or_insert_with(none).requests.push(number);
        } else {
            self.done.entry(partition).or_default().push(number);
        }
    }

    fn finish(&mut self, reset: Reset) {
        self.done.entry(reset.partition).or_default().extend(reset.requests);
    }

    /// Takes in that memory lets an endpoint go that it has known since a moment.
    pub(crate) fn leave(&mut self, at: At, since: Duration) {
        if let Some(reset) = self.resets.remove(&at) {
            self.left.push((at, since, reset));
        }
    }

    /// Forgets what was not consumed for partitions that are lost: their next owner reads it again,
    /// whoever that is.
    pub(crate) fn lose(&mut self, partitions: &[Partition]) {
        let is_lost = |reset: &Reset| partitions.contains(&reset.partition);
        let resets = self.resets.values().chain(self.left.iter().map(|(_, _, reset)| reset));
        let lost = resets.filter(|reset| is_lost(reset)).flat_map(|reset| reset.requests.iter());
        let mut lost: Vec<i64> = lost.copied().collect();
        lost.extend(partitions.iter().filter_map(|one| self.done.remove(one)).flatten());
        self.resets.retain(|_, reset| !is_lost(reset));
        self.left.retain(|(_, _, reset)| !is_lost(reset));
        self.act_again(&lost);
    }

    /// Has requests acted on when they are read again.
    fn act_again(&mut self, requests: &[i64]) {
        for number in requests {
            self.acted.remove(number);
        }
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
        self.look_after_left(now);
        self.consume_done(act);
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
        self.requests.full = requests.len() >= limits::REQUESTS;
        for request in requests {
            let held = self.leases.get(request.partition).is_some_and(|held| !held.leaving);
            if held && !self.requests.acted.contains_key(&request.number) {
                self.requests.begin(&request);
                self.act_on(&request, act);
            }
        }
        self.consume_done(act);
    }

    /// Has requests removed about which nothing is left to be done.
    pub(crate) fn consume_done(&mut self, act: &mut Act<'_>) {
        for (partition, requests) in std::mem::take(&mut self.requests.done) {
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
                    // It may be one of those that are scheduled.
                    if record.scheduled < Timestamp::FAR_FUTURE {
                        record.expect(Some(act.now.rows));
                    }
                } else {
                    self.requests.hurry(key);
                    let horizon = Some(Horizon::unknown(act.now.rows));
                    self.remember(at, request.partition, horizon, act);
                    if let Some(record) = self.endpoints.get_mut(&at) {
                        record.expect(Some(act.now.rows));
                    }
                }
            }
            RequestKind::Cancel(message) => {
                let mut is_out = false;
                if let Some(record) = self.endpoints.get_mut(&at) {
                    is_out = record.window.cancel(message);
                    // It may have been the head of a sequence, or what the horizon was set to.
                    if record.window.horizon().is_some() {
                        record.window.lower(Horizon::unknown(act.now.rows));
                    }
                }
                if !is_out {
                    self.requests.cancel(DeliveryKey { application, endpoint, message });
                }
            }
        }
        self.look(at, act);
    }

    /// Looks after resets whose endpoint memory has let go. If that is gone, there is nothing to write;
    /// otherwise they are read again.
    fn look_after_left(&mut self, now: Duration) {
        for (at, since, reset) in std::mem::take(&mut self.requests.left) {
            let entry = self.rosters.using(at.0, now);
            let fresh = entry.asked_at.is_some_and(|asked_at| asked_at >= since);
            let member = entry.roster.as_ref().and_then(|roster| roster.member(at.1));
            if fresh && member.is_none() {
                self.requests.finish(reset);
            } else {
                self.requests.act_again(&reset.requests);
            }
        }
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

    /// Takes in that a reset is written, or that the store refuses it: what is asked for once is not
    /// tried for ever. Many that are under way at once are consumed together.
    pub(crate) fn finish_reset(&mut self, at: At, act: &mut Act<'_>) {
        let Some(reset) = self.requests.resets.remove(&at) else { return };
        self.requests.finish(reset);
        if self.requests.resets.is_empty() {
            self.consume_done(act);
        }
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
