//! The time of the rows, as far as this node knows it.
//!
//! With SQLite it is the process's own clock. With PostgreSQL it is the database's: it is asked for
//! when a node starts, and each renewal of the lease tells it; a node that only takes messages in has
//! no lease, and asks on. The database looked at its clock at some moment between question and answer,
//! and nobody knows at which one. So an answer says between which bounds the difference is; as long
//! as the estimate is within them, it stays. One that took long moves nothing: what was due at once
//! must not become due later because the database, or this process, stood still for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use domain::time::Timestamp;
use engine::Moment;
use store::Queue;

use crate::clock::Clock;

/// A difference to the store's clock that somebody should hear of.
const WORTH_A_WARNING: Duration = Duration::from_secs(5);

/// The rows' timeline.
pub(crate) struct Timeline {
    clock: Arc<dyn Clock>,
    started: Timestamp,
    /// What to add to our own clock, in microseconds.
    offset: AtomicI64,
    /// Whether the store's clock was ever heard.
    heard: AtomicBool,
}

impl Timeline {
    /// Begins with our own clock.
    pub(crate) fn start(clock: Arc<dyn Clock>) -> Self {
        let (offset, heard) = (AtomicI64::new(0), AtomicBool::new(false));
        Self { started: clock.now(), clock, offset, heard }
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

    /// Asks the store for its time.
    pub(crate) async fn hear(&self, queue: &dyn Queue) -> Result<(), store::Error> {
        let asked_at = self.moment().elapsed;
        self.correct(asked_at, queue.now().await?);
        Ok(())
    }

    /// Takes in what the store's clock said between a moment since the start and now.
    pub(crate) fn correct(&self, asked_at: Duration, store: Timestamp) {
        let now = self.clock.now();
        let asked = self.started.after(asked_at).min(now);
        let least = store.as_micros().saturating_sub(now.as_micros());
        let most = store.as_micros().saturating_sub(asked.as_micros());
        let before = self.offset.load(Ordering::Relaxed);
        let offset = before.clamp(least, most);
        self.offset.store(offset, Ordering::Relaxed);
        let worth = u64::try_from(WORTH_A_WARNING.as_micros()).unwrap_or(u64::MAX);
        let first = !self.heard.swap(true, Ordering::Relaxed);
        let differs = if first { offset.unsigned_abs() } else { offset.abs_diff(before) };
        if differs > worth {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A clock that is set by hand.
    #[derive(Default)]
    struct ByHand(Mutex<i64>);

    impl ByHand {
        fn set(&self, seconds: i64) {
            *self.0.lock().unwrap() = seconds;
        }
    }

    impl Clock for ByHand {
        fn now(&self) -> Timestamp {
            Timestamp::from_seconds(*self.0.lock().unwrap())
        }

        fn wall(&self) -> Timestamp {
            self.now()
        }
    }

    fn scene() -> (Arc<ByHand>, Timeline) {
        let clock = Arc::new(ByHand::default());
        clock.set(1_000);
        (Arc::clone(&clock), Timeline::start(clock))
    }

    /// Asks at one second since the start, and is answered at another with what the store says.
    fn renew(
        clock: &ByHand,
        timeline: &Timeline,
        (asked, answered): (u64, i64),
        store: i64,
    ) -> i64 {
        clock.set(1_000 + answered);
        timeline.correct(Duration::from_secs(asked), Timestamp::from_seconds(store));
        (timeline.rows().as_micros() - clock.now().as_micros()) / 1_000_000
    }

    #[test]
    fn a_renewal_that_took_a_minute_moves_nothing_that_it_cannot_know() {
        let (clock, timeline) = scene();
        assert_eq!(renew(&clock, &timeline, (0, 60), 1_060), 0, "answered at the end of it");
        assert_eq!(renew(&clock, &timeline, (60, 120), 1_060), 0, "or at its beginning");
    }

    #[test]
    fn the_database_counts_where_the_clocks_differ() {
        let (clock, timeline) = scene();
        assert_eq!(renew(&clock, &timeline, (0, 0), 1_500), 500);
        assert_eq!(renew(&clock, &timeline, (2, 3), 1_504), 501, "no further than it must be");
        assert_eq!(renew(&clock, &timeline, (4, 4), 1_004), 0);
    }
}
