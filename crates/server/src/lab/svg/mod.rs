//! The picture of an experiment: attempts over time, one panel per variant, all on the same axes.
//!
//! What arrived stands above the line, what failed hangs below it, and the outage is shaded. A dot
//! marks the busiest second, because columns are averages and hide it.
//!
//! # Layout
//! - here: the card with title, legend, panels and caption
//! - [`panel`]: one variant; [`scale`]: from time and rate to places

mod panel;
mod scale;

use domain::span;
use svg::{MARGIN, Place, WIDTH, card, dot, text};

use super::{Experiment, Observed};
use crate::words::{counted, grouped, short, shortened};
use panel::{Frame, figures, panel};
use scale::Scales;

/// Where things stand on the card, in pixels.
const PLOT_LEFT: f64 = 84.0;
const PLOT_RIGHT: f64 = 796.0;
const FIGURES_LEFT: f64 = 828.0;
const PLOTS_TOP: f64 = 164.0;
/// One height for all panels, so that equal rates are equally high.
const HEIGHT: f64 = 124.0;
const GAP: f64 = 46.0;
/// The most letters of a policy's name that the title has room for.
const NAME_LENGTH: usize = 24;

/// Draws an experiment with the policy of this name.
pub(crate) fn draw(name: &str, experiment: &Experiment) -> String {
    let scales = Scales::of(experiment, PLOT_RIGHT - PLOT_LEFT);
    let mut body = header(name, experiment, &scales);
    let mut top = PLOTS_TOP;
    for observed in &experiment.results {
        let frame = Frame { left: PLOT_LEFT, top, width: PLOT_RIGHT - PLOT_LEFT, height: HEIGHT };
        body.push_str(&panel(&frame, &scales, experiment, observed));
        body.push_str(&figures(&frame, FIGURES_LEFT, WIDTH - MARGIN, &observed.tally));
        top += HEIGHT + GAP;
    }
    let bottom = top - GAP;
    body.push_str(&time_axis(&scales, bottom));
    body.push_str(&text("", Place::left(MARGIN, bottom + 78.0), &caption(experiment)));
    card(&heading(name, experiment), &caption(experiment), &body, bottom + 106.0)
}

fn heading(name: &str, experiment: &Experiment) -> String {
    let (name, outage) = (shortened(name, NAME_LENGTH), &experiment.scenario.outage);
    if outage.is_none() {
        return format!("What {name} does to a receiver that is never down");
    }
    format!("What {name} does to a receiver that is down for {}", span::format(outage.lasts))
}

fn header(name: &str, experiment: &Experiment, scales: &Scales) -> String {
    let scenario = &experiment.scenario;
    let subtitle = format!(
        "{} over {}; {}; seed {}",
        counted(scenario.events.into(), "event"),
        span::format(scenario.over),
        scenario.outage,
        scenario.seed,
    );
    let mut made = text("title", Place::left(MARGIN, 56.0), &heading(name, experiment));
    made.push_str(&text("", Place::left(MARGIN, 82.0), &subtitle));
    made.push_str(&legend(112.0, scales, scenario.outage.is_none()));
    made
}

fn legend(y: f64, scales: &Scales, never_down: bool) -> String {
    let mut made = String::new();
    let mut left = MARGIN;
    let shapes = [("succeeded", "arrived", 86.0), ("failed", "failed", 76.0)];
    let down = (!never_down).then_some(("outage", "receiver down", 130.0));
    for (class, words, room) in shapes.into_iter().chain(down) {
        made.push_str(&format!(
            "<rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"3\"/>\n",
            y - 10.5
        ));
        made.push_str(&text("", Place::left(left + 18.0, y), words));
        left += room;
    }
    let when = if never_down { "busiest second" } else { "busiest second after the outage" };
    made.push_str(&dot("summit", (left + 6.0, y - 4.5)));
    made.push_str(&text("", Place::left(left + 18.0, y), when));
    let scale =
        format!("columns: average over {}; logarithmic scale", short(scales.time.column_width()));
    made.push_str(&text("", Place::right(WIDTH - MARGIN, y), &scale));
    made
}

fn time_axis(scales: &Scales, bottom: f64) -> String {
    let mut made = String::new();
    for (share, label) in scales.time.ticks() {
        let x = PLOT_LEFT + share * (PLOT_RIGHT - PLOT_LEFT);
        made.push_str(&text("tick", Place::middle(x, bottom + 20.0), &label));
    }
    let middle = f64::midpoint(PLOT_LEFT, PLOT_RIGHT);
    made.push_str(&text("", Place::middle(middle, bottom + 44.0), "time since the first event"));
    made
}

/// The picture in one sentence, for whoever cannot see it as well.
fn caption(experiment: &Experiment) -> String {
    let Some(Observed { tally, .. }) = experiment.results.first() else { return String::new() };
    let attempts = counted(tally.attempts, "attempt");
    let peak = grouped(tally.peak_per_second_after_recovery);
    let buried = grouped(tally.dead());
    if experiment.scenario.outage.is_none() {
        return format!("As it is: {attempts}; the busiest second had {peak}; {buried} buried");
    }
    let wasted = grouped(tally.attempts_during_outage);
    let caught_up = match tally.backlog_delivered_after_recovery {
        Some(span) => format!("caught up {} after it", short(span)),
        None => "no delayed event arrived".to_owned(),
    };
    format!(
        "As it is: {wasted} of {attempts} wasted on the outage; the busiest second after it had \
         {peak}; {caught_up}; {buried} buried"
    )
}

#[cfg(test)]
mod tests;
