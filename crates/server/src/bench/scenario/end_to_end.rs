//! From the sender to the receivers, as fast as it goes: with more and more endpoints for each
//! message, handed in one at a time and in batches.

use super::{Scenario, bare};
use crate::bench::customer::Ingest;
use crate::bench::figure::{Bound, Figure, Unit, seconds};
use crate::bench::metrics::Counters;
use crate::bench::pairs::Pair;
use crate::bench::plan::Ways;
use crate::bench::site::{Delivered, Site, batch_for};
use crate::bench::usage::resident_bytes;
use crate::bench::{Bench, real};

const SCENARIO: Scenario = Scenario::EndToEnd;
/// A message for one endpoint is two requests where the yardstick has one.
const HOPS: f64 = 2.0;

/// One way of sending.
#[derive(Debug, Clone, Copy)]
struct Way {
    fan_out: usize,
    ingest: Ingest,
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
    for way in ways.into_iter().filter(promised) {
        figures.extend(way.measure(bench).await?);
    }
    Ok(())
}

impl Way {
    async fn measure(self, bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
        let mut site = Site::open(bench, "end-to-end").await?;
        let flow = site.flow(bench, self.fan_out, self.ingest).await?;
        let messages = flow.size(bench, &site).await?;
        let counters = site.counters().await;
        let mut runs = Vec::new();
        for number in 1..=bench.plan.pairs {
            let delivered = flow.run(bench, &site, messages).await?;
            let bare = bare::rate(bench).await?;
            bench.say(&format!(
                "    {}, {number}: {:.0}/s, bare {bare:.0}/s",
                self.name(),
                delivered.per_second
            ));
            runs.push((delivered, bare));
        }
        let counters = site.counters().await.since(counters);
        let mut figures = self.rates(bench, &runs);
        figures.extend(self.costs(bench, &runs));
        figures.extend(counted(&self.name(), counters));
        if self.is_plain() {
            figures.extend(footprint(&site, &runs).await?);
        }
        site.close(&bench.clock).await?;
        Ok(figures)
    }

    fn rates(self, bench: &Bench<'_>, runs: &[(Delivered, f64)]) -> Vec<Figure> {
        let hops = if self.fan_out == 1 && !self.in_batches() { HOPS } else { 1.0 };
        let pair = |(delivered, bare): &(Delivered, f64)| Pair {
            measured: delivered.per_second,
            compared: bare / hops,
        };
        let pairs: Vec<Pair> = runs.iter().map(pair).collect();
        let yardstick = if hops == HOPS { "(bare ÷ 2)" } else { "bare" };
        let ratio = Figure::ratio(SCENARIO, &format!("{} ÷ {yardstick}", self.name()), &pairs);
        let ratio = match self.least(bench) {
            Some(least) => ratio.within(Bound::AtLeast(least)),
            None => ratio,
        };
        let rates = pairs.iter().map(|pair| pair.measured).collect();
        let mut figures =
            vec![ratio, Figure::median(SCENARIO, &self.name(), Unit::PerSecond, rates)];
        let turned_away: u64 = runs.iter().map(|(delivered, _)| delivered.turned_away).sum();
        if turned_away > 0 {
            let name = format!("{}: messages turned away", self.name());
            figures.push(Figure::once(SCENARIO, &name, Unit::Count, real(turned_away)));
        }
        figures
    }

    fn costs(self, bench: &Bench<'_>, runs: &[(Delivered, f64)]) -> Option<Figure> {
        if bench.on_postgres() && bench.database_processes().is_empty() {
            return None;
        }
        let times = runs.iter().map(|(delivered, _)| seconds(delivered.cpu_per_delivery));
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
            (_, Ingest::Single | Ingest::Keyed | Ingest::Batch(_)) => None,
        }
    }

    fn is_plain(self) -> bool {
        self.fan_out == 1 && self.ingest == Ingest::Single
    }

    fn in_batches(self) -> bool {
        matches!(self.ingest, Ingest::Batch(_))
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
        }
    }
}

/// Returns what the server says about its work, where it does.
fn counted(way: &str, counters: Counters) -> Vec<Figure> {
    let share = |part: Option<f64>, of: Option<f64>| Some(part? / of.filter(|it| *it > 0.0)?);
    let figures = [
        ("rows in a commit", Unit::Count, share(counters.rows, counters.commits)),
        ("syncs for each delivery", Unit::Count, share(counters.syncs, counters.attempts)),
        ("read back from the store", Unit::Share, share(counters.loaded, counters.attempts)),
    ];
    let figure = |(name, unit, value): (&str, Unit, Option<f64>)| {
        Some(Figure::once(SCENARIO, &format!("{way}: {name}"), unit, value?))
    };
    figures.into_iter().filter_map(figure).collect()
}

async fn footprint(site: &Site, runs: &[(Delivered, f64)]) -> anyhow::Result<Vec<Figure>> {
    let deliveries: u64 = runs.iter().map(|(delivered, _)| delivered.deliveries).sum();
    let bytes = real(site.bytes().await?) / real(deliveries.max(1));
    let mut figures = vec![Figure::once(
        SCENARIO,
        "bytes on disk for each message and delivery",
        Unit::Bytes,
        bytes,
    )];
    if let Some(bytes) = resident_bytes(site.server.process()) {
        let name = "resident memory after the load";
        figures.push(Figure::once(SCENARIO, name, Unit::Bytes, real(bytes)));
    }
    Ok(figures)
}
