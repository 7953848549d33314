//! Kills a process in the middle of its work, again and again, and looks for what it promised.
//!
//! The parent starts a child that works on a store and prints a line for each thing the store has
//! acknowledged to it. What is in the pipe survives the child. After the kill the parent opens the
//! store itself and checks every promise; the next child goes on with the same store. Where the
//! store has a server, that is restarted at once in every second cycle, under the child's hands.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use store::conformance::Handle;
use store::{Answer, Error};

use super::{Chance, Promised, Promises, Worker};

/// A child lives at least and at most so many milliseconds.
const LIFE: (u64, u64) = (20, 400);
/// How many messages a child accepts with each commit.
const ACCEPTS: u32 = 8;
/// So many pages make a log of SQLite large: fewer than usual, so that it begins anew many times in
/// the life of a child.
pub(crate) const LARGE_LOG: i32 = 256;
/// After so many cycles every promise is checked, and not only those of the last child.
const CYCLES_PER_FULL_CHECK: u32 = 25;

/// A kind of store that can be killed.
#[derive(Clone, Copy)]
pub(crate) struct Backend {
    /// Opens it at a place: a directory, or the address of a server.
    pub(crate) open: fn(&str) -> Answer<'static, Handle>,
    /// Lets it look for damage of its own; returns what it found.
    pub(crate) inspect: fn(&str) -> Vec<String>,
}

/// What is to be done.
pub(crate) struct Cycles<'a> {
    pub(crate) backend: Backend,
    pub(crate) place: &'a str,
    pub(crate) count: u32,
    pub(crate) seed: u64,
    /// Restarts the store's server as after a crash, if it has one.
    pub(crate) restart: Option<&'a dyn Fn() -> std::io::Result<()>>,
    /// How a child with a session's number is started; it has to do [`work_until_killed`].
    pub(crate) child: &'a dyn Fn(u32) -> Command,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) cycles: u32,
    /// Children that were killed before anything was acknowledged to them.
    pub(crate) idle: u32,
    /// Cycles in which the server was restarted.
    pub(crate) restarts: u32,
    pub(crate) accepted: usize,
    pub(crate) settled: usize,
    /// Messages and settled attempts that the last check of everything found as promised.
    pub(crate) kept: u64,
    pub(crate) lost: u64,
    pub(crate) broken: Vec<String>,
}

/// Works on a store until this process is killed, or the store fails.
pub(crate) async fn work_until_killed(
    backend: Backend,
    place: &str,
    session: u32,
) -> Result<(), Error> {
    let store = (backend.open)(place).await?;
    let mut worker = Worker::begin(store, session, Chance::new(session.into())).await?;
    let mut pipe = std::io::stdout().lock();
    loop {
        let lines: String =
            worker.step(ACCEPTS).await?.iter().map(|promised| format!("{promised}\n")).collect();
        let written = pipe.write_all(lines.as_bytes()).and_then(|()| pipe.flush());
        written.map_err(|error| Error::unavailable("nobody listens", error))?;
    }
}

impl Cycles<'_> {
    /// Kills children, one after the other.
    pub(crate) async fn run(&self) -> Result<Summary, Error> {
        let mut chance = Chance::new(self.seed);
        let mut promises = Promises::default();
        let mut summary = Summary::default();
        for session in 1..=self.count {
            let life = LIFE.0 + chance.below(LIFE.1 - LIFE.0);
            let restart = self.restart.filter(|_| session % 2 == 0);
            summary.restarts += u32::from(restart.is_some());
            let told = self.kill_one(session, Duration::from_millis(life), restart)?;
            told.iter().for_each(|promised| promises.add(*promised));
            summary.cycles = session;
            summary.idle += u32::from(told.is_empty());
            let full = session % CYCLES_PER_FULL_CHECK == 0 || session == self.count;
            let store = (self.backend.open)(self.place).await?;
            let findings = if full {
                promises.check(&store).await?
            } else {
                promises.check_some(&store, told.iter().map(Promised::message).collect()).await?
            };
            drop(store);
            summary.broken.extend(findings.broken);
            summary.lost += findings.lost;
            if full {
                summary.broken.extend((self.backend.inspect)(self.place));
                summary.kept = findings.kept;
            }
        }
        (summary.accepted, summary.settled) = promises.counts();
        Ok(summary)
    }

    fn kill_one(
        &self,
        session: u32,
        life: Duration,
        restart: Option<&dyn Fn() -> std::io::Result<()>>,
    ) -> Result<Vec<Promised>, Error> {
        let failed = |error| Error::unavailable("the child cannot be started or killed", error);
        let mut child = (self.child)(session).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let pipe = child.stdout.take();
        let listener = std::thread::spawn(move || pipe.map(listen).unwrap_or_default());
        std::thread::sleep(life);
        if let Some(restart) = restart {
            restart().map_err(failed)?;
            // Some who were served before go on with the new server, others have given up.
            std::thread::sleep(life);
        }
        // On Unix this is SIGKILL. A child that ended before it was killed failed at its work.
        let ended = child.try_wait().map_err(failed)?;
        child.kill().and_then(|()| child.wait()).map_err(failed)?;
        let told = listener.join().unwrap_or_default();
        match ended {
            Some(status) if restart.is_none() => {
                Err(Error::Refused(format!("child {session} ended: {status}")))
            }
            Some(_) | None => Ok(told),
        }
    }
}

/// Reads what a child says until there is no more. A last line that was cut is no promise.
fn listen(pipe: ChildStdout) -> Vec<Promised> {
    let mut reader = BufReader::new(pipe);
    let mut told = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        if let Some(whole) = line.strip_suffix('\n') {
            told.extend(whole.parse::<Promised>());
        }
        line.clear();
    }
    told
}

impl Summary {
    /// Tells whether everything was found, and nothing is as it cannot be.
    pub(crate) fn is_good(&self) -> bool {
        let promised = self.accepted + self.settled;
        self.lost == 0 && self.broken.is_empty() && self.kept == promised as u64
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "cycles          {} ({} killed before anything was acknowledged)",
            self.cycles, self.idle
        )?;
        writeln!(f, "restarts        {} of the server", self.restarts)?;
        writeln!(
            f,
            "acknowledged    {} messages, {} settled attempts",
            self.accepted, self.settled
        )?;
        writeln!(f, "found           {} of {}", self.kept, self.accepted + self.settled)?;
        writeln!(f, "lost            {}", self.lost)?;
        write!(f, "broken          {}", self.broken.len())?;
        for text in self.broken.iter().take(20) {
            write!(f, "\n  {text}")?;
        }
        Ok(())
    }
}
