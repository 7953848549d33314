//! A disk that takes long to sync: each commit costs much, so it has to be shared by many.

use std::sync::Arc;

use super::Scenario;
use crate::Bench;
use crate::client::{Closed, Limit};
use crate::customer::{EVERYBODY, Ingest, messages};
use crate::figure::{Bound, Figure, Unit};
use crate::site::Site;

const SCENARIO: Scenario = Scenario::SlowSync;
/// How much longer the sync of a commit takes; that of a checkpoint does not.
const DELAY_MILLIS: u32 = 5;
/// How many callers wait for it at a time.
const CALLERS: usize = 64;
/// The messages that must be accepted in a second all the same.
const LEAST_ACCEPTED: f64 = 5_000.0;

/// Measures with a slow disk.
pub(super) async fn run(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let mut launch = bench.launch.clone();
    launch.settings.push(("REDIAL_SYNC_DELAY", format!("{DELAY_MILLIS}ms")));
    let mut site = Site::open_as(bench, "slow-sync", launch).await?;
    let application = site.customer.application("nobody").await?;
    let source = messages(&application, Ingest::Single, &EVERYBODY)?;
    let flow = site.flow(bench, 1, Ingest::Single).await?;
    let count = flow.size(bench, &site).await?;
    let (mut accepted, mut delivered) = (Vec::new(), Vec::new());
    bench.rounds(1);
    for number in 1..=bench.plan.pairs {
        bench.pair(number);
        let load = Closed {
            port: site.server.port(),
            connections: CALLERS,
            source: Arc::clone(&source),
            limit: Limit::Time(bench.plan.run),
        };
        let taken = load.run(&bench.clock).await?.per_second();
        let arrived = flow.run(bench, &site, count).await?.per_second;
        bench.say(&format!("{number}: {taken:.0}/s accepted, {arrived:.0}/s delivered"));
        accepted.push(taken);
        delivered.push(arrived);
        *figures = vec![
            figure("messages accepted", &accepted).within(Bound::AtLeast(LEAST_ACCEPTED)),
            figure("1 endpoint", &delivered),
        ];
    }
    site.close().await
}

fn figure(what: &str, rates: &[f64]) -> Figure {
    let name = format!("{what}, a commit's sync takes {DELAY_MILLIS} ms longer");
    Figure::median(SCENARIO, &name, Unit::PerSecond, rates.to_vec())
}
