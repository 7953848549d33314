//! Attempts over time, counted in buckets that widen as the time grows.
//!
//! Nobody knows beforehand when the last retry of a run will be. So counting begins with narrow
//! buckets, and when they run out, each two become one; the memory stays the same.

use domain::time::Timestamp;

/// The most buckets there are.
const MOST_BUCKETS: usize = 4_096;
/// The width they begin with.
const FIRST_WIDTH_MICROS: u64 = 100_000;

/// How many attempts began in each bucket of time from some moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Histogram {
    origin: Timestamp,
    width_micros: u64,
    buckets: Vec<Bucket>,
}

/// The attempts that began in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bucket {
    /// Those that ended well.
    pub(crate) succeeded: u64,
    /// Those that did not.
    pub(crate) failed: u64,
}

impl Bucket {
    /// Adds another bucket's attempts.
    pub(crate) fn merged(self, other: Self) -> Self {
        Self { succeeded: self.succeeded + other.succeeded, failed: self.failed + other.failed }
    }
}

impl Histogram {
    /// Begins to count at a moment, which is where the first bucket begins.
    pub(crate) fn starting_at(origin: Timestamp) -> Self {
        Self { origin, width_micros: FIRST_WIDTH_MICROS, buckets: Vec::new() }
    }

    /// Counts an attempt by the moment at which it began.
    pub(crate) fn count(&mut self, began: Timestamp, succeeded: bool) {
        let index = loop {
            let index = self.index(began);
            if index < MOST_BUCKETS {
                break index;
            }
            self.widen();
        };
        if self.buckets.len() <= index {
            self.buckets.resize(index + 1, Bucket::default());
        }
        let bucket = &mut self.buckets[index];
        if succeeded {
            bucket.succeeded += 1;
        } else {
            bucket.failed += 1;
        }
    }

    /// Returns the buckets' width in microseconds.
    pub(crate) fn width_micros(&self) -> u64 {
        self.width_micros
    }

    /// Returns the same attempts in buckets of another width, which must be this width or a whole
    /// multiple of it.
    pub(crate) fn in_buckets_of(&self, width_micros: u64) -> Vec<Bucket> {
        let each = usize::try_from((width_micros / self.width_micros).max(1)).unwrap_or(usize::MAX);
        let merge = |some: &[Bucket]| some.iter().copied().fold(Bucket::default(), Bucket::merged);
        self.buckets.chunks(each).map(merge).collect()
    }

    fn index(&self, moment: Timestamp) -> usize {
        let micros = moment.since(self.origin).as_micros() / u128::from(self.width_micros);
        usize::try_from(micros).unwrap_or(usize::MAX)
    }

    fn widen(&mut self) {
        self.buckets = self.in_buckets_of(self.width_micros * 2);
        self.width_micros *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(buckets: &[Bucket]) -> Bucket {
        buckets.iter().copied().fold(Bucket::default(), Bucket::merged)
    }

    #[test]
    fn no_attempt_is_lost_when_buckets_widen() {
        let mut histogram = Histogram::starting_at(Timestamp::EPOCH);
        for second in 0..10_000 {
            histogram.count(Timestamp::from_seconds(second), second % 10 != 0);
        }
        assert_eq!(histogram.width_micros, FIRST_WIDTH_MICROS * 32);
        assert!(histogram.buckets.len() <= MOST_BUCKETS);
        assert_eq!(total(&histogram.buckets), Bucket { succeeded: 9_000, failed: 1_000 });
    }

    #[test]
    fn an_attempt_stands_in_the_bucket_in_which_it_began() {
        let mut histogram = Histogram::starting_at(Timestamp::EPOCH);
        histogram.count(Timestamp::from_micros(99_999), true);
        histogram.count(Timestamp::from_micros(100_000), false);
        let success = Bucket { succeeded: 1, failed: 0 };
        let failure = Bucket { succeeded: 0, failed: 1 };
        assert_eq!(histogram.buckets, [success, failure]);
        assert_eq!(histogram.in_buckets_of(200_000), [success.merged(failure)]);
    }

    #[test]
    fn buckets_begin_where_counting_does() {
        let mut histogram = Histogram::starting_at(Timestamp::from_micros(70_000));
        histogram.count(Timestamp::from_micros(169_999), true);
        histogram.count(Timestamp::from_micros(170_000), true);
        assert_eq!(histogram.buckets, [Bucket { succeeded: 1, failed: 0 }; 2]);
    }

    #[test]
    fn years_fit() {
        let mut histogram = Histogram::starting_at(Timestamp::EPOCH);
        histogram.count(Timestamp::from_seconds(20 * 365 * 86_400), true);
        assert_eq!(total(&histogram.buckets), Bucket { succeeded: 1, failed: 0 });
    }
}
