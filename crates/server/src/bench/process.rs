//! The server as a process of its own: started, asked until it is ready, stopped, or killed.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::{Method, Request, header};
use http_body_util::Full;
use rustix::process::{Pid, Signal, kill_process};

use super::client::{Connection, quoted};
use super::metrics::Counters;
use super::shapes;
use crate::clock::Clock;
use crate::process::{Launch, free_port};

/// The token that customers use.
pub(super) const TOKEN: &str = "bench-admin-token-of-one-run";
/// How long a start may take.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a stop may take before the process is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(40);
/// How often is looked whether it has happened.
const LOOK: Duration = Duration::from_millis(2);
/// How much of what a server said before it ended is quoted.
const QUOTED_LINES: usize = 12;

/// Says what to start: a server as it comes, which also logs as it comes.
pub(crate) fn launch(executable: PathBuf, database: Option<String>) -> Launch {
    Launch { executable, database, token: TOKEN, settings: Vec::new() }
}

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    launch: Launch,
    directory: PathBuf,
    port: u16,
    /// Where it shows its metrics.
    metrics: u16,
    child: Child,
}

impl Server {
    /// Starts a server in a directory, which is made, and waits until it is ready.
    pub(super) async fn start(
        launch: &Launch,
        directory: &Path,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let (port, metrics) = free_ports()?;
        let (mut launch, directory) = (launch.clone(), directory.to_owned());
        let shown = format!("{}:{metrics}", Ipv4Addr::LOCALHOST);
        launch.settings.push((shapes::METRICS_SETTING, shown));
        let child = launch.spawn(&directory, port)?;
        let mut server = Self { launch, directory, port, metrics, child };
        server.ready(clock).await?;
        Ok(server)
    }

    /// Starts a server that was killed anew, without waiting until it is ready.
    pub(super) fn respawn(&mut self) -> anyhow::Result<()> {
        self.child = self.launch.spawn(&self.directory, self.port)?;
        Ok(())
    }

    /// Waits until the server says that it can be used.
    pub(super) async fn ready(&mut self, clock: &Arc<dyn Clock>) -> anyhow::Result<()> {
        let began = clock.now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("the server ended with {status}:\n{}", self.last_words());
            }
            if is_healthy(self.port).await {
                return Ok(());
            }
            let waited = clock.now().since(began);
            anyhow::ensure!(
                waited < START_PATIENCE,
                "the server is not ready after {} s:\n{}",
                waited.as_secs(),
                self.last_words()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks the server to stop, and waits until it has.
    pub(super) async fn stop(&mut self, clock: &Arc<dyn Clock>) -> anyhow::Result<()> {
        kill_process(self.pid()?, Signal::TERM)?;
        let began = clock.now();
        while self.child.try_wait()?.is_none() {
            anyhow::ensure!(clock.now().since(began) < STOP_PATIENCE, "the server does not stop");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Returns what it counts.
    pub(super) async fn counters(&self) -> anyhow::Result<Counters> {
        let request = Request::builder().method(Method::GET).uri(shapes::METRICS);
        let request = request.header(header::HOST, "localhost");
        let head = Request::builder().method(Method::GET).uri(shapes::METRICS).body(())?;
        let mut connection = Connection::open(self.metrics).await?;
        let (status, body) = connection.exchange(request.body(Full::default())?).await?;
        anyhow::ensure!(status.is_success(), "{}", quoted(&head, status, &body));
        Counters::read(&String::from_utf8_lossy(&body))
    }

    /// Returns the port that it listens on.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the id of the process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns where it keeps its data.
    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Kills the process, as a power cut would.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let number = i32::try_from(self.child.id())?;
        Pid::from_raw(number).context("a process has a number")
    }

    fn last_words(&self) -> String {
        let said = std::fs::read_to_string(self.directory.join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        drop(self.kill());
    }
}

/// Returns two ports that are free.
fn free_ports() -> std::io::Result<(u16, u16)> {
    let first = free_port()?;
    loop {
        let second = free_port()?;
        if second != first {
            return Ok((first, second));
        }
    }
}

async fn is_healthy(port: u16) -> bool {
    let request = Request::builder().method(Method::GET).uri(shapes::HEALTH);
    let request = request.header(header::HOST, "localhost").body(Full::default());
    let (Ok(request), Ok(mut connection)) = (request, Connection::open(port).await) else {
        return false;
    };
    connection.exchange(request).await.is_ok_and(|(status, _)| status.is_success())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_quoted() {
        let directory = tempfile::TempDir::new().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let launch = launch("/bin/ls".into(), None);
        let refused = Server::start(&launch, directory.path(), &clock).await.unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("the server ended with exit status: 2"), "{text}");
        assert!(text.contains("ls:"), "{text}");
    }

    #[tokio::test]
    async fn a_server_is_not_told_what_to_log() {
        let directory = tempfile::TempDir::new().unwrap();
        let script = directory.path().join("server");
        std::fs::write(&script, "#!/bin/sh\nenv\n").unwrap();
        std::fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let ended = Server::start(&launch(script, None), directory.path(), &clock).await;
        let environment = ended.unwrap_err().to_string();
        assert!(environment.contains("REDIAL_ADMIN_TOKEN="), "{environment}");
        assert!(!environment.contains("REDIAL_LOG"), "{environment}");
    }
}
