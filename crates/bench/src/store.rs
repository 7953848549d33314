//! What a store makes of a bare loop: whole lifecycles through the committer, beside the same rows
//! written with nothing around them, in batches of the size that the run reached.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use committer::{self, Committer, Nobody, Transactions};
use domain::endpoint::State;
use domain::ids::{ApplicationId, EndpointId};
use engine::commit::Limits;
use host::clock::{Clock, SystemClock};
use host::dice;
use serde_json::{Value, json};
use store::catalog::{
    ApplicationSettings, Confidential, EndpointSettings, NewApplication, NewEndpoint, Secret,
};
use store::keys::Node;
use store::postgres::Postgres;
use store::queue::Order;
use store::sqlite::{Settings, Sqlite};
use store::vault::KEY_BYTES;
use store::{Catalog, Queue, Vault};
use testkit::database::Database;

use super::lifecycle::{self, Target};
use super::pairs::{Pair, median};
use super::{per_second, real};

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

/// Which store is measured.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// SQLite, in a directory, which must be empty and on the disk that counts.
    Directory(PathBuf),
    /// PostgreSQL, in databases that are made and removed, on the server that a URL leads to.
    Server(String),
}

/// Measures a store.
///
/// # Errors
/// If a store cannot be opened or refuses something.
pub(crate) fn measure(place: &Place, plan: Plan) -> anyhow::Result<Report> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut report = Report { pairs: Vec::new(), batch: 0.0 };
        for number in 0..plan.pairs {
            let (run, compared) = match place {
                Place::Directory(directory) => sqlite(directory, number, &clock, plan).await?,
                Place::Server(url) => postgres(url, number, &clock, plan).await?,
            };
            report.pairs.push(Pair { measured: run.per_second, compared });
            report.batch += run.batch / f64::from(plan.pairs);
        }
        Ok(report)
    })
}

/// Measures one pair of runs, each in a directory of its own.
async fn sqlite(
    directory: &Path,
    number: u32,
    clock: &Arc<dyn Clock>,
    plan: Plan,
) -> anyhow::Result<(Run, f64)> {
    let rows_clock = Arc::clone(clock);
    let place = directory.join(format!("store-{number}"));
    let settings = Settings::new(place, dice::entropy, Arc::new(move || rows_clock.now()));
    let store = Arc::new(Sqlite::open(settings)?);
    let run = through(&store, Transactions::Together, clock, plan).await?;
    drop(store);
    let place = directory.join(format!("bare-{number}"));
    std::fs::create_dir_all(&place)?;
    let (mut bare, half) = (store::sqlite::Bare::create(&place)?, half(&run));
    let began = clock.now();
    while bare.lifecycles() < plan.lifecycles {
        bare.transaction(half, half)?;
    }
    let compared = per_second(bare.lifecycles(), clock.now().since(began));
    Ok((run, compared))
}

/// Measures one pair of runs, each in a database of its own.
async fn postgres(
    server: &str,
    number: u32,
    clock: &Arc<dyn Clock>,
    plan: Plan,
) -> anyhow::Result<(Run, f64)> {
    let beginning = format!("redial_bench_{}_{number}", std::process::id());
    let open = async |database: &Database| {
        let vault = Vault::new(&mut [7; KEY_BYTES], dice::entropy);
        Postgres::connect(store::postgres::Settings::new(database.url(), vault)).await
    };
    let database = Database::beside(server, &format!("{beginning}_store")).await?;
    let store = Arc::new(open(&database).await?);
    let run = through(&store, Transactions::Apart, clock, plan).await?;
    drop(store);
    database.remove().await?;
    let database = Database::beside(server, &format!("{beginning}_bare")).await?;
    // The schema is the store's own.
    drop(open(&database).await?);
    let (mut bare, half) = (store::postgres::Bare::connect(database.url()).await?, half(&run));
    let began = clock.now();
    while bare.lifecycles() < plan.lifecycles {
        bare.transaction(half, half).await?;
    }
    let compared = per_second(bare.lifecycles(), clock.now().since(began));
    drop(bare);
    database.remove().await?;
    Ok((run, compared))
}

/// Runs lifecycles through the committer.
async fn through<S: Catalog + Queue + 'static>(
    store: &Arc<S>,
    transactions: Transactions,
    clock: &Arc<dyn Clock>,
    plan: Plan,
) -> anyhow::Result<Run> {
    let target = set_up(store.as_ref(), clock.as_ref()).await?;
    let (committer, task) = Committer::start(committer::Settings {
        queue: Arc::clone(store) as Arc<dyn Queue>,
        clock: Arc::clone(clock),
        limits: Limits::default(),
        transactions,
        listener: Arc::new(Nobody),
    });
    let began = clock.now();
    lifecycle::run(&committer, clock, target, plan.callers, plan.lifecycles).await?;
    let elapsed = clock.now().since(began);
    committer.close();
    let counts = task.await?;
    // With lanes in transactions of their own, a batch has either accepts or settles.
    let lanes = match transactions {
        Transactions::Together => 1.0,
        Transactions::Apart => 2.0,
    };
    Ok(Run {
        per_second: per_second(plan.lifecycles, elapsed),
        batch: lanes * real(counts.items) / real(counts.batches.max(1)),
    })
}

/// Returns how many accepts, and how many settles, a transaction of the bare loop has.
fn half(run: &Run) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a batch has at least one item and at most some thousands"
    )]
    let half = (run.batch / 2.0).round().max(1.0) as u32;
    half
}

async fn set_up<S: Catalog + Queue>(store: &S, clock: &dyn Clock) -> anyhow::Result<Target> {
    let at = clock.now();
    let random = dice::for_id();
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
