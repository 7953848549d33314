//! What the committer makes of a slow disk: callers that wait for one sync share the next.
//!
//! A commit of the SQLite store is one sync, whatever is in it; the store's own tests count that. So
//! the rate of a disk is the number of accepts in a commit, times its syncs in a second. That is
//! computed, and no time is measured: a busy machine must not make it look worse.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::partition::Partition;
use domain::time::Timestamp;
use redial::clock::SystemClock;
use redial::committer::{Committer, Nobody, Settings, Transactions};
use store::Answer;
use store::conformance::{Handle, Harness, NOW, Pass, Scene};
use store::keys::{Lease, Node};
use store::queue::{
    Accepted, Batch, Call, Committed, Confirmed, Load, Loaded, Queue, Renewal, Request, Waiting,
};
use store::sqlite::{self, Sqlite};

/// What a sync takes, and how many of them there are in a second.
const SYNC: Duration = Duration::from_millis(5);
const SYNCS_PER_SECOND: f64 = 200.0;
const CALLERS: u32 = 64;
const ACCEPTS_OF_EACH: u32 = 40;
const PROMISED_PER_SECOND: f64 = 5_000.0;

/// The SQLite store on a disk that takes its time.
struct SlowDisk {
    store: Arc<Sqlite>,
    commits: AtomicU64,
}

impl Queue for SlowDisk {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        Box::pin(async move {
            tokio::time::sleep(SYNC).await;
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.store.commit(batch).await
        })
    }
    fn load(&self, load: Load) -> Answer<'_, Loaded> {
        self.store.load(load)
    }
    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>> {
        self.store.waiting(partitions)
    }
    fn probe(&self) -> Answer<'_, ()> {
        self.store.probe()
    }
    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        self.store.requests(partitions)
    }
    fn now(&self) -> Answer<'_, Timestamp> {
        self.store.now()
    }
    fn renew(&self, node: Node) -> Answer<'_, Renewal> {
        self.store.renew(node)
    }
    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>> {
        self.store.take(node, most)
    }
    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()> {
        self.store.release(node, leases)
    }
    fn woken(&self) -> Answer<'_, Call> {
        self.store.woken()
    }
    fn call(&self) -> Answer<'_, Timestamp> {
        self.store.call()
    }
    fn confirm(&self, node: Node, heard: Timestamp) -> Answer<'_, ()> {
        self.store.confirm(node, heard)
    }
    fn confirmed(&self) -> Answer<'_, Confirmed> {
        self.store.confirmed()
    }
}

fn open(directory: &Path) -> Arc<Sqlite> {
    let entropy = |bytes: &mut [u8]| bytes.fill(7);
    Arc::new(Sqlite::open(sqlite::Settings::new(directory, entropy, Arc::new(|| NOW))).unwrap())
}

fn start(disk: &Arc<SlowDisk>) -> Committer {
    let (committer, _task) = Committer::start(Settings {
        queue: Arc::clone(disk) as _,
        clock: Arc::new(SystemClock::start()),
        limits: Default::default(),
        transactions: Transactions::Together,
        listener: Arc::new(Nobody),
    });
    committer
}

async fn scene(store: &Arc<Sqlite>) -> Scene {
    let pass: Pass = Box::new(|_| Box::pin(async { Ok(()) }));
    Scene::new(Harness::alone(Handle::new(Arc::clone(store)), pass)).await
}

#[tokio::test]
async fn with_a_sync_of_5_ms_64_callers_get_5_000_accepts_a_second() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let scene = Arc::new(scene(&store).await);
    let endpoint = scene.endpoint().await;
    let template = scene.message(&[&endpoint]).await;
    let disk = Arc::new(SlowDisk { store, commits: AtomicU64::new(0) });
    let committer = start(&disk);
    let callers = (0..CALLERS).map(|_| {
        let (scene, template, committer) =
            (Arc::clone(&scene), template.clone(), committer.clone());
        tokio::spawn(async move {
            for _ in 0..ACCEPTS_OF_EACH {
                let answer = committer.accept(scene.again(&template)).await.unwrap();
                assert!(matches!(answer, Accepted::New { .. }), "{answer:?}");
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let syncs = u32::try_from(disk.commits.load(Ordering::Relaxed)).unwrap();
    let rate = f64::from(CALLERS * ACCEPTS_OF_EACH) / f64::from(syncs) * SYNCS_PER_SECOND;
    assert!(rate >= PROMISED_PER_SECOND, "{rate:.0} accepts a second, {syncs} syncs");
}

#[tokio::test]
async fn a_caller_who_is_alone_pays_one_sync_and_waits_for_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let scene = scene(&store).await;
    let template = scene.message(&[]).await;
    let disk = Arc::new(SlowDisk { store, commits: AtomicU64::new(0) });
    let committer = start(&disk);
    for number in 1..=10 {
        committer.accept(scene.again(&template)).await.unwrap();
        assert_eq!(disk.commits.load(Ordering::Relaxed), number);
    }
}
