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
    left_out: Vec<(Scenario, &'static str)>,
    remarks: Vec<String>,
}

impl Report {
    /// Begins a report.
    pub(super) fn new(machine: Machine, plan: Plan, postgres: bool) -> Self {
        let (figures, failed) = (Vec::new(), Vec::new());
        let (left_out, remarks) = (Vec::new(), Vec::new());
        Self { machine, plan, postgres, figures, failed, left_out, remarks }
    }

    /// Adds figures.
    pub(super) fn add(&mut self, figures: Vec<Figure>) {
        self.figures.extend(figures);
    }

    /// Notes that a scenario could not be measured, and why.
    pub(super) fn failed(&mut self, scenario: Scenario, error: &anyhow::Error) {
        self.failed.push((scenario, format!("{error:#}")));
    }

    /// Notes that a scenario was not measured, and why it could not be.
    pub(super) fn left_out(&mut self, scenario: Scenario, why: &'static str) {
        self.left_out.push((scenario, why));
    }

    /// Notes what whoever reads the figures should know.
    pub(super) fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    /// Returns what whoever reads the figures should know.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns what does not lie where it should.
    pub(crate) fn missed(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| figure.holds() == Some(false))
    }

    /// Says what is badly wrong, if something is: ratios that are not even half as good as they
    /// should be.
    pub(crate) fn badly_wrong(&self) -> Option<String> {
        let far_off = self.figures.iter().filter(|figure| figure.is_far_off());
        let told: Vec<String> = far_off.map(Figure::beside_its_bound).collect();
        let text = format!("not even half as good as it should be: {}", told.join("; "));
        (!told.is_empty()).then_some(text)
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
        let left_out =
            |(scenario, why): &(Scenario, &str)| json!({ "scenario": scenario.name(), "why": why });
        json!({
            "store": if self.postgres { "postgresql" } else { "sqlite" },
            "pairs": self.plan.pairs,
            "machine": self.machine.to_json(),
            "figures": self.figures.iter().map(Figure::to_json).collect::<Vec<_>>(),
            "failed": self.failed.iter().map(failure).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "remarks": self.remarks,
        })
    }
}

fn counts(figure: &Figure) -> bool {
    figure.unit == Unit::Ratio || figure.bound.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::Bound;

    fn report(figures: Vec<Figure>) -> Report {
        let machine = Machine {
            cores: 2,
            processor: "none".to_owned(),
            kernel: "none".to_owned(),
            sync_seconds: 0.001,
            release: true,
        };
        let mut report = Report::new(machine, Plan::SMOKE, false);
        report.add(figures);
        report
    }

    #[test]
    fn a_ratio_below_half_is_badly_wrong_and_a_time_never_is() {
        let figure = |name, unit, value, bound| {
            Figure::once(Scenario::EndToEnd, name, unit, value).within(bound)
        };
        let least = Bound::AtLeast(0.4);
        let missed = figure("a ÷ b", Unit::Ratio, 0.21, least);
        let slow = figure("CPU time", Unit::Time, 9.0, Bound::AtMost(75e-6));
        let bearable = report(vec![missed.clone(), slow.clone()]);
        assert_eq!(bearable.missed().count(), 2);
        assert_eq!(bearable.badly_wrong(), None);
        let bad = report(vec![missed, slow, figure("c ÷ d", Unit::Ratio, 0.19, least)]);
        let told = "not even half as good as it should be: c ÷ d is 0.19, should be ≥ 0.40";
        assert_eq!(bad.badly_wrong().as_deref(), Some(told));
    }

    #[test]
    fn what_is_left_out_is_told_with_the_reason() {
        let mut report = report(Vec::new());
        report.left_out(Scenario::SlowSync, "why");
        assert_eq!(
            report.to_json()["left_out"],
            json!([{ "scenario": "slow-sync", "why": "why" }])
        );
    }
}
