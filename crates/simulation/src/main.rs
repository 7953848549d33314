//! The command line of the simulator: many seeds, one seed, one bug, or the ramp after an outage.
//!
//! Exit code 0 if everything held, 1 if something was violated or a rare path was never taken.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use simulation::counters::Counters;
use simulation::{Bug, Detail, History, ramp};

/// Simulates many histories of a fleet, and checks what must hold.
#[derive(Debug, Parser)]
#[command(name = "simulation", version)]
struct Arguments {
    /// How many seeds to run
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run this seed only, and print what happens in it
    #[arg(long)]
    seed: Option<u64>,
    /// Plant this bug; `--bug list` lists them
    #[arg(long)]
    bug: Option<String>,
    /// How many histories run at the same time
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Print figures as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// An hour's outage of a receiver with 10,000 deliveries waiting, as a picture
    Ramp {
        /// Where the picture goes
        #[arg(long, default_value = "docs/pictures/ramp.svg")]
        svg: std::path::PathBuf,
    },
}

/// What many histories came to.
#[derive(Debug, Default)]
struct Summary {
    seeds: u64,
    deliveries: u64,
    attempts: u64,
    steps: u64,
    lasted: Duration,
    counters: Counters,
    failed: Vec<History>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(Command::Ramp { svg }) = &arguments.command {
        let ramp = ramp::run(1);
        std::fs::write(svg, ramp.to_svg())?;
        say(&ramp.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let bug = match arguments.bug.as_deref() {
        None => None,
        Some("list") => {
            for bug in Bug::all() {
                say(&bug.name());
            }
            return Ok(ExitCode::SUCCESS);
        }
        Some(name) => {
            let known = Bug::named(name);
            Some(known.ok_or_else(|| anyhow::anyhow!("no bug `{name}`; see `--bug list`"))?)
        }
    };
    match arguments.seed {
        Some(seed) => Ok(show(seed, bug)),
        None => Ok(run_many(&arguments, bug)),
    }
}

/// Prints one history.
fn show(seed: u64, bug: Option<Bug>) -> ExitCode {
    let history = simulation::run(seed, bug, Detail::Text);
    for line in &history.lines {
        say(line);
    }
    say(&format!("trace {:016x}, {:?}", history.hash, history.lasted));
    complain(&history);
    if history.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a range of seeds, on as many threads as wanted.
fn run_many(arguments: &Arguments, bug: Option<Bug>) -> ExitCode {
    let (from, seeds, threads) = (arguments.from, arguments.seeds, arguments.threads.max(1));
    let watch = Stopwatch::start();
    let parts = std::thread::scope(|scope| {
        let part = |thread: u64| {
            move || {
                let mut summary = Summary::default();
                let mut seed = from + thread;
                // A planted bug is looked for until it is found; a real one has all seeds to show.
                while seed < from + seeds && (summary.failed.is_empty() || bug.is_none()) {
                    summary.add(simulation::run(seed, bug, Detail::Outline));
                    seed += threads;
                }
                summary
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(part(thread))).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
    });
    let mut summary = Summary::default();
    for part in parts {
        summary.merge(part);
    }
    summary.failed.sort_by_key(|history| history.seed);
    report(&summary, watch.elapsed(), arguments, bug)
}

fn report(summary: &Summary, took: Duration, arguments: &Arguments, bug: Option<Bug>) -> ExitCode {
    if arguments.json {
        say(&summary.to_json(took).to_string());
    } else {
        summary.print(took);
    }
    for history in summary.failed.iter().take(5) {
        complain(history);
    }
    let missed = summary.counters.missed();
    if bug.is_none() && summary.failed.is_empty() && !missed.is_empty() {
        say(&format!("never taken: {missed:?}"));
        // A handful of seeds cannot take every path.
        return if summary.seeds < 100 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn complain(history: &History) {
    for violation in history.violations.iter().take(3) {
        let at = violation.at.as_secs_f64();
        let (seed, number) = (history.seed, violation.invariant);
        say(&format!("seed {seed}: invariant {number} at {at:.6}: {}", violation.text));
    }
}

impl Summary {
    fn add(&mut self, history: History) {
        self.seeds += 1;
        self.deliveries += history.deliveries;
        self.attempts += history.attempts;
        self.steps += history.steps;
        self.lasted += history.lasted;
        self.counters.add(&history.counters);
        if !history.violations.is_empty() {
            self.failed.push(history);
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.deliveries += other.deliveries;
        self.attempts += other.attempts;
        self.steps += other.steps;
        self.lasted += other.lasted;
        self.counters.add(&other.counters);
        self.failed.extend(other.failed);
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn per_second(&self, took: Duration) -> f64 {
        self.deliveries as f64 / took.as_secs_f64()
    }

    fn print(&self, took: Duration) {
        let (seeds, deliveries, attempts) = (self.seeds, self.deliveries, self.attempts);
        say(&format!(
            "{seeds} seeds, {deliveries} deliveries, {attempts} attempts, {} steps, {} simulated \
             hours; {:.0} deliveries per second of real time; {} seeds with violations",
            self.steps,
            self.lasted.as_secs() / 3_600,
            self.per_second(took),
            self.failed.len()
        ));
        for (path, count) in self.counters.all() {
            say(&format!("  {count:>10} {}", path.name()));
        }
    }

    fn to_json(&self, took: Duration) -> serde_json::Value {
        let counters: serde_json::Map<_, _> =
            self.counters.all().map(|(path, count)| (path.name(), count.into())).collect();
        let failed = self.failed.iter().map(|it| it.seed).collect::<Vec<_>>();
        serde_json::json!({
            "seeds": self.seeds, "deliveries": self.deliveries, "attempts": self.attempts,
            "steps": self.steps, "deliveries_per_second": self.per_second(took),
            "failed": failed, "counters": counters,
        })
    }
}

/// Measures real time, for the figure at the end.
struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a figure about the simulator, not in it")]
    fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "a figure about the simulator, not in it")]
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[expect(clippy::print_stdout, reason = "this is the command line")]
fn say(text: &str) {
    println!("{text}");
}
