//! Whether a store grows slow with age: end to end to one endpoint, on a server with millions of
//! settled deliveries and on an empty one, in turns.
//!
//! The old deliveries are of the application and the endpoints that are measured, each of a message of
//! its own with an idempotency key of its own, so that everything new is written beside something old.
//! The empty server has the same endpoints. It is another one in each pair: after a few runs it would
//! not be empty any more.

use anyhow::Context as _;
use host::words::grouped;
use testkit::server::most_resident_bytes;

use super::Scenario;
use super::end_to_end::counted;
use crate::customer::Ingest;
use crate::figure::{Bound, Figure, Unit, seconds};
use crate::metrics::Counters;
use crate::pairs::{Pair, measured_comes_first};
use crate::site::{Delivered, Flow, Site, Turns};
use crate::{Bench, real};

const SCENARIO: Scenario = Scenario::Old;
/// Over how many endpoints the old deliveries are spread.
const ENDPOINTS: usize = 100;
/// The messages of a batch while they are made.
const BATCH: usize = 100;
/// The old deliveries are made in at most so many steps, so that it can be seen how far it is.
const MOST_STEPS: u64 = 50;
/// A step has at least so many messages.
const SHORTEST_STEP: u64 = 5_000;
/// After so many steps it is told.
const TOLD: u64 = 5;

/// A server, old or empty, with the application that is measured.
struct Side {
    site: Site,
    turns: Turns,
    /// To its first endpoint, one at a time.
    single: Flow,
    /// The same with idempotency keys.
    keyed: Flow,
}

/// One way of sending, on both sides.
struct Way {
    /// What its figures are called.
    name: &'static str,
    flow: fn(&Side) -> &Flow,
    /// The messages of a run.
    messages: u64,
    pairs: Vec<Pair>,
    /// What the old side's server used for each delivery, in seconds.
    cpu: Vec<f64>,
    /// What the old side's server has counted in all runs.
    counters: Option<Counters>,
}

/// Measures an old store.
pub(super) async fn run(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let old = Side::open(bench, "old").await?;
    let deliveries = old.age(bench).await?;
    let bytes = real(old.site.bytes().await?);
    let mut ways = [
        Way::of("1 endpoint, with old deliveries", |side| &side.single),
        Way::of("1 endpoint, with old deliveries, idempotency keys", |side| &side.keyed),
    ];
    for way in &mut ways {
        way.messages = (way.flow)(&old).size(bench, &old.site).await?;
    }
    for number in 1..=bench.plan.pairs {
        bench.pair(number);
        let fresh = Side::open(bench, "fresh").await?;
        for way in &mut ways {
            way.pair(bench, &old, &fresh, number).await?;
        }
        fresh.site.close().await?;
        *figures = told(bench, &ways, deliveries)?;
        let most = most_resident_bytes(old.site.server.process()).map(real);
        let most = most.context("the server's memory cannot be read")?;
        let name = "most resident memory with old deliveries, from the first of them on";
        figures.push(Figure::together(SCENARIO, name, Unit::Bytes, most));
        let name = "bytes on disk of the old deliveries";
        figures.push(Figure::once(SCENARIO, name, Unit::Bytes, bytes));
    }
    old.site.close().await
}

fn told(bench: &Bench<'_>, ways: &[Way; 2], deliveries: u64) -> anyhow::Result<Vec<Figure>> {
    let least = if bench.on_postgres() { 0.7 } else { 0.8 };
    let full = bench.plan.is_full(|plan| plan.old);
    let [single, keyed] = ways;
    let name = format!("with {} old deliveries ÷ empty", grouped(deliveries));
    let ratio = Figure::ratio(SCENARIO, &name, &single.pairs);
    let beside = format!("{name}, with idempotency keys");
    let mut figures = vec![
        ratio.within_if(full, Bound::AtLeast(least)),
        Figure::ratio(SCENARIO, &beside, &keyed.pairs),
    ];
    for way in ways {
        figures.extend(way.told(bench)?);
    }
    Ok(figures)
}

impl Side {
    async fn open(bench: &Bench<'_>, name: &str) -> anyhow::Result<Self> {
        let mut site = Site::open(bench, name).await?;
        let turns = site.turns(bench, ENDPOINTS).await?;
        let (single, keyed) = (turns.first(Ingest::Single)?, turns.first(Ingest::Keyed)?);
        Ok(Self { site, turns, single, keyed })
    }

    /// Makes the store old the honest way: by delivering. Each step ends when all of its deliveries are
    /// written down, so none of them is pending when something is measured.
    async fn age(&self, bench: &Bench<'_>) -> anyhow::Result<u64> {
        let flow = self.turns.all(Ingest::KeyedBatch(BATCH))?;
        let steps = (bench.plan.old / SHORTEST_STEP).clamp(1, MOST_STEPS);
        bench.progress.steps(u32::try_from(steps)? + bench.plan.pairs);
        let mut so_far = 0;
        for step in 1..=steps {
            bench.progress.step(&format!("making {} old deliveries", bench.plan.old));
            let delivered = flow.run(bench, &self.site, bench.plan.old.div_ceil(steps)).await?;
            so_far += delivered.deliveries;
            if step % TOLD == 0 || step == steps {
                bench.say(&format!("{so_far} old deliveries, {:.0}/s", delivered.per_second));
            }
        }
        Ok(so_far)
    }
}

impl Way {
    fn of(name: &'static str, flow: fn(&Side) -> &Flow) -> Self {
        let (pairs, cpu) = (Vec::new(), Vec::new());
        Self { name, flow, messages: 0, pairs, cpu, counters: None }
    }

    async fn pair(
        &mut self,
        bench: &Bench<'_>,
        old: &Side,
        fresh: &Side,
        number: u32,
    ) -> anyhow::Result<()> {
        // The old one is warm; the empty one has yet to connect.
        (self.flow)(fresh).size(bench, &fresh.site).await?;
        let (aged, empty);
        if measured_comes_first(number) {
            aged = self.aged(bench, old).await?;
            empty = self.delivered(bench, fresh).await?;
        } else {
            empty = self.delivered(bench, fresh).await?;
            aged = self.aged(bench, old).await?;
        }
        let (measured, compared) = (aged.per_second, empty.per_second);
        bench.say(&format!("{}, {number}: {measured:.0}/s, empty {compared:.0}/s", self.name));
        self.pairs.push(Pair { measured, compared });
        self.cpu.push(seconds(aged.cpu_per_delivery));
        Ok(())
    }

    /// Runs on the old side, and keeps what its server counts.
    async fn aged(&mut self, bench: &Bench<'_>, old: &Side) -> anyhow::Result<Delivered> {
        let before = old.site.counters().await?;
        let delivered = self.delivered(bench, old).await?;
        let counters = old.site.counters().await?.since(before);
        self.counters = Some(self.counters.map_or(counters, |so_far| so_far.and(counters)));
        Ok(delivered)
    }

    async fn delivered(&self, bench: &Bench<'_>, side: &Side) -> anyhow::Result<Delivered> {
        (self.flow)(side).run(bench, &side.site, self.messages).await
    }

    fn told(&self, bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
        let rates = self.pairs.iter().map(|pair| pair.measured).collect();
        let mut figures = vec![Figure::median(SCENARIO, self.name, Unit::PerSecond, rates)];
        if bench.sees_database() {
            let name = format!("{}: CPU time for each delivery", self.name);
            figures.push(Figure::median(SCENARIO, &name, Unit::Time, self.cpu.clone()));
        }
        if let Some(counters) = self.counters {
            figures.extend(counted(bench, SCENARIO, self.name, counters)?);
        }
        Ok(figures)
    }
}
