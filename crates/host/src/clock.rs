//! The only place that tells the time.
//!
//! Rows live on one timeline: the wall clock when the process started, plus what has elapsed since,
//! suspend included. A step of the wall clock changes neither due times nor leases; only signature
//! timestamps and ids ask for the wall clock itself.

use domain::time::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Returns the time on the rows' timeline.
    fn now(&self) -> Timestamp;
    /// Returns what the wall clock says.
    fn wall(&self) -> Timestamp;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    /// What the wall clock said at a time that the elapsed clock calls zero.
    offset_micros: i64,
}

impl SystemClock {
    /// Starts the timeline at the wall clock's present time.
    #[must_use]
    pub fn start() -> Self {
        let offset_micros = micros(ClockId::Realtime) - micros(ClockId::Boottime);
        Self { offset_micros }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(micros(ClockId::Boottime).saturating_add(self.offset_micros))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(micros(ClockId::Realtime))
    }
}

fn micros(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeline_starts_at_the_wall_clock_and_never_goes_back() {
        let clock = SystemClock::start();
        let (early, wall) = (clock.now(), clock.wall());
        assert!(wall.since(early).as_secs() < 5 && early.since(wall).as_secs() < 5);
        assert!(clock.now() >= early);
    }
}
