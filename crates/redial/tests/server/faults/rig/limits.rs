//! Endpoints with limits get more than they may, while partitions go from server to server and
//! back: what the receivers see of it, at a time and in any second.
//!
//! At a time: a request counts from when it arrives until it is answered or its sender is gone.
//!
//! In a second: both figures are shown. As they came, requests count from when the receiver has read
//! them; this must be kept where each comes on a connection of its own, and there connections wait
//! before they are taken in. On a connection that is used again, requests may be [`ON_THE_WAY`] for a
//! while. On a busy machine this receiver reads some of them later than that; these count from the
//! latest moment at which they should have been there, which follows from when they were written.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use domain::rate::ON_THE_WAY;
use domain::time::Timestamp;
use redial::clock::Clock as _;
use store::limits::LEASE;

use super::books::{Books, Findings, Outage};
use super::database::Attempt;
use super::process;
use super::receiver::{Arrival, Manner};
use super::scene::{EVERYBODY, Endpoint, Ground, Scene};
use super::senders::Plan;

const NODES: usize = 2;
/// How many endpoints of each kind there are, so that each server has some.
const EACH: usize = 3;
/// How long the receivers take for each, in milliseconds.
const TAKES: Manner = Manner::Slow(60, 160);
/// In flight and per second.
const KINDS: [(u32, u32); 4] = [(1, 10_000), (4, 10_000), (2, 10), (6, 30)];
/// The same of those at the door where connections wait.
const RELUCTANT: (u32, u32) = (10, 10);
const SECOND: Duration = Duration::from_secs(1);

/// What one endpoint saw.
#[derive(Debug)]
struct Seen {
    in_flight: u32,
    rate: u32,
    most_at_a_time: u32,
    /// The most in a second, as they came.
    as_they_came: usize,
    /// The most in a second, as they should have come.
    most_in_a_second: usize,
    /// Whether each request came on a connection of its own.
    alone: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Report {
    seen: Vec<Seen>,
    stops: u32,
    kills: usize,
    changes_of_owner: i64,
    stalls: usize,
    findings: Findings,
    faults: Vec<String>,
}

/// Hands partitions over so many times each way.
pub(crate) async fn run(ground: &Ground, rounds: u32) -> anyhow::Result<Report> {
    let mut scene = Scene::open(ground, NODES, endpoints()).await?;
    let senders = scene.send(Plan {
        application: scene.application.clone(),
        ports: scene.ports(),
        senders: 4,
        pace: Duration::from_millis(60),
        channels: |_| &[EVERYBODY],
        padding: 0,
    });
    let mut outages = Vec::new();
    for round in 0..rounds {
        let node = usize::try_from(round)? % NODES;
        scene.shared_out().await?;
        scene.nodes[node].stop().await?;
        tokio::time::sleep(SECOND * 2).await;
        scene.nodes[node].restart().await?;
        scene.shared_out().await?;
        let from = scene.clock.now();
        process::kill(&mut scene.nodes[node])?;
        // The other takes over before the killed one is back to take its share again.
        tokio::time::sleep(LEASE + SECOND * 3).await;
        scene.nodes[node].restart().await?;
        outages.push(Outage { from, to: scene.clock.now(), times: 1 });
    }
    scene.shared_out().await?;
    let ledger = senders.stop().await?;
    let arrivals = scene.receiver.arrivals();
    let (endpoints, ledger) = (&scene.endpoints, &ledger);
    let channels = |_| &[EVERYBODY][..];
    let stalls = scene.stalls();
    let excuses = [&outages[..], &stalls].concat();
    let books = Books { endpoints, channels, ledger, arrivals: &arrivals, outages: &excuses };
    let mut findings = books.compare();
    // There is more than the limits let through, so much of it still waits.
    findings.lost.clear();
    let seen = seen(&scene, &arrivals, &recorded(&scene).await?);
    let changes_of_owner = scene.changes_of_owner().await?;
    let mut faults = scene.receiver.faults();
    faults.extend(ledger.faults.iter().cloned());
    faults.extend(scene.close().await?);
    let (stops, kills, stalls) = (rounds, outages.len(), stalls.len());
    Ok(Report { seen, stops, kills, stalls, changes_of_owner, findings, faults })
}

fn endpoints() -> Vec<Endpoint> {
    let limited = |(in_flight, rate), manner| Endpoint { in_flight, rate, ..Endpoint::of(manner) };
    let mut kinds: Vec<Endpoint> = KINDS.into_iter().map(|kind| limited(kind, TAKES)).collect();
    kinds.push(limited(RELUCTANT, Manner::Reluctant));
    kinds.push(Endpoint { fifo: true, ..Endpoint::of(TAKES) });
    kinds.into_iter().flat_map(|endpoint| std::iter::repeat_n(endpoint, EACH)).collect()
}

/// The attempts on record of each delivery, by endpoint and message.
type Recorded = BTreeMap<(String, String), Vec<Attempt>>;

async fn recorded(scene: &Scene) -> anyhow::Result<Recorded> {
    let mut recorded = Recorded::new();
    for attempt in scene.attempts().await? {
        let key = (attempt.endpoint.clone(), attempt.message.clone());
        recorded.entry(key).or_default().push(attempt);
    }
    Ok(recorded)
}

fn seen(scene: &Scene, arrivals: &[Arrival], recorded: &Recorded) -> Vec<Seen> {
    let one = |(number, endpoint): (usize, &Endpoint)| {
        let own = arrivals.iter().filter(|it| it.endpoint == number);
        let (mut came, mut should): (Vec<Timestamp>, Vec<Timestamp>) = own
            .map(|it| {
                let key = (scene.ids[number].clone(), it.message.clone());
                let attempts = recorded.get(&key).map_or(&[][..], Vec::as_slice);
                (it.at, should_have_arrived(it.at, attempts))
            })
            .unzip();
        came.sort_unstable();
        should.sort_unstable();
        Seen {
            in_flight: if endpoint.fifo { 1 } else { endpoint.in_flight },
            rate: endpoint.rate,
            most_at_a_time: scene.receiver.most_at_a_time(number),
            as_they_came: most_in_a_second(came.into_iter()),
            most_in_a_second: most_in_a_second(should.into_iter()),
            alone: matches!(endpoint.manner, Manner::Reluctant),
        }
    };
    scene.endpoints.iter().enumerate().map(one).collect()
}

/// Returns when a request arrived, or should have at the latest. What was interrupted has no record,
/// and counts as it arrived.
fn should_have_arrived(at: Timestamp, attempts: &[Attempt]) -> Timestamp {
    let begun = attempts.iter().filter(|attempt| attempt.began_at <= at);
    let last = begun.max_by_key(|attempt| attempt.began_at);
    last.map_or(at, |attempt| at.min(attempt.written_at.after(ON_THE_WAY)))
}

/// Returns the most moments that lie within less than a second.
fn most_in_a_second(times: impl Iterator<Item = Timestamp>) -> usize {
    let mut window = VecDeque::new();
    let mut most = 0;
    for at in times {
        window.push_back(at);
        while window.front().is_some_and(|first| at.since(*first) >= SECOND) {
            window.pop_front();
        }
        most = most.max(window.len());
    }
    most
}

impl Seen {
    fn is_good(&self) -> bool {
        let counted = if self.alone { self.as_they_came } else { self.most_in_a_second };
        self.most_at_a_time <= self.in_flight
            && usize::try_from(self.rate).is_ok_and(|most| counted <= most)
    }
}

impl Report {
    /// Tells whether every limit was kept, and nothing else went wrong.
    pub(crate) fn is_good(&self) -> bool {
        let busy = self.seen.iter().all(|seen| seen.most_at_a_time > 0);
        let kept = self.seen.iter().all(Seen::is_good);
        busy && kept && self.findings.is_good() && self.faults.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "handed over     {} times by a stop, {} by a kill", self.stops, self.kills)?;
        writeln!(f, "owners changed  {} times, {} stalls", self.changes_of_owner, self.stalls)?;
        for kind in self.seen.chunks(EACH) {
            let most = kind.iter().map(|it| it.most_at_a_time).max().unwrap_or(0);
            let second = kind.iter().map(|it| it.most_in_a_second).max().unwrap_or(0);
            let came = kind.iter().map(|it| it.as_they_came).max().unwrap_or(0);
            if let Some(Seen { in_flight, rate, .. }) = kind.first() {
                writeln!(
                    f,
                    "limits          {in_flight} in flight: {most} seen; {rate} per second: \
                     {came} seen as they came, {second} as they should have"
                )?;
            }
        }
        write!(f, "{}", self.findings)?;
        write!(f, "faults          {}", self.faults.len())?;
        self.faults.iter().take(20).try_for_each(|text| write!(f, "\n  {text}"))
    }
}
