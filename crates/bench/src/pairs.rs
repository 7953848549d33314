//! Interleaved pairs and medians.
//!
//! A shared machine is noisy, and its noise comes in waves. Two measurements taken one after the
//! other meet the same wave, so their ratio says more than either of them; the median of five such
//! ratios says more than the best.

/// Two rates taken one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    /// Of what is measured, per second.
    pub(super) measured: f64,
    /// Of what it is compared with, per second.
    pub(super) compared: f64,
}

impl Pair {
    /// Returns the share of the yardstick that was reached.
    pub(super) fn ratio(self) -> f64 {
        self.measured / self.compared
    }
}

/// Tells which of a pair's two runs comes first: they take turns, because whoever comes second may
/// find the machine warmer, or still at work.
pub(super) fn measured_comes_first(number: u32) -> bool {
    number % 2 == 1
}

/// Returns the middle of some numbers; of an even count, the mean of the two in the middle.
pub(super) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => numbers[middle],
        _ => f64::midpoint(numbers[middle - 1], numbers[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_ratio_is_the_share_of_the_yardstick() {
        assert_eq!(Pair { measured: 30.0, compared: 40.0 }.ratio(), 0.75);
    }
}
