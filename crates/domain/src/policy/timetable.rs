//! A policy's schedule as a table: what people are shown, made from what the server runs.

use std::time::Duration;

use super::{Jitter, Policy};

/// The most rows a table has: as many as a policy may allow attempts. One that limits only the time
/// could make more of them.
const MOST_ROWS: u32 = 10_000;

/// The attempts a policy makes, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Timetable {
    /// One entry per attempt; the first has no wait.
    pub turns: Vec<Turn>,
}

/// One attempt of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// Counted from 1.
    pub attempt: u32,
    /// The wait before it, without chance; the middle of the range where chance is all there is.
    pub nominal: Duration,
    /// The shortest wait before it.
    pub shortest: Duration,
    /// The longest wait before it.
    pub longest: Duration,
    /// The sum of nominal waits up to it.
    pub cumulative: Duration,
}

impl Policy {
    /// Returns the attempts that fit into the attempts limit and, counted by nominal waits, into
    /// the give-up time.
    #[must_use]
    pub fn timetable(&self) -> Timetable {
        let most = self.limits.max_attempts().map_or(MOST_ROWS, |most| most.get().min(MOST_ROWS));
        let first = Turn {
            attempt: 1,
            nominal: Duration::ZERO,
            shortest: Duration::ZERO,
            longest: Duration::ZERO,
            cumulative: Duration::ZERO,
        };
        let mut turns = vec![first];
        let mut before = first;
        while before.attempt < most {
            let turn = self.turn_after(before);
            if self.limits.give_up_after().is_some_and(|span| turn.cumulative > span) {
                break;
            }
            turns.push(turn);
            before = turn;
        }
        Timetable { turns }
    }

    /// Returns the nominal time from the first attempt to the last.
    #[must_use]
    pub fn span(&self) -> Duration {
        let table = self.timetable();
        let cut = self.limits.max_attempts().is_none() && table.turns.len() >= MOST_ROWS as usize;
        // A table that was cut goes on until the policy gives up.
        self.limits.give_up_after().filter(|_| cut).unwrap_or_else(|| table.span())
    }

    fn turn_after(&self, before: Turn) -> Turn {
        let retry = before.attempt;
        let (shortest, longest) = self.backoff.range(retry, before.longest);
        let nominal = match self.backoff.jitter() {
            Jitter::Decorrelated => shortest + (longest - shortest) / 2,
            Jitter::None | Jitter::Full | Jitter::Equal | Jitter::Around(_) | Jitter::UpTo(_) => {
                self.backoff.schedule().wait(retry)
            }
        };
        let cumulative = before.cumulative.saturating_add(nominal);
        Turn { attempt: retry + 1, nominal, shortest, longest, cumulative }
    }
}

impl Timetable {
    /// Returns the nominal time from the first attempt to the last.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.turns.last().map_or(Duration::ZERO, |turn| turn.cumulative)
    }

    /// Returns the nominal waits, in order.
    #[must_use]
    pub fn waits(&self) -> Vec<Duration> {
        self.turns.iter().skip(1).map(|turn| turn.nominal).collect()
    }
}
