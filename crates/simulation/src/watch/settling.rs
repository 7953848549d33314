//! Invariants 3 and 4, at the moment something becomes of a delivery.

use std::time::Duration;

use domain::delivery::{Cause, Delivery, Pending};
use domain::endpoint::State as EndpointState;
use domain::ids::AttemptId;
use store::keys::{DeliveryKey, MessageKey};
use store::memory::State;
use store::queue::{
    Bury, Ending, NextState, Replay, Request, RequestKind, Settle, Settled, Upkeep,
};

use super::endpoints::is_open;
use super::numbering::pending_in;
use super::{Open, Watch};
use crate::counters::Path;
use crate::node::{BEGINNING, NodeRef};

/// How far the clocks of a fleet may be apart.
const CLOCKS: Duration = Duration::from_secs(7);

impl Watch {
    /// Tells whether an attempt is recorded.
    pub(crate) fn has_recorded(&self, attempt: AttemptId) -> bool {
        self.recorded.contains(&attempt)
    }

    /// A settle took effect.
    pub(crate) fn settled(&mut self, settle: &Settle, answer: Settled, now: Duration) {
        self.now = now;
        let key = settle.key;
        let expected = self.expected.get(&settle.attempt.id);
        let counts = expected.is_none_or(|expected| expected.counts);
        if let Some(entry) = self.deliveries.get_mut(&key) {
            let own = |open: Open| {
                expected.is_none_or(|it| it.me == open.me && it.attempt == open.attempt)
            };
            if entry.open.is_some_and(own) {
                entry.open = None;
            }
        }
        if let Some(running) = settle.running.filter(|_| answer != Settled::Fenced) {
            self.wrote(key.endpoint, running);
        }
        match answer {
            Settled::Applied { .. } => self.applied(settle, counts),
            Settled::LeftAlone => {
                self.recorded.insert(settle.attempt.id);
                if let Some(entry) = self.deliveries.get_mut(&key) {
                    entry.recorded += 1;
                }
            }
            Settled::Fenced | Settled::Missing | Settled::Refused => {}
        }
    }

    fn applied(&mut self, settle: &Settle, counts: bool) {
        let key = settle.key;
        self.recorded.insert(settle.attempt.id);
        let owner = self.place_of(key.endpoint).and_then(|(_, it)| self.owners.get(&it)).copied();
        if owner.is_some_and(|owner| owner.lease.epoch > settle.lease.epoch) {
            let text = format!("{key:?} is settled under an epoch that is over");
            return self.complain(3, text);
        }
        let Some(entry) = self.deliveries.get_mut(&key) else {
            return self.complain(6, format!("{key:?} is settled and does not exist"));
        };
        let Delivery::Pending(before) = entry.state else {
            let state = entry.state;
            return self.complain(3, format!("{key:?} was {state:?} and is settled"));
        };
        if entry.recorded != settle.recorded {
            let text = format!("{key:?} has {} attempts, not {}", entry.recorded, settle.recorded);
            return self.complain(3, text);
        }
        entry.recorded += 1;
        entry.counted += u32::from(counts);
        let (counted, most, panics) = (entry.counted, entry.max_attempts, entry.panics);
        let allowed = entry.most_attempts;
        if settle.budget.attempts != counted {
            let said = settle.budget.attempts;
            self.complain(4, format!("{key:?} used {counted} attempts and {said} are counted"));
        }
        if allowed.is_some_and(|allowed| counted > allowed) {
            self.complain(4, format!("{key:?} used {counted} attempts of {allowed:?}"));
        }
        match settle.next {
            NextState::Pending { due } => {
                let budget = settle.budget;
                if budget.expires_at.is_some_and(|end| due > end) {
                    self.complain(4, format!("{key:?} is to be sent after it is given up"));
                }
                self.set_state(key, Delivery::Pending(Pending { due, budget }));
            }
            NextState::Delivered => self.set_state(key, Delivery::Delivered),
            NextState::Dead(cause) => {
                if cause == Cause::Exhausted && most.is_some_and(|most| counted < most) {
                    self.complain(4, format!("{key:?} is exhausted after {counted} of {most:?}"));
                }
                if cause == Cause::Poison && panics < 3 {
                    self.complain(4, format!("{key:?} is poison after {panics} panics"));
                }
                self.check_expiry(key, &before, cause);
                self.set_state(key, Delivery::Dead(cause));
            }
        }
    }

    /// What a verdict buries as expired has just been tried, so only its time is looked at.
    fn check_expiry(&mut self, key: DeliveryKey, before: &Pending, cause: Cause) {
        if cause == Cause::Expired && before.budget.expires_at.is_none() {
            self.complain(4, format!("{key:?} is expired and has all the time in the world"));
        }
    }

    /// Deliveries were buried without an attempt, but for those that have begun anew.
    pub(crate) fn buried(&mut self, bury: &Bury, now: Duration, state: &State) {
        self.now = now;
        for doomed in &bury.deliveries {
            let Bury { application, endpoint, .. } = *bury;
            let key = DeliveryKey { application, endpoint, message: doomed.message };
            let Some(entry) = self.deliveries.get(&key) else { continue };
            let Delivery::Pending(pending) = entry.state else { continue };
            let stored = state.deliveries_of(application, doomed.message);
            let stored = stored.iter().find(|stored| stored.key == key);
            if stored.is_some_and(|stored| matches!(stored.state, Delivery::Pending(_))) {
                continue;
            }
            let open = entry.open.is_some_and(|open| open.lease == Some(bury.lease));
            if let Some(problem) = self.burial_problem(key, &pending, bury) {
                self.complain(4, format!("{key:?} is buried as {:?} {problem}", bury.ending));
            }
            if open && bury.ending == Ending::Dead(Cause::Expired) {
                self.complain(3, format!("{key:?} is buried as expired while it is being sent"));
            }
            let ended = match bury.ending {
                Ending::Dead(cause) => Delivery::Dead(cause),
                Ending::Cancelled => Delivery::Cancelled,
            };
            self.set_state(key, ended);
        }
    }

    fn burial_problem(&self, key: DeliveryKey, pending: &Pending, bury: &Bury) -> Option<String> {
        let entry = self.deliveries.get(&key)?;
        let place = self.endpoints.get(&key.endpoint)?;
        let cause = match bury.ending {
            Ending::Dead(cause) => cause,
            Ending::Cancelled => {
                let expunged = self.messages.get(&key.message).is_some_and(|it| it.expunged);
                return (!expunged).then(|| "and has its payload".to_owned());
            }
        };
        match cause {
            Cause::Expired => {
                let Some(end) = pending.budget.expires_at else {
                    return Some("and has all the time in the world".to_owned());
                };
                if end > BEGINNING.after(self.now).after(CLOCKS) {
                    return Some(format!("before its end at {end:?}"));
                }
                let due = pending.due.before(CLOCKS);
                let since = |at: Option<Duration>| at.is_some_and(|at| BEGINNING.after(at) >= due);
                let paused = place.running.paused_until.is_some_and(|until| until >= due);
                let held = is_open(place.running.breaker)
                    || paused
                    || place.state == EndpointState::Paused
                    || since(place.held);
                let tried = since(entry.ended);
                (!held && !tried).then(|| format!("without an attempt since {:?}", pending.due))
            }
            Cause::EndpointDeleted => (place.state != EndpointState::Deleted)
                .then(|| "and its endpoint is not deleted".to_owned()),
            // That was looked at when it was asked for: policy and state may be others by now.
            Cause::BreakerOpen | Cause::EndpointDisabled => None,
            Cause::Poison => (entry.panics < 3).then(|| format!("after {} panics", entry.panics)),
            Cause::Permanent | Cause::Exhausted | Cause::Blocked => {
                Some("without a verdict".to_owned())
            }
        }
    }

    /// Deliveries were replayed, but for those that were no longer as they were chosen.
    pub(crate) fn replayed(&mut self, replay: &Replay, now: Duration, state: &State) {
        self.now = now;
        for chosen in &replay.deliveries {
            let key = chosen.key;
            let Some(entry) = self.deliveries.get_mut(&key) else { continue };
            if let Delivery::Pending(_) = entry.state {
                continue;
            }
            let stored = state.deliveries_of(key.application, key.message);
            let stored = stored.iter().find(|stored| stored.key == key);
            if !stored.is_some_and(|stored| matches!(stored.state, Delivery::Pending(_))) {
                continue;
            }
            let before = entry.state;
            (entry.scheduled, entry.turn) = (false, None);
            entry.counted = 0;
            entry.most_attempts = Some(0);
            entry.taken = false;
            entry.sent_after.clear();
            entry.heard = None;
            self.set_state(key, Delivery::Pending(chosen.pending));
            if before != chosen.state {
                let text = format!("{key:?} is replayed as {:?} and was {before:?}", chosen.state);
                self.complain(3, text);
            }
        }
    }

    /// A delivery was cancelled; true if it was being sent.
    pub(crate) fn cancelled(&mut self, key: DeliveryKey, now: Duration) -> bool {
        self.now = now;
        self.set_state(key, Delivery::Cancelled);
        self.deliveries.get(&key).is_some_and(|entry| entry.open.is_some())
    }

    /// The payload of a delivery's message was expunged, and what is pending of it cancelled, unless
    /// an earlier version did it.
    pub(crate) fn expunged(&mut self, one: DeliveryKey, cancels: bool, state: &State) {
        if let Some(message) = self.messages.get_mut(&one.message) {
            message.expunged = true;
        }
        if !cancels {
            return;
        }
        for stored in state.deliveries_of(one.application, one.message) {
            if !self.pending.contains(&stored.key) {
                continue;
            }
            if stored.state != Delivery::Cancelled {
                let text = format!("{:?} is {:?} without a payload", stored.key, stored.state);
                self.complain(2, text);
            }
            self.set_state(stored.key, Delivery::Cancelled);
        }
    }

    /// A process reads requests.
    pub(super) fn reads(&mut self, requests: &[Request]) {
        for request in requests {
            if let RequestKind::Cancel(message) = request.kind {
                let (application, endpoint) = (request.application, request.endpoint);
                let key = DeliveryKey { application, endpoint, message };
                self.cancels.insert(request.number, key);
            }
            let place = self.endpoints.get(&request.endpoint);
            let until = place.and_then(|place| place.running.paused_until);
            if let Some(until) = until.filter(|_| ends_pause(request.kind)) {
                self.ending.entry(request.number).or_insert((request.endpoint, until));
            }
        }
    }

    /// A process has acted on requests, and has them removed.
    pub(super) fn consumes(&mut self, me: NodeRef, requests: &[i64]) {
        let now = BEGINNING.after(self.now).after(CLOCKS);
        for number in requests {
            let Some((endpoint, until)) = self.ending.remove(number) else { continue };
            let place = self.endpoints.get(&endpoint);
            let place = place.filter(|it| it.state != EndpointState::Deleted);
            let still = place.and_then(|place| place.running.paused_until);
            if still == Some(until) && until > now {
                self.complain(4, format!("the pause of {endpoint:?} outlives the wish to end it"));
            }
        }
        for key in requests.iter().filter_map(|number| self.cancels.get(number)) {
            if let Some(entry) = self.deliveries.get_mut(key)
                && entry.state == Delivery::Cancelled
            {
                entry.heard = Some(me);
            }
        }
    }

    /// A request was left for an owner.
    pub(crate) fn asked(&mut self, step: &Upkeep, _: &State) {
        let Upkeep::Ask { request, .. } = step else { return };
        let RequestKind::RetryNow(message) = request.kind else { return };
        let (application, endpoint) = (request.application, request.endpoint);
        let key = DeliveryKey { application, endpoint, message };
        let Some(entry) = self.deliveries.get(&key) else { return };
        self.paths.push(Path::RetriedNow);
        if let Ok(hurried) = entry.state.retry_now(request.at) {
            self.set_state(key, hurried);
        }
    }

    /// Somebody pruned: what is pending for deleted endpoints is buried, a few at a time.
    pub(crate) fn pruned(&mut self, state: &State) {
        let deleted = self.endpoints.iter().filter(|(_, it)| it.state == EndpointState::Deleted);
        let deleted: Vec<_> = deleted.map(|(key, place)| (*key, place.application)).collect();
        for (endpoint, application) in deleted {
            let key = |message| DeliveryKey { application, endpoint, message: MessageKey(message) };
            let theirs = self.pending.range(key(i64::MIN)..=key(i64::MAX));
            let mut theirs: Vec<_> = theirs.copied().collect();
            if theirs.is_empty() {
                continue;
            }
            let left = pending_in(state, application, endpoint);
            theirs.retain(|key| !left.iter().any(|delivery| delivery.key == *key));
            for key in theirs {
                self.set_state(key, Delivery::Dead(Cause::EndpointDeleted));
            }
        }
    }
}

/// Tells whether a request ends a pause by Retry-After.
const fn ends_pause(kind: RequestKind) -> bool {
    match kind {
        RequestKind::EndPause | RequestKind::ResetBreaker | RequestKind::RetryNow(_) => true,
        RequestKind::Refresh | RequestKind::Cancel(_) => false,
    }
}
