//! The database is restarted under a fleet at work, as after a crash of its own. The servers stay,
//! recover by themselves, and meanwhile tell senders to come later.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redial::clock::Clock as _;

use super::books::Outage;
use super::kills::{self, channels, endpoints};
use super::scene::{Ground, Scene};
use super::senders::Plan;

/// How much is done.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// The program that restarts the database at once.
    pub(crate) restart: PathBuf,
    pub(crate) nodes: usize,
    pub(crate) restarts: u32,
    /// How long the database lives in between.
    pub(crate) every: Duration,
    pub(crate) senders: u64,
}

/// What came of it: as with kills, of the database.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) report: kills::Report,
    /// How long each restart took, at most.
    longest: Duration,
}

/// Restarts the database.
pub(crate) async fn run(ground: &Ground, order: Order) -> anyhow::Result<Report> {
    let scene = Scene::open(ground, order.nodes, endpoints()).await?;
    let senders = scene.send(Plan {
        application: scene.application.clone(),
        ports: scene.ports(),
        senders: order.senders,
        pace: Duration::from_millis(20),
        channels,
        padding: 0,
    });
    let mut outages = Vec::new();
    for _ in 0..order.restarts {
        tokio::time::sleep(order.every).await;
        let from = scene.clock.now();
        restart(&order.restart).await?;
        outages.push(Outage { from, to: scene.clock.now(), times: 1 });
    }
    let ledger = senders.stop().await?;
    scene.drain(&ledger, channels).await?;
    let longest = outages.iter().map(|it| it.to.since(it.from)).max().unwrap_or_default();
    Ok(Report { report: kills::conclude(scene, ledger, &outages).await?, longest })
}

async fn restart(program: &Path) -> anyhow::Result<()> {
    let program = program.to_owned();
    let running = move || std::process::Command::new(program).status();
    let status = tokio::task::spawn_blocking(running).await??;
    anyhow::ensure!(status.success(), "the database does not start: {status}");
    Ok(())
}

impl Report {
    /// Tells whether every promise was kept; and a server that was there has always answered.
    pub(crate) fn is_good(&self) -> bool {
        self.report.is_good() && self.report.ledger.unanswered == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "restarts        of the database, {:?} at most", self.longest)?;
        write!(f, "{}", self.report)
    }
}
