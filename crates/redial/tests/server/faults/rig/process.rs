//! What is done to servers here and nowhere else, and what their processes tell.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Signal, kill_process};
use testkit::server::{Launch, Server, free_ports};

/// The token that senders use.
pub(crate) const TOKEN: &str = "faults-admin-token-of-one-run";

/// Says what to start: a server that tells of everything worth a line.
pub(crate) fn launch(executable: PathBuf, database: Option<String>) -> Launch {
    Launch { executable, database, token: TOKEN, settings: Vec::new() }
}

/// Starts a server in a directory, which is made, and waits until it is ready.
pub(crate) async fn start(launch: &Launch, directory: PathBuf) -> anyhow::Result<Server> {
    let [port] = free_ports()?;
    Server::start(launch.clone(), directory, port).await
}

/// Kills a server, as nothing in it can notice. It must not have ended by itself.
pub(crate) fn kill(server: &mut Server) -> anyhow::Result<()> {
    server.still_runs()?;
    server.kill()
}

/// Starts a server again and kills it while it is starting, after so long; then starts it to stay.
pub(crate) async fn restart_twice(server: &mut Server, after: Duration) -> anyhow::Result<()> {
    server.respawn()?;
    tokio::time::sleep(after).await;
    kill(server)?;
    server.restart().await
}

/// Freezes the process for so long; nothing in it can notice but by the clock.
pub(crate) async fn freeze(server: &Server, span: Duration) -> anyhow::Result<()> {
    kill_process(server.pid(), Signal::STOP)?;
    tokio::time::sleep(span).await;
    Ok(kill_process(server.pid(), Signal::CONT)?)
}

/// Returns how many files the process may open, and how many it could allow itself.
pub(crate) fn file_limits(server: &Server) -> anyhow::Result<(u64, u64)> {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.process()))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let mut numbers = line.context("the kernel tells no limit")?.split_whitespace();
    let mut next = || -> anyhow::Result<u64> {
        Ok(numbers.next().context("the kernel tells no number")?.parse()?)
    };
    Ok((next()?, next()?))
}

/// Returns the lines of its log that tell of a panic.
pub(crate) fn panics(server: &Server) -> Vec<String> {
    let panic = |line: &&str| line.contains("panicked");
    server.said().lines().filter(panic).map(str::to_owned).collect()
}
