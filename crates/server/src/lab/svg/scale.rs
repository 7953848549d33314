//! From time and rate to places in a panel, and the ticks that say so.
//!
//! All panels share both scales; otherwise the eye would compare what cannot be compared. Rates
//! stand on a logarithmic scale that is bent to reach zero: beside the peak after an outage,
//! everyday traffic and a lonely probe stay visible.

use std::time::Duration;

use domain::span;
use domain::time::Timestamp;

use crate::lab::Experiment;
use crate::lab::histogram::{Bucket, Histogram};

/// The most columns of a panel: each is wide enough to be seen.
const COLUMNS: u64 = 188;
/// The fewest pixels between two ticks of a rate.
const TICK_DISTANCE: f64 = 16.0;
/// How far below the highest rate the logarithm is bent towards zero.
const BENT_BELOW: f64 = 250.0;
/// The widths between two ticks of time, in seconds.
const STEPS: [u64; 21] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 2_592_000,
];

/// Both scales of a picture.
#[derive(Debug)]
pub(super) struct Scales {
    pub(super) time: TimeScale,
    pub(super) rate: RateScale,
}

/// The time that the panels span, in columns.
#[derive(Debug)]
pub(super) struct TimeScale {
    column_micros: u64,
    end_micros: u64,
    width: f64,
}

/// A slice of time: where it stands, in pixels from the left, and its attempts per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) succeeded: f64,
    pub(super) failed: f64,
}

/// The rates that the panels span, in attempts per unit.
#[derive(Debug)]
pub(super) struct RateScale {
    unit: (&'static str, f64),
    succeeded: f64,
    failed: f64,
}

impl Scales {
    /// Makes scales that hold all variants of an experiment.
    pub(super) fn of(experiment: &Experiment, width: f64) -> Self {
        let histograms = || experiment.results.iter().map(|it| &it.tally.histogram);
        let finest = histograms().map(Histogram::width_micros).max().unwrap_or(1);
        let last = histograms().map(Histogram::end).max().unwrap_or(Timestamp::EPOCH);
        let outage_end = experiment.scenario.outage.end();
        let end = u64::try_from(last.max(outage_end).as_micros()).unwrap_or(0).max(1);
        let column_micros = finest * end.div_ceil(finest).div_ceil(COLUMNS);
        let time = TimeScale { column_micros, end_micros: end, width };
        let columns: Vec<Column> =
            histograms().flat_map(|histogram| time.columns_of(histogram)).collect();
        let most = |rate: fn(&Column) -> f64| columns.iter().map(rate).fold(0.0, f64::max);
        let rate = RateScale::new(most(|it| it.succeeded), most(|it| it.failed));
        Self { time, rate }
    }
}

impl TimeScale {
    /// Returns a run, column by column.
    pub(super) fn columns_of(&self, histogram: &Histogram) -> Vec<Column> {
        let buckets = histogram.in_buckets_of(self.column_micros);
        (0..).zip(buckets).map(|(position, bucket)| self.column(position, bucket)).collect()
    }

    fn column(&self, position: u64, bucket: Bucket) -> Column {
        let from = (position * self.column_micros).min(self.end_micros);
        let to = (from + self.column_micros).min(self.end_micros);
        let seconds = real((to - from).max(1)) / 1e6;
        let x = |micros| self.width * real(micros) / real(self.end_micros);
        Column {
            left: x(from),
            right: x(to),
            succeeded: real(bucket.succeeded) / seconds,
            failed: real(bucket.failed) / seconds,
        }
    }

    /// Returns how far from the left a moment stands, in pixels.
    pub(super) fn x(&self, moment: Timestamp) -> f64 {
        let micros = u64::try_from(moment.as_micros()).unwrap_or(0);
        (self.width * real(micros) / real(self.end_micros)).min(self.width)
    }

    /// Returns ticks: how far from the left as a share of the width, and what to write there.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let seconds = real(self.end_micros) / 1e6;
        let longest = STEPS[STEPS.len() - 1];
        let step = STEPS.into_iter().find(|step| seconds / real(*step) <= 10.0).unwrap_or(longest);
        let moments = (0..).map(|count| count * step);
        let shown = moments.take_while(|moment| real(*moment) <= seconds);
        shown.map(|moment| (real(moment) / seconds, moment_text(moment, step))).collect()
    }
}

impl RateScale {
    fn new(succeeded: f64, failed: f64) -> Self {
        let units = [("second", 1.0), ("minute", 60.0), ("hour", 3_600.0), ("day", 86_400.0)];
        let most = succeeded.max(failed);
        let unit = units.into_iter().find(|(_, seconds)| most * seconds >= 10.0);
        let unit = unit.unwrap_or(units[3]);
        Self { unit, succeeded: succeeded * unit.1, failed: failed * unit.1 }
    }

    /// Returns the unit's name.
    pub(super) fn unit(&self) -> &'static str {
        self.unit.0
    }

    /// Returns how far from its top a panel of this height has its line of zero.
    pub(super) fn zero(&self, height: f64) -> f64 {
        self.distance(self.succeeded, height)
    }

    /// Returns how far from zero a rate per second stands.
    pub(super) fn y(&self, per_second: f64, height: f64) -> f64 {
        self.distance(per_second * self.unit.1, height)
    }

    /// Returns ticks: how far above zero (below, if negative), and what to write there.
    pub(super) fn ticks(&self, height: f64) -> Vec<(f64, String)> {
        let above = self.ticks_up_to(self.succeeded, height);
        let below = self.ticks_up_to(self.failed, height);
        let below = below.into_iter().map(|(distance, label)| (-distance, label));
        above.into_iter().chain(below).collect()
    }

    /// Powers of ten from the highest down, as far as there is room above zero.
    fn ticks_up_to(&self, most: f64, height: f64) -> Vec<(f64, String)> {
        let powers = (0..=9).rev().map(|power| 10_f64.powi(power));
        let mut free = f64::INFINITY;
        let mut ticks = Vec::new();
        for value in powers.filter(|value| *value <= most) {
            let distance = self.distance(value, height);
            if distance + TICK_DISTANCE <= free && distance >= TICK_DISTANCE {
                ticks.push((distance, count_text(value)));
                free = distance;
            }
        }
        ticks
    }

    fn distance(&self, value: f64, height: f64) -> f64 {
        let whole = self.bent(self.succeeded) + self.bent(self.failed);
        height * self.bent(value) / whole.max(f64::MIN_POSITIVE)
    }

    fn bent(&self, value: f64) -> f64 {
        let unit = self.succeeded.max(self.failed).max(1.0) / BENT_BELOW;
        (value / unit).ln_1p()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a picture needs no more than 53 bits")]
fn real(number: u64) -> f64 {
    number as f64
}

/// Writes a moment of the time axis: in days if all ticks are whole days.
fn moment_text(seconds: u64, step: u64) -> String {
    if step.is_multiple_of(86_400) {
        return format!("{}d", seconds / 86_400);
    }
    span::format(Duration::from_secs(seconds))
}

fn count_text(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_has_at_most_ten_steps_and_starts_at_zero() {
        for hours in [1_u64, 5, 24, 36, 100, 1_000] {
            let time = TimeScale {
                column_micros: 1_000_000,
                end_micros: hours * 3_600_000_000,
                width: 700.0,
            };
            let ticks = time.ticks();
            assert!((3..=11).contains(&ticks.len()), "{hours}: {ticks:?}");
            assert_eq!(ticks[0].0, 0.0);
            assert!(ticks.iter().all(|(share, _)| *share <= 1.0));
        }
    }

    #[test]
    fn ticks_of_a_rate_keep_their_distance() {
        let rate = RateScale::new(200.0, 40.0);
        let mut places: Vec<f64> = rate.ticks(200.0).into_iter().map(|(place, _)| place).collect();
        places.sort_by(f64::total_cmp);
        assert!(places.len() >= 3, "{places:?}");
        assert!(places.windows(2).all(|two| two[1] - two[0] >= TICK_DISTANCE), "{places:?}");
    }

    #[test]
    fn what_arrived_and_what_failed_fill_the_height_together() {
        let rate = RateScale::new(100.0, 25.0);
        let (up, down) = (rate.y(100.0, 90.0), rate.y(25.0, 90.0));
        assert!((up + down - 90.0).abs() < 1e-9);
        assert!((rate.zero(90.0) - up).abs() < 1e-9);
    }

    #[test]
    fn a_column_cut_short_by_the_end_keeps_its_rate() {
        let mut histogram = Histogram::default();
        for tenth in 0..15 {
            histogram.count(Timestamp::from_micros(tenth * 100_000), true);
        }
        let time = TimeScale { column_micros: 1_000_000, end_micros: 1_500_000, width: 300.0 };
        let whole = Column { left: 0.0, right: 200.0, succeeded: 10.0, failed: 0.0 };
        assert_eq!(
            time.columns_of(&histogram),
            [whole, Column { left: 200.0, right: 300.0, ..whole }]
        );
    }

    #[test]
    fn the_unit_fits_the_traffic() {
        assert_eq!(RateScale::new(200.0, 0.0).unit(), "second");
        assert_eq!(RateScale::new(1.0, 0.0).unit(), "minute");
        assert_eq!(RateScale::new(0.01, 0.0).unit(), "hour");
        assert_eq!(RateScale::new(0.0, 0.0).unit(), "day");
    }

    #[test]
    fn numbers_are_written_shortly() {
        assert_eq!([5.0, 200.0, 5e3, 2e6].map(count_text), ["5", "200", "5k", "2M"]);
        assert_eq!(moment_text(172_800, 86_400), "2d");
        assert_eq!(moment_text(5_400, 1_800), "1h30m");
    }
}
