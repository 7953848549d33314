//! `redial bench`: figures that you can take yourself.
//!
//! # Layout
//! - here: what can be asked for, and the answer for people
//! - `store`: a store alone

mod store;

use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use host::command::{Failure, Streams};
use host::table::{Side, Table};

use crate::figure::Figure;
use crate::plan::Plan;
use crate::process::launch;
use crate::progress::Style;
use crate::report::Report;
use crate::scenario::Scenario;
use crate::subject::{self, Build};
use crate::{Order, picture};

/// What can be measured.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    whole: Whole,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Lifecycles per second of a store, beside a bare loop over the same rows
    Store(store::Store),
}

#[derive(Debug, Args)]
struct Whole {
    /// Less of everything, in under a minute
    #[arg(long)]
    quick: bool,
    /// Just enough to see whether something is badly wrong, in some seconds; it fails (exit code 1)
    /// if a ratio is not even half as good as it should be
    #[arg(long, conflicts_with = "quick")]
    smoke: bool,
    /// Only these, such as end-to-end,latency
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(Scenario::ALL.map(Scenario::name))
    )]
    only: Vec<String>,
    /// Interleaved pairs of runs; the median counts [default: 5, 1 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pairs: Option<u32>,
    /// A PostgreSQL server to measure with, as a user who may create databases; without it the
    /// store is a file
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Where to write; choose the disk that counts [default: the directory for temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Another build of redial to measure [default: this one]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Print JSON, and the table to standard error
    #[arg(long)]
    json: bool,
    /// Draw pictures into this directory
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,
}

impl Arguments {
    /// Measures and tells.
    ///
    /// # Errors
    /// If it makes no sense, or something could not be measured.
    pub fn run(&self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        match &self.part {
            Some(Part::Store(arguments)) => arguments.run(streams),
            None => self.whole.run(streams),
        }
    }
}

impl Whole {
    fn run(&self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let order = self.order().map_err(Failure::Other)?;
        if let ([], [(_, why), ..]) = (&order.scenarios[..], &order.left_out[..]) {
            return Err(Failure::Usage((*why).to_owned()));
        }
        let report = crate::run(order, streams.err).map_err(Failure::Other)?;
        if let Some(directory) = &self.svg {
            draw(&report, directory).map_err(Failure::Other)?;
        }
        if self.json {
            writeln!(streams.out, "{:#}", report.to_json())?;
            // Half an hour is too long to be spent again on a table for people.
            show(&report, streams.err)?;
        } else {
            show(&report, streams.out)?;
        }
        for figure in report.missed() {
            writeln!(streams.err, "missed: {}", figure.beside_its_bound())?;
        }
        self.judge(&report).map_err(Failure::Other)
    }

    /// Says whether the command has failed. What was measured and is not as good as it should be is a
    /// result, unless all that was asked is whether something is badly wrong.
    fn judge(&self, report: &Report) -> anyhow::Result<()> {
        if let [(scenario, error), ..] = report.failures() {
            anyhow::bail!("`{}` could not be measured: {error}", scenario.name());
        }
        match report.badly_wrong() {
            Some(text) if self.smoke => Err(anyhow::anyhow!(text)),
            Some(_) | None => Ok(()),
        }
    }

    fn order(&self) -> anyhow::Result<Order> {
        let own = std::env::current_exe()?;
        let executable = match &self.server {
            Some(server) => server.canonicalize().context("cannot find the server")?,
            None => own.clone(),
        };
        let another = (executable != own).then(|| executable.clone());
        let mut plan = match (self.quick, self.smoke) {
            (_, true) => Plan::SMOKE,
            (true, false) => Plan::QUICK,
            (false, false) => Plan::FULL,
        };
        plan.pairs = self.pairs.unwrap_or(plan.pairs);
        let chosen = |scenario: &Scenario| {
            let named = self.only.iter().any(|name| name == scenario.name());
            let usual = !self.smoke || scenario.is_quick();
            named || self.only.is_empty() && usual
        };
        let obstacle = |scenario: Scenario| scenario.obstacle(self.database.is_some());
        let chosen = || Scenario::ALL.into_iter().filter(chosen);
        let left_out = |scenario: Scenario| Some((scenario, obstacle(scenario)?));
        Ok(Order {
            launch: launch(executable, self.database.clone()),
            build: Build::of(another),
            command: subject::command(std::env::args().skip(1)),
            directory: self.directory.clone().unwrap_or_else(crate::default_directory),
            scenarios: chosen().filter(|scenario| obstacle(*scenario).is_none()).collect(),
            left_out: chosen().filter_map(left_out).collect(),
            plan,
            style: if std::io::stderr().is_terminal() { Style::Bar } else { Style::Lines },
        })
    }
}

fn draw(report: &Report, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (name, picture) in picture::draw(report) {
        let path = directory.join(name);
        let written = std::fs::write(&path, picture);
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn show(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    for line in report.circumstances().iter().chain(&report.recipe()).chain(report.remarks()) {
        writeln!(out, "{line}")?;
    }
    let headings =
        [("", Side::Left), ("", Side::Right), ("should be", Side::Right), ("", Side::Left)];
    let mut table = Table::new(headings);
    for figure in report.judged() {
        let bound = figure.bound.map(|bound| bound.format(figure.unit)).unwrap_or_default();
        let word = match figure.holds() {
            Some(false) => "missed",
            Some(true) => "reached",
            None => "",
        };
        let words = [word, mark(report, figure)].into_iter().filter(|it| !it.is_empty());
        let words = words.collect::<Vec<_>>().join(", ");
        table.row([figure.name.clone(), written(figure), bound, words]);
    }
    if report.judged().next().is_some() {
        write!(out, "\n{table}")?;
    }
    let mut table = Table::plain([Side::Left, Side::Right, Side::Left]);
    for figure in report.absolute() {
        table.row([figure.name.clone(), written(figure), mark(report, figure).to_owned()]);
    }
    write!(out, "\n{table}")?;
    Ok(())
}

/// Returns the word for a figure that no median stands behind.
fn mark(report: &Report, figure: &Figure) -> &'static str {
    if report.is_of_one_run(figure) { "once" } else { "" }
}

fn written(figure: &Figure) -> String {
    figure.unit.format(figure.value)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        whole: Whole,
    }

    fn judged(options: &[&str], report: &Report) -> Result<(), String> {
        let line = Line::try_parse_from([&["bench"], options].concat()).unwrap();
        line.whole.judge(report).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_smoke_form_fails_for_a_ratio_below_half() {
        let bad = Report::of_ratio(0.19);
        let told = "not even half as good as it should be: a ÷ b is 0.19, should be ≥ 0.40";
        assert_eq!(judged(&["--smoke"], &bad), Err(told.to_owned()));
        for options in [&["--quick"][..], &[]] {
            assert_eq!(judged(options, &bad), Ok(()));
        }
        assert_eq!(judged(&["--smoke"], &Report::of_ratio(0.21)), Ok(()));
    }

    #[test]
    fn what_could_not_be_measured_fails_every_form() {
        let told = "`accept` could not be measured: it is full";
        for options in [&["--smoke"][..], &["--quick"], &[]] {
            assert_eq!(judged(options, &Report::of_failure()), Err(told.to_owned()));
        }
    }
}
