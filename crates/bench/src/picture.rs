//! The report as pictures: what share of a bare exchange remains, how long messages take, and how much
//! is used of what is allowed.
//!
//! Each is one SVG file without scripts, fonts or links, in the manner of the policy lab's.

use host::words::shortened;
use svg::{MARGIN, Place, WIDTH, card, dot, line, pixels, text};

use super::figure::{Bound, Figure, Unit};
use super::report::Report;
use super::scenario::Scenario;

/// Where bars begin and end.
const LEFT: f64 = 500.0;
const RIGHT: f64 = 830.0;
/// The most letters of a name that there is room for.
const NAME_LENGTH: usize = 70;
/// Where the first row is, and how far apart rows are.
const TOP: f64 = 156.0;
const ROW: f64 = 34.0;
/// How high a bar is.
const BAR: f64 = 14.0;
/// The shares between two ticks.
const STEPS: [f64; 4] = [0.2, 0.5, 1.0, 2.0];
/// The shortest and the longest time of the scale, in seconds.
const SHORTEST: f64 = 1e-4;
const LONGEST: f64 = 100.0;
/// The most of what is allowed that there is room for: a bar that reaches it may be longer.
const MOST_USED: f64 = 2.0;

/// A row with its name, and what is drawn in it.
struct Row {
    name: String,
    drawn: String,
}

/// Times that belong together, each with its word.
struct Spread<'a> {
    name: &'a str,
    dots: Vec<(&'a str, f64)>,
}

/// Returns the pictures by the names of their files.
pub(crate) fn draw(report: &Report) -> Vec<(&'static str, String)> {
    let pictures = [
        ("throughput.svg", throughput(report)),
        ("latency.svg", latency(report)),
        ("bounds.svg", bounds(report)),
    ];
    pictures.into_iter().filter_map(|(name, picture)| Some((name, picture?))).collect()
}

/// Draws the shares of the bare exchange as bars, with a mark where each should reach.
fn throughput(report: &Report) -> Option<String> {
    let shown = |figure: &&Figure| figure.unit == Unit::Ratio && figure.name.contains("bare");
    let figures: Vec<&Figure> = report.figures().iter().filter(shown).collect();
    let widest = figures.iter().map(|figure| figure.value).fold(1.0, f64::max);
    let x = |value: f64| LEFT + (RIGHT - LEFT) * value / widest;
    let rows = figures.iter().enumerate().map(|(index, figure)| Row {
        name: figure.name.clone(),
        drawn: Bar {
            length: x(figure.value) - LEFT,
            mark: figure.bound.map(|bound| x(bound.value())),
            label: Unit::Ratio.format(figure.value),
        }
        .draw(figure, middle_of(index)),
    });
    let step = STEPS.into_iter().find(|step| widest / step <= 5.0).unwrap_or(widest);
    let values = (0..=5).map(|count| f64::from(count) * step).filter(|value| *value <= widest);
    let ticks: Vec<(f64, String)> =
        values.map(|value| (x(value), Unit::Ratio.format(value))).collect();
    let title = "What remains of a bare HTTP exchange";
    picture(title, report, &rows.collect::<Vec<_>>(), &ticks)
}

/// Draws of everything that should lie somewhere how much is used of what is allowed, so that a time, a
/// memory and a ratio can stand side by side: whatever ends before the mark is as good as it should be.
fn bounds(report: &Report) -> Option<String> {
    let judged: Vec<(&Figure, Bound)> =
        report.judged().filter_map(|figure| Some((figure, figure.bound?))).collect();
    let used = |(figure, bound): &(&Figure, Bound)| match bound {
        Bound::AtLeast(least) => (least / figure.value).min(MOST_USED),
        Bound::AtMost(most) => (figure.value / most).min(MOST_USED),
    };
    let widest = judged.iter().map(used).fold(1.0, f64::max);
    let x = |value: f64| LEFT + (RIGHT - LEFT) * value / widest;
    let row = |(index, it): (usize, &(&Figure, Bound))| {
        let (figure, bound) = it;
        let (value, bound) = (figure.unit.format(figure.value), bound.format(figure.unit));
        let label = format!("{value} ({bound})");
        let bar = Bar { length: x(used(it)) - LEFT, mark: Some(x(1.0)), label };
        Row { name: figure.name.clone(), drawn: bar.draw(figure, middle_of(index)) }
    };
    let rows: Vec<Row> = judged.iter().enumerate().map(row).collect();
    let ticks = [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %"), (1.5, "150 %"), (2.0, "200 %")];
    let ticks = ticks.into_iter().filter(|(value, _)| *value <= widest);
    let ticks: Vec<(f64, String)> =
        ticks.map(|(value, word)| (x(value), word.to_owned())).collect();
    picture("How much is used of what is allowed", report, &rows, &ticks)
}

/// A bar in a row.
struct Bar {
    length: f64,
    /// Where the mark stands, if there is one.
    mark: Option<f64>,
    label: String,
}

impl Bar {
    fn draw(&self, figure: &Figure, middle: f64) -> String {
        let top = middle - BAR / 2.0;
        let class = if figure.holds() == Some(false) { "failed" } else { "succeeded" };
        let mut made = format!(
            "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{BAR}\" rx=\"3\"/>\n",
            pixels(top),
            pixels(self.length)
        );
        if let Some(at) = self.mark {
            made.push_str(&line("mark", (at, top - 5.0), (at, top + BAR + 5.0)));
        }
        let place = Place::right(WIDTH - MARGIN, middle + 4.5);
        made.push_str(&text("figure", place, &self.label));
        made
    }
}

/// Draws quantiles as dots on a line, one row for each rate; and the p99 of others without and with
/// a crowd.
fn latency<'a>(report: &'a Report) -> Option<String> {
    let of = |scenario: Scenario| {
        let times = report.figures().iter().filter(|figure| figure.unit == Unit::Time);
        times.filter(move |figure| figure.scenario == scenario)
    };
    let mut spreads: Vec<Spread> = Vec::new();
    for figure in of(Scenario::Latency).filter(|figure| figure.name.ends_with("arrives")) {
        let (rate, rest) = figure.name.rsplit_once(", ").unwrap_or((&figure.name, ""));
        let quantile = rest.split(' ').next().unwrap_or_default();
        match spreads.last_mut() {
            Some(spread) if spread.name == rate => spread.dots.push((quantile, figure.value)),
            _ => spreads.push(Spread { name: rate, dots: vec![(quantile, figure.value)] }),
        }
    }
    for scenario in [Scenario::Hanging, Scenario::Flood, Scenario::Busy] {
        let last_word = |figure: &'a Figure| figure.name.rsplit(' ').next().unwrap_or_default();
        let dots = of(scenario).map(|figure| (last_word(figure), figure.value)).collect();
        let name = of(scenario).next().and_then(|it| it.name.split(':').next());
        spreads.extend(name.map(|name| Spread { name, dots }));
    }
    let row = |(index, spread): (usize, &Spread)| Row {
        name: spread.name.to_owned(),
        drawn: dots_on_a_line(&spread.dots, middle_of(index)),
    };
    let rows: Vec<Row> = spreads.iter().enumerate().map(row).collect();
    let decades = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0];
    let words = ["0.1 ms", "1 ms", "10 ms", "0.1 s", "1 s", "10 s", "100 s"];
    let ticks = decades.iter().zip(words).map(|(time, word)| (time_x(*time), word.to_owned()));
    let ticks: Vec<(f64, String)> = ticks.collect();
    picture("From when it should have been sent until it arrives", report, &rows, &ticks)
}

fn dots_on_a_line(dots: &[(&str, f64)], middle: f64) -> String {
    let (Some(first), Some(last)) = (dots.first(), dots.last()) else { return String::new() };
    let mut made = line("line", (time_x(first.1), middle), (time_x(last.1), middle));
    for (_, time) in dots {
        made.push_str(&dot("summit", (time_x(*time), middle)));
    }
    let said = |(word, time): &(&str, f64)| format!("{word} {}", Unit::Time.format(*time));
    let ends = if dots.len() > 2 { vec![&dots[0], &dots[2]] } else { dots.iter().collect() };
    let words: Vec<String> = ends.into_iter().map(said).collect();
    let place = Place::right(WIDTH - MARGIN, middle + 4.5);
    made.push_str(&text("figure", place, &words.join(", ")));
    made
}

/// Puts rows and ticks on a card; none if there is nothing to show.
fn picture(title: &str, report: &Report, rows: &[Row], ticks: &[(f64, String)]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let bottom = middle_of(rows.len()) - ROW / 2.0;
    let mut body = text("title", Place::left(MARGIN, 56.0), title);
    let [subject, machine] = report.circumstances();
    body.push_str(&text("", Place::left(MARGIN, 82.0), &subject));
    body.push_str(&text("", Place::left(MARGIN, 102.0), &machine));
    for (x, label) in ticks {
        body.push_str(&line("grid", (*x, TOP - 12.0), (*x, bottom)));
        body.push_str(&text("tick", Place::middle(*x, bottom + 18.0), label));
    }
    for (index, row) in rows.iter().enumerate() {
        let place = Place::right(LEFT - 16.0, middle_of(index) + 4.5);
        body.push_str(&text("", place, &shortened(&row.name, NAME_LENGTH)));
        body.push_str(&row.drawn);
    }
    Some(card(title, &format!("{subject}; {machine}"), &body, bottom + 44.0))
}

fn middle_of(row: usize) -> f64 {
    let row = u32::try_from(row).unwrap_or(u32::MAX);
    TOP + ROW * (f64::from(row) + 0.5)
}

/// Times stand on a logarithmic scale: between the p50 of one row and the p99 of another there may
/// be a factor of thousands.
fn time_x(seconds: f64) -> f64 {
    let share = (seconds.clamp(SHORTEST, LONGEST) / SHORTEST).ln() / (LONGEST / SHORTEST).ln();
    LEFT + (RIGHT - LEFT) * share
}

#[cfg(test)]
mod tests;
