//! A figure: what was measured, in which unit, and where it should lie.

use std::time::Duration;

use host::words::grouped;
use serde_json::{Value, json};

use super::pairs::{Pair, median};
use super::scenario::Scenario;

/// What a figure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// One thing divided by another.
    Ratio,
    /// Things in a second.
    PerSecond,
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
    /// A part of a whole, as a number up to 1.
    Share,
}

/// Where a figure should lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// Not below.
    AtLeast(f64),
    /// Not above.
    AtMost(f64),
}

/// How often a figure was measured. A single run may have met a bad minute of the machine, so whoever
/// reads it should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// One run.
    Once,
    /// Several runs, of which the median counts.
    Median,
    /// Several runs, taken together as if they were one.
    Together,
}

/// Something that was measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// Where it comes from.
    pub(crate) scenario: Scenario,
    /// What it is.
    pub(crate) name: String,
    /// What it is counted in.
    pub(crate) unit: Unit,
    /// How much it is.
    pub(crate) value: f64,
    /// What that was taken from.
    pub(crate) basis: Basis,
    /// Where it should lie.
    pub(crate) bound: Option<Bound>,
    /// What was measured, each time, where it is a median.
    pub(crate) samples: Vec<f64>,
}

impl Unit {
    /// Writes a value for people.
    pub(crate) fn format(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.2}"),
            Self::PerSecond => format!("{}/s", grouped(rounded(value))),
            Self::Time if value < 0.001 => format!("{:.0} µs", value * 1e6),
            Self::Time if value < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Time => format!("{value:.2} s"),
            Self::Bytes if value < 1e4 => format!("{value:.0} B"),
            Self::Bytes if value < 1e6 => format!("{:.1} kB", value / 1e3),
            Self::Bytes if value < 1e9 => format!("{:.1} MB", value / 1e6),
            Self::Bytes => format!("{:.1} GB", value / 1e9),
            Self::Count if value < 10.0 => format!("{value:.2}"),
            Self::Count if value < 100.0 => format!("{value:.1}"),
            Self::Count => grouped(rounded(value)),
            Self::Share => format!("{:.1} %", value * 100.0),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::PerSecond => "per_second",
            Self::Time => "seconds",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Share => "share",
        }
    }
}

impl Basis {
    const fn word(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Median => "median",
            Self::Together => "together",
        }
    }
}

impl Bound {
    /// Tells whether a value is where it should be.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    /// Tells whether a value is not even half as good as it should be.
    pub(crate) fn is_far_from(self, value: f64) -> bool {
        let half = match self {
            Self::AtLeast(least) => Self::AtLeast(least / 2.0),
            Self::AtMost(most) => Self::AtMost(most * 2.0),
        };
        !half.holds(value)
    }

    /// Returns where it lies.
    pub(crate) fn value(self) -> f64 {
        match self {
            Self::AtLeast(value) | Self::AtMost(value) => value,
        }
    }

    /// Writes it for people.
    pub(crate) fn format(self, unit: Unit) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {}", unit.format(least)),
            Self::AtMost(most) => format!("≤ {}", unit.format(most)),
        }
    }
}

impl Figure {
    /// Makes a figure that was measured once.
    pub(super) fn once(scenario: Scenario, name: &str, unit: Unit, value: f64) -> Self {
        let (name, basis, samples) = (name.to_owned(), Basis::Once, Vec::new());
        Self { scenario, name, unit, value, basis, bound: None, samples }
    }

    /// Makes a figure of all runs taken together.
    pub(super) fn together(scenario: Scenario, name: &str, unit: Unit, value: f64) -> Self {
        Self { basis: Basis::Together, ..Self::once(scenario, name, unit, value) }
    }

    /// Makes a figure of which the median counts.
    pub(super) fn median(scenario: Scenario, name: &str, unit: Unit, samples: Vec<f64>) -> Self {
        let value = median(samples.iter().copied());
        Self { samples, basis: Basis::Median, ..Self::once(scenario, name, unit, value) }
    }

    /// Makes the median ratio of pairs.
    pub(super) fn ratio(scenario: Scenario, name: &str, pairs: &[Pair]) -> Self {
        let ratios = pairs.iter().map(|pair| pair.ratio()).collect();
        Self::median(scenario, name, Unit::Ratio, ratios)
    }

    /// Says where it should lie.
    pub(super) fn within(mut self, bound: Bound) -> Self {
        self.bound = Some(bound);
        self
    }

    /// Says where it should lie, if what was measured is as large as what that was said about.
    pub(super) fn within_if(self, full_size: bool, bound: Bound) -> Self {
        if full_size { self.within(bound) } else { self }
    }

    /// Tells whether it lies where it should, if that is known.
    pub(crate) fn holds(&self) -> Option<bool> {
        self.bound.map(|bound| bound.holds(self.value))
    }

    /// Tells whether it is a ratio that is not even half as good as it should be. Times and rates say
    /// as much about the machine as about the server, so they are never far off.
    pub(crate) fn is_far_off(&self) -> bool {
        match self.unit {
            Unit::Ratio => self.bound.is_some_and(|bound| bound.is_far_from(self.value)),
            Unit::PerSecond | Unit::Time | Unit::Bytes | Unit::Count | Unit::Share => false,
        }
    }

    /// Says what it is, and what it should be.
    pub(crate) fn beside_its_bound(&self) -> String {
        let value = self.unit.format(self.value);
        let bound = self.bound.map(|bound| format!(", should be {}", bound.format(self.unit)));
        format!("{} is {value}{}", self.name, bound.unwrap_or_default())
    }

    /// Returns it as JSON.
    pub(super) fn to_json(&self) -> Value {
        let mut json = json!({
            "scenario": self.scenario.name(),
            "name": self.name,
            "unit": self.unit.word(),
            "value": self.value,
            "basis": self.basis.word(),
        });
        match self.bound {
            Some(Bound::AtLeast(least)) => json["at_least"] = json!(least),
            Some(Bound::AtMost(most)) => json["at_most"] = json!(most),
            None => {}
        }
        if let Some(holds) = self.holds() {
            json["holds"] = json!(holds);
        }
        if !self.samples.is_empty() {
            json["samples"] = json!(self.samples);
        }
        json
    }
}

/// Returns a time in the unit of figures.
pub(super) fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure is positive and far below 2^53"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_the_unit_that_fits() {
        let times = [0.000_055, 0.0011, 2.5].map(|value| Unit::Time.format(value));
        assert_eq!(times, ["55 µs", "1.10 ms", "2.50 s"]);
        assert_eq!(Unit::PerSecond.format(61_234.4), "61,234/s");
        assert_eq!(Unit::Bytes.format(812.0), "812 B");
        assert_eq!(Unit::Bytes.format(44_200.0), "44.2 kB");
        assert_eq!(Unit::Bytes.format(250e6), "250.0 MB");
        assert_eq!(Unit::Bytes.format(8.3e9), "8.3 GB");
        assert_eq!(Unit::Count.format(33.25), "33.2");
        assert_eq!(Unit::Count.format(200_000.0), "200,000");
        assert_eq!(Unit::Count.format(0.031), "0.03");
        assert_eq!(Unit::Share.format(0.125), "12.5 %");
    }

    #[test]
    fn a_bound_holds_on_its_side() {
        assert!(Bound::AtLeast(0.45).holds(0.45) && !Bound::AtLeast(0.45).holds(0.44));
        assert!(Bound::AtMost(2.0).holds(2.0) && !Bound::AtMost(2.0).holds(2.01));
        // What could not be measured does not hold.
        assert!(!Bound::AtLeast(0.0).holds(f64::NAN) && !Bound::AtMost(9.0).holds(f64::NAN));
    }

    #[test]
    fn only_a_ratio_is_far_off_and_only_below_half() {
        let figure = |unit, value, bound| {
            Figure::once(Scenario::Bare, "x", unit, value).within(bound).is_far_off()
        };
        let (least, most) = (Bound::AtLeast(0.45), Bound::AtMost(2.0));
        let table = [
            (Unit::Ratio, 0.226, least, false),
            (Unit::Ratio, 0.224, least, true),
            (Unit::Ratio, f64::NAN, least, true),
            (Unit::Ratio, 4.0, most, false),
            (Unit::Ratio, 4.1, most, true),
            (Unit::Time, 9.0, most, false),
            (Unit::PerSecond, 0.1, least, false),
        ];
        for (unit, value, bound, far) in table {
            assert_eq!(figure(unit, value, bound), far, "{unit:?} {value}");
        }
        let unbound = Figure::once(Scenario::Bare, "x", Unit::Ratio, 0.0);
        assert!(!unbound.is_far_off());
        let told = unbound.within(least).beside_its_bound();
        assert_eq!(told, "x is 0.00, should be ≥ 0.45");
    }

    #[test]
    fn what_was_measured_in_small_reaches_and_misses_nothing() {
        let figure = || Figure::once(Scenario::Old, "x", Unit::Ratio, 0.5);
        assert_eq!(figure().within_if(false, Bound::AtLeast(0.8)).holds(), None);
        assert_eq!(figure().within_if(true, Bound::AtLeast(0.8)).holds(), Some(false));
    }

    #[test]
    fn the_median_stands_beside_what_it_was_taken_from() {
        let pair = |measured| Pair { measured, compared: 10.0 };
        let pairs = [pair(1.0), pair(3.0), pair(2.0)];
        let figure = Figure::ratio(Scenario::Bare, "x", &pairs).within(Bound::AtLeast(0.2));
        assert_eq!(figure.holds(), Some(true));
        let json = figure.to_json();
        assert_eq!((json["value"].as_f64(), json["at_least"].as_f64()), (Some(0.2), Some(0.2)));
        assert_eq!(json["samples"], json!([0.1, 0.3, 0.2]));
        assert_eq!(json["basis"], "median");
    }
}
