//! Two nodes on one PostgreSQL, with every message accepted on the first: what the second one owns
//! has to find its way there. Compared with the first one alone.
//!
//! One comes first in one pair and last in the next, so that the second node is started or stopped once
//! in each. The first pair begins with one, which is there already.

use super::Scenario;
use crate::Bench;
use crate::customer::Ingest;
use crate::figure::{Bound, Figure, Unit};
use crate::pairs::{Pair, measured_comes_first};
use crate::process::{self, launch};
use crate::shapes;
use crate::site::{Flow, Site};
use crate::usage::Processes;

const SCENARIO: Scenario = Scenario::Fleet;
/// Enough endpoints for every partition to have some.
const ENDPOINTS: usize = 256;
/// The least that two nodes must make of one.
const LEAST: f64 = 0.7;

/// What two nodes did.
struct Both {
    per_second: f64,
    /// The second one's part of their CPU time.
    share: f64,
}

/// Measures a fleet.
pub(super) async fn run(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let mut site = Site::open(bench, "fleet").await?;
    let flow = site.turns(bench, ENDPOINTS).await?.all(Ingest::Single)?;
    let messages = flow.size(bench, &site).await?;
    let (mut pairs, mut shares) = (Vec::new(), Vec::new());
    bench.rounds(1);
    for number in 1..=bench.plan.pairs {
        bench.pair(number);
        let (both, compared);
        if measured_comes_first(number + 1) {
            both = with_two(bench, &mut site, &flow, messages).await?;
            compared = with_one(bench, &mut site, &flow, messages).await?;
        } else {
            compared = with_one(bench, &mut site, &flow, messages).await?;
            both = with_two(bench, &mut site, &flow, messages).await?;
        }
        bench.say(&format!("{number}: {:.0}/s, one node {compared:.0}/s", both.per_second));
        pairs.push(Pair { measured: both.per_second, compared });
        shares.push(both.share);
        *figures = told(&pairs, &shares);
    }
    site.close().await
}

fn told(pairs: &[Pair], shares: &[f64]) -> Vec<Figure> {
    let rates = |which: fn(&Pair) -> f64| pairs.iter().map(which).collect();
    let ratio = Figure::ratio(SCENARIO, "two nodes, all accepted on one ÷ one node", pairs);
    vec![
        ratio.within(Bound::AtLeast(LEAST)),
        Figure::median(SCENARIO, "two nodes", Unit::PerSecond, rates(|pair| pair.measured)),
        Figure::median(SCENARIO, "one node", Unit::PerSecond, rates(|pair| pair.compared)),
        // If it is near zero, the second node did nothing and the ratio says nothing.
        Figure::median(
            SCENARIO,
            "share of the second node's CPU time",
            Unit::Share,
            shares.to_vec(),
        ),
    ]
}

/// Stops the second node, if there is one, and returns the deliveries per second of the first.
async fn with_one(
    bench: &Bench<'_>,
    site: &mut Site,
    flow: &Flow,
    messages: u64,
) -> anyhow::Result<f64> {
    for mut second in site.others.drain(..) {
        process::stop(&mut second).await?;
    }
    site.shared(&bench.clock, 1).await?;
    warm_up(bench, site, flow).await?;
    Ok(flow.run(bench, site, messages).await?.per_second)
}

/// Starts a second node, unless there is one, and returns what both did.
async fn with_two(
    bench: &Bench<'_>,
    site: &mut Site,
    flow: &Flow,
    messages: u64,
) -> anyhow::Result<Both> {
    if site.others.is_empty() {
        let database = site.database_url().map(str::to_owned);
        let mut launch = launch(bench.launch.executable.clone(), database);
        launch.settings.push(shapes::without_notice());
        let directory = bench.fresh_directory("second");
        site.others.push(process::start(launch, directory).await?);
    }
    site.shared(&bench.clock, 2).await?;
    warm_up(bench, site, flow).await?;
    let processes: Vec<Processes> =
        site.others.iter().chain([&site.server]).map(|it| Processes::of(it.process())).collect();
    let times = || processes.iter().map(|it| it.cpu_time().as_secs_f64()).collect::<Vec<_>>();
    let before = times();
    let per_second = flow.run(bench, site, messages).await?.per_second;
    let used: Vec<f64> = times().iter().zip(before).map(|(after, before)| after - before).collect();
    Ok(Both { per_second, share: used[0] / used.iter().sum::<f64>() })
}

/// Has every endpoint sent to once by its new owner, who knows none of them and has no connection.
async fn warm_up(bench: &Bench<'_>, site: &Site, flow: &Flow) -> anyhow::Result<()> {
    let few = u64::try_from(bench.plan.connections.max(ENDPOINTS))?;
    flow.run(bench, site, few).await.map(drop)
}
