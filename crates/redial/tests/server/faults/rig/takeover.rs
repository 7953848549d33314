//! A server of a fleet is killed, or stopped as planned: how long until another sends for it.
//!
//! Whose endpoints changed hands is read from the partitions' epochs. Messages go on all the time,
//! so the first arrival after the end of one server is the beginning of the other's work.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use redial::clock::Clock as _;

use super::chance::Chance;
use super::process;
use super::receiver::Manner;
use super::scene::{EVERYBODY, Endpoint, Ground, Scene};
use super::senders::Plan;

const ENDPOINTS: usize = 24;
const NODES: usize = 2;
/// What had been sent before the end may be read this much later.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// The longest wait before an end, in milliseconds.
const RHYTHM: (u64, u64) = (0, 2_000);
/// How long a take-over may take at most, in looks: a minute.
const MOST_LOOKS: u32 = 600;
const LOOK: Duration = Duration::from_millis(100);

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    Stopped,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The longest gap of each round, and how many endpoints had one.
    killed: Vec<(Duration, usize)>,
    stopped: Vec<(Duration, usize)>,
    stalls: usize,
    pub(crate) faults: Vec<String>,
}

/// Ends servers so many times each way, one after the other, and measures the gaps.
pub(crate) async fn run(ground: &Ground, rounds: u32, ends: &[End]) -> anyhow::Result<Report> {
    let endpoints = vec![Endpoint::of(Manner::Steady); ENDPOINTS];
    let mut scene = Scene::open(ground, NODES, endpoints).await?;
    let senders = scene.send(Plan {
        application: scene.application.clone(),
        ports: scene.ports(),
        senders: 2,
        pace: Duration::from_millis(50),
        channels: |_| &[EVERYBODY],
        padding: 0,
    });
    let mut report = Report::default();
    let mut chance = Chance::new(ground.seed);
    for round in 0..rounds {
        for end in ends {
            let node = usize::try_from(round)? % NODES;
            scene.shared_out().await?;
            // Leases are renewed in a rhythm, and the end should come anywhere in it.
            tokio::time::sleep(chance.millis(RHYTHM)).await;
            let gap = gap(&mut scene, node, *end).await?;
            match end {
                End::Killed => report.killed.push(gap),
                End::Stopped => report.stopped.push(gap),
            }
            // Nor should the two rhythms follow from each other.
            tokio::time::sleep(chance.millis(RHYTHM)).await;
            scene.nodes[node].restart().await?;
        }
    }
    let ledger = senders.stop().await?;
    report.stalls = scene.stalls().len();
    report.faults.extend(ledger.faults);
    report.faults.extend(scene.receiver.faults());
    report.faults.extend(scene.close().await?);
    Ok(report)
}

/// Ends a server; returns the longest time until another sent for one of its endpoints, and how
/// many of those there were.
async fn gap(scene: &mut Scene, node: usize, end: End) -> anyhow::Result<(Duration, usize)> {
    let before = scene.owners().await?;
    let count = scene.receiver.count();
    match end {
        End::Killed => process::kill(&mut scene.nodes[node])?,
        End::Stopped => scene.nodes[node].stop().await?,
    }
    let ended = scene.clock.now();
    for _ in 0..MOST_LOOKS {
        tokio::time::sleep(LOOK).await;
        let owners = scene.owners().await?;
        let owner = owners.first().map(|it| it.1.clone());
        if owners.iter().any(|it| Some(&it.1) != owner.as_ref() || it.1.is_none()) {
            continue;
        }
        let mut first = BTreeMap::new();
        for arrival in scene.receiver.arrivals().split_off(count) {
            if arrival.at > ended.after(ON_ITS_WAY) {
                first.entry(arrival.endpoint).or_insert(arrival.at.since(ended));
            }
        }
        let mut gaps = Vec::new();
        for endpoint in 0..ENDPOINTS {
            let partition = scene.partition(endpoint)?;
            if owners[partition].0 != before[partition].0 {
                gaps.push(first.get(&endpoint).copied());
            }
        }
        if gaps.iter().all(Option::is_some) {
            return Ok((gaps.iter().flatten().max().copied().unwrap_or_default(), gaps.len()));
        }
    }
    anyhow::bail!("nobody sends for the partitions of a server that ended")
}

impl Report {
    /// Tells whether somebody took over each time.
    pub(crate) fn is_good(&self) -> bool {
        let moved = |gaps: &[(Duration, usize)]| gaps.iter().any(|gap| gap.1 > 0);
        self.faults.is_empty() && (moved(&self.killed) || moved(&self.stopped))
    }

    /// Returns the longest gap after a kill.
    pub(crate) fn longest(&self) -> Duration {
        self.killed.iter().map(|gap| gap.0).max().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (how, gaps) in [("killed", &self.killed), ("stopped", &self.stopped)] {
            let mut times: Vec<Duration> = gaps.iter().map(|gap| gap.0).collect();
            times.sort_unstable();
            let median = times.get(times.len() / 2).copied().unwrap_or_default();
            let longest = times.last().copied().unwrap_or_default();
            let moved: usize = gaps.iter().map(|gap| gap.1).sum();
            writeln!(
                f,
                "{how:<15} {} times, {moved} endpoints moved; until the last of them was sent to \
                 again: median {median:?}, longest {longest:?}",
                gaps.len()
            )?;
        }
        writeln!(f, "stalls          {}", self.stalls)?;
        write!(f, "faults          {}", self.faults.len())?;
        self.faults.iter().take(20).try_for_each(|text| write!(f, "\n  {text}"))
    }
}
