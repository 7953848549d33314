//! What came of it all: figures, what failed, and on which machine.

use serde_json::{Value, json};

use super::figure::{Figure, Unit};
use super::machine::Machine;
use super::plan::Plan;
use super::scenario::Scenario;

/// What came of it all.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    machine: Machine,
    plan: Plan,
    postgres: bool,
    figures: Vec<Figure>,
    failed: Vec<(Scenario, String)>,
}

impl Report {
    /// Begins a report.
    pub(super) fn new(machine: Machine, plan: Plan, postgres: bool) -> Self {
        Self { machine, plan, postgres, figures: Vec::new(), failed: Vec::new() }
    }

    /// Adds figures.
    pub(super) fn add(&mut self, figures: Vec<Figure>) {
        self.figures.extend(figures);
    }

    /// Notes that a scenario could not be measured, and why.
    pub(super) fn failed(&mut self, scenario: Scenario, error: &anyhow::Error) {
        self.failed.push((scenario, format!("{error:#}")));
    }

    /// Returns the ratios and whatever else should lie somewhere: what counts.
    pub(crate) fn judged(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| counts(figure))
    }

    /// Returns the other figures: they depend on the machine.
    pub(crate) fn absolute(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| !counts(figure))
    }

    /// Returns all figures.
    pub(super) fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// Returns what could not be measured, and why.
    pub(crate) fn failures(&self) -> &[(Scenario, String)] {
        &self.failed
    }

    /// Returns in one line what the figures are from.
    pub(crate) fn circumstances(&self) -> String {
        let Machine { cores, processor, kernel, sync_seconds, release } = &self.machine;
        let build = if *release { "release build" } else { "debug build, which means little" };
        let store = if self.postgres { "PostgreSQL" } else { "SQLite" };
        let sync = Unit::Time.format(*sync_seconds);
        format!(
            "{store}, {build}, {cores} cores of {processor}, Linux {kernel}, a sync takes {sync}, \
             medians of {}",
            self.plan.pairs
        )
    }

    /// Returns everything as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let failure = |(scenario, error): &(Scenario, String)| json!({ "scenario": scenario.name(), "error": error });
        json!({
            "store": if self.postgres { "postgresql" } else { "sqlite" },
            "pairs": self.plan.pairs,
            "machine": self.machine.to_json(),
            "figures": self.figures.iter().map(Figure::to_json).collect::<Vec<_>>(),
            "failed": self.failed.iter().map(failure).collect::<Vec<_>>(),
        })
    }
}

fn counts(figure: &Figure) -> bool {
    figure.unit == Unit::Ratio || figure.bound.is_some()
}
