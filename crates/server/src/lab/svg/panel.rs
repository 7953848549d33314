//! One variant: its attempts over time, and the numbers beside them.

use svg::{Place, dot, line, pixels, rect, text};

use super::scale::{Column, Scales};
use crate::lab::tally::Tally;
use crate::lab::{Experiment, Observed};
use crate::words::{grouped, short};

/// The room that a note beside a moment takes.
const NOTE_WIDTH: f64 = 90.0;
/// The smallest difference in height that is drawn.
const SMALLEST_STEP: f64 = 0.9;

/// Where a panel is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    fn right(&self) -> f64 {
        self.left + self.width
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// Draws a variant's attempts over time.
pub(super) fn panel(
    frame: &Frame,
    scales: &Scales,
    experiment: &Experiment,
    observed: &Observed,
) -> String {
    let Observed { variant, tally } = observed;
    let zero = (frame.top + scales.rate.zero(frame.height)).round();
    let columns = scales.time.columns_of(&tally.timeline);
    let mut made = text("name", Place::left(frame.left, frame.top - 12.0), variant.label);
    made.push_str(&outage(frame, scales, experiment));
    made.push_str(&grid(frame, scales, zero));
    let y = |rate| scales.rate.y(rate, frame.height);
    let shape = |class, edge: &dyn Fn(&Column) -> f64| {
        let steps =
            columns.iter().map(|it| (frame.left + it.left, frame.left + it.right, edge(it)));
        area(class, zero, &steps.collect::<Vec<_>>())
    };
    made.push_str(&shape("succeeded", &|column| zero - visible(y(column.succeeded))));
    made.push_str(&shape("failed", &|column| zero + visible(y(column.failed))));
    made.push_str(&line("line", (frame.left, zero), (frame.right(), zero)));
    made.push_str(&peak(frame, scales, zero, tally));
    made.push_str(&disabled(frame, scales, tally));
    made
}

/// Writes a variant's numbers beside its panel.
pub(super) fn figures(frame: &Frame, left: f64, right: f64, tally: &Tally) -> String {
    let caught_up = tally.backlog_delivered_after_recovery;
    let rows = [
        ("attempts", grouped(tally.attempts)),
        ("of them wasted", grouped(tally.attempts_during_outage)),
        ("busiest second", grouped(tally.peak_per_second_after_recovery)),
        ("caught up after", caught_up.map_or("–".to_owned(), short)),
        ("buried", grouped(tally.dead())),
    ];
    let mut made = String::new();
    let mut y = frame.top + 14.0;
    for (label, value) in rows {
        made.push_str(&text("", Place::left(left, y), label));
        made.push_str(&text("figure", Place::right(right, y), &value));
        y += 23.0;
    }
    made
}

fn outage(frame: &Frame, scales: &Scales, experiment: &Experiment) -> String {
    let outage = &experiment.scenario.outage;
    if outage.is_none() {
        return String::new();
    }
    let (from, to) = (scales.time.x(outage.start()), scales.time.x(outage.end()));
    let size = ((to - from).max(1.0), frame.height);
    rect("outage", (frame.left + from, frame.top), size)
}

fn grid(frame: &Frame, scales: &Scales, zero: f64) -> String {
    let mut made = String::new();
    for (distance, label) in scales.rate.ticks(frame.height) {
        let y = zero - distance;
        made.push_str(&line("grid", (frame.left, y), (frame.right(), y)));
        made.push_str(&text("tick", Place::right(frame.left - 10.0, y + 4.0), &label));
    }
    for (share, _) in scales.time.ticks() {
        let x = frame.left + share * frame.width;
        made.push_str(&line("grid", (x, frame.top), (x, frame.bottom())));
    }
    made.push_str(&text("tick", Place::right(frame.left - 10.0, zero + 4.0), "0"));
    made
}

/// Draws columns, each with its left, its right and its edge, as one shape. Neighbours of almost
/// equal height are one step of it: a count that wavers by one must not make the edge shimmer.
fn area(class: &str, zero: f64, steps: &[(f64, f64, f64)]) -> String {
    let (Some((left, ..)), Some((_, right, _))) = (steps.first(), steps.last()) else {
        return String::new();
    };
    let mut path = format!("M{} {}", pixels(*left), pixels(zero));
    let mut before = zero;
    for (left, _, edge) in steps {
        let touches_zero = (*edge == zero) != (before == zero);
        if touches_zero || (edge - before).abs() >= SMALLEST_STEP {
            path.push_str(&format!("H{}V{}", pixels(*left), pixels(*edge)));
            before = *edge;
        }
    }
    path.push_str(&format!("H{}V{}Z", pixels(*right), pixels(zero)));
    format!("<path class=\"{class}\" d=\"{path}\"/>\n")
}

/// One attempt among millions is still an attempt: it can be seen.
fn visible(height: f64) -> f64 {
    if height == 0.0 { 0.0 } else { height.max(2.0) }
}

/// Marks where the busiest second after the recovery was, at the height of its rate: a column is
/// an average and can be far lower.
fn peak(frame: &Frame, scales: &Scales, zero: f64, tally: &Tally) -> String {
    let Some(at) = tally.peak_at else { return String::new() };
    let most = tally.peak_per_second_after_recovery;
    let x = frame.left + scales.time.x(at);
    let y = zero - scales.rate.y(per_second(most), frame.height);
    let mut made = line("peak", (x, zero), (x, y));
    made.push_str(&dot("summit", (x, y)));
    let label = format!("peak {}/s", grouped(most));
    let place = if x > frame.right() - NOTE_WIDTH {
        Place::right(x - 8.0, y + 4.0)
    } else {
        Place::left(x + 8.0, y + 4.0)
    };
    made.push_str(&text("note", place, &label));
    made
}

/// More than four thousand million in a second do not occur.
fn per_second(attempts: u64) -> f64 {
    f64::from(u32::try_from(attempts).unwrap_or(u32::MAX))
}

fn disabled(frame: &Frame, scales: &Scales, tally: &Tally) -> String {
    let Some((at, _)) = tally.disabled else { return String::new() };
    let x = frame.left + scales.time.x(at);
    let mut made = line("mark", (x, frame.top), (x, frame.bottom()));
    let y = frame.top + 14.0;
    let place =
        if x > frame.right() - 130.0 { Place::right(x - 6.0, y) } else { Place::left(x + 6.0, y) };
    made.push_str(&text("note", place, "endpoint disabled"));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn almost_equal_columns_are_one_step() {
        let edges = [50.0, 40.0, 40.4, 30.0, 50.0];
        let steps: Vec<_> = (0..)
            .zip(edges)
            .map(|(position, edge)| {
                let left = 100.0 + 4.0 * f64::from(position);
                (left, left + 4.0, edge)
            })
            .collect();
        let path = "<path class=\"failed\" d=\"M100 50H104V40H112V30H116V50H120V50Z\"/>\n";
        assert_eq!(area("failed", 50.0, &steps), path);
        assert_eq!(area("failed", 0.0, &[]), "");
    }

    #[test]
    fn a_single_attempt_can_be_seen() {
        assert_eq!([0.0, 0.01, 7.0].map(visible), [0.0, 2.0, 7.0]);
    }
}
