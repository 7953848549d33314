//! Whether a store grows slow with age: end to end to one endpoint, on a server with millions of
//! settled deliveries and on an empty one, in turns.

use super::Scenario;
use crate::bench::customer::Ingest;
use crate::bench::figure::{Bound, Figure, Unit};
use crate::bench::pairs::Pair;
use crate::bench::site::{Flow, Site, batch_for};
use crate::bench::{Bench, real};

const SCENARIO: Scenario = Scenario::Old;
/// Over how many endpoints the old deliveries are spread.
const ENDPOINTS: usize = 100;
/// The old deliveries are made in so many steps, each of which is told.
const STEPS: u64 = 10;

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
        let measured = aged.run(bench, &old, messages).await?.per_second;
        let compared = young.run(bench, &fresh, messages).await?.per_second;
        bench.say(&format!("    {number}: {measured:.0}/s, empty {compared:.0}/s"));
        pairs.push(Pair { measured, compared });
    }
    old.close(&bench.clock).await?;
    fresh.close(&bench.clock).await?;
    let least = if bench.on_postgres() { 0.7 } else { 0.8 };
    let name = format!("with {deliveries} old deliveries ÷ empty");
    let rates = pairs.iter().map(|pair| pair.measured).collect();
    Ok(vec![
        Figure::ratio(SCENARIO, &name, &pairs).within(Bound::AtLeast(least)),
        Figure::median(SCENARIO, "1 endpoint, with old deliveries", Unit::PerSecond, rates),
        Figure::once(SCENARIO, "bytes on disk of the old deliveries", Unit::Bytes, bytes),
    ])
}

/// Makes a store old the honest way: by delivering.
async fn age(bench: &Bench<'_>, site: &mut Site) -> anyhow::Result<u64> {
    let flow: Flow = site.flow(bench, ENDPOINTS, batch_for(ENDPOINTS)).await?;
    let messages = bench.plan.old.div_ceil(flow.deliveries_per_message() * STEPS);
    let mut so_far = 0;
    for _ in 0..STEPS {
        let delivered = flow.run(bench, site, messages).await?;
        so_far += delivered.deliveries;
        bench.say(&format!("    {so_far} old deliveries, {:.0}/s", delivered.per_second));
    }
    Ok(so_far)
}
