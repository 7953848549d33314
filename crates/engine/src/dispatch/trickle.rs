//! Endpoints that have not answered lately begin little by little while many attempts hang.
//!
//! Attempts that begin in one moment run into their deadline in one moment. Hundreds of them are a
//! tenth of a second's work for whoever sends, twice, and everybody else waits for it. As long as
//! nothing hangs, such a burst is answered and forgotten, and nobody is held back.
//!
//! Those that have failed take longer steps than those that are trusted: they will most likely hang
//! again, and nobody minds when. One that merely had nothing to do should not wait behind them.

use std::time::Duration;

use crate::dispatch::attempts::Counted;
use crate::protocol::settings::Settings;

/// The shortest wait for the next ones: a timer is no finer.
const SHORTEST: Duration = Duration::from_millis(1);

/// How many have begun of late.
#[derive(Debug)]
pub(crate) struct Trickle {
    /// The time between two of them beyond a burst, if they have failed.
    step: Duration,
    /// The same, if they have not.
    trusted_step: Duration,
    /// How far ahead they may be.
    burst: Duration,
    /// When those that have begun would all have done so, a step apart.
    until: Duration,
}

impl Trickle {
    /// Begins with none.
    pub(crate) fn new(settings: &Settings) -> Self {
        let Settings { silent_step: step, trusted_step, silent_burst: burst, .. } = *settings;
        Self { step, trusted_step, burst, until: Duration::ZERO }
    }

    /// Returns how long a step one of them takes.
    const fn step(&self, counted: Counted) -> Duration {
        match counted {
            Counted::Hopeful | Counted::Slow => Duration::ZERO,
            Counted::Trusted => self.trusted_step,
            Counted::Doubtful | Counted::Hanging => self.step,
        }
    }

    /// Counts one that begins.
    pub(crate) fn begin(&mut self, counted: Counted, now: Duration) {
        let step = self.step(counted);
        // While nobody is held back there is no end to them, and none of that counts later.
        let most = now.saturating_add(self.burst.saturating_add(step));
        let most = most.max(self.until);
        self.until = self.until.max(now).saturating_add(step).min(most);
    }

    /// Takes back one that was answered before it was old: it will not run into its deadline.
    pub(crate) fn answered(&mut self, counted: Counted) {
        self.until = self.until.saturating_sub(self.step(counted));
    }

    /// Tells whether there were enough of them for now.
    pub(crate) fn is_ahead(&self, now: Duration) -> bool {
        self.until >= now.saturating_add(self.burst)
    }

    /// Returns when there is room for some again.
    pub(crate) fn next(&self, now: Duration) -> Duration {
        self.until.saturating_sub(self.burst).max(now.saturating_add(SHORTEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Duration = Duration::from_secs(100);

    fn usual() -> Trickle {
        Trickle::new(&Settings::of(store::keys::Node("a".into())))
    }

    fn begun_at(trickle: &mut Trickle, counted: Counted, now: Duration) -> u32 {
        let mut count = 0;
        while !trickle.is_ahead(now) {
            trickle.begin(counted, now);
            count += 1;
        }
        count
    }

    #[test]
    fn beyond_a_burst_they_begin_little_by_little() {
        // How many there are in a burst, how long until there is room, and for how many then.
        let cases = [(Counted::Trusted, 64, 1, 4), (Counted::Doubtful, 8, 1, 1)];
        for (counted, burst, wait, then) in cases {
            let mut trickle = usual();
            assert_eq!(begun_at(&mut trickle, counted, BEGAN), burst, "{counted:?}");
            let next = trickle.next(BEGAN);
            assert_eq!(next - BEGAN, Duration::from_millis(wait), "{counted:?}");
            assert_eq!(begun_at(&mut trickle, counted, next), then, "{counted:?}");
        }
    }

    #[test]
    fn in_the_long_run_those_that_have_failed_are_a_step_apart() {
        let mut trickle = usual();
        begun_at(&mut trickle, Counted::Doubtful, BEGAN);
        let (mut now, mut count) = (BEGAN, 0);
        while now < BEGAN + Duration::from_secs(1) {
            now = trickle.next(now);
            count += begun_at(&mut trickle, Counted::Doubtful, now);
        }
        assert_eq!(count, 500);
    }

    #[test]
    fn whoever_is_trusted_hardly_waits_behind_those_that_have_failed() {
        let mut trickle = usual();
        begun_at(&mut trickle, Counted::Doubtful, BEGAN);
        let next = trickle.next(BEGAN);
        assert_eq!(next - BEGAN, SHORTEST);
        assert_eq!(begun_at(&mut trickle, Counted::Trusted, next), 4);
    }

    #[test]
    fn step_and_burst_are_settings() {
        let (silent_step, silent_burst) = (Duration::from_secs(2), Duration::from_secs(3));
        let usual = Settings::of(store::keys::Node("a".into()));
        let mut trickle = Trickle::new(&Settings { silent_step, silent_burst, ..usual });
        assert_eq!(begun_at(&mut trickle, Counted::Doubtful, BEGAN), 2);
        assert_eq!(trickle.next(BEGAN), BEGAN + Duration::from_secs(1));
    }

    #[test]
    fn one_that_is_answered_makes_room_for_another() {
        let mut trickle = usual();
        for counted in [Counted::Trusted, Counted::Doubtful] {
            begun_at(&mut trickle, counted, BEGAN);
            (0..5).for_each(|_| trickle.answered(counted));
            assert_eq!(begun_at(&mut trickle, counted, BEGAN), 5);
        }
    }

    #[test]
    fn however_many_have_begun_the_next_may_soon() {
        let mut trickle = usual();
        (0..100_000).for_each(|_| trickle.begin(Counted::Doubtful, BEGAN));
        assert!(trickle.is_ahead(BEGAN));
        assert!(!trickle.is_ahead(BEGAN + Duration::from_millis(3)));
    }
}
