//! Requests that other nodes left for the owner: acted on once, then consumed under the lease.
//!
//! A breaker's reset and the end of a pause are consumed only when they are written. Until then nothing but
//! memory knows of them, and should that be lost, the endpoint's next owner reads the request again.

pub(crate) mod recent;

use std::collections::BTreeMap;
use std::time::Duration;

use domain::concurrency::Concurrency;
use domain::partition::Partition;
use domain::time::Timestamp;
use store::keys::DeliveryKey;
use store::limits;
use store::queue::{Request, RequestKind, Upkeep};

use crate::dispatch::burying::Step;
use crate::endpoints::endpoint::{At, ByHand};
use crate::endpoints::horizon::Horizon;
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::announcement::Announcement;
use crate::protocol::effect::Effect;
use crate::protocol::event::Unanswered;
use crate::requests::recent::Recent;

/// The most deliveries that are remembered as hurried, and as cancelled.
const REMEMBERED: usize = 4_096;

/// The requests to reset one endpoint's breaker, or to end its pause, that are not written.
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

    /// Takes in that a request is acted on, and whether it is done only when the running state is written.
    fn begin(&mut self, request: &Request, by_hand: ByHand) {
        let Request { number, partition, .. } = *request;
        self.acted.insert(number, None);
        if by_hand != ByHand::Nothing {
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
                let by_hand = self.by_hand(&request, act.now.rows);
                self.requests.begin(&request, by_hand);
                self.act_on(&request, by_hand, act);
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

    /// Returns what a request changes about the running state. Where nothing pauses the endpoint, and the
    /// end of a pause is not about to be written, nothing need be written to end that.
    fn by_hand(&self, request: &Request, now: Timestamp) -> ByHand {
        let at = (request.application, request.endpoint);
        let record = self.endpoints.get(&at);
        let may_pause = record.is_none_or(|record| !record.begun || record.is_paused(now))
            || self.requests.resets.contains_key(&at);
        match request.kind {
            RequestKind::ResetBreaker => ByHand::ResetBreaker,
            RequestKind::EndPause | RequestKind::RetryNow(_) if may_pause => ByHand::EndPause,
            RequestKind::EndPause
            | RequestKind::RetryNow(_)
            | RequestKind::Refresh
            | RequestKind::Cancel(_) => ByHand::Nothing,
        }
    }

    fn act_on(&mut self, request: &Request, by_hand: ByHand, act: &mut Act<'_>) {
        let at = (request.application, request.endpoint);
        let (application, endpoint) = at;
        match request.kind {
            RequestKind::ResetBreaker => {}
            RequestKind::Refresh | RequestKind::EndPause => self.rosters.refresh(application),
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
        if by_hand != ByHand::Nothing {
            if !self.endpoints.contains(&at) {
                self.remember(at, request.partition, None, act);
            }
            self.change_by_hand(at, by_hand, act);
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

    /// Changes the running state by hand: now, or as soon as it is known and no settle is on its way that
    /// may bring one from before. A pause that is known ends at once, so that an answer that comes later
    /// counts.
    fn change_by_hand(&mut self, at: At, by_hand: ByHand, act: &mut Act<'_>) {
        let Some(record) = self.endpoints.get_mut(&at) else { return };
        if record.begun {
            record.end_pause(act.now.rows);
        }
        if !record.begun || record.settling > 0 {
            record.asked = record.asked.max(by_hand);
            return;
        }
        self.write_by_hand(at, by_hand, act);
    }

    /// Does what was asked for before the running state was known.
    pub(crate) fn begin_by_hand(&mut self, at: At, act: &mut Act<'_>) {
        let Some(record) = self.endpoints.get_mut(&at) else { return };
        match std::mem::replace(&mut record.asked, ByHand::Nothing) {
            ByHand::Nothing => {}
            ByHand::EndPause if !record.is_paused(act.now.rows) => self.finish_reset(at, act),
            by_hand @ (ByHand::EndPause | ByHand::ResetBreaker) => {
                self.change_by_hand(at, by_hand, act);
            }
        }
    }

    fn write_by_hand(&mut self, at: At, by_hand: ByHand, act: &mut Act<'_>) {
        let (application, endpoint) = at;
        let Some(record) = self.endpoints.get_mut(&at) else { return };
        if planted::has(Bug::ForgetEndOfPause) && by_hand == ByHand::EndPause {
            record.changed = false;
            return self.finish_reset(at, act);
        }
        record.held_until = record.held_until.min(act.now.rows);
        let before = record.running.breaker;
        if by_hand == ByHand::ResetBreaker {
            record.running.breaker = before.reset();
        }
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

    /// Does what waited for the last settle, if something did.
    pub(crate) fn go_on_by_hand(&mut self, at: At, act: &mut Act<'_>) {
        let Some(record) = self.endpoints.get_mut(&at) else { return };
        if record.begun && record.settling == 0 && record.asked != ByHand::Nothing {
            let by_hand = std::mem::replace(&mut record.asked, ByHand::Nothing);
            self.write_by_hand(at, by_hand, act);
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
