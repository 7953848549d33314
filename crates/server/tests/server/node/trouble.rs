//! A store whose code panics: what can be asked again is, and what cannot is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use domain::delivery::Delivery;
use domain::partition::Partition;
use redial::node::Ending;
use store::Answer;
use store::keys::{Lease, Node};
use store::memory::Memory;
use store::queue::{Batch, Committed, Load, Loaded, Queue, Renewal, Request, Waiting};

use super::scene::{Scene, Step, Store};

/// Panics so many times before it does what it is asked.
#[derive(Default)]
struct Panics {
    memory: Option<Arc<Memory>>,
    commits: AtomicU32,
    walks: AtomicU32,
    loads: AtomicU32,
}

impl Panics {
    fn over(store: &Store) -> Self {
        Self { memory: Some(Arc::clone(store.memory())), ..Self::default() }
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().unwrap()
    }
}

fn panic_while(left: &AtomicU32) {
    let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    assert!(before.is_err(), "as told");
}

impl Queue for Panics {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        panic_while(&self.commits);
        self.memory().commit(batch)
    }

    fn load(&self, load: Load) -> Answer<'_, Loaded> {
        panic_while(&self.loads);
        self.memory().load(load)
    }

    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>> {
        panic_while(&self.walks);
        self.memory().waiting(partitions)
    }

    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        self.memory().requests(partitions)
    }

    fn renew(&self, node: Node) -> Answer<'_, Renewal> {
        self.memory().renew(node)
    }

    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>> {
        self.memory().take(node, most)
    }

    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()> {
        self.memory().release(node, leases)
    }

    fn woken(&self) -> Answer<'_, Vec<Partition>> {
        self.memory().woken()
    }
}

#[tokio::test]
async fn a_committer_that_panics_is_told_instead_of_leaving_everybody_waiting() {
    let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
    let queue = Panics { commits: AtomicU32::new(1), ..Panics::over(&store) };
    let scene = Scene::over(store, Arc::new(queue), &[Step::Answer(200)]);
    let (_, taken) = scene.hand_in().await;
    assert!(taken.is_err(), "{taken:?}");
    assert_eq!(scene.failed().await, "the committer");
}

#[tokio::test]
async fn a_question_that_panics_is_asked_again() {
    let first = Scene::begin(&[Step::Slow(Duration::from_secs(600), 200)]).await;
    let message = first.send().await;
    first.arrived(1).await;
    let store = first.end().await;
    let (walks, loads) = (AtomicU32::new(2), AtomicU32::new(2));
    let queue = Panics { walks, loads, ..Panics::over(&store) };
    let scene = Scene::over(store, Arc::new(queue), &[Step::Answer(200)]);
    assert_eq!(scene.settled(message).await.state, Delivery::Delivered);
    scene.end().await;
}

/// A scene over a store that does as it is told later.
async fn obedient(steps: &[Step]) -> (Scene, Arc<Panics>) {
    let store = Scene::begin(steps).await.end().await;
    let queue = Arc::new(Panics::over(&store));
    (Scene::over(store, Arc::clone(&queue) as _, steps), queue)
}

#[tokio::test]
async fn a_committer_that_panics_while_the_node_stops_is_told_at_once() {
    let (scene, queue) = obedient(&[Step::Slow(Duration::from_millis(200), 200)]).await;
    scene.send().await;
    scene.arrived(1).await;
    queue.commits.store(1, Ordering::SeqCst);
    assert_eq!(scene.stop().await, Ending::Broken("the committer"));
}
