//! Fixed buckets for times: four to each doubling, from a millisecond to about twelve days.
//!
//! Fixed, so that sums of different minutes, endpoints and nodes can be added; logarithmic, so that
//! a percentile is at most a fifth off at any size.

use std::sync::LazyLock;
use std::time::Duration;

/// How many buckets there are.
pub const BUCKETS: usize = 121;

/// Returns the bucket that a time falls into.
#[must_use]
pub fn bucket(time: Duration) -> usize {
    static ENDS: LazyLock<[Duration; BUCKETS - 1]> =
        LazyLock::new(|| std::array::from_fn(bucket_ends_at));
    ENDS.partition_point(|end| *end < time)
}

/// Returns the longest time that falls into a bucket; the last one has no end.
#[must_use]
pub fn bucket_ends_at(bucket: usize) -> Duration {
    if bucket >= BUCKETS - 1 {
        return Duration::MAX;
    }
    let doublings = f64::from(u32::try_from(bucket).unwrap_or(u32::MAX)) / 4.0;
    Duration::from_secs_f64(0.001 * doublings.exp2())
}

/// Returns the time that so many of a hundred did not exceed, if any were counted: the end of the bucket
/// where that place is, so it is never too short, and at most a fifth too long.
#[must_use]
pub fn percentile(counts: &[u32], percent: u8) -> Option<Duration> {
    let total: u64 = counts.iter().copied().map(u64::from).sum();
    let place = total.saturating_mul(percent.into()).div_ceil(100).max(1);
    let mut passed = 0;
    let found = counts.iter().position(|count| {
        passed += u64::from(*count);
        passed >= place
    });
    // What is in the last bucket took longer than the one before it holds.
    found.map(|bucket| bucket_ends_at(bucket.min(BUCKETS - 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_by_doublings_in_four_steps() {
        assert_eq!(bucket_ends_at(0), Duration::from_millis(1));
        assert_eq!(bucket_ends_at(4), Duration::from_millis(2));
        assert_eq!(bucket_ends_at(40), Duration::from_millis(1_024));
        assert_eq!(bucket_ends_at(119), Duration::from_secs_f64(0.001 * 29.75_f64.exp2()));
        assert_eq!(bucket_ends_at(120), Duration::MAX);
    }

    #[test]
    fn a_time_falls_into_the_first_bucket_that_holds_it() {
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::from_millis(1)), 0);
        assert_eq!(bucket(Duration::from_micros(1_001)), 1);
        assert_eq!(bucket(Duration::from_millis(2)), 4);
        assert_eq!(bucket(Duration::from_secs(86_400 * 30)), 120);
        assert_eq!(bucket(Duration::MAX), 120);
    }

    #[test]
    fn a_percentile_is_the_end_of_the_bucket_where_it_lies() {
        let mut counts = vec![0; BUCKETS];
        assert_eq!(percentile(&counts, 99), None);
        assert_eq!(percentile(&[], 50), None);
        (counts[4], counts[40], counts[120]) = (98, 1, 1);
        let [two, second] = [2, 1_024].map(Duration::from_millis);
        for (percent, time) in [(1, two), (50, two), (98, two), (99, second)] {
            assert_eq!(percentile(&counts, percent), Some(time), "p{percent}");
        }
        assert_eq!(percentile(&counts, 100), Some(bucket_ends_at(119)), "it has no end");
    }

    #[test]
    fn a_percentile_is_never_too_short_and_at_most_a_fifth_too_long() {
        for micros in [1_000, 1_001, 1_999, 70_000, 1_234_567, 86_400_000_000] {
            let time = Duration::from_micros(micros);
            let mut counts = vec![0; bucket(time) + 1];
            counts[bucket(time)] = 1;
            let told = percentile(&counts, 50).unwrap();
            assert!(told >= time && told < time.mul_f64(1.2), "{time:?} is told as {told:?}");
        }
    }
}
