//! Many deliveries that wait: what they take of memory and disk, how soon the first one is sent
//! after the server was killed and started again, and how fast they drain.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::Scenario;
use crate::bench::client::{Closed, Limit};
use crate::bench::customer::{EVERYBODY, Ingest, messages};
use crate::bench::figure::{Bound, Figure, Unit, seconds};
use crate::bench::plan::Kills;
use crate::bench::receiver::Group;
use crate::bench::site::{PATIENCE, Site};
use crate::bench::usage::{most_resident_bytes, resident_bytes};
use crate::bench::{Bench, per_second, real};
use crate::words::grouped;

const SCENARIO: Scenario = Scenario::Backlog;
/// The endpoints for which they wait.
const ENDPOINTS: usize = 10;
/// The messages in a batch.
const BATCH: usize = 100;
/// They are handed in, and drained, in so many steps, so that it can be seen how far it is.
const STEPS: u32 = 20;
/// The connections that hand them in.
const CONNECTIONS: usize = 8;
/// The share that is sent before the server is killed, as a divisor.
const SENT_BEFORE: u64 = 50;
/// What the kernel still holds of a killed server's requests has arrived after this time.
const LAST_BYTES: Duration = Duration::from_millis(100);
/// How often it is looked whether anything still waits.
const LOOK: Duration = Duration::from_millis(20);
/// The most memory with a million waiting.
const MOST_BYTES: f64 = 250e6;
/// The longest until the first is sent after a restart, in seconds.
const LONGEST_START: f64 = 2.0;

/// Endpoints with deliveries that wait.
struct Waiting {
    site: Site,
    application: String,
    endpoints: Vec<String>,
    deliveries: u64,
    /// The most memory that any server had which has ended.
    most: f64,
}

/// How a server ends before it is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It was asked to.
    Stopped,
    /// It was not.
    Killed,
}

/// Measures a backlog.
pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    bench.progress.steps(2 * STEPS + 1);
    let mut waiting = Waiting::open(bench).await?;
    let accepted = waiting.fill(bench).await?;
    let resident = waiting.resident()?;
    let bytes = real(waiting.site.bytes().await?);
    bench.receiver.forget();
    waiting.resume().await?;
    bench.receiver.wait_for(Group::Steady, waiting.deliveries / SENT_BEFORE, PATIENCE).await?;
    bench.progress.step("starting again");
    let spared = bench.on_postgres() && bench.plan.kills == Kills::NoneOfFleets;
    let killed = if spared { None } else { Some(waiting.restart(bench, Ending::Killed).await?) };
    let first = match killed {
        Some(killed) if !bench.on_postgres() => killed,
        // A fleet cannot know that a killed node is gone before its lease has run out.
        Some(_) | None => waiting.restart(bench, Ending::Stopped).await?,
    };
    let restarted = waiting.resident()?;
    let drained = waiting.drain(bench).await?;
    let after = waiting.resident()?;
    waiting.remember_memory()?;
    waiting.site.close(&bench.clock).await?;
    let once = |name: &str, unit, value| Figure::once(SCENARIO, name, unit, value);
    let full = bench.plan.is_full(|plan| plan.backlog);
    let pending = |what: &str| format!("{what} with {} pending", grouped(waiting.deliveries));
    let start = pending("first send after a restart");
    let memory = pending("most resident memory");
    let mut figures = vec![
        once(&start, Unit::Time, seconds(first)).within_if(full, Bound::AtMost(LONGEST_START)),
        once(&memory, Unit::Bytes, waiting.most).within_if(full, Bound::AtMost(MOST_BYTES)),
        once("deliveries that waited", Unit::Count, real(waiting.deliveries)),
        once("deliveries accepted to wait", Unit::PerSecond, accepted),
        once("deliveries drained", Unit::PerSecond, drained),
        once("resident memory while they wait", Unit::Bytes, resident),
        once("resident memory after the restart", Unit::Bytes, restarted),
        once("resident memory after draining", Unit::Bytes, after),
        once("bytes on disk while they wait", Unit::Bytes, bytes),
    ];
    let killed = killed.map(|killed| once("first send after a kill", Unit::Time, seconds(killed)));
    figures.extend(killed);
    Ok(figures)
}

impl Waiting {
    async fn open(bench: &Bench<'_>) -> anyhow::Result<Self> {
        bench.receiver.forget();
        let mut site = Site::open(bench, "backlog").await?;
        let application = site.customer.application("waiting").await?;
        let mut endpoints = Vec::new();
        for endpoint in 0..ENDPOINTS {
            let url = bench.receiver.url(Group::Steady, endpoint);
            let id = site.customer.endpoint(&application, &url, &[]).await?;
            site.customer.pause(&application, &id).await?;
            endpoints.push(id);
        }
        Ok(Self { site, application, endpoints, deliveries: 0, most: 0.0 })
    }

    /// Hands everything in, and returns the deliveries per second.
    async fn fill(&mut self, bench: &Bench<'_>) -> anyhow::Result<f64> {
        let each = u64::try_from(ENDPOINTS)?;
        let source = messages(&self.application, Ingest::Batch(BATCH), &EVERYBODY)?;
        let mut took = Duration::ZERO;
        for _ in 0..STEPS {
            bench.progress.step(&format!("filling it with {}", bench.plan.backlog));
            let load = Closed {
                port: self.site.server.port(),
                connections: CONNECTIONS,
                source: Arc::clone(&source),
                limit: Limit::Messages(bench.plan.backlog.div_ceil(each * u64::from(STEPS))),
            };
            let sent = load.run(&bench.clock).await?;
            self.deliveries += sent.messages * each;
            took += sent.ended.since(sent.began);
        }
        let rate = per_second(self.deliveries, took);
        bench.say(&format!("{} deliveries wait, accepted at {rate:.0}/s", self.deliveries));
        anyhow::ensure!(
            bench.receiver.arrived(Group::Steady) == 0,
            "a paused endpoint was sent to"
        );
        Ok(rate)
    }

    async fn resume(&mut self) -> anyhow::Result<()> {
        for endpoint in &self.endpoints {
            self.site.customer.resume(&self.application, endpoint).await?;
        }
        Ok(())
    }

    /// Ends the server, starts it again, and returns how long the first delivery took from then.
    async fn restart(&mut self, bench: &Bench<'_>, ending: Ending) -> anyhow::Result<Duration> {
        self.remember_memory()?;
        match ending {
            Ending::Stopped => self.site.server.stop(&bench.clock).await?,
            Ending::Killed => self.site.server.kill()?,
        }
        tokio::time::sleep(LAST_BYTES).await;
        let before = bench.receiver.arrived(Group::Steady);
        let began = bench.clock.now();
        self.site.server.respawn()?;
        bench.receiver.wait_for(Group::Steady, before + 1, PATIENCE).await?;
        let first = bench.clock.now().since(began);
        self.site.after_restart(bench).await?;
        let text = Unit::Time.format(seconds(first));
        bench.say(&format!("restarted after {before}; the first was sent after {text}"));
        Ok(first)
    }

    /// Waits until everything has arrived, and returns the deliveries per second.
    async fn drain(&self, bench: &Bench<'_>) -> anyhow::Result<f64> {
        let (began, before) = (bench.clock.now(), bench.receiver.arrived(Group::Steady));
        let left = self.deliveries.saturating_sub(before);
        for step in 1..=STEPS {
            bench.progress.step("draining it");
            let arrived = before + left * u64::from(step) / u64::from(STEPS);
            bench.receiver.wait_for(Group::Steady, arrived, PATIENCE).await?;
        }
        self.all_settled(bench).await?;
        let elapsed = bench.receiver.last_arrival(Group::Steady).since(began);
        let rate = per_second(left, elapsed);
        bench.say(&format!("drained at {rate:.0}/s"));
        Ok(rate)
    }

    /// Waits until nothing is left to be sent, and makes sure that everybody has got everything. What
    /// was sent and not written down before the kill has arrived twice, so a number of arrivals says
    /// nothing about the last few.
    async fn all_settled(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let began = bench.clock.now();
        loop {
            let counters = self.site.counters().await?;
            anyhow::ensure!(counters.dead == 0.0, "{} deliveries are dead", counters.dead);
            if counters.waiting == 0.0 {
                break;
            }
            let patient = bench.clock.now().since(began) < PATIENCE;
            anyhow::ensure!(patient, "{} endpoints still wait", counters.waiting);
            tokio::time::sleep(LOOK).await;
        }
        let messages = self.deliveries / u64::try_from(ENDPOINTS)?;
        for (endpoint, got) in
            bench.receiver.per_endpoint(Group::Steady, ENDPOINTS).into_iter().enumerate()
        {
            anyhow::ensure!(
                got >= messages,
                "endpoint {endpoint} got {got} of {messages} messages"
            );
        }
        Ok(())
    }

    fn resident(&self) -> anyhow::Result<f64> {
        let bytes = resident_bytes(self.site.server.process());
        bytes.map(real).context("the server's memory cannot be read")
    }

    /// Keeps in mind what the server had at most, before it ends.
    fn remember_memory(&mut self) -> anyhow::Result<()> {
        let bytes = most_resident_bytes(self.site.server.process());
        let bytes = bytes.map(real).context("the server's memory cannot be read")?;
        self.most = self.most.max(bytes);
        Ok(())
    }
}
