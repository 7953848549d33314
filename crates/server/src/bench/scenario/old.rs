//! Whether a store grows slow with age: end to end to one endpoint, on a server with millions of
//! settled deliveries and on an empty one, in turns.

use super::Scenario;
use crate::bench::customer::Ingest;
use crate::bench::figure::{Bound, Figure, Unit};
use crate::bench::pairs::{Pair, measured_comes_first};
use crate::bench::site::{Flow, Site, batch_for};
use crate::bench::{Bench, real};
use crate::words::grouped;

const SCENARIO: Scenario = Scenario::Old;
/// Over how many endpoints the old deliveries are spread.
const ENDPOINTS: usize = 100;
/// The old deliveries are made in at most so many steps, so that it can be seen how far it is.
const MOST_STEPS: u64 = 50;
/// A step has at least so many messages.
const SHORTEST_STEP: u64 = 500;
/// After so many steps it is told.
const TOLD: u64 = 5;

/// Measures an old store.
pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let mut old = Site::open(bench, "old").await?;
    let deliveries = age(bench, &mut old).await?;
    let bytes = real(old.bytes().await?);
    let mut fresh = Site::open(bench, "fresh").await?;
    let aged = old.flow(bench, 1, Ingest::Single).await?;
    let young = fresh.flow(bench, 1, Ingest::Single).await?;
    let messages = aged.size(bench, &old).await?.max(young.size(bench, &fresh).await?);
    let mut pairs = Vec::new();
    for number in 1..=bench.plan.pairs {
        bench.pair(number);
        let (measured, compared);
        if measured_comes_first(number) {
            measured = aged.run(bench, &old, messages).await?.per_second;
            compared = young.run(bench, &fresh, messages).await?.per_second;
        } else {
            compared = young.run(bench, &fresh, messages).await?.per_second;
            measured = aged.run(bench, &old, messages).await?.per_second;
        }
        bench.say(&format!("{number}: {measured:.0}/s, empty {compared:.0}/s"));
        pairs.push(Pair { measured, compared });
    }
    old.close(&bench.clock).await?;
    fresh.close(&bench.clock).await?;
    let least = if bench.on_postgres() { 0.7 } else { 0.8 };
    let name = format!("with {} old deliveries ÷ empty", grouped(deliveries));
    let full = bench.plan.is_full(|plan| plan.old);
    let rates = pairs.iter().map(|pair| pair.measured).collect();
    Ok(vec![
        Figure::ratio(SCENARIO, &name, &pairs).within_if(full, Bound::AtLeast(least)),
        Figure::median(SCENARIO, "1 endpoint, with old deliveries", Unit::PerSecond, rates),
        Figure::once(SCENARIO, "bytes on disk of the old deliveries", Unit::Bytes, bytes),
    ])
}

/// Makes a store old the honest way: by delivering.
async fn age(bench: &Bench<'_>, site: &mut Site) -> anyhow::Result<u64> {
    let flow: Flow = site.flow(bench, ENDPOINTS, batch_for(ENDPOINTS)).await?;
    let messages = bench.plan.old.div_ceil(flow.deliveries_per_message());
    let steps = (messages / SHORTEST_STEP).clamp(1, MOST_STEPS);
    bench.progress.steps(u32::try_from(steps)? + bench.plan.pairs);
    let mut so_far = 0;
    for step in 1..=steps {
        bench.progress.step(&format!("making {} old deliveries", bench.plan.old));
        let delivered = flow.run(bench, site, messages.div_ceil(steps)).await?;
        so_far += delivered.deliveries;
        if step % TOLD == 0 || step == steps {
            bench.say(&format!("{so_far} old deliveries, {:.0}/s", delivered.per_second));
        }
    }
    Ok(so_far)
}
