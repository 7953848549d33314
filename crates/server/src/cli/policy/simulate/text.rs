//! A simulation's result for the terminal: one line per variant, then what needs words.

use std::io::{self, Write};
use std::time::Duration;

use domain::policy::Preset;
use domain::span;

use crate::cli::table::{Side, Table};
use crate::lab::scenario::{START, Scenario};
use crate::lab::{Experiment, Observed};
use crate::words::{counted, grouped, short};

/// Writes the result of a simulation.
pub(super) fn write(
    out: &mut dyn Write,
    preset: &Preset,
    experiment: &Experiment,
    notes: &[String],
) -> io::Result<()> {
    let Experiment { scenario, results } = experiment;
    let Scenario { events, over, outage, seed } = scenario;
    let (name, over) = (&preset.policy.name, span::format(*over));
    let events = counted((*events).into(), "event");
    writeln!(out, "{name}: {events} over {over}; {outage}; seed {seed}\n")?;
    write!(out, "{}", figures_table(results))?;
    let remarks: Vec<String> = results.iter().flat_map(remarks).collect();
    for (position, text) in remarks.iter().chain(notes).enumerate() {
        writeln!(out, "{}  {text}", if position == 0 { "\n" } else { "" })?;
    }
    Ok(())
}

fn figures_table(results: &[Observed]) -> Table {
    let mut table = Table::new([
        ("", Side::Left),
        ("attempts", Side::Right),
        ("wasted", Side::Right),
        ("peak/s", Side::Right),
        ("caught up", Side::Right),
        ("last event", Side::Right),
        ("delivered", Side::Right),
        ("buried", Side::Right),
    ]);
    for Observed { variant, tally } in results {
        let after = |span: Option<Duration>| {
            span.map_or("–".to_owned(), |span| format!("+{}", short(span)))
        };
        table.row([
            variant.label.to_owned(),
            grouped(tally.attempts),
            grouped(tally.attempts_during_outage),
            grouped(tally.peak_per_second_after_recovery),
            after(tally.backlog_delivered_after_recovery),
            after(tally.last_delivered_after_recovery),
            grouped(tally.delivered),
            grouped(tally.dead()),
        ]);
    }
    table
}

fn remarks(observed: &Observed) -> Vec<String> {
    let Observed { variant, tally } = observed;
    let mut remarks = Vec::new();
    let causes: Vec<String> = tally
        .dead_by_cause()
        .filter(|(_, events)| *events > 0)
        .map(|(cause, events)| format!("{} {}", grouped(events), cause.word()))
        .collect();
    if !causes.is_empty() {
        remarks.push(format!("{}: buried {}", variant.label, causes.join(", ")));
    }
    if let Some((at, reason)) = tally.disabled {
        let at = short(at.since(START));
        let text = format!("endpoint disabled at {at} ({})", reason.word());
        remarks.push(format!("{}: {text}", variant.label));
    }
    remarks
}
