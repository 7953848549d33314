//! Whether some endpoints can slow down others: a few steady ones get a hundred messages a second,
//! and their p99 is taken without and with a crowd that hangs, is flooded, or is many.
//!
//! Each pair has a server of its own. Without always comes first: what a crowd has done to a server
//! cannot be undone.

use std::sync::Arc;
use std::time::Duration;

use host::words::grouped;

use super::Scenario;
use super::latency::{Pace, Times};
use crate::Bench;
use crate::client::{Closed, Limit, Source};
use crate::customer::{EVERYBODY, Ingest, messages};
use crate::figure::{Bound, Figure, Unit, seconds};
use crate::pace::Open;
use crate::pairs::Pair;
use crate::receiver::{Behaviour, Group};
use crate::shapes::LARGEST_BATCH;
use crate::site::{Flow, PATIENCE, Site};

/// The channel of the steady endpoints.
const STEADY: &str = "steady";
/// The channel of the whole crowd.
const CROWD: &str = "crowd";
/// How many steady endpoints there are in the application of a crowd.
const STEADY_ENDPOINTS: usize = 10;
/// How many there are in an application beside a crowd.
const ALONE: usize = 1;
/// How many messages each second the steady ones get, and the hanging ones.
const PER_SECOND: f64 = 100.0;
/// How many of a crowd that hangs are tried within a second, because none of them has answered lately.
const TRIED_PER_SECOND: u64 = 500;
/// How long it hangs before the measurement begins, beyond the time until each of it has been tried.
const HANGING: Duration = Duration::from_secs(2);
/// How many messages each of it has then: one that has timed out is tried with the next one.
const HANGING_MESSAGES: u64 = 3;
/// After how long an attempt has timed out.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How many messages each endpoint of the busy application has to do.
const BUSY_MESSAGES: u64 = 30;
/// How many connections flood.
const FLOODING: usize = 8;
/// How often it is looked whether all of it hang.
const LOOK: Duration = Duration::from_millis(50);
/// What p99 with the crowd may be, as a multiple of without.
const MOST: f64 = 2.0;

/// A server with steady endpoints.
struct Scene {
    site: Site,
    /// Where the steady endpoints are.
    application: String,
    steady: Flow,
}

/// Who might slow down the steady ones.
struct Crowd {
    scenario: Scenario,
    name: String,
    /// Whether there are as many as it was said about what should be reached.
    is_full: bool,
}

/// How long messages to the steady endpoints took.
struct Slowed {
    without: Times,
    with: Times,
}

/// Measures endpoints that hang, in the application of the steady ones. Both get as many messages,
/// without and with; the one difference is whether the crowd answers.
pub(super) async fn hanging(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let crowd = Crowd {
        scenario: Scenario::Hanging,
        name: format!("{} endpoints hanging", grouped(bench.plan.hanging.try_into()?)),
        is_full: bench.plan.is_full(|plan| plan.hanging),
    };
    crowd.measure(bench, figures, hanging_once).await
}

async fn hanging_once(bench: &Bench<'_>) -> anyhow::Result<Slowed> {
    bench.receiver.behave(Behaviour::AtOnce);
    let tried = u64::try_from(bench.plan.hanging)? / TRIED_PER_SECOND;
    let hanging = HANGING + Duration::from_secs(tried);
    let mut scene = Scene::open(bench, STEADY_ENDPOINTS).await?;
    let channels: Vec<String> = (0..bench.plan.hanging).map(|it| format!("c{it}")).collect();
    for (endpoint, own) in channels.iter().enumerate() {
        let url = bench.receiver.url(Group::Crowd, endpoint);
        let application = &scene.application;
        scene.site.customer.endpoint(application, &url, &[CROWD, own]).await?;
    }
    let trickle = Open {
        port: scene.site.server.port(),
        connections: FLOODING,
        source: messages(&scene.application, Ingest::Single, &channels)?,
        per_second: PER_SECOND,
        span: span_beside(hanging, bench.plan.paced),
    };
    let everybody = messages(&scene.application, Ingest::Single, &[CROWD])?;
    // The server has met each of them, so that nothing is new later but that they hang.
    bench.receiver.forget();
    scene.hand_in(bench, Arc::clone(&everybody), 1).await?;
    let all = u64::try_from(bench.plan.hanging)?;
    bench.receiver.wait_for(Group::Crowd, all, PATIENCE).await?;
    let without = scene.times_beside(bench, trickle.clone()).await?;
    bench.receiver.behave(Behaviour::Hangs);
    bench.receiver.forget();
    scene.hand_in(bench, everybody, HANGING_MESSAGES).await?;
    tokio::time::sleep(hanging).await;
    all_hang(bench).await?;
    let with = scene.times_beside(bench, trickle).await?;
    scene.site.close().await?;
    bench.receiver.behave(Behaviour::AtOnce);
    Ok(Slowed { without, with })
}

/// Waits until each of the crowd was called: what was not does not hang.
async fn all_hang(bench: &Bench<'_>) -> anyhow::Result<()> {
    let began = bench.clock.now();
    loop {
        let tried = bench.receiver.per_endpoint(Group::Crowd, bench.plan.hanging);
        let untried = tried.into_iter().filter(|tried| *tried == 0).count();
        if untried == 0 {
            return Ok(());
        }
        let patient = bench.clock.now().since(began) < PATIENCE;
        anyhow::ensure!(patient, "{untried} endpoints do not hang: nobody has called them");
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns how long it is measured beside endpoints that have hung for some time: twice as long as
/// elsewhere if their attempts time out within that, which is to be seen too.
fn span_beside(hanging: Duration, paced: Duration) -> Duration {
    if hanging + 2 * paced > TIMEOUT { 2 * paced } else { paced }
}

/// Measures one endpoint that has more to do than it can, in the application of the steady ones.
pub(super) async fn flood(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let crowd = Crowd {
        scenario: Scenario::Flood,
        name: format!("one endpoint flooded by {}", grouped(bench.plan.flood)),
        is_full: bench.plan.is_full(|plan| plan.flood),
    };
    crowd.measure(bench, figures, flood_once).await
}

async fn flood_once(bench: &Bench<'_>) -> anyhow::Result<Slowed> {
    bench.receiver.behave(Behaviour::Late);
    let mut scene = Scene::open(bench, STEADY_ENDPOINTS).await?;
    let url = bench.receiver.url(Group::Crowd, 0);
    scene.site.customer.endpoint(&scene.application, &url, &[CROWD]).await?;
    let without = scene.times(bench, bench.plan.paced).await?;
    let size = LARGEST_BATCH.min(usize::try_from(bench.plan.flood)?);
    let flood = messages(&scene.application, Ingest::Batch(size), &[CROWD])?;
    scene.hand_in(bench, flood, bench.plan.flood).await?;
    let with = scene.times(bench, bench.plan.paced).await?;
    scene.site.close().await?;
    bench.receiver.behave(Behaviour::AtOnce);
    Ok(Slowed { without, with })
}

/// Measures an application with many busy endpoints beside one with a single steady one.
pub(super) async fn busy(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let crowd = Crowd {
        scenario: Scenario::Busy,
        name: format!("an application of {} busy endpoints", grouped(bench.plan.busy.try_into()?)),
        is_full: bench.plan.is_full(|plan| plan.busy),
    };
    crowd.measure(bench, figures, busy_once).await
}

async fn busy_once(bench: &Bench<'_>) -> anyhow::Result<Slowed> {
    bench.receiver.behave(Behaviour::Busy);
    let mut scene = Scene::open(bench, ALONE).await?;
    let busy = scene.site.customer.application("busy").await?;
    for endpoint in 0..bench.plan.busy {
        let url = bench.receiver.url(Group::Crowd, endpoint);
        scene.site.customer.endpoint(&busy, &url, &[]).await?;
    }
    let without = scene.times(bench, bench.plan.paced).await?;
    let work = messages(&busy, Ingest::Single, &EVERYBODY)?;
    scene.hand_in(bench, work, BUSY_MESSAGES).await?;
    let with = scene.times(bench, bench.plan.paced).await?;
    scene.site.close().await?;
    bench.receiver.behave(Behaviour::AtOnce);
    Ok(Slowed { without, with })
}

impl Scene {
    async fn open(bench: &Bench<'_>, endpoints: usize) -> anyhow::Result<Self> {
        let mut site = Site::open(bench, "crowd").await?;
        let application = site.customer.application("steady").await?;
        for endpoint in 0..endpoints {
            let url = bench.receiver.url(Group::Steady, endpoint);
            let own = format!("s{endpoint}");
            site.customer.endpoint(&application, &url, &[STEADY, &own]).await?;
        }
        // The first message to each endpoint pays for the connection.
        let source = messages(&application, Ingest::Single, &[STEADY])?;
        let warm = Flow { source, fan_out: endpoints, endpoints };
        warm.run(bench, &site, u64::try_from(bench.plan.connections)?).await?;
        let channels: Vec<String> = (0..endpoints).map(|it| format!("s{it}")).collect();
        let source = messages(&application, Ingest::Single, &channels)?;
        let steady = Flow { source, fan_out: 1, endpoints };
        Ok(Self { site, application, steady })
    }

    /// Returns how long messages to the steady endpoints take.
    async fn times(&self, bench: &Bench<'_>, span: Duration) -> anyhow::Result<Times> {
        let pace = Pace { per_second: PER_SECOND, span };
        pace.measure(bench, &self.site, &self.steady).await
    }

    /// Returns how long they take while others get messages too.
    async fn times_beside(&self, bench: &Bench<'_>, others: Open) -> anyhow::Result<Times> {
        let span = others.span;
        let (times, others) = tokio::join!(self.times(bench, span), others.run(&bench.clock));
        others?;
        times
    }

    /// Hands messages in, without waiting until anything arrives.
    async fn hand_in(
        &self,
        bench: &Bench<'_>,
        source: Arc<Source>,
        messages: u64,
    ) -> anyhow::Result<()> {
        let port = self.site.server.port();
        let limit = Limit::Messages(messages);
        let load = Closed { port, connections: FLOODING, source, limit };
        load.run(&bench.clock).await.map(drop)
    }
}

impl Slowed {
    fn tell(self, bench: &Bench<'_>, number: u32) -> Self {
        for (word, times) in [("without", &self.without), ("with", &self.with)] {
            let [answered, arrived] = [&times.answered, &times.arrived].map(|latencies| {
                let told = [0.5, 0.9, 0.99].map(|share| seconds(latencies.quantile(share)));
                told.map(|it| Unit::Time.format(it)).join(", ")
            });
            let told = format!("acknowledged after {answered}, arrived after {arrived}");
            bench.say(&format!("{number}, {word}: {told} (p50, p90, p99)"));
        }
        self
    }
}

impl Crowd {
    /// Measures all pairs.
    async fn measure(
        &self,
        bench: &Bench<'_>,
        figures: &mut Vec<Figure>,
        once: impl AsyncFn(&Bench<'_>) -> anyhow::Result<Slowed>,
    ) -> anyhow::Result<()> {
        let mut all = Vec::new();
        bench.rounds(1);
        for number in 1..=bench.plan.pairs {
            bench.pair(number);
            all.push(once(bench).await?.tell(bench, number));
            *figures = self.figures(&all);
        }
        Ok(())
    }

    fn figures(&self, all: &[Slowed]) -> Vec<Figure> {
        let Self { scenario, name, is_full } = self;
        let p99 = |times: &Times| seconds(times.arrived.quantile(0.99));
        let pair = |it: &Slowed| Pair { measured: p99(&it.with), compared: p99(&it.without) };
        let pairs: Vec<Pair> = all.iter().map(pair).collect();
        let ratio = format!("{name}: p99 of others with ÷ without");
        let figure = |word: &str, samples| {
            let name = format!("{name}: p99 of others {word}");
            Figure::median(*scenario, &name, Unit::Time, samples)
        };
        vec![
            Figure::ratio(*scenario, &ratio, &pairs).within_if(*is_full, Bound::AtMost(MOST)),
            figure("without", pairs.iter().map(|it| it.compared).collect()),
            figure("with", pairs.iter().map(|it| it.measured).collect()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn only_a_full_run_lasts_until_attempts_have_timed_out() {
        let hanging = |seconds| HANGING + Duration::from_secs(seconds);
        let full = Plan::FULL.paced;
        assert_eq!(span_beside(hanging(4), full), 2 * full);
        assert_eq!(span_beside(hanging(0), Plan::QUICK.paced), Plan::QUICK.paced);
    }

    #[test]
    fn attempts_time_out_as_the_default_policy_says() {
        let preset = domain::policy::preset("redial").unwrap();
        assert_eq!(preset.policy.timeouts.whole(), TIMEOUT);
    }
}
