//! What came of it all: figures, what failed, and on which machine.

use serde_json::{Value, json};

use super::figure::{Basis, Figure, Unit};
use super::machine::Machine;
use super::plan::Plan;
use super::scenario::Scenario;
use super::subject::Subject;

/// What came of it all.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    subject: Subject,
    machine: Machine,
    plan: Plan,
    figures: Vec<Figure>,
    failed: Vec<(Scenario, String)>,
    left_out: Vec<(Scenario, &'static str)>,
    remarks: Vec<String>,
}

impl Report {
    /// Begins a report.
    pub(super) fn new(subject: Subject, machine: Machine, plan: Plan) -> Self {
        let remarks = machine.caveat().map(str::to_owned).into_iter().collect();
        let (figures, failed, left_out) = (Vec::new(), Vec::new(), Vec::new());
        Self { subject, machine, plan, figures, failed, left_out, remarks }
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

    /// Returns the ratios, and then whatever else should lie somewhere: what counts.
    pub(crate) fn judged(&self) -> impl Iterator<Item = &Figure> {
        let counted = |ratios: bool| {
            let counted = self.figures.iter().filter(|figure| counts(figure));
            counted.filter(move |figure| (figure.unit == Unit::Ratio) == ratios)
        };
        counted(true).chain(counted(false))
    }

    /// Returns the other figures: they depend on the machine.
    pub(crate) fn absolute(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| !counts(figure))
    }

    /// Tells whether a figure is of a single run while others are medians of several.
    pub(crate) fn is_of_one_run(&self, figure: &Figure) -> bool {
        self.plan.pairs > 1 && figure.basis == Basis::Once
    }

    /// Returns all figures.
    pub(super) fn figures(&self) -> &[Figure] {
        &self.figures
    }

    /// Returns what could not be measured, and why.
    pub(crate) fn failures(&self) -> &[(Scenario, String)] {
        &self.failed
    }

    /// Returns what the figures are from: what was measured, and on what.
    pub(crate) fn circumstances(&self) -> [String; 2] {
        [self.subject.line(), self.machine.line()]
    }

    /// Returns how the same can be measured again: the command, and how much it measures.
    pub(crate) fn recipe(&self) -> [String; 2] {
        [self.subject.command.clone(), self.plan.line()]
    }

    /// Returns everything as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let failure = |(scenario, error): &(Scenario, String)| json!({ "scenario": scenario.name(), "error": error });
        let left_out =
            |(scenario, why): &(Scenario, &str)| json!({ "scenario": scenario.name(), "why": why });
        let mut json = self.subject.to_json();
        json["plan"] = self.plan.to_json();
        json["machine"] = self.machine.to_json();
        json["figures"] = self.judged().chain(self.absolute()).map(Figure::to_json).collect();
        json["failed"] = self.failed.iter().map(failure).collect();
        json["left_out"] = self.left_out.iter().map(left_out).collect();
        json["remarks"] = json!(self.remarks);
        json
    }
}

fn counts(figure: &Figure) -> bool {
    figure.unit == Unit::Ratio || figure.bound.is_some()
}

#[cfg(test)]
impl Report {
    /// A report for tests.
    pub(crate) fn example(figures: Vec<Figure>) -> Self {
        let mut report = Self::new(Subject::example(), Machine::example(), Plan::SMOKE);
        report.add(figures);
        report
    }

    /// A report for tests, of a ratio that should be at least 0.4.
    pub(crate) fn of_ratio(value: f64) -> Self {
        let ratio = Figure::once(Scenario::EndToEnd, "a ÷ b", Unit::Ratio, value);
        Self::example(vec![ratio.within(super::figure::Bound::AtLeast(0.4))])
    }

    /// The same, of which a scenario could not be measured.
    pub(crate) fn of_failure() -> Self {
        let mut report = Self::example(Vec::new());
        report.failed(Scenario::Accept, &anyhow::anyhow!("it is full"));
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Bound;

    fn report(figures: Vec<Figure>) -> Report {
        Report::example(figures)
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
    fn what_was_measured_once_is_marked_where_the_rest_is_not() {
        let once = Figure::once(Scenario::Backlog, "a", Unit::Bytes, 1.0);
        let median = Figure::median(Scenario::Backlog, "b", Unit::Bytes, vec![1.0, 2.0]);
        let together = Figure::together(Scenario::Backlog, "c", Unit::Bytes, 1.0);
        let mut report = report(Vec::new());
        let marked = |report: &Report| {
            [&once, &median, &together].map(|figure| report.is_of_one_run(figure))
        };
        assert_eq!(marked(&report), [true, false, false]);
        report.plan.pairs = 1;
        assert_eq!(marked(&report), [false; 3]);
    }

    #[test]
    fn ratios_come_first_then_what_should_lie_somewhere_then_the_rest() {
        let figure = |name, unit| Figure::once(Scenario::EndToEnd, name, unit, 1.0);
        let report = report(vec![
            figure("rate", Unit::PerSecond),
            figure("CPU time", Unit::Time).within(Bound::AtMost(2.0)),
            figure("a ÷ b", Unit::Ratio),
            figure("c ÷ d", Unit::Ratio).within(Bound::AtLeast(0.5)),
        ]);
        let names = |figures: Vec<&Figure>| -> Vec<String> {
            figures.iter().map(|figure| figure.name.clone()).collect()
        };
        assert_eq!(names(report.judged().collect()), ["a ÷ b", "c ÷ d", "CPU time"]);
        assert_eq!(names(report.absolute().collect()), ["rate"]);
        let json = report.to_json();
        let told: Vec<&Value> = json["figures"].as_array().unwrap().iter().collect();
        assert_eq!((&told[0]["name"], &told[3]["name"]), (&json!("a ÷ b"), &json!("rate")));
    }

    #[test]
    fn a_report_says_what_was_measured_on_what_by_which_command() {
        let mut report = report(Vec::new());
        report.remark("mind this");
        let json = report.to_json();
        assert_eq!(json["command"], "redial bench");
        assert_eq!(
            (&json["machine"]["cores"], &json["plan"]["backlog"]),
            (&json!(2), &json!(30_000))
        );
        assert_eq!(json["remarks"], json!(["mind this"]));
        assert!(report.recipe()[1].contains("30,000 pending"), "{:?}", report.recipe());
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
