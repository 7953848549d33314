//! What the store makes of a bare loop: whole lifecycles through the committer, beside the same
//! rows written with nothing around them, in batches of the size that the run reached.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::endpoint::State;
use domain::ids::{ApplicationId, EndpointId};
use engine::lanes::Limits;
use serde_json::{Value, json};
use store::catalog::{
    ApplicationSettings, Confidential, EndpointSettings, NewApplication, NewEndpoint, Secret,
};
use store::keys::Node;
use store::queue::Order;
use store::sqlite::{Bare, Settings, Sqlite};
use store::{Catalog, Queue};

use super::lifecycle::{self, Target};
use super::pairs::{Pair, median};
use crate::clock::{Clock, SystemClock};
use crate::committer::{self, Committer, Nobody, Transactions};
use crate::dice;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Callers at once.
    pub(crate) callers: u64,
    /// Lifecycles in each run.
    pub(crate) lifecycles: u64,
    /// Interleaved pairs of runs.
    pub(crate) pairs: u32,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pairs: Vec<Pair>,
    /// The mean number of items in a batch.
    batch: f64,
}

impl Report {
    /// Returns the median share of the yardstick that the store reached.
    pub(crate) fn ratio(&self) -> f64 {
        median(self.pairs.iter().map(|pair| pair.ratio()))
    }

    /// Returns the median rates of the store and of the bare loop.
    pub(crate) fn rates(&self) -> (f64, f64) {
        let measured = median(self.pairs.iter().map(|pair| pair.measured));
        (measured, median(self.pairs.iter().map(|pair| pair.compared)))
    }

    /// Returns the mean number of accepts and settles in a batch.
    pub(crate) fn batch(&self) -> f64 {
        self.batch
    }

    /// Returns everything as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let (store, bare) = self.rates();
        let pairs: Vec<Value> = self
            .pairs
            .iter()
            .map(|pair| json!({ "store_per_s": pair.measured, "bare_per_s": pair.compared }))
            .collect();
        json!({
            "ratio": self.ratio(),
            "store_per_s": store,
            "bare_per_s": bare,
            "items_per_batch": self.batch,
            "pairs": pairs,
        })
    }
}

/// One run of the store.
struct Run {
    per_second: f64,
    batch: f64,
}

/// Measures the SQLite store in a directory, which must be empty and on the disk that counts.
///
/// # Errors
/// If a store cannot be opened or refuses something.
pub(crate) fn sqlite(directory: &Path, plan: Plan) -> anyhow::Result<Report> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let mut report = Report { pairs: Vec::new(), batch: 0.0 };
    for number in 0..plan.pairs {
        let place = directory.join(format!("store-{number}"));
        let run = runtime.block_on(measure(&place, &clock, plan))?;
        let place = directory.join(format!("bare-{number}"));
        let compared = bare(&place, clock.as_ref(), plan.lifecycles, run.batch)?;
        report.pairs.push(Pair { measured: run.per_second, compared });
        report.batch += run.batch / f64::from(plan.pairs);
    }
    Ok(report)
}

async fn measure(place: &Path, clock: &Arc<dyn Clock>, plan: Plan) -> anyhow::Result<Run> {
    let rows_clock = Arc::clone(clock);
    let settings = Settings::new(place, dice::entropy, Arc::new(move || rows_clock.now()));
    let store = Arc::new(Sqlite::open(settings)?);
    let target = set_up(store.as_ref(), clock.as_ref()).await?;
    let queue = Arc::clone(&store) as Arc<dyn Queue>;
    let (committer, task) = Committer::start(committer::Settings {
        queue,
        clock: Arc::clone(clock),
        limits: Limits::default(),
        transactions: Transactions::Together,
        listener: Arc::new(Nobody),
    });
    let began = clock.now();
    lifecycle::run(&committer, clock, target, plan.callers, plan.lifecycles).await?;
    let elapsed = clock.now().since(began);
    committer.close();
    let counts = task.await?;
    Ok(Run {
        per_second: per_second(plan.lifecycles, elapsed),
        batch: float(counts.items) / float(counts.batches.max(1)),
    })
}

/// Writes the same rows in transactions of the same size.
fn bare(place: &Path, clock: &dyn Clock, lifecycles: u64, batch: f64) -> anyhow::Result<f64> {
    std::fs::create_dir_all(place)?;
    let mut bare = Bare::create(place)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a batch has at least one item and at most some thousands"
    )]
    let half = (batch / 2.0).round().max(1.0) as u32;
    let began = clock.now();
    while bare.lifecycles() < lifecycles {
        bare.transaction(half, half)?;
    }
    Ok(per_second(bare.lifecycles(), clock.now().since(began)))
}

async fn set_up<S: Catalog + Queue>(store: &S, clock: &dyn Clock) -> anyhow::Result<Target> {
    let at = clock.now();
    let mut random = [0; 16];
    dice::entropy(&mut random);
    let settings = ApplicationSettings { name: "bench".to_owned(), ..Default::default() };
    let id = ApplicationId::new(at, random);
    let application =
        store.create_application(NewApplication { id, uid: None, settings, at }).await?;
    let new = NewEndpoint {
        application: application.key,
        id: EndpointId::new(at, random),
        uid: None,
        state: State::Active,
        order: Order::Due,
        settings: EndpointSettings::default(),
        confidential: Confidential::default(),
        secret: Secret { text: "whsec_bench".to_owned(), created_at: at, expires_at: None },
        at,
    };
    let endpoint = store.create_endpoint(new).await?;
    let leases = store.take(Node("bench".to_owned()), domain::partition::PARTITIONS).await?;
    let lease = leases.into_iter().find(|lease| lease.partition == endpoint.partition);
    Ok(Target {
        application: application.key,
        revision: store.fan_out(application.key, at).await?.revision,
        endpoint: endpoint.key,
        endpoint_id: endpoint.id,
        lease: lease.ok_or_else(|| anyhow::anyhow!("the endpoint's partition was not free"))?,
    })
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    float(count) / elapsed.as_secs_f64()
}

fn float(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
