//! Kills a process with SIGKILL in the middle of its work, again and again, and looks for
//! everything that the store had acknowledged to it.
//!
//! ```text
//! cargo run --release -p redial-store --example crash -- --cycles 200
//! scripts/with-postgres cargo run --release -p redial-store --example crash -- \
//!     --store postgres --cycles 100
//! ```
//!
//! `--seed 7` decides when each child is killed; `--place DIRECTORY` keeps the store. With
//! PostgreSQL the place is a URL, by default that of the script's server, and every second cycle
//! restarts that server at once (`pg_ctl restart -m immediate`). The summary
//! goes to stdout; the exit code is 1 if anything was lost or is not as it can be, 2 for a command
//! line that cannot be understood.

#[path = "../tests/store/faults/work/mod.rs"]
mod work;

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use domain::time::Timestamp;
use store::conformance::Handle;
use store::sqlite::{Settings, Sqlite};
use store::{Answer, Error};
use work::{Backend, Cycles, LARGE_LOG, POSTGRES, work_until_killed};

/// The stores that can be killed, by the word for `--store`.
const BACKENDS: [(&str, Backend); 2] =
    [("sqlite", Backend { open: open_sqlite, inspect: inspect_sqlite }), ("postgres", POSTGRES)];

/// What the command line says.
struct Arguments {
    backend: (&'static str, Backend),
    cycles: u32,
    seed: u64,
    place: Option<String>,
    /// Set in a child: its number.
    session: Option<u32>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            say(&format!(
                "{text}\nusage: crash [--store sqlite|postgres] [--cycles N] [--seed N] [--place DIRECTORY]"
            ));
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked for; answers whether all was well.
fn run(arguments: &Arguments) -> Result<bool, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::unavailable("no runtime", error))?;
    let backend = arguments.backend.1;
    let directory = tempfile::tempdir().map_err(|error| Error::unavailable("no place", error))?;
    let served = (arguments.backend.0 == "postgres").then(|| variable("REDIAL_TEST_POSTGRES"));
    let place = match (&arguments.place, served.flatten()) {
        (Some(place), _) => place.clone(),
        (None, Some(place)) => place,
        (None, None) => directory.path().display().to_string(),
    };
    if let Some(session) = arguments.session {
        runtime.block_on(work_until_killed(backend, &place, session))?;
        return Ok(true);
    }
    let program = std::env::current_exe();
    let program = program.map_err(|error| Error::unavailable("no way to start a child", error))?;
    let child = |session: u32| {
        let mut command = Command::new(&program);
        command.args(["--store", arguments.backend.0, "--place", &place]);
        command.args(["--session", &session.to_string()]);
        command
    };
    let (count, seed) = (arguments.cycles, arguments.seed);
    let program = variable("REDIAL_TEST_POSTGRES_RESTART").unwrap_or_default();
    let restart = || restart(&program);
    let restart: Option<&dyn Fn() -> std::io::Result<()>> =
        if arguments.backend.0 == "postgres" && !program.is_empty() {
            Some(&restart)
        } else {
            None
        };
    let cycles = Cycles { backend, place: &place, count, seed, restart, child: &child };
    let summary = runtime.block_on(cycles.run())?;
    say(&format!(
        "store           {} in {place}\nseed            {seed}\n{summary}",
        arguments.backend.0
    ));
    Ok(summary.is_good())
}

/// Restarts the server as after a crash.
fn restart(program: &str) -> std::io::Result<()> {
    match Command::new(program).status()? {
        status if status.success() => Ok(()),
        status => Err(std::io::Error::other(status.to_string())),
    }
}

#[expect(clippy::disallowed_methods, reason = "the script that starts the server says so")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments =
        Arguments { backend: BACKENDS[0], cycles: 20, seed: 1, place: None, session: None };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u32>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--store" => {
                let found = BACKENDS.into_iter().find(|(name, _)| *name == value);
                arguments.backend = found.ok_or_else(|| format!("there is no store `{value}`"))?;
            }
            "--cycles" => arguments.cycles = number()?,
            "--seed" => arguments.seed = number()?.into(),
            "--place" => arguments.place = Some(value),
            "--session" => arguments.session = Some(number()?),
            _ => return Err(format!("there is no option `{word}`")),
        }
    }
    Ok(arguments)
}

fn say(text: &str) {
    // Without a stdout there is nobody to tell.
    let _told = writeln!(std::io::stdout(), "{text}");
}

fn open_sqlite(place: &str) -> Answer<'static, Handle> {
    let clock = Arc::new(|| Timestamp::from_seconds(1_800_000_000));
    let mut settings = Settings::new(place, work::entropy, clock);
    settings.large_log = LARGE_LOG;
    let opened = Sqlite::open(settings);
    Box::pin(async { Ok(Handle::new(Arc::new(opened?))) })
}

fn inspect_sqlite(place: &str) -> Vec<String> {
    let inspect = || -> Result<Vec<String>, rusqlite::Error> {
        let connection = rusqlite::Connection::open(Path::new(place).join("redial.db"))?;
        let mut statement = connection.prepare("PRAGMA integrity_check")?;
        let lines = statement.query_map([], |row| row.get(0))?;
        lines.filter(|line| !line.as_ref().is_ok_and(|line: &String| line == "ok")).collect()
    };
    inspect().unwrap_or_else(|error| vec![error.to_string()])
}
