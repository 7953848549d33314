//! Servers that are measured, and what they count.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Context as _;
use http::{Request, header};
use http_body_util::Full;
use testkit::connection::Connection;
use testkit::server::{Launch, Server, free_ports};

use super::client::quoted;
use super::metrics::Counters;
use super::shapes;

/// The token that customers use.
pub(super) const TOKEN: &str = "bench-admin-token-of-one-run";

/// Says what to start: a server as it comes, which also logs as it comes.
pub(crate) fn launch(executable: PathBuf, database: Option<String>) -> Launch {
    Launch { executable, database, token: TOKEN, settings: Vec::new() }
}

/// Starts a server in a directory, which is made, and waits until it is ready.
pub(super) async fn start(mut launch: Launch, directory: PathBuf) -> anyhow::Result<Server> {
    let [port, metrics] = free_ports()?;
    let shown = format!("{}:{metrics}", Ipv4Addr::LOCALHOST);
    launch.settings.push((shapes::METRICS_SETTING, shown));
    Server::start(launch, directory, port).await
}

/// Asks a server to stop, and waits until it has, however it ends.
pub(super) async fn stop(server: &mut Server) -> anyhow::Result<()> {
    server.ask_to_stop()?;
    server.end().await.map(drop)
}

/// Returns what a server counts.
pub(super) async fn counters(server: &Server) -> anyhow::Result<Counters> {
    let shown = server.setting(shapes::METRICS_SETTING).and_then(|it| it.rsplit(':').next());
    let port = shown.context("the server was started without its figures")?.parse()?;
    let request = Request::get(shapes::METRICS).header(header::HOST, "localhost");
    let answer = Connection::open(port).await?.exchange(request.body(Full::default())?).await?;
    anyhow::ensure!(answer.status().is_success(), "{}", quoted("GET /metrics", &answer));
    Counters::read(&String::from_utf8_lossy(answer.body()))
}
