//! How long a message takes from when it should have been sent until it arrives, at rates that can
//! be kept up: when there is little to do, at a hundred a second, and at most of what is possible.

use std::sync::Arc;
use std::time::Duration;

use super::Scenario;
use crate::bench::Bench;
use crate::bench::customer::Ingest;
use crate::bench::figure::{Bound, Figure, Unit, seconds};
use crate::bench::latencies::Latencies;
use crate::bench::pace::Open;
use crate::bench::receiver::Group;
use crate::bench::site::{Flow, PATIENCE, Site};

const SCENARIO: Scenario = Scenario::Latency;
/// What counts as idle, per second.
const IDLE: f64 = 10.0;
/// What everybody states.
const USUAL: f64 = 100.0;
/// The share of the maximum that can be kept up.
const SUSTAINED: f64 = 0.7;
/// The quantiles that are told.
pub(in crate::bench) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Measures every rate.
pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let mut site = Site::open(bench, "latency").await?;
    let flow = site.flow(bench, 1, Ingest::Single).await?;
    let messages = flow.size(bench, &site).await?;
    let most = flow.run(bench, &site, messages).await?.per_second;
    let rates = [("idle", IDLE), ("at 100/s", USUAL), ("at 70 % of the maximum", most * SUSTAINED)];
    let mut figures = Vec::new();
    bench.rounds(rates.len());
    for (name, per_second) in rates {
        let mut runs = Vec::new();
        for number in 1..=bench.plan.pairs {
            bench.pair_of(name, number);
            let pace = Pace { per_second, span: bench.plan.paced };
            let before = site.counters().await?;
            let times = pace.measure(bench, &site, &flow).await?;
            site.settled(&bench.clock, before, times.answered.count()).await?;
            let p99 = Unit::Time.format(seconds(times.arrived.quantile(0.99)));
            bench.say(&format!("{name} ({per_second:.0}/s), {number}: p99 {p99}"));
            runs.push(times);
        }
        figures.extend(quantiles(bench, name, &runs));
    }
    let name = "messages each second at 70 % of the maximum";
    figures.push(Figure::once(SCENARIO, name, Unit::PerSecond, most * SUSTAINED));
    site.close(&bench.clock).await?;
    Ok(figures)
}

/// A rate, for a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) per_second: f64,
    pub(super) span: Duration,
}

/// How long messages took.
#[derive(Debug, Clone)]
pub(super) struct Times {
    /// Until they were acknowledged.
    pub(super) answered: Latencies,
    /// Until they arrived.
    pub(super) arrived: Latencies,
}

impl Pace {
    /// Sends at this rate and returns how long it took.
    pub(super) async fn measure(
        self,
        bench: &Bench<'_>,
        site: &Site,
        flow: &Flow,
    ) -> anyhow::Result<Times> {
        bench.receiver.forget();
        let load = Open {
            port: site.server.port(),
            connections: bench.plan.connections,
            source: Arc::clone(&flow.source),
            per_second: self.per_second,
            span: self.span,
        };
        let paced = load.run(&bench.clock).await?;
        let deliveries = paced.requests * flow.deliveries_per_message();
        bench.receiver.wait_for(Group::Steady, deliveries, PATIENCE).await?;
        let arrived = bench.receiver.latencies(Group::Steady);
        Ok(Times { answered: paced.answered, arrived })
    }
}

fn quantiles(bench: &Bench<'_>, name: &str, runs: &[Times]) -> Vec<Figure> {
    let most = if bench.on_postgres() { 0.008 } else { 0.003 };
    let of = |share: f64, which: fn(&Times) -> &Latencies| -> Vec<f64> {
        runs.iter().map(|times| seconds(which(times).quantile(share))).collect()
    };
    let mut figures = Vec::new();
    for (word, share) in QUANTILES {
        let text = format!("{name}, {word} until it arrives");
        let figure = Figure::median(SCENARIO, &text, Unit::Time, of(share, |times| &times.arrived));
        let promised = name == "at 100/s" && word == "p99";
        figures.push(if promised { figure.within(Bound::AtMost(most)) } else { figure });
    }
    let text = format!("{name}, p99 until it is acknowledged");
    figures.push(Figure::median(SCENARIO, &text, Unit::Time, of(0.99, |times| &times.answered)));
    figures
}
