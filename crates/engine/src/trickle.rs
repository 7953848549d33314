//! Endpoints that have not answered lately begin little by little while many attempts hang.
//!
//! Attempts that begin in one moment run into their deadline in one moment. Hundreds of them are a
//! tenth of a second's work for whoever sends, twice, and everybody else waits for it. As long as
//! nothing hangs, such a burst is answered and forgotten, and nobody is held back.

use std::time::Duration;

use crate::settings::Settings;

/// The shortest wait for the next ones: a timer is no finer.
const SHORTEST: Duration = Duration::from_millis(1);

/// How many have begun of late.
#[derive(Debug)]
pub(crate) struct Trickle {
    /// The time between two of them beyond a burst.
    step: Duration,
    /// How far ahead they may be.
    burst: Duration,
    /// When those that have begun would all have done so, a step apart.
    until: Duration,
}

impl Trickle {
    /// Begins with none.
    pub(crate) fn new(settings: &Settings) -> Self {
        let (step, burst) = (settings.silent_step, settings.silent_burst);
        Self { step, burst, until: Duration::ZERO }
    }

    /// Counts one that begins.
    pub(crate) fn begin(&mut self, now: Duration) {
        // While nobody is held back there is no end to them, and none of that counts later.
        let most = now.saturating_add(self.burst.saturating_add(self.step));
        self.until = self.until.max(now).saturating_add(self.step).min(most);
    }

    /// Takes back one that was answered: it will not run into its deadline.
    pub(crate) fn answered(&mut self) {
        self.until = self.until.saturating_sub(self.step);
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

    fn begun_at(trickle: &mut Trickle, now: Duration) -> u32 {
        let mut count = 0;
        while !trickle.is_ahead(now) {
            trickle.begin(now);
            count += 1;
        }
        count
    }

    #[test]
    fn beyond_a_burst_they_begin_little_by_little() {
        let mut trickle = usual();
        assert_eq!(begun_at(&mut trickle, BEGAN), 32);
        let mut now = BEGAN;
        for _ in 0..10 {
            let next = trickle.next(now);
            assert_eq!(next - now, SHORTEST);
            now = next;
            assert_eq!(begun_at(&mut trickle, now), 4);
        }
    }

    #[test]
    fn step_and_burst_are_settings() {
        let (silent_step, silent_burst) = (Duration::from_secs(2), Duration::from_secs(3));
        let usual = Settings::of(store::keys::Node("a".into()));
        let mut trickle = Trickle::new(&Settings { silent_step, silent_burst, ..usual });
        assert_eq!(begun_at(&mut trickle, BEGAN), 2);
        assert_eq!(trickle.next(BEGAN), BEGAN + Duration::from_secs(1));
    }

    #[test]
    fn one_that_is_answered_makes_room_for_another() {
        let mut trickle = usual();
        begun_at(&mut trickle, BEGAN);
        (0..5).for_each(|_| trickle.answered());
        assert_eq!(begun_at(&mut trickle, BEGAN), 5);
    }

    #[test]
    fn however_many_have_begun_the_next_may_soon() {
        let mut trickle = usual();
        (0..100_000).for_each(|_| trickle.begin(BEGAN));
        assert!(trickle.is_ahead(BEGAN));
        assert!(!trickle.is_ahead(BEGAN + SHORTEST));
    }
}
