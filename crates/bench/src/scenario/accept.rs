//! Accepting alone: messages for an application without endpoints, beside the server's cheapest
//! answer to the same client.

use std::sync::Arc;

use http::Method;

use super::{Scenario, bare};
use crate::Bench;
use crate::body::Body;
use crate::client::{Closed, Limit, Source};
use crate::customer::{EVERYBODY, Ingest, messages};
use crate::figure::{Bound, Figure, Unit};
use crate::pairs::{Pair, measured_comes_first};
use crate::shapes;
use crate::site::Site;

/// The share of its answers to pings that the server must reach.
const LEAST_OF_PINGS: f64 = 0.5;

/// Measures accepting.
pub(super) async fn run(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let mut site = Site::open(bench, "accept").await?;
    let application = site.customer.application("nobody").await?;
    let ping = Source::new(Method::GET, shapes::PING, vec![Body::empty()])?;
    let load = |source: &Arc<Source>| Closed {
        port: site.server.port(),
        connections: bench.plan.connections,
        source: Arc::clone(source),
        limit: Limit::Time(bench.plan.run),
    };
    let ping = Arc::new(ping);
    let single = messages(&application, Ingest::Single, &EVERYBODY)?;
    load(&single).run(&bench.clock).await?;
    let (mut of_pings, mut of_bare) = (Vec::new(), Vec::new());
    bench.rounds(1);
    for number in 1..=bench.plan.pairs {
        bench.pair(number);
        let first = measured_comes_first(number);
        let early = if first { Some(rate(load(&single), bench).await?) } else { None };
        let pinged = rate(load(&ping), bench).await?;
        let bare = bare::rate(bench).await?;
        let accepted = match early {
            Some(early) => early,
            None => rate(load(&single), bench).await?,
        };
        of_pings.push(Pair { measured: accepted, compared: pinged });
        of_bare.push(Pair { measured: accepted, compared: bare });
        bench.say(&format!("{number}: {accepted:.0}/s, pings {pinged:.0}/s"));
        *figures = told(bench, &of_pings, &of_bare);
    }
    site.close().await
}

fn told(bench: &Bench<'_>, of_pings: &[Pair], of_bare: &[Pair]) -> Vec<Figure> {
    let scenario = Scenario::Accept;
    let ratio = Figure::ratio(scenario, "accepting ÷ answering pings", of_pings);
    let least = Bound::AtLeast(LEAST_OF_PINGS);
    let accepted = of_pings.iter().map(|pair| pair.measured).collect();
    let pinged = of_pings.iter().map(|pair| pair.compared).collect();
    vec![
        ratio.within_if(!bench.on_postgres(), least),
        Figure::ratio(scenario, "accepting ÷ bare", of_bare),
        Figure::median(scenario, "messages accepted", Unit::PerSecond, accepted),
        Figure::median(scenario, "answers to pings", Unit::PerSecond, pinged),
    ]
}

async fn rate(load: Closed, bench: &Bench<'_>) -> anyhow::Result<f64> {
    Ok(load.run(&bench.clock).await?.per_second())
}
