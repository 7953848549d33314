//! Endpoints with limits get more than they may, while partitions go from server to server and
//! back: what the receivers see of it, at a time and in any second.
//!
//! Both are exact. At a time: a request counts from when it arrives until it is answered or its
//! sender is gone. In a second: the limiter allows for requests that are [`ON_THE_WAY`] for a while.
//! On a busy machine some take longer from server to receiver; these count from the latest moment at
//! which they should have been there. When each began is in its attempt's record.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use domain::rate::ON_THE_WAY;
use domain::time::Timestamp;
use redial::clock::Clock as _;
use store::limits::LEASE;

use super::books::{Books, Findings, Outage};
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
const SECOND: Duration = Duration::from_secs(1);

/// What one endpoint saw.
#[derive(Debug)]
struct Seen {
    in_flight: u32,
    rate: u32,
    most_at_a_time: u32,
    most_in_a_second: usize,
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
    let endpoint = |(in_flight, rate): (u32, u32)| {
        let endpoint = Endpoint { in_flight, rate, ..Endpoint::of(TAKES) };
        std::iter::repeat_n(endpoint, EACH)
    };
    let ordered = Endpoint { fifo: true, ..Endpoint::of(TAKES) };
    let kinds = KINDS.into_iter().flat_map(endpoint);
    let endpoints = kinds.chain(std::iter::repeat_n(ordered, EACH)).collect();
    let mut scene = Scene::open(ground, NODES, endpoints).await?;
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
        scene.nodes[node].kill()?;
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
    let seen = seen(&scene, &arrivals, &began(&scene).await?);
    let changes_of_owner = scene.changes_of_owner().await?;
    let mut faults = scene.receiver.faults();
    faults.extend(ledger.faults.iter().cloned());
    faults.extend(scene.close().await?);
    let (stops, kills, stalls) = (rounds, outages.len(), stalls.len());
    Ok(Report { seen, stops, kills, stalls, changes_of_owner, findings, faults })
}

/// When the recorded attempts of each delivery began, by endpoint and message.
type Began = BTreeMap<(String, String), Vec<Timestamp>>;

async fn began(scene: &Scene) -> anyhow::Result<Began> {
    let mut began = Began::new();
    for attempt in scene.attempts().await? {
        began.entry((attempt.endpoint, attempt.message)).or_default().push(attempt.began_at);
    }
    Ok(began)
}

fn seen(scene: &Scene, arrivals: &[Arrival], began: &Began) -> Vec<Seen> {
    let one = |(number, endpoint): (usize, &Endpoint)| {
        let own = arrivals.iter().filter(|it| it.endpoint == number);
        let mut times: Vec<Timestamp> = own
            .map(|it| {
                let key = (scene.ids[number].clone(), it.message.clone());
                should_have_arrived(it.at, began.get(&key).map_or(&[], Vec::as_slice))
            })
            .collect();
        times.sort_unstable();
        Seen {
            in_flight: if endpoint.fifo { 1 } else { endpoint.in_flight },
            rate: endpoint.rate,
            most_at_a_time: scene.receiver.most_at_a_time(number),
            most_in_a_second: most_in_a_second(times.into_iter()),
        }
    };
    scene.endpoints.iter().enumerate().map(one).collect()
}

/// Returns when a request arrived, or should have at the latest. What was interrupted has no record,
/// and counts as it arrived.
fn should_have_arrived(at: Timestamp, began: &[Timestamp]) -> Timestamp {
    let last = began.iter().filter(|began| **began <= at).max();
    last.map_or(at, |began| at.min(began.after(ON_THE_WAY)))
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
        self.most_at_a_time <= self.in_flight
            && usize::try_from(self.rate).is_ok_and(|most| self.most_in_a_second <= most)
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
            if let Some(Seen { in_flight, rate, .. }) = kind.first() {
                writeln!(
                    f,
                    "limits          {in_flight} in flight: {most} seen; {rate} per second: \
                     {second} seen"
                )?;
            }
        }
        write!(f, "{}", self.findings)?;
        write!(f, "faults          {}", self.faults.len())?;
        self.faults.iter().take(20).try_for_each(|text| write!(f, "\n  {text}"))
    }
}
