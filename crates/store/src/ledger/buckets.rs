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
}
