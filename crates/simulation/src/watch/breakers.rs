//! Invariant 4, as far as breakers and pauses are concerned: what may pass, and what is written.
//!
//! Every change of an endpoint's running state goes out with a settle or a step of upkeep, so the
//! last one that went out is what its owner has in mind.

use std::sync::Arc;

use domain::breaker::{Admission, Role, WhileOpen};
use domain::concurrency::Concurrency;
use domain::delivery::Cause;
use domain::endpoint::State;
use domain::judge;
use domain::outcome::Outcome;
use domain::time::Timestamp;
use domain::verdict::Verdict;
use engine::{End, Number, Sending};
use store::queue::{Bury, Ending, Settle, Trigger, Upkeep};

use super::endpoints::is_open;
use super::{Expected, Open, Watch};
use crate::agenda::WireId;
use crate::counters::Path;
use crate::node::NodeRef;
use crate::wires::Wire;

impl Watch {
    /// An open breaker lets one probe through; a pause lets nothing through.
    pub(super) fn check_admission(&mut self, wire: WireId, sending: &Sending, rows: Timestamp) {
        let key = sending.delivery.key;
        let manual = sending.trigger == Trigger::Manual;
        let Some(place) = self.endpoints.get_mut(&key.endpoint) else { return };
        let probing = place.probe.is_some();
        let breaker = place.running.breaker;
        let minded = sending.member.defaults.breaker.is_some();
        let problem = match breaker.admission(rows) {
            Admission::All => None,
            // Nobody minds a breaker that was switched off.
            Admission::Wait(_) | Admission::Probe | Admission::WaitForProbe if !minded => None,
            Admission::Wait(until) => Some(format!("before {until:?}, when its breaker allows it")),
            Admission::Probe | Admission::WaitForProbe if probing => {
                Some("beside the probe".to_owned())
            }
            Admission::Probe | Admission::WaitForProbe => {
                self.paths.push(Path::Probe);
                place.probe = Some(wire);
                place.running.breaker = breaker.probe(rows);
                None
            }
        };
        let paused = place.running.paused_until.filter(|until| *until > rows && !manual);
        let paused = paused.map(|until| format!("while paused until {until:?}"));
        for problem in problem.into_iter().chain(paused) {
            self.complain(4, format!("{key:?} is sent {problem}, at {rows:?}"));
        }
    }

    /// An attempt ended; its process is about to hear of it.
    pub(crate) fn ends(
        &mut self,
        id: WireId,
        wire: &Wire,
        end: &End,
        (rows, dice): (Timestamp, domain::dice::Dice),
    ) {
        let key = wire.sending.delivery.key;
        self.flights.remove(&id);
        let put_back = match end {
            End::Recorded(record) => record.outcome == Outcome::Interrupted,
            End::Panicked => true,
        };
        if let Some(entry) = self.deliveries.get_mut(&key) {
            entry.ended = Some(self.now);
            // What we stopped ourselves is not settled; the delivery waits as before.
            let own = |open: Open| open.me == wire.me && open.attempt == wire.attempt;
            if put_back && entry.open.is_some_and(own) {
                entry.open = None;
                entry.sent_after.retain(|me| *me != wire.me);
            }
        }
        let member = self.known_member(wire.me, key);
        let member = member.unwrap_or_else(|| Arc::clone(&wire.sending.member));
        let Some(place) = self.endpoints.get_mut(&key.endpoint) else { return };
        place.in_flight.remove(&id);
        let role = if place.probe == Some(id) { Role::Probe } else { Role::Ordinary };
        if role == Role::Probe {
            place.probe = None;
        }
        let owned = self.owners.get(&place.partition).is_some_and(|owner| owner.me == wire.me);
        let delivery = &wire.sending.delivery;
        let verdict = match end {
            End::Recorded(record) => {
                judge(&wire.sending.policy, &delivery.pending, record.outcome, rows, dice)
            }
            End::Panicked => {
                let nothing = Outcome::Interrupted;
                judge(&wire.sending.policy, &delivery.pending, nothing, rows, dice)
            }
        };
        let before = place.running.breaker;
        let settings = member.defaults.breaker.as_ref();
        let signal = verdict.endpoint.signal;
        let breaker = match settings {
            Some(settings) => before.after(settings, role, signal, rows),
            None => before.while_off(role, signal, rows),
        };
        if settings.is_none() && is_open(before) {
            self.paths.push(Path::BreakerSwitchedOff);
        }
        if owned && !put_back {
            let cap = member.in_flight();
            place.ended = self.now;
            for concurrency in &mut place.concurrency {
                *concurrency = concurrency.after(verdict.endpoint.pressure, cap);
            }
            if is_open(before) && !is_open(breaker) {
                place.concurrency = vec![Concurrency::default()];
                place.held = Some(self.now);
            }
        }
        if put_back && owned {
            place.running.breaker = breaker;
        }
        match end {
            End::Recorded(record) => {
                let expected = expected(wire, &verdict, breaker, !put_back);
                self.expected.insert(record.id, expected);
            }
            End::Panicked => {
                if let Some(entry) = self.deliveries.get_mut(&key) {
                    entry.panics += 1;
                }
            }
        }
    }

    /// An engine wants an attempt settled.
    pub(crate) fn settles(&mut self, me: NodeRef, attempt: Number, settle: &Settle) {
        let key = settle.key;
        let Some(expected) = self.expected.get(&settle.attempt.id) else { return };
        let same = expected.me == me
            && expected.attempt == attempt
            && expected.recorded == settle.recorded
            && expected.next == settle.next
            && expected.budget == settle.budget;
        let (next, budget, breaker) = (expected.next, expected.budget, expected.breaker);
        if !same {
            let text = format!(
                "{key:?} is settled as {:?} {:?} instead of {next:?} {budget:?}",
                settle.next, settle.budget
            );
            self.complain(4, text);
        }
        let Some(place) = self.endpoints.get_mut(&key.endpoint) else { return };
        let owned = self.owners.get(&place.partition).is_some_and(|it| it.lease == settle.lease);
        if !owned {
            return;
        }
        if let Some(running) = settle.running {
            place.set_running(running, self.now);
        }
        let said = place.running.breaker;
        // Nobody keeps the breaker of an endpoint that is gone.
        if said != breaker && place.state != State::Deleted {
            let text = format!("the breaker of {key:?} is written as {said:?}, not {breaker:?}");
            self.complain(4, text);
        }
    }

    /// An engine wants a step of upkeep.
    pub(crate) fn keeps_up(&mut self, me: NodeRef, upkeep: &Upkeep, rows: Timestamp) {
        if let Upkeep::Consume { requests, .. } = upkeep {
            self.consumes(me, requests);
        }
        if let Upkeep::Bury(bury) = upkeep {
            self.check_turning_away(me, bury);
            self.check_disabled(bury);
        }
        if let Upkeep::Number(number) = upkeep {
            self.check_until(number, rows);
        }
        let Upkeep::Run { endpoint, running, lease, .. } = upkeep else { return };
        self.paths.push(Path::BreakerReset);
        let Some(place) = self.endpoints.get_mut(endpoint) else { return };
        let owner = self.owners.get(&place.partition);
        if owner.is_some_and(|owner| owner.me == me && owner.lease == *lease) {
            if is_open(place.running.breaker) && !is_open(running.breaker) {
                place.concurrency = vec![Concurrency::default()];
            }
            place.set_running(*running, self.now);
        }
    }

    /// What belongs to a disabled endpoint is buried while it is disabled, or was when the roster was
    /// read: an old one is not believed.
    fn check_disabled(&mut self, bury: &Bury) {
        let Bury { endpoint, ending, .. } = *bury;
        let disabled = ending == Ending::Dead(Cause::EndpointDisabled);
        let place = self.endpoints.get(&endpoint).filter(|_| disabled);
        let Some(place) = place else { return };
        let since = place.disabled.map(|until| self.now.saturating_sub(until));
        let is_disabled = matches!(place.state, State::Disabled(_));
        if !is_disabled && since.is_none_or(|since| since > self.roster_age) {
            let text = format!(
                "{:?} of {endpoint:?} are buried because it was disabled, {since:?} ago",
                bury.deliveries
            );
            self.complain(4, text);
        }
    }

    /// A breaker turns deliveries away only where the policy says so, as far as the process knows it.
    fn check_turning_away(&mut self, me: NodeRef, bury: &Bury) {
        let Bury { application, endpoint, ending, .. } = *bury;
        let member = self.rosters.get(&(me, application)).and_then(|it| it.member(endpoint));
        let Some(member) = member.filter(|_| ending == Ending::Dead(Cause::BreakerOpen)) else {
            return;
        };
        let settings = member.defaults.breaker.as_ref();
        if settings.is_none_or(|it| it.while_open() == WhileOpen::Hold) {
            let text =
                format!("{:?} of {endpoint:?} are buried by a breaker that holds", bury.deliveries);
            self.complain(4, text);
        }
    }
}

fn expected(
    wire: &Wire,
    verdict: &Verdict,
    breaker: domain::breaker::Breaker,
    counts: bool,
) -> Expected {
    Expected {
        me: wire.me,
        attempt: wire.attempt,
        recorded: wire.sending.delivery.recorded,
        next: verdict.next,
        budget: verdict.budget,
        breaker,
        counts,
    }
}
