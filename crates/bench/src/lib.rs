//! Benchmarks that a sceptic can run: everything is measured in one run, beside the bare thing it
//! is made of, and told as a ratio first.
//!
//! It measures a server as a process of its own, which it drives over HTTP, and knows nothing of what is
//! inside; only `store` stands on the stores and the committer themselves.
//!
//! # Layout
//! - [`command`]: what can be asked for, and the answer for people
//! - [`plan`]: how much is measured; [`scenario`]: what, one file for each
//! - `process`: the server as a process of its own; `site`: one with nothing in it; `scratch`:
//!   where it writes
//! - `client`, `pace`: closed and open loops; `body`: what they send; `customer`, `shapes`: the API
//! - `receiver`: who gets it; `latencies`: how long that took
//! - `usage`, `metrics`: what it cost; `machine`: on what; [`subject`]: of which build and store
//! - `figure`, `pairs`, [`report`], [`picture`]: what is told about it; [`progress`]: how far it is
//! - `store`, `lifecycle`: what the store makes of a bare loop over the same rows

mod body;
mod client;
mod command;
mod customer;
pub(crate) mod figure;
mod latencies;
mod lifecycle;
mod machine;
mod metrics;
mod pace;
mod pairs;
pub(crate) mod picture;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod progress;
mod receiver;
pub(crate) mod report;
pub(crate) mod scenario;
mod scratch;
mod shapes;
mod site;
pub(crate) mod store;
pub(crate) mod subject;
mod usage;

pub use command::Arguments;

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host::clock::{Clock, SystemClock};
use host::process::{Stops, raise_file_limit};
use machine::Machine;
use plan::Plan;
use progress::{Progress, Style};
use receiver::Receiver;
use report::Report;
use scenario::Scenario;
use scratch::Directory;
use subject::{Build, Subject};
use testkit::server::Launch;
use usage::Processes;

/// Why there is no figure for CPU time.
const CPU_UNSEEN: &str = "CPU time for each delivery is left out: PostgreSQL's processes cannot be \
                          seen from here; name it by a port of this machine, and run as its user or \
                          as root";

/// What to measure, on what.
#[derive(Debug)]
pub(crate) struct Order {
    /// The server.
    pub(crate) launch: Launch,
    /// Which build that is.
    pub(crate) build: Build,
    /// The command that asked for it.
    pub(crate) command: String,
    /// Where to write.
    pub(crate) directory: PathBuf,
    /// What.
    pub(crate) scenarios: Vec<Scenario>,
    /// What was asked for and cannot be measured, and why.
    pub(crate) left_out: Vec<(Scenario, &'static str)>,
    /// How much of it.
    pub(crate) plan: Plan,
    /// How progress is told.
    pub(crate) style: Style,
}

/// Everything that scenarios share.
pub(crate) struct Bench<'a> {
    clock: Arc<dyn Clock>,
    receiver: Receiver,
    launch: Launch,
    directory: Directory,
    plan: Plan,
    /// How many names were given.
    names: Cell<u32>,
    progress: Progress<'a>,
}

/// Measures, and tells how far it is.
///
/// # Errors
/// If nothing can be measured at all. A scenario that fails is in the report.
pub(crate) fn run(order: Order, progress: &mut dyn Write) -> anyhow::Result<Report> {
    // Every hanging endpoint holds two files: one here, one at the server, which inherits the limit.
    raise_file_limit();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let directory = Directory::inside(&order.directory)?;
    let machine = Machine::look(directory.path(), clock.as_ref())?;
    let bench = Bench {
        receiver: Receiver::start(Arc::clone(&clock))?,
        launch: order.launch,
        directory,
        plan: order.plan,
        names: Cell::new(0),
        progress: Progress::new(order.style, progress, Arc::clone(&clock)),
        clock,
    };
    // One thread for the load: it is the receivers' counterpart, and two would fight the server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Whoever stops a benchmark wants its servers and files gone too.
    let mut stops = runtime.block_on(async { Stops::listen() })?;
    let database = match &bench.launch.database {
        Some(server) => Some(runtime.block_on(scratch::about(server))?),
        None => None,
    };
    let Order { build, command, .. } = order;
    let subject = Subject { build, at: bench.clock.now(), command, database };
    let mut report = Report::new(subject, machine, order.plan);
    let counts_cpu = |it: &Scenario| matches!(it, Scenario::EndToEnd | Scenario::Old);
    if order.scenarios.iter().any(counts_cpu) && !bench.sees_database() {
        bench.progress.complain(CPU_UNSEEN);
        report.remark(CPU_UNSEEN);
    }
    for (scenario, why) in order.left_out {
        bench.progress.complain(&format!("`{}` is left out: {why}", scenario.name()));
        report.left_out(scenario, why);
    }
    let count = order.scenarios.len();
    for (index, scenario) in order.scenarios.into_iter().enumerate() {
        bench.progress.begin(index + 1, count, scenario.title());
        let mut figures = Vec::new();
        let measured = runtime.block_on(async {
            tokio::select! {
                measured = scenario.run(&bench, &mut figures) => Some(measured),
                () = stops.next() => None,
                () = bench.progress.tick() => None,
            }
        });
        report.add(figures);
        match measured {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                bench.progress.complain(&format!("`{}` failed: {error:#}", scenario.name()));
                report.failed(scenario, &error);
            }
            None => {
                report.failed(scenario, &anyhow::anyhow!("interrupted"));
                break;
            }
        }
    }
    bench.progress.end();
    if let Some(server) = &bench.launch.database {
        runtime.block_on(testkit::database::remove_all(server, &bench.directory.name()))?;
    }
    Ok(report)
}

impl Bench<'_> {
    /// Tells what was found out.
    fn say(&self, text: &str) {
        self.progress.say(text);
    }

    /// Tells that so many times all pairs are to come.
    fn rounds(&self, rounds: usize) {
        self.progress.steps(u32::try_from(rounds).unwrap_or(u32::MAX) * self.plan.pairs);
    }

    /// Tells that a pair begins.
    fn pair(&self, number: u32) {
        self.progress.step(&format!("pair {number} of {}", self.plan.pairs));
    }

    /// Tells that a pair of one of several rounds begins.
    fn pair_of(&self, round: &str, number: u32) {
        self.progress.step(&format!("{round}, pair {number} of {}", self.plan.pairs));
    }

    /// Returns a number that was not used before.
    fn number(&self) -> u32 {
        self.names.set(self.names.get() + 1);
        self.names.get()
    }

    /// Returns where a server can write; nobody has yet.
    fn fresh_directory(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}-{}", self.number()))
    }

    /// Returns the name of a database that does not exist yet.
    fn database_name(&self) -> String {
        format!("{}_{}", self.directory.name(), self.number())
    }

    /// Returns the processes of the database, if it is on this machine.
    fn database_processes(&self) -> Processes {
        let port = self.launch.database.as_deref().and_then(scratch::local_port);
        port.map(Processes::listening_on).unwrap_or_default()
    }

    /// Tells whether the CPU time of the database can be counted, if there is one.
    fn sees_database(&self) -> bool {
        !self.on_postgres() || !self.database_processes().is_empty()
    }

    /// Tells whether the store is PostgreSQL.
    fn on_postgres(&self) -> bool {
        self.launch.database.is_some()
    }
}

/// Returns where benchmarks write unless they are told.
pub(crate) fn default_directory() -> PathBuf {
    Path::new(&std::env::temp_dir()).to_owned()
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    real(count) / elapsed.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53 here")]
fn real(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count is positive and far below 2^53"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}
