//! How long things took, counted in buckets that widen with the time, so that a million of them
//! cost a few kilobytes and a quantile is never more than two in a hundred too long.

use std::time::Duration;

/// The number of buckets for each doubling of the time, as a power of two.
const PRECISION: u32 = 6;
/// Longer times, in microseconds, are counted as this: some nineteen hours.
const LONGEST_MICROS: u64 = (1 << 36) - 1;
/// So many buckets reach up to there.
const BUCKETS: usize = ((36 - PRECISION as usize) + 1) << PRECISION;

/// Times, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Latencies {
    buckets: Vec<u64>,
    count: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0 }
    }
}

impl Latencies {
    /// Counts a time.
    pub(super) fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(LONGEST_MICROS);
        self.buckets[bucket(micros)] += 1;
        self.count += 1;
    }

    /// Returns how many were counted.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds what was counted elsewhere.
    pub(super) fn add(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
        self.count += other.count;
    }

    /// Returns the time that this share of all did not exceed, unless that is merely the longest of so
    /// few.
    pub(super) fn telling_quantile(&self, share: f64) -> Option<Duration> {
        (rank(share, self.count) < self.count).then(|| self.quantile(share))
    }

    /// Returns the time that this share of all did not exceed, or zero if nothing was counted.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let rank = rank(share, self.count);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank && *count > 0 {
                return Duration::from_micros(upper_edge(index));
            }
        }
        Duration::ZERO
    }
}

/// Returns how many of so many must not be slower.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a count is a count, and nobody counts to 2^53 here"
)]
fn rank(share: f64, count: u64) -> u64 {
    ((share * count as f64).ceil() as u64).clamp(1, count.max(1))
}

/// Returns the bucket of a time: one for each microsecond at first, then as many for each doubling.
fn bucket(micros: u64) -> usize {
    let doublings = (u64::BITS - micros.leading_zeros()).saturating_sub(PRECISION + 1);
    let within = micros >> doublings;
    usize::try_from((u64::from(doublings) << PRECISION) + within).unwrap_or(BUCKETS - 1)
}

/// Returns the longest time that a bucket counts: a quantile must not flatter.
fn upper_edge(index: usize) -> u64 {
    let index = u64::try_from(index).unwrap_or(u64::MAX);
    let doublings = (index >> PRECISION).saturating_sub(1);
    let within = index - (doublings << PRECISION);
    ((within + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(all: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        for micros in all {
            latencies.record(Duration::from_micros(micros));
        }
        latencies
    }

    #[test]
    fn every_time_lies_in_its_bucket_and_not_far_below_its_edge() {
        for micros in (0..200).chain([999, 1_000, 20_000_000, LONGEST_MICROS]) {
            let edge = upper_edge(bucket(micros));
            assert!(edge >= micros, "{micros}");
            assert!(edge - micros <= micros >> PRECISION, "{micros} is told as {edge}");
        }
    }

    #[test]
    fn quantiles_are_exact_where_a_bucket_is_a_microsecond() {
        let latencies = micros(1..=100);
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|share| latencies.quantile(share).as_micros());
        assert_eq!(quantiles, [1, 50, 99, 100]);
    }

    #[test]
    fn the_longest_is_not_told_as_a_quantile() {
        let told = |count, share| micros(1..=count).telling_quantile(share);
        assert_eq!(told(99, 0.99), None);
        assert_eq!(told(100, 0.99).map(|it| it.as_micros()), Some(99));
        assert!(told(1_000, 0.999).is_some() && told(999, 0.999).is_none());
        assert!(told(2, 0.5).is_some() && told(1, 0.5).is_none() && told(0, 0.5).is_none());
    }

    #[test]
    fn what_was_counted_apart_adds_up() {
        let mut both = micros(1..=50);
        both.add(&micros(51..=100));
        assert_eq!(both, micros(1..=100));
    }

    #[test]
    fn a_time_beyond_all_buckets_is_counted_as_the_longest() {
        assert_eq!(micros([u64::MAX]).quantile(0.5).as_micros(), u128::from(LONGEST_MICROS));
    }

    #[test]
    fn nothing_counted_took_no_time() {
        assert_eq!(Latencies::default().quantile(0.99), Duration::ZERO);
    }
}
