//! What waits for its turn, in the order of due times.
//!
//! Events that were never sent are a counter, because they come evenly spaced and are due in that
//! order; only retries take memory, a few words each. So a million deliveries behind an open
//! breaker cost nothing until it closes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use domain::delivery::{Budget, Pending};
use domain::policy::Limits;
use domain::time::Timestamp;

use super::scenario::Scenario;

/// A delivery out of the queue, with the number of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) event: u32,
    pub(super) pending: Pending,
}

/// Deliveries by due time; of two that are due together, the older event goes first.
#[derive(Debug)]
pub(super) struct Queue<'a> {
    scenario: &'a Scenario,
    limits: &'a Limits,
    /// The first event that was never taken out.
    next: u32,
    /// When it is due: arithmetic that is not worth repeating at every look.
    next_due: Timestamp,
    retries: BinaryHeap<Reverse<Retry>>,
}

/// A [`Waiting`] without what can be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Retry {
    due: Timestamp,
    event: u32,
    attempts: u32,
    ambiguous: u32,
    last_wait_micros: u64,
}

impl<'a> Queue<'a> {
    /// Fills a queue with all events of a scenario.
    pub(super) fn new(scenario: &'a Scenario, limits: &'a Limits) -> Self {
        let next_due = scenario.accepted(0);
        Self { scenario, limits, next: 0, next_due, retries: BinaryHeap::new() }
    }

    /// Returns when the first delivery is due, if any is left.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        match (self.first_retry(), self.first_event()) {
            (Some((retry, _)), Some((event, _))) => Some(retry.min(event)),
            (Some((due, _)), None) | (None, Some((due, _))) => Some(due),
            (None, None) => None,
        }
    }

    /// Takes the first delivery out.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let is_retry = match (self.first_retry(), self.first_event()) {
            (Some(retry), Some(event)) => retry < event,
            (Some(_), None) => true,
            (None, Some(_) | None) => false,
        };
        if is_retry {
            let Reverse(retry) = self.retries.pop()?;
            return Some(self.unpack(retry));
        }
        let (due, event) = self.first_event()?;
        self.next += 1;
        self.next_due = self.scenario.accepted(self.next);
        Some(Waiting { event, pending: Pending::fresh(self.limits, due) })
    }

    /// Puts a delivery back that is to be sent again.
    pub(super) fn push(&mut self, waiting: Waiting) {
        let Waiting { event, pending: Pending { due, budget } } = waiting;
        self.retries.push(Reverse(Retry {
            due,
            event,
            attempts: budget.attempts,
            ambiguous: budget.ambiguous,
            last_wait_micros: u64::try_from(budget.last_wait.as_micros()).unwrap_or(u64::MAX),
        }));
    }

    /// Takes everything out and returns how much that was.
    pub(super) fn clear(&mut self) -> u64 {
        let unsent = self.scenario.events - self.next;
        let retries = u64::try_from(self.retries.len()).unwrap_or(u64::MAX);
        self.next = self.scenario.events;
        self.retries.clear();
        u64::from(unsent) + retries
    }

    fn first_event(&self) -> Option<(Timestamp, u32)> {
        (self.next < self.scenario.events).then_some((self.next_due, self.next))
    }

    fn first_retry(&self) -> Option<(Timestamp, u32)> {
        self.retries.peek().map(|Reverse(retry)| (retry.due, retry.event))
    }

    fn unpack(&self, retry: Retry) -> Waiting {
        let Retry { due, event, attempts, ambiguous, last_wait_micros } = retry;
        let accepted = Pending::fresh(self.limits, self.scenario.accepted(event));
        let last_wait = Duration::from_micros(last_wait_micros);
        let budget = Budget { attempts, ambiguous, last_wait, ..accepted.budget };
        Waiting { event, pending: Pending { due, budget } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::{Answer, Outage};
    use super::*;

    fn scenario(events: u32) -> Scenario {
        let outage = Outage {
            starts: Duration::ZERO,
            lasts: Duration::from_secs(1),
            answer: Answer::Unavailable,
        };
        Scenario { events, over: Duration::from_secs(u64::from(events)), outage, seed: 1 }
    }

    fn limits() -> Limits {
        Limits::new(Some(3), Some(Duration::from_secs(100))).unwrap()
    }

    #[test]
    fn a_retry_takes_its_turn_among_the_events() {
        let (scenario, limits) = (scenario(4), limits());
        let mut queue = Queue::new(&scenario, &limits);
        let first = queue.pop().unwrap();
        let pending = Pending { due: Timestamp::from_micros(2_500_000), ..first.pending };
        queue.push(Waiting { pending, ..first });
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|it| it.event).collect();
        assert_eq!(order, [1, 2, 0, 3]);
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn a_delivery_comes_out_as_it_went_in() {
        let (scenario, limits) = (scenario(2), limits());
        let mut queue = Queue::new(&scenario, &limits);
        let fresh = queue.pop().unwrap();
        assert_eq!(fresh.pending, Pending::fresh(&limits, Timestamp::EPOCH));
        let budget = Budget {
            attempts: 2,
            ambiguous: 1,
            last_wait: Duration::from_micros(1_234_567),
            ..fresh.pending.budget
        };
        let due = Timestamp::from_micros(-1);
        let waiting = Waiting { event: fresh.event, pending: Pending { due, budget } };
        queue.push(waiting);
        assert_eq!(queue.next_due(), Some(due));
        assert_eq!(queue.pop(), Some(waiting));
    }

    #[test]
    fn clearing_counts_events_and_retries() {
        let (scenario, limits) = (scenario(10), limits());
        let mut queue = Queue::new(&scenario, &limits);
        let first = queue.pop().unwrap();
        queue.pop().unwrap();
        queue.push(first);
        assert_eq!(queue.clear(), 9);
        assert_eq!((queue.clear(), queue.pop()), (0, None));
    }
}
