//! How many attempts are settled at once, so that a message does not wait for many of them.
//!
//! Attempts often end together: hundreds that began in one moment run into their deadline in one
//! moment. Each touches pages of its own, and a batch of all of them would hold up whoever hands in a
//! message meanwhile. Beside few callers a batch takes about as many as take no longer than the commit
//! itself. Where callers are a crowd, they fill the time anyway, and large batches serve everybody.

use std::time::Duration;

use super::{Carried, Crowd};

/// What commits take, and what each write adds.
#[derive(Debug)]
pub struct Pace {
    /// The quickest commit of late: what the sync takes, and the way there and back.
    quickest: Option<Duration>,
    /// What a write adds, roughly.
    write: Duration,
}

impl Default for Pace {
    /// Before anything is known, a write is taken to be slow: the first burst may be the worst.
    fn default() -> Self {
        Self { quickest: None, write: Crowd::WRITE }
    }
}

impl Pace {
    /// The fewest that are settled at once.
    const LEAST: usize = 16;
    /// What they may take together, where the sync takes less than that.
    const SHORT: Duration = Duration::from_micros(500);
    /// From fewer writes than these nothing is learned about one.
    const TELLING: u32 = 8;

    /// Hears that a batch is committed.
    pub fn committed(&mut self, batch: Carried) {
        // It is forgotten over some hundred batches: a disk may become slower.
        let quickest = self.quickest.map_or(batch.took, |it| (it + it / 256).min(batch.took));
        self.quickest = Some(quickest);
        if batch.writes >= Self::TELLING {
            let each = batch.took.saturating_sub(quickest) / batch.writes;
            self.write = (self.write * 3 + each) / 4;
        }
    }

    /// Returns how many attempts the next batch should settle at the most.
    #[must_use]
    pub fn settles(&self) -> usize {
        let short = Self::SHORT.max(self.quickest.unwrap_or_default());
        let many = short.as_nanos().checked_div(self.write.as_nanos()).unwrap_or(u128::MAX);
        usize::try_from(many).unwrap_or(usize::MAX).max(Self::LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(batches: u32, writes: u32, took: Duration) -> Pace {
        let mut pace = Pace::default();
        pace.committed(Carried { callers: 1, writes: 1, took: Duration::from_micros(300) });
        for _ in 0..batches {
            pace.committed(Carried { callers: 1, writes, took });
        }
        pace
    }

    #[test]
    fn as_many_attempts_are_settled_as_take_a_short_while() {
        assert_eq!(Pace::default().settles(), 16, "nothing is known yet");
        // Ten microseconds each, then twenty.
        let hot = after(40, 100, Duration::from_micros(1_300)).settles();
        assert!((45..65).contains(&hot), "{hot}");
        let cold = after(40, 100, Duration::from_micros(2_300)).settles();
        assert!((22..30).contains(&cold), "{cold}");
        let colder = after(40, 100, Duration::from_secs(1)).settles();
        assert_eq!(colder, 16);
    }

    #[test]
    fn a_slow_sync_is_worth_as_much_again() {
        let mut pace = Pace::default();
        for _ in 0..40 {
            pace.committed(Carried { callers: 1, writes: 1, took: Duration::from_millis(20) });
            pace.committed(Carried { callers: 1, writes: 100, took: Duration::from_millis(21) });
        }
        assert!((1_900..2_500).contains(&pace.settles()), "{}", pace.settles());
    }

    #[test]
    fn few_writes_tell_nothing_about_one() {
        let mut pace = after(0, 0, Duration::ZERO);
        for _ in 0..40 {
            pace.committed(Carried { callers: 1, writes: 2, took: Duration::from_millis(9) });
        }
        assert_eq!(pace.settles(), 16);
    }
}
