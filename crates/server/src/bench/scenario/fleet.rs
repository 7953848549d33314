//! Two nodes on one PostgreSQL, with every message accepted on the first: what the second one owns
//! has to find its way there. Compared with the first one alone.

use std::time::Duration;

use super::Scenario;
use crate::bench::Bench;
use crate::bench::figure::{Bound, Figure, Unit};
use crate::bench::pairs::Pair;
use crate::bench::process::{Server, launch};
use crate::bench::site::Site;
use crate::bench::usage::Processes;

const SCENARIO: Scenario = Scenario::Fleet;
/// Enough endpoints for every partition to have some.
const ENDPOINTS: usize = 256;
/// How long nodes get to share the partitions anew.
const SHARING: Duration = Duration::from_secs(12);
/// The least that two nodes must make of one.
const LEAST: f64 = 0.7;

/// Measures a fleet.
pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let mut site = Site::open(bench, "fleet").await?;
    let flow = site.turns(bench, ENDPOINTS).await?;
    let messages = flow.size(bench, &site).await?;
    let database = site.database_url().map(str::to_owned);
    let launch = launch(bench.launch.executable.clone(), database);
    let (mut pairs, mut shares) = (Vec::new(), Vec::new());
    for number in 1..=bench.plan.pairs {
        let compared = flow.run(bench, &site, messages).await?.per_second;
        let directory = bench.fresh_directory("second");
        let mut second = Server::start(&launch, &directory, &bench.clock).await?;
        tokio::time::sleep(SHARING).await;
        let processes = [site.server.process(), second.process()].map(Processes::of);
        let before = processes.each_ref().map(Processes::cpu_time);
        let measured = flow.run(bench, &site, messages).await?.per_second;
        let after = processes.each_ref().map(Processes::cpu_time);
        let used = [0, 1].map(|node| after[node].saturating_sub(before[node]).as_secs_f64());
        shares.push(used[1] / (used[0] + used[1]));
        pairs.push(Pair { measured, compared });
        bench.say(&format!("    {number}: {measured:.0}/s, one node {compared:.0}/s"));
        second.stop(&bench.clock).await?;
        tokio::time::sleep(SHARING).await;
    }
    site.close(&bench.clock).await?;
    let rates = |which: fn(&Pair) -> f64| pairs.iter().map(which).collect();
    let ratio = Figure::ratio(SCENARIO, "two nodes, all accepted on one ÷ one node", &pairs);
    Ok(vec![
        ratio.within(Bound::AtLeast(LEAST)),
        Figure::median(SCENARIO, "two nodes", Unit::PerSecond, rates(|pair| pair.measured)),
        Figure::median(SCENARIO, "one node", Unit::PerSecond, rates(|pair| pair.compared)),
        // If it is near zero, the second node did nothing and the ratio says nothing.
        Figure::median(SCENARIO, "share of the second node's CPU time", Unit::Share, shares),
    ])
}
