//! Many deliveries that wait: what they take of memory and disk, how soon the first one is sent
//! after the server was killed and started again, and how fast they drain.
//!
//! Each is of a message of its own, so that no payload is shared. A few more wait than are asked for:
//! some are sent before each restart, and as many as were asked for must still be pending then.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use host::words::grouped;
use testkit::server::{most_resident_bytes, resident_bytes};

use super::Scenario;
use crate::client::{Closed, Limit, Taken};
use crate::customer::Ingest;
use crate::figure::{Bound, Figure, Unit, seconds};
use crate::plan::{Kills, Plan};
use crate::process;
use crate::receiver::Group;
use crate::shapes;
use crate::site::{Flow, PATIENCE, Site, Turns};
use crate::{Bench, per_second, real};

const SCENARIO: Scenario = Scenario::Backlog;
/// The endpoints for which they wait.
const ENDPOINTS: usize = 10;
/// The messages in a batch.
const BATCH: usize = 100;
/// They are handed in, and drained, in so many steps, so that it can be seen how far it is.
const STEPS: u32 = 20;
/// The connections that hand them in.
const CONNECTIONS: usize = 8;
/// The share that is sent before each restart, as a divisor: enough to see that it is at work.
const SENT_BEFORE: u64 = 200;
/// The share by which more wait than are asked for, as a divisor.
const SPARE: u64 = 10;
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
    turns: Turns,
    /// What is handed in.
    flow: Flow,
    /// What was handed in; each message is one delivery.
    taken: Taken,
    /// The most memory that any server had which has ended.
    most: f64,
}

/// How a server began anew.
#[derive(Debug, Clone, Copy)]
struct Start {
    /// How long it took until the first delivery was sent.
    took: Duration,
    /// How many were pending when it was started, at least.
    pending: u64,
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
pub(super) async fn run(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    bench.progress.steps(2 * STEPS + bench.plan.pairs + 1);
    let once = |name: &str, unit, value| Figure::once(SCENARIO, name, unit, value);
    let mut waiting = Waiting::open(bench).await?;
    let accepted = waiting.fill(bench).await?;
    let bytes = real(waiting.site.bytes().await?);
    figures.extend([
        once("deliveries that waited", Unit::Count, real(waiting.taken.messages)),
        once("deliveries accepted to wait", Unit::PerSecond, accepted),
        once("messages turned away meanwhile", Unit::Count, real(waiting.taken.turned_away)),
        once("resident memory while they wait", Unit::Bytes, waiting.resident()?),
        once("bytes on disk while they wait", Unit::Bytes, bytes),
    ]);
    bench.receiver.forget();
    waiting.resume().await?;
    waiting.restarts(bench, figures).await?;
    let restarted = waiting.resident()?;
    figures.push(once("resident memory after the restart", Unit::Bytes, restarted));
    let drained = waiting.drain(bench).await?;
    figures.push(once("deliveries drained", Unit::PerSecond, drained));
    figures.push(once("resident memory after draining", Unit::Bytes, waiting.resident()?));
    waiting.remember_memory()?;
    let name = format!("most resident memory with {} pending", grouped(waiting.taken.messages));
    let most = once(&name, Unit::Bytes, waiting.most);
    let full = bench.plan.is_full(|plan| plan.backlog);
    figures.push(most.within_if(full, Bound::AtMost(MOST_BYTES)));
    waiting.site.close().await
}

/// Tells the median of how long it took to begin, by the fewest that were pending at any time.
fn told(starts: &[Start], full: u64) -> Figure {
    let pending = starts.iter().map(|it| it.pending).min().unwrap_or(0);
    let name = format!("first send after a restart with {} pending", grouped(pending));
    let times = starts.iter().map(|it| seconds(it.took)).collect();
    let figure = Figure::median(SCENARIO, &name, Unit::Time, times);
    figure.within_if(pending >= full, Bound::AtMost(LONGEST_START))
}

impl Waiting {
    async fn open(bench: &Bench<'_>) -> anyhow::Result<Self> {
        bench.receiver.forget();
        let mut launch = bench.launch.clone();
        launch.settings.push(shapes::without_notice());
        let mut site = Site::open_as(bench, "backlog", launch).await?;
        let turns = site.turns(bench, ENDPOINTS).await?;
        for endpoint in &turns.endpoints {
            site.customer.pause(&turns.application, endpoint).await?;
        }
        let flow = turns.all(Ingest::Batch(BATCH))?;
        Ok(Self { site, turns, flow, taken: Taken::default(), most: 0.0 })
    }

    /// Hands everything in, and returns the deliveries per second.
    async fn fill(&mut self, bench: &Bench<'_>) -> anyhow::Result<f64> {
        let all = bench.plan.backlog + bench.plan.backlog / SPARE;
        let mut took = Duration::ZERO;
        for _ in 0..STEPS {
            bench.progress.step(&format!("filling it with {all}"));
            let load = Closed {
                port: self.site.server.port(),
                connections: CONNECTIONS,
                source: Arc::clone(&self.flow.source),
                limit: Limit::Messages(all.div_ceil(u64::from(STEPS))),
            };
            let sent = load.run(&bench.clock).await?;
            self.taken.add(sent.taken);
            took += sent.ended.since(sent.began);
        }
        let rate = per_second(self.taken.messages, took);
        bench.say(&format!("{} deliveries wait, accepted at {rate:.0}/s", self.taken.messages));
        anyhow::ensure!(
            bench.receiver.arrived(Group::Steady) == 0,
            "a paused endpoint was sent to"
        );
        Ok(rate)
    }

    async fn resume(&mut self) -> anyhow::Result<()> {
        for endpoint in &self.turns.endpoints {
            self.site.customer.resume(&self.turns.application, endpoint).await?;
        }
        Ok(())
    }

    /// Ends the server and starts it again, once for each pair.
    async fn restarts(
        &mut self,
        bench: &Bench<'_>,
        figures: &mut Vec<Figure>,
    ) -> anyhow::Result<()> {
        // A fleet cannot know that a killed node is gone before its lease has run out.
        let ending = if bench.on_postgres() { Ending::Stopped } else { Ending::Killed };
        if ending == Ending::Stopped && bench.plan.kills == Kills::All {
            bench.progress.step("starting again after a kill");
            let start = self.restart(bench, Ending::Killed).await?;
            let name = format!("first send after a kill with {} pending", grouped(start.pending));
            figures.push(Figure::once(SCENARIO, &name, Unit::Time, seconds(start.took)));
        }
        let (mut starts, known) = (Vec::new(), figures.len());
        for _ in 1..=bench.plan.pairs {
            bench.progress.step("starting again");
            starts.push(self.restart(bench, ending).await?);
            figures.truncate(known);
            figures.push(told(&starts, Plan::FULL.backlog));
        }
        Ok(())
    }

    /// Lets a few be sent, ends the server and starts it again.
    async fn restart(&mut self, bench: &Bench<'_>, ending: Ending) -> anyhow::Result<Start> {
        let some = bench.receiver.arrived(Group::Steady) + bench.plan.backlog / SENT_BEFORE;
        bench.receiver.wait_for(Group::Steady, some, PATIENCE).await?;
        self.remember_memory()?;
        match ending {
            Ending::Stopped => process::stop(&mut self.site.server).await?,
            Ending::Killed => self.site.server.kill()?,
        }
        tokio::time::sleep(LAST_BYTES).await;
        // What was sent and not written down is pending, too, so there may be a few more.
        let before = bench.receiver.arrived(Group::Steady);
        let pending = self.taken.messages.saturating_sub(before);
        anyhow::ensure!(pending > 0, "all was sent before the server had ended");
        let began = bench.clock.now();
        self.site.server.respawn()?;
        bench.receiver.wait_for(Group::Steady, before + 1, PATIENCE).await?;
        let took = bench.clock.now().since(began);
        self.site.after_restart().await?;
        let text = Unit::Time.format(seconds(took));
        bench.say(&format!("restarted with {pending} pending; the first was sent after {text}"));
        Ok(Start { took, pending })
    }

    /// Waits until everything has arrived, and returns the deliveries per second.
    async fn drain(&self, bench: &Bench<'_>) -> anyhow::Result<f64> {
        let (began, before) = (bench.clock.now(), bench.receiver.arrived(Group::Steady));
        let left = self.taken.messages.saturating_sub(before);
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
        self.flow.check(bench, self.taken, 0..self.flow.source.made())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_told_by_what_was_pending_and_judged_only_if_that_was_enough() {
        let start = |millis, pending| Start { took: Duration::from_millis(millis), pending };
        let starts = [start(50, 1_000_300), start(90, 1_000_200), start(70, 1_000_000)];
        let figure = told(&starts, 1_000_000);
        assert_eq!(figure.name, "first send after a restart with 1,000,000 pending");
        assert_eq!((figure.value, figure.holds()), (0.07, Some(true)));
        assert_eq!(told(&[start(50, 999_999)], 1_000_000).holds(), None);
    }
}
