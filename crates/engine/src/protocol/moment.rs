//! The two clocks that an engine is told.

use std::time::Duration;

use domain::time::Timestamp;

/// Now, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time since the process started, suspend included. It never jumps; leases and waits between
    /// the engine's own steps are counted on it.
    pub elapsed: Duration,
    /// The time of the rows' timeline, as far as this node knows it. Due times are on it. With a
    /// shared store it is an estimate that each renewal corrects, so it may jump a little.
    pub rows: Timestamp,
}

impl Moment {
    /// Returns the clock that never jumps as a timestamp, for limits that count on it.
    #[must_use]
    pub fn steady(self) -> Timestamp {
        Timestamp::EPOCH.after(self.elapsed)
    }

    /// Returns when, on the clock that never jumps, a moment of the rows' timeline is reached; now
    /// if it has passed.
    #[must_use]
    pub fn reaches(self, rows: Timestamp) -> Duration {
        self.elapsed.saturating_add(rows.since(self.rows))
    }
}
