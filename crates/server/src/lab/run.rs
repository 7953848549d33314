//! One endpoint under one policy, from the first event to the last, on virtual time.
//!
//! Time jumps from one moment at which something can happen to the next: an attempt ends, a
//! delivery becomes due, a cooldown is over, the rate allows another attempt. Every decision is
//! one of `domain`'s; this file only carries them out, in the order in which the server would.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use domain::breaker::{Admission, Breaker, Role, WhileOpen};
use domain::concurrency::Concurrency;
use domain::delivery::{Cause, Pending, SinceDue, expires};
use domain::endpoint::Reason;
use domain::health::{Finding, Health};
use domain::judge;
use domain::outcome::Outcome;
use domain::rate::Limiter;
use domain::time::Timestamp;
use domain::verdict::{EndpointEffect, NextState, Signal};

use super::queue::{Queue, Waiting};
use super::receiver::respond;
use super::scenario::{START, Scenario};
use super::tally::Tally;
use super::variant::Variant;
use crate::dice::Throws;

/// The most attempts that one run makes: half a minute of work. A policy that retries every
/// millisecond for a year would never come to an end.
const MOST_ATTEMPTS: u64 = 50_000_000;

/// A run that would take too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyAttempts {
    /// Which variant it was, as people are shown it.
    variant: &'static str,
}

impl std::fmt::Display for TooManyAttempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "stopped after {} million attempts ({}); try fewer --events, a shorter --outage, or a \
             policy with longer waits",
            MOST_ATTEMPTS / 1_000_000,
            self.variant,
        )
    }
}

impl std::error::Error for TooManyAttempts {}

/// Runs one variant.
///
/// # Errors
/// If it makes more attempts than anybody wants to wait for.
pub(super) fn run(scenario: &Scenario, variant: &Variant) -> Result<Tally, TooManyAttempts> {
    run_within(MOST_ATTEMPTS, scenario, variant)
}

fn run_within(
    most_attempts: u64,
    scenario: &Scenario,
    variant: &Variant,
) -> Result<Tally, TooManyAttempts> {
    let mut endpoint = Endpoint::new(scenario, variant);
    loop {
        endpoint.send_what_may_go();
        if endpoint.tally.attempts > most_attempts {
            return Err(TooManyAttempts { variant: variant.label });
        }
        match endpoint.next_moment() {
            Some(moment) => endpoint.now = moment,
            None => return Ok(endpoint.tally),
        }
        endpoint.land_what_has_ended();
    }
}

struct Endpoint<'a> {
    scenario: &'a Scenario,
    variant: &'a Variant,
    now: Timestamp,
    queue: Queue<'a>,
    in_flight: BinaryHeap<Reverse<Flight>>,
    breaker: Breaker,
    /// When the breaker last closed: what was due before that was held by it.
    closed_at: Option<Timestamp>,
    concurrency: Concurrency,
    limiter: Limiter,
    health: Health,
    dice: Throws,
    tally: Tally,
}

/// An attempt on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flight {
    ends: Timestamp,
    began: Timestamp,
    waiting: Waiting,
    outcome: Outcome,
    role: Role,
}

/// By end; an event is in flight once at most, so its number tells two apart that end together.
impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.ends, self.waiting.event).cmp(&(other.ends, other.waiting.event))
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Endpoint<'a> {
    fn new(scenario: &'a Scenario, variant: &'a Variant) -> Self {
        Self {
            scenario,
            variant,
            now: START,
            queue: Queue::new(scenario, &variant.policy.limits),
            in_flight: BinaryHeap::new(),
            breaker: Breaker::default(),
            closed_at: None,
            concurrency: Concurrency::default(),
            limiter: Limiter::begin(START),
            health: Health::default(),
            dice: Throws::seeded(scenario.seed),
            tally: Tally::new(scenario),
        }
    }

    /// Returns the next moment at which something can happen, or none when all is settled.
    fn next_moment(&self) -> Option<Timestamp> {
        let landing = self.in_flight.peek().map(|Reverse(flight)| flight.ends);
        let sending = self.queue.next_due().and_then(|due| self.next_sending(due));
        match (landing, sending) {
            (Some(landing), Some(sending)) => Some(landing.min(sending)),
            (Some(moment), None) | (None, Some(moment)) => Some(moment),
            (None, None) => None,
        }
    }

    /// Returns when the first delivery in the queue can leave it, unless that depends on an
    /// attempt on its way.
    fn next_sending(&self, due: Timestamp) -> Option<Timestamp> {
        let from = match self.breaker.admission(self.now) {
            Admission::WaitForProbe => return None,
            Admission::Wait(_) if self.while_open() == WhileOpen::Bury => return Some(due),
            Admission::Wait(until) => due.max(until),
            Admission::All | Admission::Probe => due,
        };
        self.has_slot().then(|| from.max(self.limiter.next(self.variant.endpoint.rate)))
    }

    fn send_what_may_go(&mut self) {
        while self.queue.next_due().is_some_and(|due| due <= self.now) {
            match self.breaker.admission(self.now) {
                Admission::WaitForProbe => return,
                Admission::Wait(_) => match self.while_open() {
                    WhileOpen::Hold => return,
                    WhileOpen::Bury => {
                        self.queue.pop();
                        self.tally.bury(Cause::BreakerOpen, 1);
                    }
                },
                Admission::All if self.may_begin() => self.send_next(Role::Ordinary),
                Admission::Probe if self.may_begin() => self.send_next(Role::Probe),
                Admission::All | Admission::Probe => return,
            }
        }
    }

    fn may_begin(&self) -> bool {
        self.has_slot() && self.limiter.next(self.variant.endpoint.rate) <= self.now
    }

    fn has_slot(&self) -> bool {
        let allowed = self.concurrency.allowed(self.variant.endpoint.in_flight).get();
        u32::try_from(self.in_flight.len()).is_ok_and(|flying| flying < allowed)
    }

    fn while_open(&self) -> WhileOpen {
        self.variant.endpoint.breaker.map_or(WhileOpen::Hold, |settings| settings.while_open())
    }

    /// Sends the first delivery in the queue, or buries it if it waited for too long.
    fn send_next(&mut self, role: Role) {
        let Some(waiting) = self.queue.pop() else { return };
        if expires(&waiting.pending, self.since_due(&waiting.pending), self.now) {
            self.tally.bury(Cause::Expired, 1);
            return;
        }
        if let Ok(limiter) = self.limiter.take(self.variant.endpoint.rate, self.now) {
            self.limiter = limiter;
        }
        self.breaker = self.breaker.probe(self.now);
        let response = respond(&self.scenario.outage, &self.variant.policy.timeouts, self.now);
        self.tally.begin(self.now);
        self.in_flight.push(Reverse(Flight {
            ends: self.now.after(response.after),
            began: self.now,
            waiting,
            outcome: response.outcome,
            role,
        }));
    }

    fn since_due(&self, pending: &Pending) -> SinceDue {
        let held = match self.breaker {
            Breaker::Closed { .. } => self.closed_at.is_some_and(|closed| closed >= pending.due),
            Breaker::Open { .. } | Breaker::HalfOpen { .. } => true,
        };
        if held { SinceDue::Held } else { SinceDue::Untouched }
    }

    fn land_what_has_ended(&mut self) {
        while self.in_flight.peek().is_some_and(|Reverse(flight)| flight.ends <= self.now) {
            let Some(Reverse(flight)) = self.in_flight.pop() else { return };
            self.land(flight);
        }
    }

    /// Judges an attempt and carries the verdict out.
    fn land(&mut self, flight: Flight) {
        let Flight { began, waiting: Waiting { event, pending }, outcome, role, .. } = flight;
        let dice = self.dice.throw();
        let verdict = judge(&self.variant.policy, &pending, outcome, self.now, dice);
        self.tally.timeline.count(began, verdict.endpoint.signal == Signal::Success);
        self.affect(verdict.endpoint, role);
        match verdict.next {
            NextState::Delivered => self.tally.deliver(self.scenario.accepted(event), self.now),
            NextState::Dead(cause) => self.tally.bury(cause, 1),
            NextState::Pending { .. } if self.tally.disabled.is_some() => {
                self.tally.bury(Cause::EndpointDisabled, 1);
            }
            NextState::Pending { due } => {
                self.queue
                    .push(Waiting { event, pending: Pending { due, budget: verdict.budget } });
            }
        }
    }

    /// Tells the endpoint's guards what an attempt said about the receiver.
    fn affect(&mut self, effect: EndpointEffect, role: Role) {
        self.concurrency = self.concurrency.after(effect.pressure, self.variant.endpoint.in_flight);
        if let Some(settings) = self.variant.endpoint.breaker {
            let before = self.breaker;
            self.breaker = before.after(&settings, role, effect.signal, self.now);
            if !is_closed(before) && is_closed(self.breaker) {
                // Whoever comes back is met by one attempt, not by all that waited.
                self.concurrency = Concurrency::default();
                self.closed_at = Some(self.now);
            }
        }
        let rule = &self.variant.endpoint.health;
        let (health, finding) = self.health.after(rule, effect.signal, self.now);
        self.health = health;
        let found = match finding {
            Finding::Disable(reason) => Some(reason),
            Finding::Warn(..) | Finding::Unremarkable => None,
        };
        if let Some(reason) = effect.disable.or(found) {
            self.disable(reason);
        }
    }

    /// Nobody enables it again in the lab: whatever waits or is still to come is dead.
    fn disable(&mut self, reason: Reason) {
        if self.tally.disabled.is_none() {
            self.tally.disabled = Some((self.now, reason));
        }
        self.tally.bury(Cause::EndpointDisabled, self.queue.clear());
    }
}

const fn is_closed(breaker: Breaker) -> bool {
    match breaker {
        Breaker::Closed { .. } => true,
        Breaker::Open { .. } | Breaker::HalfOpen { .. } => false,
    }
}

#[cfg(test)]
mod tests;
