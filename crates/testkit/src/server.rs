//! `redial serve` as a process of its own: started, asked until it is ready, stopped, killed, and
//! started again where it was.
//!
//! It gets an empty environment but for what is said here, and a directory of its own, so that
//! nobody's configuration changes what is measured. What it says goes to `server.log` there, and is
//! quoted when something is wrong.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use rustix::process::{Pid, Signal, kill_process};

use crate::connection::Connection;

/// Everybody may know the key of a server that is measured or tried out: 32 bytes, in base64.
pub const ENCRYPTION_KEY: &str = "dHJpYWwtdHJpYWwtdHJpYWwtdHJpYWwtdHJpYWwtdHI=";
/// Answers as soon as the server can be used.
const HEALTH: &str = "/api/v1/health";
/// How long a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often it is looked whether it has happened.
const LOOK: Duration = Duration::from_millis(2);
/// How much of what a server said is quoted.
const QUOTED_LINES: usize = 12;

/// What to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The binary.
    pub executable: PathBuf,
    /// The PostgreSQL URL, if the store is not a file.
    pub database: Option<String>,
    /// The admin token.
    pub token: &'static str,
    /// Further settings, as they are called in the environment.
    pub settings: Vec<(&'static str, String)>,
}

impl Launch {
    /// Starts it in a directory, on a port of this machine.
    fn spawn(&self, directory: &Path, port: u16) -> anyhow::Result<Child> {
        let log = directory.join("server.log");
        let log = std::fs::File::options().append(true).create(true).open(log)?;
        let mut command = Command::new(&self.executable);
        command.args(["serve", "--listen", &format!("{}:{port}", Ipv4Addr::LOCALHOST)]);
        command.arg("--data").arg(directory.join("data"));
        command.args(["--allow-egress", "127.0.0.0/8"]);
        command.env_clear().env("REDIAL_ADMIN_TOKEN", self.token);
        command.env("REDIAL_EGRESS_PLAIN_HTTP", "yes");
        if let Some(database) = &self.database {
            command.env("REDIAL_DATABASE", database).env("REDIAL_ENCRYPTION_KEY", ENCRYPTION_KEY);
        }
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.current_dir(directory).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let started = command.spawn();
        started.with_context(|| format!("cannot start {}", self.executable.display()))
    }
}

/// A server that runs, or did. It is killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    directory: PathBuf,
    port: u16,
    child: Child,
}

impl Server {
    /// Starts a server in a directory, which is made, and on a port, and waits until it is ready. If it is
    /// not in time, the error quotes what it said.
    pub async fn start(launch: Launch, directory: PathBuf, port: u16) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&directory)?;
        let child = launch.spawn(&directory, port)?;
        let mut server = Self { launch, directory, port, child };
        server.ready().await?;
        Ok(server)
    }

    /// Starts a server as [`Server::start`] does, and waits only until it answers, whether it is ready or not.
    pub async fn start_answering(
        launch: Launch,
        directory: PathBuf,
        port: u16,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&directory)?;
        let child = launch.spawn(&directory, port)?;
        let mut server = Self { launch, directory, port, child };
        server.wait_until(async || health(port).await.is_some()).await?;
        Ok(server)
    }

    /// Starts the server again that was killed or stopped, and does not wait until it is ready.
    pub fn respawn(&mut self) -> anyhow::Result<()> {
        self.child = self.launch.spawn(&self.directory, self.port)?;
        Ok(())
    }

    /// Starts the server again that was killed or stopped, and waits until it is ready.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.respawn()?;
        self.ready().await
    }

    /// Waits until the server says that it can be used.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        let port = self.port;
        self.wait_until(async || health(port).await.is_some_and(|status| status.is_success())).await
    }

    async fn wait_until(&mut self, is_so: impl AsyncFn() -> bool) -> anyhow::Result<()> {
        let ready = async {
            loop {
                if let Some(status) = self.child.try_wait()? {
                    anyhow::bail!("the server ended with {status}:\n{}", self.last_words());
                }
                if is_so().await {
                    return Ok(());
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        ready.unwrap_or_else(|_| {
            let (waited, said) = (PATIENCE.as_secs(), self.last_words());
            Err(anyhow::anyhow!("the server is not ready after {waited} s:\n{said}"))
        })
    }

    /// Kills the process, as a power cut would.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Makes sure that the server has not ended by itself; otherwise the error quotes what it said.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        anyhow::bail!("the server ended by itself with {status}:\n{}", self.last_words())
    }

    /// Asks the process to stop.
    pub fn ask_to_stop(&self) -> anyhow::Result<()> {
        Ok(kill_process(self.pid(), Signal::TERM)?)
    }

    /// Waits until the process has ended.
    pub async fn end(&mut self) -> anyhow::Result<ExitStatus> {
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait()? {
                    return anyhow::Ok(status);
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        ended.unwrap_or_else(|_| {
            Err(anyhow::anyhow!("the server does not stop:\n{}", self.last_words()))
        })
    }

    /// Asks the process to stop, and waits until it has, which must be a good end.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        self.ask_to_stop()?;
        let (status, said) = (self.end().await?, self.last_words());
        anyhow::ensure!(status.success(), "the server stopped with {status}:\n{said}");
        Ok(())
    }

    /// Returns the port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of the process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the process, for signals.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns where it keeps its data.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Returns what a setting was that it was started with.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let found = self.launch.settings.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns what it said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.directory.join("server.log")).unwrap_or_default()
    }

    /// Returns the end of what it said.
    fn last_words(&self) -> String {
        let said = self.said();
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

/// Returns ports that are free. Somebody may take one before a server does; then the server says so and
/// ends.
pub fn free_ports<const N: usize>() -> std::io::Result<[u16; N]> {
    let (mut ports, mut held) = ([0; N], Vec::new());
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        // Held until all are known, so that none is named twice.
        held.push(listener);
    }
    Ok(ports)
}

/// Returns the memory of a process that is resident, in bytes.
pub fn resident_bytes(process: u32) -> Option<u64> {
    memory(process, "VmRSS:")
}

/// Returns the most memory of a process that was ever resident, in bytes.
pub fn most_resident_bytes(process: u32) -> Option<u64> {
    memory(process, "VmHWM:")
}

fn memory(process: u32, which: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(which))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}

/// Returns how a server answers that is asked for its health, if it does.
async fn health(port: u16) -> Option<StatusCode> {
    let request = Request::get(HEALTH).header(header::HOST, "localhost").body(Full::default());
    let mut connection = Connection::open(port).await.ok()?;
    let answer = connection.exchange(request.ok()?).await.ok()?;
    Some(answer.status())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    async fn refusal(executable: PathBuf, directory: &TempDir) -> String {
        let launch = Launch { executable, database: None, token: "t", settings: Vec::new() };
        let [port] = free_ports().unwrap();
        let started = Server::start(launch, directory.path().to_owned(), port).await;
        started.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_quoted() {
        let text = refusal("/bin/ls".into(), &TempDir::new().unwrap()).await;
        assert!(text.contains("the server ended with exit status: 2"), "{text}");
        assert!(text.contains("ls:"), "{text}");
    }

    #[tokio::test]
    async fn a_server_is_not_told_what_to_log() {
        let directory = TempDir::new().unwrap();
        let script = directory.path().join("server");
        std::fs::write(&script, "#!/bin/sh\nenv\n").unwrap();
        std::fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
        let environment = refusal(script, &directory).await;
        assert!(environment.contains("REDIAL_ADMIN_TOKEN="), "{environment}");
        assert!(!environment.contains("REDIAL_LOG"), "{environment}");
    }
}
