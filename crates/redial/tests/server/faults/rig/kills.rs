//! Servers are killed at random moments under load, again and again. Then the books are compared.

use std::fmt;
use std::time::Duration;

use redial::clock::Clock as _;
use store::limits::LEASE;

use super::books::{Books, Findings, Outage};
use super::chance::Chance;
use super::process;
use super::receiver::Manner;
use super::scene::{EVERYBODY, Endpoint, Ground, Scene};
use super::senders::{Ledger, Plan};

/// A server lives at least and at most so many milliseconds after it was ready.
const LIFE: (u64, u64) = (50, 1_500);
/// In a fleet the lease of the killed must run out before others send for it. In every fifth cycle
/// it gets the time, and every other time of these a server is frozen for as long.
const CYCLES_PER_LEASE: u32 = 5;
const LONGER_THAN_A_LEASE: Duration = LEASE.saturating_add(Duration::from_secs(2));
/// What a thawed server gets before somebody is killed again: time to renew its lease.
const RECOVERY: Duration = Duration::from_secs(3);
/// One server in so many is killed once more, so many milliseconds after it was started.
const STARTS_PER_KILL: u64 = 4;
const STARTING: (u64, u64) = (0, 100);
/// The channel of the endpoint that keeps the order; it gets one message in eight.
const ORDERED: &str = "ordered";

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// Servers: one on SQLite, some on PostgreSQL.
    pub(crate) nodes: usize,
    pub(crate) cycles: u32,
    pub(crate) senders: u64,
    /// The wait of each sender between two messages.
    pub(crate) pace: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) kills: usize,
    /// Leases that a living server could not renew in time.
    pub(crate) stalls: usize,
    pub(crate) changes_of_owner: i64,
    pub(crate) ledger: Ledger,
    pub(crate) findings: Findings,
    /// Whatever else is not as it should be.
    pub(crate) faults: Vec<String>,
}

/// Kills servers.
pub(crate) async fn run(ground: &Ground, order: Order) -> anyhow::Result<Report> {
    let mut scene = Scene::open(ground, order.nodes, endpoints()).await?;
    let senders = scene.send(Plan {
        application: scene.application.clone(),
        ports: scene.ports(),
        senders: order.senders,
        pace: order.pace,
        channels,
        padding: 0,
    });
    let mut chance = Chance::new(ground.seed);
    let mut outages = Vec::new();
    for cycle in 1..=order.cycles {
        tokio::time::sleep(chance.millis(LIFE)).await;
        let node = usize::try_from(chance.below(u64::try_from(order.nodes)?))?;
        let long = order.nodes > 1 && cycle % CYCLES_PER_LEASE == 0;
        if long && cycle % (2 * CYCLES_PER_LEASE) == 0 {
            // It comes back after another has taken over from it, and must see that for itself.
            process::freeze(&scene.nodes[node], LONGER_THAN_A_LEASE).await?;
            tokio::time::sleep(RECOVERY).await;
        } else if long {
            tokio::time::sleep(LONGER_THAN_A_LEASE).await;
        }
        let from = scene.clock.now();
        process::kill(&mut scene.nodes[node])?;
        let twice = chance.below(STARTS_PER_KILL) == 0;
        if twice {
            process::restart_twice(&mut scene.nodes[node], chance.millis(STARTING)).await?;
        } else {
            scene.nodes[node].restart().await?;
        }
        let times = if twice { 2 } else { 1 };
        outages.push(Outage { from, to: scene.clock.now(), times });
    }
    let ledger = senders.stop().await?;
    scene.drain(&ledger, channels).await?;
    conclude(scene, ledger, &outages).await
}

pub(crate) async fn conclude(
    scene: Scene,
    ledger: Ledger,
    outages: &[Outage],
) -> anyhow::Result<Report> {
    let changes_of_owner = scene.changes_of_owner().await?;
    let mut faults = scene.dead_letters().await?;
    let arrivals = scene.receiver.arrivals();
    let endpoints = &scene.endpoints;
    let stalls = scene.stalls();
    let excuses = [outages, &stalls].concat();
    let books =
        Books { endpoints, channels, ledger: &ledger, arrivals: &arrivals, outages: &excuses };
    let findings = books.compare();
    faults.extend(scene.receiver.faults());
    faults.extend(ledger.faults.iter().cloned());
    faults.extend(scene.close().await?);
    let (kills, stalls) = (outages.len(), stalls.len());
    Ok(Report { kills, stalls, changes_of_owner, ledger, findings, faults })
}

/// Somebody of each kind: those that are slow are found in flight by most kills.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    let ordered = Endpoint::of(Manner::Flaky(10));
    vec![
        Endpoint::of(Manner::Steady),
        Endpoint::of(Manner::Flaky(30)),
        Endpoint::of(Manner::Slow(5, 60)),
        Endpoint::of(Manner::Refuses),
        Endpoint { channel: ORDERED, fifo: true, ..ordered },
    ]
}

pub(crate) fn channels(number: u64) -> &'static [&'static str] {
    if number.is_multiple_of(8) { &[EVERYBODY, ORDERED] } else { &[EVERYBODY] }
}

impl Report {
    /// Tells whether every promise was kept.
    pub(crate) fn is_good(&self) -> bool {
        self.findings.is_good() && self.faults.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kills           {}", self.kills)?;
        writeln!(f, "owners changed  {} times, {} stalls", self.changes_of_owner, self.stalls)?;
        write!(f, "{}", self.findings)?;
        writeln!(
            f,
            "senders         {} times no answer, {} times asked to come later, slowest {:?}",
            self.ledger.unanswered, self.ledger.later, self.ledger.slowest
        )?;
        write!(f, "faults          {}", self.faults.len())?;
        self.faults.iter().take(20).try_for_each(|text| write!(f, "\n  {text}"))
    }
}
