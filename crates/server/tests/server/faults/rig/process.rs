//! `redial serve` as a process of its own: started, asked until it is ready, stopped, killed, and
//! started again where it was.
//!
//! What it says goes to a file, and is quoted when something is wrong.

use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::Context as _;
use redial::process::{Launch, free_port};
use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;

/// The token that senders use.
pub(crate) const TOKEN: &str = "faults-admin-token-of-one-run";
/// How long a start or a stop may take, in looks: a minute and a half.
const MOST_LOOKS: u32 = 18_000;
const LOOK: Duration = Duration::from_millis(5);
/// How much of what a server said is quoted.
const QUOTED_LINES: usize = 20;

/// Says what to start: a server that tells of everything worth a line.
pub(crate) fn launch(executable: PathBuf, database: Option<String>) -> Launch {
    Launch { executable, database, token: TOKEN, settings: Vec::new() }
}

/// A server that runs, or did.
#[derive(Debug)]
pub(crate) struct Node {
    launch: Launch,
    directory: PathBuf,
    port: u16,
    child: Child,
}

impl Node {
    /// Starts a server in a directory, which is made, and waits until it is ready.
    pub(crate) async fn start(launch: &Launch, directory: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&directory)?;
        let port = free_port()?;
        let child = launch.spawn(&directory, port)?;
        let mut node = Self { launch: launch.clone(), directory, port, child };
        node.ready().await?;
        Ok(node)
    }

    /// Starts the server again that was killed or stopped, and waits until it is ready.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        self.child = self.launch.spawn(&self.directory, self.port)?;
        self.ready().await
    }

    /// Starts the server again and kills it while it is starting, after so long; then as above.
    pub(crate) async fn restart_twice(&mut self, after: Duration) -> anyhow::Result<()> {
        self.child = self.launch.spawn(&self.directory, self.port)?;
        tokio::time::sleep(after).await;
        self.kill()?;
        self.restart().await
    }

    /// Freezes the process for so long; nothing in it can notice but by the clock.
    pub(crate) async fn freeze(&mut self, span: Duration) -> anyhow::Result<()> {
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::STOP)?;
        tokio::time::sleep(span).await;
        Ok(kill_process(process, Signal::CONT)?)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        for _ in 0..MOST_LOOKS {
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the server ended with {status}:\n{}", self.last_words());
            }
            if Client::of(self.port).is_healthy().await {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        anyhow::bail!("the server is not ready:\n{}", self.last_words())
    }

    /// Kills the process, as nothing in it can notice.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        let ended = self.child.try_wait()?;
        anyhow::ensure!(
            ended.is_none(),
            "the server ended by itself with {ended:?}:\n{}",
            self.last_words()
        );
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks the process to stop, and waits until it has, which must be a good end.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.ask_to_stop()?;
        let (status, said) = (self.end().await?, self.last_words());
        anyhow::ensure!(status.success(), "the server stopped with {status}:\n{said}");
        Ok(())
    }

    /// Asks the process to stop.
    pub(crate) fn ask_to_stop(&self) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::TERM)?)
    }

    /// Waits until the process has ended.
    pub(crate) async fn end(&mut self) -> anyhow::Result<ExitStatus> {
        for _ in 0..MOST_LOOKS {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(LOOK).await;
        }
        anyhow::bail!("the server does not stop:\n{}", self.last_words())
    }

    /// Returns how many files the process may open, and how many it could allow itself.
    pub(crate) fn file_limits(&self) -> anyhow::Result<(u64, u64)> {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", self.child.id()))?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let mut numbers = line.context("the kernel tells no limit")?.split_whitespace();
        let mut next = || -> anyhow::Result<u64> {
            Ok(numbers.next().context("the kernel tells no number")?.parse()?)
        };
        Ok((next()?, next()?))
    }

    /// Returns the port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the memory of the process that is resident, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
        let kibibytes: u64 = kibibytes.context("the kernel tells no memory")?.trim().parse()?;
        Ok(kibibytes * 1_024)
    }

    /// Tells whether it said something.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.said().contains(text)
    }

    /// Returns the lines of its log that tell of a panic.
    pub(crate) fn panics(&self) -> Vec<String> {
        let panic = |line: &&str| line.contains("panicked");
        self.said().lines().filter(panic).map(str::to_owned).collect()
    }

    /// Returns the end of what it said.
    pub(crate) fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.directory.join("server.log")).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
