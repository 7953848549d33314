//! Processes that a test starts and that end with it: the server, and whoever calls it.
//!
//! What they print goes to files, so that no pipe fills up and a failure can quote all of it.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

const STEP: Duration = Duration::from_millis(20);
/// A hundred seconds, which is less than what the test runner grants.
const MOST_STEPS: u32 = 5_000;

/// Asks again and again until there is an answer, for a hundred seconds at the most.
pub(super) fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..MOST_STEPS {
        if let Some(found) = ask() {
            return Some(found);
        }
        thread::sleep(STEP);
    }
    None
}

/// A process with all that it started. It is killed when this is dropped.
pub(super) struct Running {
    child: Child,
    directory: TempDir,
}

impl Running {
    pub(super) fn start(mut command: Command) -> Self {
        let directory = TempDir::new().unwrap();
        let out = File::create(directory.path().join("out")).unwrap();
        command.stdout(out.try_clone().unwrap()).stderr(out);
        // A group of its own, so that what a shell started ends with the shell.
        let child = command.process_group(0).spawn().unwrap();
        Self { child, directory }
    }

    /// Returns what was printed so far.
    pub(super) fn out(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.directory.path().join("out")).unwrap()).into_owned()
    }

    /// Waits until enough was printed.
    pub(super) fn prints<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        match eventually(|| find(&self.out())) {
            Some(found) => found,
            None => panic!("it did not print {what}:\n{}", self.out()),
        }
    }

    /// Writes to a process that was started with a pipe as its input.
    pub(super) fn types(&mut self, text: &str) {
        use std::io::Write as _;
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Waits for the end, which must be a good one, and returns what was printed.
    pub(super) fn finish(self) -> String {
        let (status, out) = self.end();
        assert!(status.is_some_and(|it| it.success()), "it ended with {status:?}:\n{out}");
        out
    }

    /// Waits for the end, and returns it with what was printed. There is no status if it hangs.
    pub(super) fn end(mut self) -> (Option<ExitStatus>, String) {
        drop(self.child.stdin.take());
        let status = eventually(|| self.child.try_wait().unwrap());
        (status, self.out())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If all have ended already there is nobody to kill, and that is well.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// `redial serve` with a data directory of its own.
pub(super) struct Server {
    running: Running,
    url: String,
    data: TempDir,
}

impl Server {
    /// Starts it on a free port and waits until it listens.
    pub(super) fn start(options: &[&str], token: &str) -> Self {
        Self::start_in(TempDir::new().unwrap(), options, token)
    }

    /// Kills it, and returns its directory.
    pub(super) fn killed(self) -> TempDir {
        self.data
    }

    /// Starts it in a directory in which one may have been before.
    pub(super) fn start_in(data: TempDir, options: &[&str], token: &str) -> Self {
        let place: PathBuf = data.path().join("data");
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(place)
            .args(options)
            .env("REDIAL_ADMIN_TOKEN", token)
            .stdin(Stdio::null());
        let running = Running::start(command);
        let url = running.prints("where it listens", |out| {
            let line = out.lines().find_map(|line| line.strip_prefix("listening on "))?;
            // A line without its end may be half of one.
            out.contains(&format!("{line}\n")).then(|| line.to_owned())
        });
        Self { running, url, data }
    }

    /// Returns where its data is.
    pub(super) fn place(&self) -> PathBuf {
        self.data.path().join("data")
    }

    /// Waits until it ends by itself, and returns its status with what it printed.
    pub(super) fn ends(self) -> (Option<ExitStatus>, String) {
        self.running.end()
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap()
    }

    pub(super) fn log(&self) -> String {
        self.running.out()
    }
}
