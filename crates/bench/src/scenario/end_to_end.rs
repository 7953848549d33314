//! From the sender to the receivers, as fast as it goes: with more and more endpoints for each
//! message, handed in one at a time and in batches.

use anyhow::Context as _;
use testkit::server::{most_resident_bytes, resident_bytes};

use super::{Scenario, bare};
use crate::customer::Ingest;
use crate::figure::{Bound, Figure, Unit, seconds};
use crate::metrics::Counters;
use crate::pairs::{Pair, measured_comes_first};
use crate::plan::Ways;
use crate::shapes::METRIC_SYNCS;
use crate::site::{Delivered, Flow, Site, batch_for};
use crate::{Bench, real};

const SCENARIO: Scenario = Scenario::EndToEnd;
/// A message for one endpoint is two requests where the yardstick has one.
const HOPS: f64 = 2.0;

/// One way of sending.
#[derive(Debug, Clone, Copy)]
struct Way {
    fan_out: usize,
    ingest: Ingest,
}

/// One pair of runs.
#[derive(Debug, Clone, Copy)]
struct Run {
    delivered: Delivered,
    /// What the yardstick did.
    bare: Bare,
}

/// What bare clients did.
#[derive(Debug, Clone, Copy)]
struct Bare {
    /// The one with a pool: the yardstick.
    pooled: f64,
    /// The one that holds its connections by hand, where a ratio was promised.
    held: Option<f64>,
}

/// Measures every way.
pub(super) async fn run(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let mut ways: Vec<Way> = Vec::new();
    for fan_out in bench.plan.fan_outs.iter().copied() {
        ways.push(Way { fan_out, ingest: Ingest::Single });
        if fan_out == 1 {
            ways.push(Way { fan_out, ingest: Ingest::Keyed });
        }
        ways.push(Way { fan_out, ingest: batch_for(fan_out) });
    }
    let promised = |way: &Way| bench.plan.ways == Ways::All || way.least(bench).is_some();
    ways.retain(promised);
    bench.rounds(ways.len());
    for way in ways {
        way.measure(bench, figures).await?;
    }
    Ok(())
}

impl Way {
    async fn measure(self, bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
        let mut site = Site::open(bench, "end-to-end").await?;
        let flow = site.flow(bench, self.fan_out, self.ingest).await?;
        let messages = flow.size(bench, &site).await?;
        let before = site.counters().await?;
        let (mut runs, known) = (Vec::new(), figures.len());
        for number in 1..=bench.plan.pairs {
            bench.pair_of(&self.name(), number);
            let run = self.pair(bench, &site, (&flow, messages), number).await?;
            let (rate, bare) = (run.delivered.per_second, run.bare.pooled);
            bench.say(&format!("{}, {number}: {rate:.0}/s, bare {bare:.0}/s", self.name()));
            runs.push(run);
            let counters = site.counters().await?;
            figures.truncate(known);
            figures.extend(self.rates(bench, &runs));
            figures.extend(self.costs(bench, &runs));
            figures.extend(counted(bench, SCENARIO, &self.name(), counters.since(before))?);
            if self.is_plain() {
                figures.extend(footprint(&site, counters).await?);
            }
        }
        site.close().await
    }

    async fn pair(
        self,
        bench: &Bench<'_>,
        site: &Site,
        (flow, messages): (&Flow, u64),
        number: u32,
    ) -> anyhow::Result<Run> {
        if measured_comes_first(number) {
            let delivered = flow.run(bench, site, messages).await?;
            return Ok(Run { delivered, bare: self.bare(bench).await? });
        }
        let bare = self.bare(bench).await?;
        Ok(Run { delivered: flow.run(bench, site, messages).await?, bare })
    }

    async fn bare(self, bench: &Bench<'_>) -> anyhow::Result<Bare> {
        let pooled = bare::rate(bench).await?;
        let held = match self.least(bench) {
            Some(_) => Some(bare::rate_held(bench).await?),
            None => None,
        };
        Ok(Bare { pooled, held })
    }

    fn rates(self, bench: &Bench<'_>, runs: &[Run]) -> Vec<Figure> {
        let hops = if self.fan_out == 1 && !self.in_batches() { HOPS } else { 1.0 };
        let ratio = |yardstick: &str, which: fn(&Bare) -> Option<f64>| {
            let pair = |run: &Run| {
                let compared = which(&run.bare)? / hops;
                Some(Pair { measured: run.delivered.per_second, compared })
            };
            let pairs: Vec<Pair> = runs.iter().filter_map(pair).collect();
            let half =
                if hops == HOPS { format!("({yardstick} ÷ 2)") } else { yardstick.to_owned() };
            let name = format!("{} ÷ {half}", self.name());
            (!pairs.is_empty()).then(|| Figure::ratio(SCENARIO, &name, &pairs))
        };
        let promised =
            ratio("bare", |bare| Some(bare.pooled)).map(|ratio| match self.least(bench) {
                Some(least) => ratio.within(Bound::AtLeast(least)),
                None => ratio,
            });
        let beside = ratio("bare, connections held by hand", |bare| bare.held);
        let rates = runs.iter().map(|run| run.delivered.per_second).collect();
        let mut figures: Vec<Figure> = promised.into_iter().chain(beside).collect();
        figures.push(Figure::median(SCENARIO, &self.name(), Unit::PerSecond, rates));
        let turned_away: u64 = runs.iter().map(|run| run.delivered.turned_away).sum();
        if turned_away > 0 {
            let name = format!("{}: messages turned away", self.name());
            figures.push(Figure::together(SCENARIO, &name, Unit::Count, real(turned_away)));
        }
        figures
    }

    fn costs(self, bench: &Bench<'_>, runs: &[Run]) -> Option<Figure> {
        if !bench.sees_database() {
            return None;
        }
        let times = runs.iter().map(|run| seconds(run.delivered.cpu_per_delivery));
        let name = format!("{}: CPU time for each delivery", self.name());
        let figure = Figure::median(SCENARIO, &name, Unit::Time, times.collect());
        let most = if bench.on_postgres() { 200e-6 } else { 75e-6 };
        Some(if self.is_plain() { figure.within(Bound::AtMost(most)) } else { figure })
    }

    /// Returns the least share of the yardstick that it must reach, where that was promised.
    fn least(self, bench: &Bench<'_>) -> Option<f64> {
        let postgres = bench.on_postgres();
        match (self.fan_out, self.ingest) {
            (1, Ingest::Single) => Some(if postgres { 0.25 } else { 0.45 }),
            (5, Ingest::Batch(_)) => Some(if postgres { 0.2 } else { 0.4 }),
            (_, Ingest::Single | Ingest::Keyed | Ingest::Batch(_) | Ingest::KeyedBatch(_)) => None,
        }
    }

    fn is_plain(self) -> bool {
        self.fan_out == 1 && self.ingest == Ingest::Single
    }

    fn in_batches(self) -> bool {
        matches!(self.ingest, Ingest::Batch(_) | Ingest::KeyedBatch(_))
    }

    fn name(self) -> String {
        let endpoints = match self.fan_out {
            1 => "1 endpoint".to_owned(),
            more => format!("{more} endpoints"),
        };
        match self.ingest {
            Ingest::Single => format!("{endpoints}, one at a time"),
            Ingest::Keyed => format!("{endpoints}, one at a time with idempotency keys"),
            Ingest::Batch(messages) => format!("{endpoints}, batches of {messages}"),
            Ingest::KeyedBatch(messages) => {
                format!("{endpoints}, batches of {messages} with idempotency keys")
            }
        }
    }
}

/// Returns what the server says about its work. What it should say and does not is an error.
pub(super) fn counted(
    bench: &Bench<'_>,
    scenario: Scenario,
    way: &str,
    counters: Counters,
) -> anyhow::Result<Vec<Figure>> {
    let Counters { commits, delivered, .. } = counters;
    anyhow::ensure!(commits > 0.0 && delivered > 0.0, "the server counts nothing: {counters:?}");
    let syncs = match (counters.syncs, bench.on_postgres()) {
        // What a database does to its disk cannot be seen from here; at most it syncs at each commit.
        (_, true) => vec![("commits for each delivery", Unit::Count, commits / delivered)],
        (Some(syncs), false) => vec![
            ("fsyncs for each delivery", Unit::Count, syncs / delivered),
            ("fsyncs for each commit", Unit::Count, syncs / commits),
        ],
        (None, false) => anyhow::bail!("the server does not show {METRIC_SYNCS}"),
    };
    let figures = [
        ("rows in a commit", Unit::Count, counters.rows / commits),
        (
            "rows read back from the store for each delivery",
            Unit::Count,
            counters.loaded / delivered,
        ),
    ];
    let figure = |(name, unit, value): (&str, Unit, f64)| {
        Figure::together(scenario, &format!("{way}: {name}"), unit, value)
    };
    Ok(figures.into_iter().chain(syncs).map(figure).collect())
}

/// Returns what all that was delivered since the start takes of disk and memory.
async fn footprint(site: &Site, counters: Counters) -> anyhow::Result<Vec<Figure>> {
    let bytes = real(site.bytes().await?) / counters.delivered;
    let process = site.server.process();
    let memory = |bytes: Option<u64>| bytes.map(real).context("the server has no memory");
    let figures = [
        ("bytes on disk for each message and delivery", bytes),
        ("resident memory after the load", memory(resident_bytes(process))?),
        ("most resident memory during the load", memory(most_resident_bytes(process))?),
    ];
    let figure = |(name, value): (&str, f64)| Figure::together(SCENARIO, name, Unit::Bytes, value);
    Ok(figures.map(figure).into())
}
