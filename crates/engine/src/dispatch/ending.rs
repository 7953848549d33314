//! The end of an attempt: judged at once, settled through the store.

use std::sync::Arc;
use std::time::Duration;

use domain::breaker::{Breaker, Role};
use domain::delivery::{Cause, is_poison};
use domain::dice::Dice;
use domain::endpoint::Reason;
use domain::health::Finding;
use domain::outcome::Outcome;
use domain::rate::ON_THE_WAY;
use domain::verdict::{EndpointEffect, Signal};
use domain::{concurrency::Concurrency, explain, judge};
use store::keys::{DeliveryKey, EndpointKey, Lease};
use store::queue::{AttemptRecord, Ending, NextState, Phases, Settle};

use crate::dispatch::attempts::Ended;
use crate::endpoints::endpoint::{At, Disabling, Last};
use crate::endpoints::horizon::Horizon;
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::announcement::Announcement;
use crate::protocol::effect::Effect;
use crate::protocol::event::{End, Number};
use crate::roster::Member;

/// How long an endpoint rests after our own code failed at it.
const REST: Duration = Duration::from_secs(1);
/// How long what a receiver gets counts for the rate there.
const COUNTS_FOR: Duration = Duration::from_secs(1);
/// The most deliveries whose panics are counted.
pub(crate) const PANICS: usize = 1_024;

impl Engine {
    pub(crate) fn ended(&mut self, number: Number, end: End, dice: Dice, act: &mut Act<'_>) {
        let Some(attempt) = self.attempts.get(number).filter(|one| one.is_in_flight()) else {
            return;
        };
        let key = attempt.delivery.key;
        let at = (key.application, key.endpoint);
        if attempt.stray {
            self.attempts.remove(number);
            self.end_stray(at);
        } else {
            let probe = attempt.role == Role::Probe;
            if let Some(endpoint) = self.endpoints.get_mut(&at) {
                endpoint.in_flight = endpoint.in_flight.saturating_sub(1);
                endpoint.probing &= !probe;
            }
            match end {
                End::Panicked => self.panicked(number, key, act),
                End::Recorded(record) if record.outcome == Outcome::Interrupted => {
                    self.put_back(number, act);
                }
                End::Recorded(record) => self.settle(number, *record, dice, act),
            }
        }
        self.look(at, act);
    }

    fn end_stray(&mut self, at: At) {
        if let Some(count) = self.strays.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.strays.remove(&at);
            }
        }
    }

    /// Our own doing: the delivery waits as if nothing had happened. One that was cancelled meanwhile
    /// has had the attempt that it may have; if it was replayed since, the store has it.
    fn put_back(&mut self, number: Number, act: &Act<'_>) {
        let Some(mut attempt) = self.attempts.remove(number) else { return };
        self.vacate(attempt.lease);
        if planted::has(Bug::CountInterrupted) {
            attempt.delivery.pending.budget.attempts += 1;
        }
        let key = attempt.delivery.key;
        let member = self.member(key);
        let expected = !self.trusted || self.stopping.is_some();
        let cancelled = self.requests.was_cancelled(&key);
        let Some(endpoint) = self.endpoints.get_mut(&(key.application, key.endpoint)) else {
            return;
        };
        if cancelled {
            endpoint.window.settled(key.message);
            endpoint.window.lower(Horizon::unknown(act.now.rows));
        } else if !planted::has(Bug::LoseInterrupted) {
            endpoint.window.put_back(attempt.delivery);
        }
        if !expected {
            // Whatever goes wrong with us may go wrong again at once.
            endpoint.rest_until = act.now.rows.after(REST);
        }
        if let Some(member) = member.filter(|_| !planted::has(Bug::LoseProbe)) {
            let settings = member.defaults.breaker.as_ref();
            endpoint.heed(settings, attempt.role, Signal::Nothing, act.now.rows);
        }
    }

    fn panicked(&mut self, number: Number, key: DeliveryKey, act: &mut Act<'_>) {
        let times = self.panics.get(&key).map_or(1, |times| times + 1);
        self.panics.insert(key, times);
        act.announce(Announcement::Panicked { delivery: key, times });
        let poison = is_poison(times);
        if poison {
            // It must be here to be buried; the store leaves it alone if it is cancelled.
            self.requests.forget_cancel(&key);
            if let Some(endpoint) = self.endpoints.get_mut(&(key.application, key.endpoint)) {
                endpoint.window.mark_cancelled(key.message, false);
            }
        }
        self.put_back(number, act);
        if poison {
            self.panics.remove(&key);
            self.bury_poison(key, act);
        }
    }

    pub(crate) fn member(&self, key: DeliveryKey) -> Option<Arc<Member>> {
        self.rosters.get(key.application)?.member(key.endpoint).cloned()
    }

    fn settle(&mut self, number: Number, mut record: AttemptRecord, dice: Dice, act: &mut Act<'_>) {
        let Some(attempt) = self.attempts.get(number) else { return };
        let (lease, role, key) = (attempt.lease, attempt.role, attempt.delivery.key);
        let (recorded, ended_before) = (attempt.delivery.recorded, attempt.delivery.ended_before);
        let pending = &attempt.delivery.pending;
        let verdict = judge(&attempt.policy, pending, record.outcome, act.now.rows, dice);
        let next = verdict.next;
        if let Some(why) = explain(&attempt.policy, record.outcome, &verdict) {
            record.error =
                Some(record.error.map_or(why.clone(), |error| [&error, "; ", &why].concat()));
        }
        let took = act.now.elapsed.saturating_sub(attempt.began);
        let answered = was_answered(record.outcome);
        let lively = answered || took < self.settings.hanging_after;
        let mut news = self.weigh(key, role, verdict.endpoint, act);
        news.extend(verdict.notice.map(|notice| Announcement::Noticed { delivery: key, notice }));
        self.stay_if_late(lease, record.phases, act);
        let mut running = None;
        if let Some(endpoint) = self.endpoints.get_mut(&(key.application, key.endpoint)) {
            endpoint.ended = Last::at(act.now.elapsed);
            if lively {
                endpoint.answered = endpoint.ended;
            }
            endpoint.settling += 1;
            record.retry_after_kept = verdict.retry_after_kept;
            if std::mem::take(&mut endpoint.changed) && !planted::has(Bug::ForgetBreaker) {
                running = Some(endpoint.running);
            }
        }
        if let Some(attempt) = self.attempts.get_mut(number) {
            attempt.delivery.recorded = recorded.saturating_add(1);
            attempt.delivery.last_attempt_at = Some(record.ended_at);
            attempt.delivery.pending.budget = verdict.budget;
            attempt.news = news;
        }
        self.attempts.settle(number, Ended { next, answered, now: act.now.elapsed });
        let budget = verdict.budget;
        let settle =
            Settle { lease, key, recorded, ended_before, next, budget, attempt: record, running };
        act.effects.push(Effect::Settle { attempt: number, settle: Box::new(settle) });
        self.forgive(key, next);
    }

    /// Keeps a partition a little longer whose receiver may have got a request long after it left: a
    /// new owner begins with one spacing, as if all had arrived when they were sent. Only the first
    /// request on a connection without TLS can wait at the receiver for its program.
    fn stay_if_late(&mut self, lease: Lease, phases: Phases, act: &Act<'_>) {
        let may_wait = phases.reused == Some(false) && phases.tls.is_none();
        let late = phases.first_byte.is_none_or(|after| after > ON_THE_WAY);
        if may_wait
            && late
            && let Some(held) = self.leases.get_mut(lease.partition)
            && held.epoch == lease.epoch
        {
            held.quiet_at = act.now.elapsed.saturating_add(COUNTS_FOR);
        }
    }

    /// A delivery that is done with has no panics to count any more.
    fn forgive(&mut self, key: DeliveryKey, next: NextState) {
        match next {
            NextState::Delivered | NextState::Dead(_) if !self.panics.is_empty() => {
                self.panics.remove(&key);
            }
            NextState::Delivered | NextState::Dead(_) | NextState::Pending { .. } => {}
        }
    }

    /// Takes in what an attempt said about its endpoint. Returns what is to be announced of it once
    /// that is written.
    fn weigh(
        &mut self,
        key: DeliveryKey,
        role: Role,
        effect: EndpointEffect,
        act: &Act<'_>,
    ) -> Vec<Announcement> {
        let (now, mut news) = (act.now.rows, Vec::new());
        let Some(member) = self.member(key) else { return news };
        let at = (key.application, key.endpoint);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return news };
        let before = endpoint.running;
        endpoint.heed(member.defaults.breaker.as_ref(), role, effect.signal, now);
        let running = &mut endpoint.running;
        let (health, finding) = running.health.after(&member.defaults.health, effect.signal, now);
        running.health = health;
        running.paused_until = running.paused_until.filter(|until| *until > now);
        running.paused_until = running.paused_until.max(effect.pause_until);
        endpoint.concurrency = endpoint.concurrency.after(effect.pressure, member.in_flight());
        endpoint.changed |= *running != before;
        let change = change_of(at, before.breaker, running.breaker);
        if matches!(change, Some(Announcement::Closed { .. })) {
            endpoint.concurrency = Concurrency::default();
        }
        news.extend(change);
        let (application, endpoint) = at;
        let found = match finding {
            Finding::Unremarkable => None,
            Finding::Warn(level, reason) => {
                news.push(Announcement::Warned { application, endpoint, level, reason });
                None
            }
            Finding::Disable(reason) => Some(reason),
        };
        news.extend(effect.disable.or(found).and_then(|reason| self.doom(at, reason)));
        news
    }

    /// Sends an endpoint nothing more that is to be disabled. That is done and told when the attempt
    /// which led to it is written: if it was fenced, the next owner has seen what happened since.
    fn doom(&mut self, at: At, reason: Reason) -> Option<Announcement> {
        let endpoint = self.endpoints.get_mut(&at);
        let record = endpoint.filter(|one| one.disabling == Disabling::No)?;
        record.disabling = Disabling::Asked;
        let failing_since = record.running.health.failing_since;
        let (application, endpoint) = at;
        Some(Announcement::Disabled { application, endpoint, reason, failing_since })
    }

    /// Tells what an attempt led to, and does what is to be done about it.
    pub(crate) fn tell(&mut self, news: Announcement, act: &mut Act<'_>) {
        if let Announcement::Disabled { application, endpoint, reason, .. } = news {
            self.disabling.insert((endpoint, application));
            act.effects.push(Effect::Disable { application, endpoint, reason });
        }
        act.announce(news);
    }

    /// Takes in that an endpoint was disabled: the roster says what became of it.
    pub(crate) fn disabled(&mut self, endpoint: EndpointKey, act: &mut Act<'_>) {
        let range = (endpoint, store::keys::ApplicationKey(i64::MIN))..;
        let Some(entry) = self.disabling.range(range).next().copied() else { return };
        if entry.0 != endpoint {
            return;
        }
        self.disabling.remove(&entry);
        let at = (entry.1, endpoint);
        self.rosters.refresh(entry.1);
        if let Some(record) = self.endpoints.get_mut(&at) {
            record.disabling = Disabling::Done;
            record.created = Last::at(act.now.elapsed);
        }
        self.look(at, act);
    }

    /// Buries a delivery whether it waits or is out.
    pub(crate) fn bury_poison(&mut self, key: DeliveryKey, act: &mut Act<'_>) {
        let at = (key.application, key.endpoint);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        if endpoint.window.withdraw(key.message) {
            self.bury(at, Ending::Dead(Cause::Poison), vec![key.message], act);
        }
    }
}

/// Returns what is to be announced of a breaker after an attempt.
fn change_of(at: At, before: Breaker, after: Breaker) -> Option<Announcement> {
    let (application, endpoint) = at;
    match (before, after) {
        (Breaker::Closed { .. }, Breaker::Open { until, .. }) => {
            Some(Announcement::Tripped { application, endpoint, until })
        }
        (Breaker::HalfOpen { .. }, Breaker::Open { until, .. }) => {
            Some(Announcement::Reopened { application, endpoint, until })
        }
        (Breaker::Open { .. } | Breaker::HalfOpen { .. }, Breaker::Closed { .. }) => {
            Some(Announcement::Closed { application, endpoint })
        }
        (Breaker::Closed { .. }, Breaker::Closed { .. })
        | (Breaker::Open { .. }, Breaker::Open { .. })
        // Only the beginning of a probe makes it half-open.
        | (_, Breaker::HalfOpen { .. }) => None,
    }
}

/// Tells whether there was anybody at the other end, however long that took.
const fn was_answered(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Answered { .. } | Outcome::BrokenAnswer | Outcome::TlsFailed => true,
        Outcome::TimedOut | Outcome::Unreachable(_) | Outcome::Blocked | Outcome::Interrupted => {
            false
        }
    }
}
