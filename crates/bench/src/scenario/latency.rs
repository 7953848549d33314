//! How long a message takes from when it should have been sent until it arrives, at rates that can
//! be kept up: when there is little to do, at a hundred a second, and at most of what is possible.

use std::sync::Arc;
use std::time::Duration;

use super::Scenario;
use crate::Bench;
use crate::customer::Ingest;
use crate::figure::{Bound, Figure, Unit, seconds};
use crate::latencies::Latencies;
use crate::pace::Open;
use crate::receiver::Group;
use crate::site::{Flow, PATIENCE, Site};

const SCENARIO: Scenario = Scenario::Latency;
/// What counts as idle, per second.
const IDLE: f64 = 10.0;
/// What everybody states.
const USUAL: f64 = 100.0;
/// How that is called.
const USUALLY: &str = "at 100/s";
/// The share of the maximum that can be kept up.
const SUSTAINED: f64 = 0.7;
/// The quantiles that are told.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Measures every rate.
pub(super) async fn run(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let mut site = Site::open(bench, "latency").await?;
    let flow = site.flow(bench, 1, Ingest::Single).await?;
    let messages = flow.size(bench, &site).await?;
    bench.rounds(4);
    let mut sustained = Vec::new();
    // One run decides too much: 70 % of a lucky one cannot be kept up.
    for number in 1..=bench.plan.pairs {
        bench.pair_of("the maximum", number);
        let most = flow.run(bench, &site, messages).await?.per_second;
        bench.say(&format!("the maximum, {number}: {most:.0}/s"));
        sustained.push(most * SUSTAINED);
    }
    let name = "messages each second at 70 % of the maximum";
    let sustained = Figure::median(SCENARIO, name, Unit::PerSecond, sustained);
    let rates = [("idle", IDLE), (USUALLY, USUAL), ("at 70 % of the maximum", sustained.value)];
    let mut runs = rates.map(|_| Vec::new());
    // All rates in each pair: what the machine does in one minute is not the fate of one rate.
    for number in 1..=bench.plan.pairs {
        for (index, (name, per_second)) in rates.iter().enumerate() {
            bench.pair_of(name, number);
            let pace = Pace { per_second: *per_second, span: bench.plan.paced };
            let before = site.counters().await?;
            let times = pace.measure(bench, &site, &flow).await?;
            site.settled(&bench.clock, before, times.answered.count()).await?;
            let p99 = Unit::Time.format(seconds(times.arrived.quantile(0.99)));
            bench.say(&format!("{name} ({per_second:.0}/s), {number}: p99 {p99}"));
            runs[index].push(times);
            figures.clear();
            for ((name, _), runs) in rates.iter().zip(&runs) {
                figures.extend(quantiles(bench.on_postgres(), name, runs));
            }
            figures.push(sustained.clone());
        }
    }
    site.close().await
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

/// Returns the medians of the runs' quantiles, and the p99 of all runs together. What is merely the
/// longest of few is left out.
fn quantiles(postgres: bool, name: &str, runs: &[Times]) -> Vec<Figure> {
    if runs.is_empty() {
        return Vec::new();
    }
    let most = if postgres { 0.008 } else { 0.003 };
    let median = |text: &str, share: f64, which: fn(&Times) -> &Latencies| {
        let times = runs.iter().map(|times| which(times).telling_quantile(share).map(seconds));
        let times: Option<Vec<f64>> = times.collect();
        times.map(|times| Figure::median(SCENARIO, &format!("{name}, {text}"), Unit::Time, times))
    };
    let mut figures = Vec::new();
    for (word, share) in QUANTILES {
        let figure = median(&format!("{word} until it arrives"), share, |times| &times.arrived);
        let promised = name == USUALLY && word == "p99";
        figures.extend(figure.map(|it| it.within_if(promised, Bound::AtMost(most))));
    }
    figures.extend(median("p99 until it is acknowledged", 0.99, |times| &times.answered));
    let mut all = Latencies::default();
    runs.iter().for_each(|times| all.add(&times.arrived));
    if let (Some(p99), 2..) = (all.telling_quantile(0.99), runs.len()) {
        let text = format!("{name}, p99 of all pairs together");
        figures.push(Figure::together(SCENARIO, &text, Unit::Time, seconds(p99)));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many messages, of which so many in a hundred take so many milliseconds.
    fn times(count: u64, percent: u64, millis: u64) -> Times {
        let mut arrived = Latencies::default();
        for number in 0..count {
            let long = number % 100 < percent;
            arrived.record(Duration::from_micros(if long { millis * 1_000 } else { 50 }));
        }
        Times { answered: arrived.clone(), arrived }
    }

    #[test]
    fn the_bound_is_on_the_median_of_the_pairs_and_the_rest_is_told() {
        let runs = [times(1_000, 2, 1), times(1_000, 2, 2), times(1_000, 10, 60)];
        let figures = quantiles(false, USUALLY, &runs);
        let named = |name: &str| figures.iter().find(|it| it.name == format!("{USUALLY}, {name}"));
        let median = named("p99 until it arrives").unwrap();
        assert_eq!((median.holds(), median.samples.len()), (Some(true), 3));
        let together = named("p99 of all pairs together").unwrap();
        assert!(together.holds().is_none() && together.value > 0.03, "{together:?}");
    }

    #[test]
    fn few_messages_have_no_p99() {
        let figures = quantiles(false, "idle", &[times(15, 1, 1)]);
        let names: Vec<&str> = figures.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["idle, p50 until it arrives", "idle, p90 until it arrives"]);
    }
}
