//! The gate of an endpoint: where a request waits, its connection in hand, until it may be written.
//!
//! A [`Limiter`] spaces the beginnings of attempts. How long connecting takes is up to the receiver,
//! and several connections may be ready at once. So the rate is kept once more where requests leave.
//!
//! A request holds a place from its writing until a second after it has arrived at the latest. If
//! the receiver's program was heard on the connection, that is [`ON_THE_WAY`] after the writing. If
//! only its system was, the request may wait there for the program until its answer comes. There are
//! as many places as the rate allows: when the last request of any second is written, all that
//! arrive in that second hold theirs.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Limiter, ON_THE_WAY, Rate};
use crate::time::Timestamp;

/// How long a place is held after a request is known to have left or to have been answered.
const HELD: Duration = Duration::from_secs(1).saturating_add(ON_THE_WAY);

/// Who was heard on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FarEnd {
    /// The receiver's program: it answered before, or agreed on TLS.
    Program,
    /// Its system only, which takes connections in before the program asks for them.
    System,
}

/// What a request has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For this moment.
    Until(Timestamp),
    /// For the end of a request that was written before.
    ForAnEnd,
}

/// What keeps the rate of an endpoint where its requests leave.
#[derive(Debug, Clone)]
pub struct Gate {
    limiter: Limiter,
    /// When places become free, earliest first.
    held: VecDeque<Timestamp>,
    /// The places of requests that may still be waiting for the receiver's program.
    open: usize,
}

impl Gate {
    /// Begins with all places free.
    #[must_use]
    pub const fn begin(now: Timestamp) -> Self {
        Self { limiter: Limiter::begin(now), held: VecDeque::new(), open: 0 }
    }

    /// Lets one request pass, or says what it has to wait for. One whose far end is a system is
    /// followed by a call of [`Gate::ended`].
    ///
    /// # Errors
    /// What to wait for before asking again.
    pub fn pass(&mut self, rate: Rate, far_end: FarEnd, now: Timestamp) -> Result<(), Wait> {
        while self.held.front().is_some_and(|free_at| *free_at <= now) {
            self.held.pop_front();
        }
        let places = usize::try_from(rate.get()).unwrap_or(usize::MAX);
        let taken = self.held.len().saturating_add(self.open);
        if let Some(excess) = taken.checked_sub(places) {
            let free_at = self.held.get(excess);
            return Err(free_at.map_or(Wait::ForAnEnd, |free_at| Wait::Until(*free_at)));
        }
        self.limiter = self.limiter.take(rate, now).map_err(Wait::Until)?;
        match far_end {
            FarEnd::Program => self.held.push_back(now.after(HELD)),
            FarEnd::System => self.open += 1,
        }
        Ok(())
    }

    /// Takes in that a request whose far end was a system is answered, or given up.
    pub fn ended(&mut self, now: Timestamp) {
        self.open = self.open.saturating_sub(1);
        self.held.push_back(now.after(HELD));
    }

    /// Tells whether it is like a new one: nothing that passed counts any more. Then it lets the
    /// memory go that it took.
    pub fn rests(&mut self, now: Timestamp) -> bool {
        let rests = self.open == 0 && self.held.back().is_none_or(|free_at| *free_at <= now);
        if rests {
            self.held = VecDeque::new();
        }
        rests
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use proptest::prelude::*;

    use super::super::tests::{NOW, most_within, rate};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Lets requests pass one after the other, as early as they may.
    struct Queue {
        gate: Gate,
        now: Timestamp,
        ends: BinaryHeap<Reverse<Timestamp>>,
    }

    impl Queue {
        fn new() -> Self {
            Self { gate: Gate::begin(NOW), now: NOW, ends: BinaryHeap::new() }
        }

        /// Returns when one was written that is answered after a time.
        fn write(&mut self, rate: Rate, far_end: FarEnd, answered: Duration) -> Timestamp {
            loop {
                while let Some(Reverse(end)) = self.ends.peek().copied()
                    && end <= self.now
                {
                    self.ends.pop();
                    self.gate.ended(end);
                }
                match self.gate.pass(rate, far_end, self.now) {
                    Ok(()) => break,
                    Err(Wait::Until(at)) => self.now = at,
                    Err(Wait::ForAnEnd) => self.now = self.ends.peek().unwrap().0,
                }
            }
            if far_end == FarEnd::System {
                self.ends.push(Reverse(self.now.after(answered)));
            }
            self.now
        }
    }

    #[test]
    fn requests_that_are_ready_together_are_written_one_after_the_other() {
        let (mut queue, rate) = (Queue::new(), rate(10));
        let written: Vec<_> =
            (0..30).map(|_| queue.write(rate, FarEnd::Program, Duration::ZERO)).collect();
        for pair in written.windows(2) {
            assert_eq!(pair[1].since(pair[0]), Duration::from_millis(101));
        }
    }

    #[test]
    fn what_may_wait_at_the_receiver_keeps_its_place_until_a_second_after_its_answer() {
        let (mut queue, rate) = (Queue::new(), rate(2));
        for _ in 0..2 {
            queue.write(rate, FarEnd::System, 5 * SECOND);
        }
        let third = queue.write(rate, FarEnd::Program, Duration::ZERO);
        assert_eq!(third, NOW.after(5 * SECOND + HELD));
    }

    #[test]
    fn a_lower_rate_holds_at_once() {
        let mut queue = Queue::new();
        let last = (0..100).map(|_| queue.write(rate(100), FarEnd::Program, SECOND)).last();
        let next = queue.write(rate(1), FarEnd::Program, SECOND);
        assert_eq!(next, last.unwrap().after(HELD));
    }

    #[test]
    fn a_gate_at_rest_is_like_a_new_one() {
        let mut queue = Queue::new();
        assert!(queue.gate.rests(NOW));
        queue.write(rate(1), FarEnd::System, SECOND);
        assert!(!queue.gate.rests(NOW.after(9 * SECOND)), "it has no answer");
        let written = queue.write(rate(1), FarEnd::Program, SECOND);
        assert!(!queue.gate.rests(written));
        assert!(queue.gate.rests(written.after(HELD)));
        assert!(queue.gate.limiter.take(rate(1), written.after(HELD)).is_ok());
    }

    proptest! {
        #[test]
        fn no_second_holds_more_arrivals_than_the_rate(
            count in 1_u64..40,
            requests in prop::collection::vec(
                (0_u64..400_000, 0_u64..1_500_000, 0_u64..=100, any::<bool>()), 1..120,
            ),
        ) {
            let (mut queue, mut arrived) = (Queue::new(), Vec::new());
            for (gap, answered, share, program) in requests {
                queue.now = queue.now.after(Duration::from_micros(gap));
                let answered = Duration::from_micros(answered);
                let (far_end, latest) = if program {
                    (FarEnd::Program, answered.min(ON_THE_WAY))
                } else {
                    (FarEnd::System, answered)
                };
                let written = queue.write(rate(count), far_end, answered);
                arrived.push(written.after(latest * u32::try_from(share).unwrap() / 100));
            }
            arrived.sort_unstable();
            prop_assert!(most_within(SECOND, &arrived) as u64 <= count);
        }
    }
}
