//! A server with receivers that behave badly in every way at once, beside two that are well: each
//! attempt ends by its deadline, memory stays what it was, and the healthy ones notice nothing.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use redial::clock::Clock as _;
use serde_json::{Value, json};
use testkit::server::resident_bytes;

use super::books::{Books, Findings};
use super::client::Client;
use super::modes::{Bad, Mode};
use super::payload::{message, payload};
use super::receiver::{Arrival, Manner};
use super::scene::{EVERYBODY, Endpoint, Ground, Scene};
use super::senders::{Ledger, Plan};

/// By when every attempt must have ended.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);
/// How many messages the bad ones get. Each is tried again and again.
const MESSAGES: u64 = 6;
/// Makes a payload of some hundred kilobytes: more than a receiver that does not read can buffer.
const PADDING: usize = 50_000;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long the attempts may take that are waited for, in looks: a minute and a half.
const MOST_LOOKS: u32 = 450;

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// How long it lasts at least.
    pub(crate) span: Duration,
    /// How many attempts each bad receiver must have seen.
    pub(crate) attempts: usize,
}

/// What became of the attempts of one bad receiver.
#[derive(Debug)]
struct Met {
    mode: Mode,
    attempts: usize,
    shortest: Duration,
    longest: Duration,
    /// What was recorded of the last.
    outcome: String,
    /// Whether one succeeded, which none should.
    succeeded: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Report {
    met: Vec<Met>,
    /// The server's resident memory, in bytes, look by look.
    memory: Vec<u64>,
    healthy: Findings,
    /// From acknowledgement to arrival, the slowest of a hundred and the slowest of all.
    latency: (Duration, Duration),
    pub(crate) faults: Vec<String>,
}

/// Lets a server meet bad receivers.
pub(crate) async fn run(ground: &Ground, order: Order) -> anyhow::Result<Report> {
    let scene = Scene::open(ground, 1, vec![Endpoint::of(Manner::Steady); 2]).await?;
    let mut client = Client::of(scene.nodes[0].port());
    let application = client.create("/app", &json!({ "name": "bad" })).await?;
    let (mut receivers, mut ids) = (Vec::new(), Vec::new());
    for mode in Mode::ALL {
        let bad = Bad::start(mode).await?;
        let path = format!("/app/{application}/endpoint");
        ids.push(client.create(&path, &describe(&bad.url())).await?);
        receivers.push(bad);
    }
    let channels: fn(u64) -> &'static [&'static str] = |_| &[EVERYBODY];
    let senders = scene.send(Plan {
        application: scene.application.clone(),
        ports: scene.ports(),
        senders: 2,
        pace: Duration::from_millis(50),
        channels,
        padding: 0,
    });
    for number in 0..MESSAGES {
        let large = message(&payload(number, PADDING), &[EVERYBODY]);
        let answer = client.send(&application, large, &format!("bad-{number}")).await?;
        anyhow::ensure!(answer.status.is_success(), "a large message got {}", answer.status);
    }
    let (began, server) = (scene.clock.now(), scene.nodes[0].process());
    let mut memory = Vec::new();
    let mut met = Vec::new();
    for look in 1.. {
        tokio::time::sleep(LOOK).await;
        memory.push(resident_bytes(server).context("the kernel tells no memory")?);
        if scene.clock.now().since(began) >= order.span && look % 5 == 0 {
            met = meet(&mut client, &application, &ids).await?;
            let enough = met.iter().all(|met| met.attempts >= order.attempts);
            if enough || look > MOST_LOOKS {
                break;
            }
        }
    }
    let ledger = senders.stop().await?;
    scene.drain(&ledger, channels).await?;
    let arrivals = scene.receiver.arrivals();
    let (endpoints, outages) = (&scene.endpoints, &[][..]);
    let books = Books { endpoints, channels, ledger: &ledger, arrivals: &arrivals, outages };
    let (healthy, latency) = (books.compare(), latency(&ledger, &arrivals));
    let mut faults = scene.receiver.faults();
    faults.extend(ledger.faults);
    faults.extend(scene.close().await?);
    Ok(Report { met, memory, healthy, latency, faults })
}

fn describe(url: &str) -> Value {
    json!({
        "url": url,
        "channels": [EVERYBODY],
        "policy": {
            "extends": "redial",
            "policy": {
                "max_attempts": 1000,
                "schedule": { "kind": "exponential", "base": "200ms", "factor": 1, "cap": "200ms" },
                "timeouts": { "connect": "1s", "whole": "2s" },
            },
            "endpoint": {
                "breaker": "off",
                "disable": { "permanent_streak": "never", "without_success": "never" },
            },
        },
    })
}

/// Reads what was recorded of the attempts so far.
async fn meet(client: &mut Client, application: &str, ids: &[String]) -> anyhow::Result<Vec<Met>> {
    let mut all = Vec::new();
    for (mode, id) in Mode::ALL.into_iter().zip(ids) {
        let path = format!("/app/{application}/attempt/endpoint/{id}?limit=250");
        let page = client.ask(&path).await?;
        let attempts = page["data"].as_array().map_or(&[][..], Vec::as_slice);
        let times = attempts.iter().filter_map(|it| it["responseDurationMs"].as_u64());
        let times: Vec<Duration> = times.map(Duration::from_millis).collect();
        let outcome = attempts.first().map_or_else(String::new, |last| {
            format!("{} {}", last["responseStatusCode"], last["error"].as_str().unwrap_or("-"))
        });
        all.push(Met {
            mode,
            attempts: attempts.len(),
            shortest: times.iter().min().copied().unwrap_or_default(),
            longest: times.iter().max().copied().unwrap_or_default(),
            outcome,
            succeeded: attempts.iter().any(|it| it["status"] == 0),
        });
    }
    Ok(all)
}

fn latency(ledger: &Ledger, arrivals: &[Arrival]) -> (Duration, Duration) {
    let took = |arrival: &Arrival| {
        let entry = ledger.entries.get(&arrival.number);
        entry.map(|entry| arrival.at.since(entry.acknowledged))
    };
    let mut all: Vec<Duration> = arrivals.iter().filter_map(took).collect();
    all.sort_unstable();
    let slow = all.get(all.len() * 99 / 100).copied().unwrap_or_default();
    (slow, all.last().copied().unwrap_or_default())
}

impl Report {
    /// Tells whether nothing went wrong, however fast the machine is.
    pub(crate) fn is_good(&self) -> bool {
        let bad = |met: &Met| met.attempts > 0 && !met.succeeded;
        // What hangs was not given up early, either; connecting has half of the time.
        let waits = |met: &Met| !met.mode.hangs() || met.shortest >= DEADLINE.mul_f64(0.4);
        self.met.iter().all(|met| bad(met) && waits(met))
            && self.healthy.is_good()
            && self.healthy.duplicates == 0
            && self.faults.is_empty()
    }

    /// Returns by how much the slowest attempt missed its deadline.
    pub(crate) fn overrun(&self) -> Duration {
        let longest = self.met.iter().map(|met| met.longest).max().unwrap_or_default();
        longest.saturating_sub(DEADLINE)
    }

    /// Returns the memory of the last third as a multiple of that of the middle third.
    pub(crate) fn growth(&self) -> f64 {
        let third = self.memory.len() / 3;
        let median = |range: &[u64]| {
            let mut range = range.to_vec();
            range.sort_unstable();
            range.get(range.len() / 2).copied().unwrap_or(1)
        };
        real(median(&self.memory[2 * third..])) / real(median(&self.memory[third..2 * third]))
    }

    /// Returns the most memory that was seen, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.memory.iter().max().copied().unwrap_or_default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 bytes of memory")]
fn real(bytes: u64) -> f64 {
    bytes.max(1) as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Met { mode, attempts, shortest, longest, outcome, .. } in &self.met {
            let mode = format!("{mode:?}");
            writeln!(
                f,
                "{mode:<15} {attempts:>3} attempts, {shortest:?} to {longest:?}: {outcome}"
            )?;
        }
        writeln!(f, "deadline        {DEADLINE:?}, missed by {:?}", self.overrun())?;
        writeln!(
            f,
            "memory          {} KiB at most; last third ÷ middle third {:.3}",
            self.peak() / 1_024,
            self.growth()
        )?;
        writeln!(
            f,
            "healthy         from 202 to arrival: p99 {:?}, longest {:?}",
            self.latency.0, self.latency.1
        )?;
        write!(f, "{}", self.healthy)?;
        write!(f, "faults          {}", self.faults.len())?;
        self.faults.iter().take(20).try_for_each(|text| write!(f, "\n  {text}"))
    }
}
