//! Starting attempts: turn by turn, while there are slots.

use std::sync::Arc;
use std::time::Duration;

use domain::breaker::{Admission, Role};
use store::queue::{PendingDelivery, Trigger};

use crate::dispatch::attempts::{Attempt, Counted, Stage};
use crate::endpoints::endpoint::{At, Queued, Readiness};
use crate::endpoints::looking::Standing;
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};
use crate::protocol::announcement::Announcement;
use crate::protocol::effect::{Effect, Sending};
use crate::protocol::suspect::Suspect;
use crate::roster::Member;

impl Engine {
    /// Starts attempts until slots or turns are used up.
    pub(crate) fn start_what_may(&mut self, act: &mut Act<'_>) {
        self.attempts.age(act.now.elapsed, self.settings.hanging_after);
        if !self.hearing.is_current(act.now.elapsed, &self.settings) {
            return;
        }
        if self.attempts.waits_for_settles(act.now.elapsed, self.settings.settle_patience) {
            return;
        }
        while self.attempts.has_room(&self.settings) {
            // Whoever had the last turn comes second; otherwise one that has just timed out might take
            // its own place again and again.
            let parked_first = self.turns.parked_first;
            let mut given = parked_first && self.unpark(act);
            if self.attempts.has_room(&self.settings)
                && let Some(at) = self.next_turn()
            {
                self.take_turn(at, act);
                self.turns.parked_first = true;
                given = true;
            }
            given |= !parked_first && self.unpark(act);
            if !given {
                return;
            }
        }
    }

    /// Takes the next turn. The last slots are for applications that hold few; there are not many others,
    /// so that few are passed by.
    fn next_turn(&mut self) -> Option<At> {
        if !self.attempts.is_short(&self.settings) {
            return self.turns.next();
        }
        self.turns.next_of(|application| self.attempts.holds_few(application, &self.settings))
    }

    /// Gives a turn to one of each kind that were set aside, if it may start; tells whether it did.
    /// Not to all of them: most would be set aside again, and there may be thousands.
    fn unpark(&mut self, act: &mut Act<'_>) -> bool {
        let has_parked = self.turns.has_parked();
        let kinds = [Counted::Trusted, Counted::Doubtful];
        has_parked && kinds.map(|kind| self.unpark_one(kind, act)).contains(&true)
    }

    fn unpark_one(&mut self, kind: Counted, act: &mut Act<'_>) -> bool {
        while self.attempts.has_room(&self.settings)
            && !self.attempts.hold_back(kind, act.now.elapsed, &self.settings)
        {
            let Some(at) = self.next_parked(kind) else { return false };
            let Some(endpoint) = self.endpoints.get_mut(&at) else { continue };
            // It may have got a turn since, or be another that has its name.
            if std::mem::take(endpoint.parked.of(kind)) && endpoint.queued == Queued::Parked {
                self.take_turn(at, act);
                self.turns.parked_first = false;
                return true;
            }
        }
        false
    }

    /// Takes the next one of a kind that was set aside. Beyond the share of its kind that is one of an
    /// application that holds few, and there are not many others.
    fn next_parked(&mut self, kind: Counted) -> Option<At> {
        let Self { attempts, turns, settings, .. } = self;
        if attempts.has_room_for(kind, settings) {
            return turns.unpark(kind);
        }
        let few = |application| attempts.holds_few(application, settings);
        attempts.has_room_for_few(kind, settings).then(|| turns.unpark_of(kind, few)).flatten()
    }

    /// Starts one attempt of an endpoint whose turn it is, if it still may.
    fn take_turn(&mut self, at: At, act: &mut Act<'_>) {
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        endpoint.queued = Queued::No;
        let partition = endpoint.partition;
        if !self.works_for(partition) {
            return;
        }
        let Standing::Active(member) = self.standing(at, act) else {
            return self.look(at, act);
        };
        let allowance = self.allowance(at, &member);
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let now = act.now.rows;
        let head = endpoint.window.head();
        let expired = head.is_some_and(|head| endpoint.has_expired(head, now));
        if endpoint.held_by(allowance.has_breaker, now).is_some()
            || endpoint.readiness(allowance, act.now) != Readiness::Ready
            || expired
        {
            return self.look(at, act);
        }
        let counted = endpoint.counted(act.now.elapsed, self.settings.hanging_after);
        if !self.attempts.has_room_of(at.0, counted, &self.settings)
            || self.attempts.hold_back(counted, act.now.elapsed, &self.settings)
        {
            endpoint.queued = Queued::Parked;
            if !std::mem::replace(endpoint.parked.of(counted), true) {
                self.turns.park(at, counted);
            }
            return;
        }
        // It was set aside when it had not answered lately.
        if counted == Counted::Hopeful
            && self.attempts.is_short(&self.settings)
            && !self.attempts.holds_few(at.0, &self.settings)
        {
            endpoint.queued = Queued::Ready;
            return self.turns.push(at);
        }
        self.start(at, member, counted, act);
        self.starting = None;
        self.look(at, act);
    }

    fn start(&mut self, at: At, member: Arc<Member>, counted: Counted, act: &mut Act<'_>) {
        let now = act.now.rows;
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        self.starting = endpoint.window.head().map(Suspect::of);
        let number = self.number();
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        let Some(lease) = self.leases.lease(endpoint.partition) else { return };
        let Ok(limiter) = endpoint.limiter.take(member.rate(), act.now.steady()) else { return };
        let Some(roster) = self.rosters.get(at.0) else { return };
        let (Some(head), Some(policies)) = (endpoint.window.head(), &self.policies) else { return };
        let own = head.policy.as_deref().and_then(|document| self.documents.policy(document));
        let policy = roster.applicable(&member, &head.event_type, own.as_ref(), policies);
        let (policy, version) = (Arc::clone(policy), roster.version);
        let Some(delivery) = endpoint.window.take_head() else { return };
        let fresh = act.now.elapsed < endpoint.created().saturating_add(Duration::from_secs(1));
        if !(fresh && planted::has(Bug::KeepRateCredit)) {
            endpoint.limiter = limiter;
        }
        endpoint.in_flight += 1;
        let mut role = Role::Ordinary;
        if member.defaults.breaker.is_some()
            && endpoint.running.breaker.admission(now) == Admission::Probe
        {
            endpoint.running.breaker = endpoint.running.breaker.probe(now);
            endpoint.probing = true;
            role = Role::Probe;
            act.announce(Announcement::Probing { application: at.0, endpoint: at.1 });
        }
        // Only a replay begins a new budget after attempts were made.
        let replayed = delivery.recorded > 0 && delivery.pending.budget.attempts == 0;
        let trigger = if self.requests.was_hurried(&delivery.key) || replayed {
            Trigger::Manual
        } else {
            Trigger::Scheduled
        };
        self.occupy(lease);
        let sending = Sending {
            attempt: number,
            member: Arc::clone(&member),
            version,
            delivery: PendingDelivery::clone(&delivery),
            policy: Arc::clone(&policy),
            trigger,
        };
        act.effects.push(Effect::Send(Box::new(sending)));
        let (began, stage) = (act.now.elapsed, Stage::InFlight);
        let (news, stray) = (Vec::new(), false);
        let attempt =
            Attempt { delivery, lease, policy, member, role, began, stage, counted, news, stray };
        self.attempts.begin(number, attempt);
    }
}
