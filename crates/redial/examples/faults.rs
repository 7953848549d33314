//! Kills servers, restarts their database and plays bad receivers, for as long as is asked for, and
//! compares what was acknowledged with what arrived.
//!
//! ```text
//! cargo build --release -p redial
//! cargo run --release -p redial --example faults -- kills --cycles 100
//! scripts/with-postgres cargo run --release -p redial --example faults -- fleet --cycles 100
//! ```
//!
//! `--seed 7` decides about everything random; `--server PATH` names another binary; `--keep
//! DIRECTORY` is where servers write, and their logs stay. The report goes to stdout; the exit code is 1 if a promise was broken, 2 for a command line that cannot be
//! understood.

#[path = "../tests/server/faults/rig/mod.rs"]
mod rig;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rig::{Ground, bad, kills, limits, restarts, stops, takeover};
use store::limits::LEASE;

/// By how much an attempt may miss its deadline.
const TOLERANCE: Duration = Duration::from_millis(100);
/// The memory of the last third of a run, as a multiple of that of the middle third.
const MOST_GROWTH: f64 = 1.1;

/// What the command line says.
struct Arguments {
    what: String,
    cycles: u32,
    seconds: u32,
    seed: u64,
    server: Option<PathBuf>,
    keep: Option<PathBuf>,
}

const USAGE: &str = "usage: faults kills|fleet|takeover|restarts|limits|stops|bad [--cycles N] [--seconds N] [--seed N] \
    [--server PATH] [--keep DIRECTORY]";

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            say(&format!("{text}\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(&arguments)));
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked for; tells whether all was well.
async fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let fleet = !["kills", "stops", "bad"].contains(&arguments.what.as_str());
    let ground = Ground {
        executable: server(arguments.server.clone())?,
        postgres: if fleet { Some(variable("REDIAL_TEST_POSTGRES")?) } else { None },
        seed: arguments.seed,
        keep: arguments.keep.clone(),
    };
    say(&format!("{}, seed {}", arguments.what, arguments.seed));
    let cycles = arguments.cycles;
    let (good, text) = match arguments.what.as_str() {
        "kills" | "fleet" => {
            let (nodes, pace) = (if fleet { 2 } else { 1 }, Duration::from_millis(10));
            let order = kills::Order { nodes, cycles, senders: 8, pace };
            let report = kills::run(&ground, order).await?;
            (report.is_good(), report.to_string())
        }
        "takeover" => {
            let ends = [takeover::End::Killed, takeover::End::Stopped];
            let report = takeover::run(&ground, cycles, &ends).await?;
            let in_time = report.longest() <= LEASE + Duration::from_secs(1);
            (report.is_good() && in_time, report.to_string())
        }
        "restarts" => {
            let restart = variable("REDIAL_TEST_POSTGRES_RESTART")?.into();
            let every = Duration::from_secs(5);
            let order = restarts::Order { restart, nodes: 2, restarts: cycles, every, senders: 8 };
            let report = restarts::run(&ground, order).await?;
            (report.is_good(), report.to_string())
        }
        "limits" => {
            let report = limits::run(&ground, cycles).await?;
            (report.is_good(), report.to_string())
        }
        "stops" => {
            let grace = Duration::from_secs(arguments.seconds.into());
            let once = stops::run(&ground, grace, stops::Asked::Once).await?;
            let twice = stops::run(&ground, grace, stops::Asked::Twice).await?;
            let good = once.good_end && once.took <= grace + TOLERANCE * 10 && once.files_raised;
            let good = good && !twice.good_end && twice.took <= TOLERANCE * 10;
            let counted = once.attempts == 1 && twice.attempts == 1;
            let (took, code) = stops::hung(&ground, grace.min(stops::HUNG / 4)).await?;
            let ended = code == Some(1) && took < stops::HUNG / 2;
            let hung = format!("disk hangs      in {took:?}, exit code {code:?}");
            (good && counted && ended, format!("{once}\n{twice}\n{hung}"))
        }
        "bad" => {
            let span = Duration::from_secs(arguments.seconds.into());
            let report = bad::run(&ground, bad::Order { span, attempts: 10 }).await?;
            let kept = report.overrun() <= TOLERANCE && report.growth() <= MOST_GROWTH;
            (report.is_good() && kept, report.to_string())
        }
        other => anyhow::bail!("there is no `{other}`\n{USAGE}"),
    };
    say(&text);
    Ok(good)
}

/// Returns the server's binary: the one that was built beside this one, unless it is named.
fn server(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe()?;
    let beside = beside.parent().and_then(|examples| examples.parent());
    let path = named.or_else(|| beside.map(|target| target.join("redial"))).unwrap_or_default();
    anyhow::ensure!(path.exists(), "there is no {}; build it first", path.display());
    Ok(path)
}

#[expect(clippy::disallowed_methods, reason = "the script that starts the database says so")]
fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).map_err(|_| anyhow::anyhow!("run it with scripts/with-postgres"))
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let what = words.next().ok_or("what is to be done?")?;
    let mut arguments =
        Arguments { what, cycles: 20, seconds: 60, seed: 1, server: None, keep: None };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u32>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--cycles" => arguments.cycles = number()?,
            "--seconds" => arguments.seconds = number()?,
            "--seed" => arguments.seed = number()?.into(),
            "--server" => arguments.server = Some(value.into()),
            "--keep" => arguments.keep = Some(value.into()),
            _ => return Err(format!("there is no option `{word}`")),
        }
    }
    Ok(arguments)
}

fn say(text: &str) {
    // Without a stdout there is nobody to tell.
    let _told = writeln!(std::io::stdout(), "{text}");
}
