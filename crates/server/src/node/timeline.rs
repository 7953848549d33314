//! The time of the rows, as far as this node knows it.
//!
//! With SQLite it is the process's own clock. With PostgreSQL it is the database's: each renewal of
//! the lease tells it, and the estimate is corrected by half of the round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use domain::time::Timestamp;
use engine::Moment;

use crate::clock::Clock;

/// A difference to the store's clock that somebody should hear of.
const WORTH_A_WARNING: Duration = Duration::from_secs(5);

/// The rows' timeline.
pub(crate) struct Timeline {
    clock: Arc<dyn Clock>,
    started: Timestamp,
    /// What to add to our own clock, in microseconds.
    offset: AtomicI64,
}

impl Timeline {
    /// Begins with our own clock.
    pub(crate) fn start(clock: Arc<dyn Clock>) -> Self {
        Self { started: clock.now(), clock, offset: AtomicI64::new(0) }
    }

    /// Returns the clock behind it.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// Returns the time of the rows.
    pub(crate) fn rows(&self) -> Timestamp {
        self.on_rows(self.clock.now())
    }

    /// Returns the time since the start, at a moment of our own clock.
    pub(crate) fn elapsed_at(&self, own: Timestamp) -> Duration {
        own.since(self.started)
    }

    /// Returns now on both clocks.
    pub(crate) fn moment(&self) -> Moment {
        let own = self.clock.now();
        Moment { elapsed: self.elapsed_at(own), rows: self.on_rows(own) }
    }

    /// Takes in what the store's clock said between two moments since the start.
    pub(crate) fn correct(&self, asked_at: Duration, store: Timestamp) {
        let own = self.clock.now();
        let half = self.elapsed_at(own).saturating_sub(asked_at) / 2;
        let offset = store.as_micros() - own.before(half).as_micros();
        let before = self.offset.swap(offset, Ordering::Relaxed);
        if offset.abs_diff(before) > u64::try_from(WORTH_A_WARNING.as_micros()).unwrap_or(u64::MAX)
        {
            let seconds = offset / 1_000_000;
            tracing::warn!(seconds, "this machine's clock and the database's differ");
        }
    }

    fn on_rows(&self, own: Timestamp) -> Timestamp {
        Timestamp::from_micros(own.as_micros().saturating_add(self.offset.load(Ordering::Relaxed)))
    }
}

/// The rows' time for whoever writes rows, the wall clock for whoever makes ids.
impl Clock for Timeline {
    fn now(&self) -> Timestamp {
        self.rows()
    }

    fn wall(&self) -> Timestamp {
        self.clock.wall()
    }
}
