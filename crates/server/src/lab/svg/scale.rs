//! From time and rate to places in a panel, and the ticks that say so.
//!
//! All panels share both scales and have one height; otherwise the eye would compare what cannot
//! be compared. Rates stand on a logarithmic scale that is bent to reach zero: beside the peak
//! after an outage, everyday traffic and a lonely probe stay visible.

use std::time::Duration;

use domain::span;
use domain::time::Timestamp;

use crate::lab::Experiment;
use crate::lab::histogram::Bucket;
use crate::lab::scenario::START;
use crate::lab::timeline::{Phase, Timeline};

/// About so many columns has a panel at the most: each is wide enough to be seen.
const MOST_COLUMNS: u64 = 188;
/// About so many it has at the least.
const FEWEST_COLUMNS: u64 = 48;
/// In between, an everyday column holds so many events: with fewer, one more or less in every other
/// column would look like teeth.
const EVENTS_PER_COLUMN: u64 = 8;
/// The narrowest column, unless the outage cuts it: the second that a peak is counted in. The
/// average over less could be higher than the peak.
const NARROWEST_MICROS: u64 = 1_000_000;
/// The fewest pixels between two ticks of a rate.
const TICK_DISTANCE: f64 = 14.0;
/// How far below the highest rate the logarithm is bent towards zero, at the least.
const BENT_BELOW: f64 = 250.0;
/// The widths between two ticks of time, in seconds.
const STEPS: [u64; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 432_000, 604_800, 2_592_000,
];
/// The rates that ticks can stand at, highest first, by how many there are in which unit.
const RATES: [(u32, Unit); 13] = [
    (1_000_000, Unit::Second),
    (100_000, Unit::Second),
    (10_000, Unit::Second),
    (1_000, Unit::Second),
    (100, Unit::Second),
    (10, Unit::Second),
    (1, Unit::Second),
    (10, Unit::Minute),
    (1, Unit::Minute),
    (10, Unit::Hour),
    (1, Unit::Hour),
    (10, Unit::Day),
    (1, Unit::Day),
];

/// What a tick's rate is counted in: below one a second, whole numbers of a longer time are easier
/// to read than fractions.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
}

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

/// The rates that the panels span, in attempts per second.
#[derive(Debug)]
pub(super) struct RateScale {
    succeeded: f64,
    failed: f64,
    /// Far above this rate the scale is logarithmic, far below it even.
    bend: f64,
}

impl Scales {
    /// Makes scales that hold all variants of an experiment: every event, the outage, every
    /// attempt and the busiest second.
    pub(super) fn of(experiment: &Experiment, width: f64) -> Self {
        let timelines = || experiment.results.iter().map(|it| &it.tally.timeline);
        let widest = timelines().map(Timeline::width_micros).max().unwrap_or(1);
        let last = timelines().map(Timeline::last).max().unwrap_or(START);
        let scenario = &experiment.scenario;
        let end = scenario.outage.end().max(START.after(scenario.over)).max(last);
        let end_micros = micros(end).max(1);
        let columns = u64::from(scenario.events) / EVENTS_PER_COLUMN;
        let columns = columns.clamp(FEWEST_COLUMNS, MOST_COLUMNS);
        let buckets = end_micros.div_ceil(widest).div_ceil(columns);
        let column_micros = widest * buckets.max(NARROWEST_MICROS.div_ceil(widest));
        let time = TimeScale { column_micros, end_micros, width };
        let columns: Vec<Column> = timelines().flat_map(|it| time.columns_of(it)).collect();
        let most = |rate: fn(&Column) -> f64| columns.iter().map(rate).fold(0.0, f64::max);
        let peaks = experiment.results.iter().map(|it| it.tally.peak_per_second_after_recovery);
        let peak = real(peaks.max().unwrap_or(0));
        let everyday = f64::from(scenario.events) / scenario.over.as_secs_f64();
        let rate =
            RateScale::new(most(|it| it.succeeded).max(peak), most(|it| it.failed), everyday);
        Self { time, rate }
    }
}

impl TimeScale {
    /// Returns a run, column by column.
    pub(super) fn columns_of(&self, timeline: &Timeline) -> Vec<Column> {
        timeline.phases().iter().flat_map(|phase| self.columns_in(phase)).collect()
    }

    /// Returns the time that a column is the average over. The last one of a phase takes what is
    /// left of it, half as much or half as much again.
    pub(super) fn column_width(&self) -> Duration {
        Duration::from_micros(self.column_micros)
    }

    fn columns_in(&self, phase: &Phase) -> Vec<Column> {
        let start = micros(phase.start);
        let end = phase.end.map_or(self.end_micros, micros);
        if start >= end {
            return Vec::new();
        }
        let count = ((end - start + self.column_micros / 2) / self.column_micros).max(1);
        let mut buckets = phase.histogram.in_buckets_of(self.column_micros).into_iter();
        let mut made = Vec::new();
        for position in 1..count {
            let to = start + position * self.column_micros;
            let bucket = buckets.next().unwrap_or_default();
            made.push(self.column(to - self.column_micros, to, bucket));
        }
        let rest = buckets.fold(Bucket::default(), Bucket::merged);
        made.push(self.column(start + (count - 1) * self.column_micros, end, rest));
        made
    }

    fn column(&self, from: u64, to: u64, bucket: Bucket) -> Column {
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
        (self.width * real(micros(moment)) / real(self.end_micros)).min(self.width)
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
    /// Makes a scale up to the highest rates, on which the everyday one can be seen.
    fn new(succeeded: f64, failed: f64, everyday: f64) -> Self {
        let bend = (succeeded.max(failed) / BENT_BELOW).min(everyday / 2.0);
        Self { succeeded, failed, bend: bend.max(f64::MIN_POSITIVE) }
    }

    /// Returns how far from its top a panel of this height has its line of zero.
    pub(super) fn zero(&self, height: f64) -> f64 {
        self.y(self.succeeded, height)
    }

    /// Returns how far from zero a rate per second stands.
    pub(super) fn y(&self, per_second: f64, height: f64) -> f64 {
        let whole = self.bent(self.succeeded) + self.bent(self.failed);
        height * self.bent(per_second) / whole.max(f64::MIN_POSITIVE)
    }

    /// Returns ticks: how far above zero (below, if negative), and what to write there.
    pub(super) fn ticks(&self, height: f64) -> Vec<(f64, String)> {
        let above = self.ticks_up_to(self.succeeded, height);
        let below = self.ticks_up_to(self.failed, height);
        let below = below.into_iter().map(|(distance, label)| (-distance, label));
        above.into_iter().chain(below).collect()
    }

    /// From the highest rate down, as far as there is room above zero.
    fn ticks_up_to(&self, most: f64, height: f64) -> Vec<(f64, String)> {
        let mut free = f64::INFINITY;
        let mut ticks = Vec::new();
        for (count, unit) in RATES {
            let per_second = f64::from(count) / unit.seconds();
            let distance = self.y(per_second, height);
            let has_room = distance + TICK_DISTANCE <= free && distance >= TICK_DISTANCE;
            if per_second <= most && has_room {
                ticks.push((distance, rate_text(count, unit)));
                free = distance;
            }
        }
        ticks
    }

    fn bent(&self, per_second: f64) -> f64 {
        (per_second / self.bend).ln_1p()
    }
}

impl Unit {
    const fn seconds(self) -> f64 {
        match self {
            Self::Second => 1.0,
            Self::Minute => 60.0,
            Self::Hour => 3_600.0,
            Self::Day => 86_400.0,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
            Self::Day => "d",
        }
    }
}

fn micros(moment: Timestamp) -> u64 {
    u64::try_from(moment.as_micros()).unwrap_or(0)
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

fn rate_text(count: u32, unit: Unit) -> String {
    let unit = unit.word();
    match count {
        1_000_000.. => format!("{}M/{unit}", count / 1_000_000),
        1_000.. => format!("{}k/{unit}", count / 1_000),
        _ => format!("{count}/{unit}"),
    }
}

#[cfg(test)]
mod tests;
