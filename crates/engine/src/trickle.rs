//! Endpoints that have not answered lately begin little by little while many attempts hang.
//!
//! Attempts that begin in one moment run into their deadline in one moment. Hundreds of them are a
//! tenth of a second's work for whoever sends, twice, and everybody else waits for it. As long as
//! nothing hangs, such a burst is answered and forgotten, and nobody is held back.

use std::time::Duration;

/// The time between two of them beyond a burst.
const STEP: Duration = Duration::from_micros(250);
/// How far ahead they may be: so long a burst is hardly noticed by others.
const BURST: Duration = Duration::from_millis(8);
/// The shortest wait for the next ones: a timer is no finer.
const SHORTEST: Duration = Duration::from_millis(1);

/// How many have begun of late.
#[derive(Debug, Default)]
pub(crate) struct Trickle {
    /// When those that have begun would all have done so, a step apart.
    until: Duration,
}

impl Trickle {
    /// Counts one that begins.
    pub(crate) fn begin(&mut self, now: Duration) {
        // While nobody is held back there is no end to them, and none of that counts later.
        let most = now.saturating_add(BURST + STEP);
        self.until = self.until.max(now).saturating_add(STEP).min(most);
    }

    /// Takes back one that was answered: it will not run into its deadline.
    pub(crate) fn answered(&mut self) {
        self.until = self.until.saturating_sub(STEP);
    }

    /// Tells whether there were enough of them for now.
    pub(crate) fn is_ahead(&self, now: Duration) -> bool {
        self.until >= now.saturating_add(BURST)
    }

    /// Returns when there is room for some again.
    pub(crate) fn next(&self, now: Duration) -> Duration {
        self.until.saturating_sub(BURST).max(now.saturating_add(SHORTEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Duration = Duration::from_secs(100);

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
        let mut trickle = Trickle::default();
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
    fn one_that_is_answered_makes_room_for_another() {
        let mut trickle = Trickle::default();
        begun_at(&mut trickle, BEGAN);
        (0..5).for_each(|_| trickle.answered());
        assert_eq!(begun_at(&mut trickle, BEGAN), 5);
    }

    #[test]
    fn however_many_have_begun_the_next_may_soon() {
        let mut trickle = Trickle::default();
        (0..100_000).for_each(|_| trickle.begin(BEGAN));
        assert!(trickle.is_ahead(BEGAN));
        assert!(!trickle.is_ahead(BEGAN + SHORTEST));
    }
}
