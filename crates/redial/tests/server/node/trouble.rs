//! A store whose code panics, or makes the engine panic: what can be asked again is, and what cannot
//! is told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use domain::delivery::{Cause, Delivery};
use domain::partition::Partition;
use domain::time::Timestamp;
use redial::node::Ending;
use store::Answer;
use store::keys::{Lease, MessageKey, Node};
use store::memory::Memory;
use store::queue::{
    Batch, Call, Committed, Confirmed, Done, Load, Loaded, PendingDelivery, Queue, Renewal,
    Request, Upkeep, Waiting,
};
use tokio::sync::Notify;

use super::grenade::grenade;
use super::scene::{Scene, Step, Store, until};

/// Panics so many times before it does what it is asked.
#[derive(Default)]
pub(super) struct Panics {
    memory: Option<Arc<Memory>>,
    commits: AtomicU32,
    walks: AtomicU32,
    loads: AtomicU32,
    /// So many loads bring what makes the engine panic.
    grenades: AtomicU32,
    /// Each load with the delivery of this message does.
    explosive: AtomicI64,
    /// So many times nothing is taken back.
    releases: AtomicU32,
    /// If told, only so many chunks of replays are written; the others are refused.
    chunks: Option<AtomicU32>,
    /// Chunks with the delivery of this message are refused.
    unfit: AtomicI64,
    /// How long each commit takes, in milliseconds.
    slowness: AtomicU64,
    /// Commits with settles that have begun.
    begun: AtomicU32,
    /// Has the node look at everything.
    wake: Notify,
}

/// Adds a row that no store returns: one that is there already, so that it is let go at once.
fn with_grenade(mut loaded: Loaded, place: usize) -> Loaded {
    let mut again = loaded.deliveries[place].clone();
    again.payload = Some(grenade());
    loaded.deliveries.insert(place + 1, again);
    loaded
}

impl Panics {
    /// Does what it is asked until it is told otherwise.
    pub(super) fn over(store: &Store) -> Self {
        Self { memory: Some(Arc::clone(store.memory())), ..Self::default() }
    }

    /// Writes so many chunks of replays, and refuses the others.
    pub(super) fn after_chunks(store: &Store, chunks: u32) -> Self {
        Self { chunks: Some(AtomicU32::new(chunks)), ..Self::over(store) }
    }

    /// Refuses chunks with the delivery of a message from now on.
    pub(super) fn refuse(&self, message: MessageKey) {
        self.unfit.store(message.0, Ordering::SeqCst);
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().unwrap()
    }
}

fn panic_while(left: &AtomicU32) {
    assert!(!is_left(left), "as told");
}

/// Takes one, if one is left.
fn is_left(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Queue for Panics {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        panic_while(&self.commits);
        self.begun.fetch_add(u32::from(!batch.settles.is_empty()), Ordering::SeqCst);
        let slowness = Duration::from_millis(self.slowness.load(Ordering::SeqCst));
        let unfit = self.unfit.load(Ordering::SeqCst);
        let refuses = |step: &Upkeep| {
            let Upkeep::Replay(chunk) = step else { return false };
            self.chunks.as_ref().is_some_and(|chunks| !is_left(chunks))
                || chunk.deliveries.iter().any(|row| row.key.message.0 == unfit)
        };
        let refused: Vec<bool> = batch.upkeep.iter().map(refuses).collect();
        Box::pin(async move {
            tokio::time::sleep(slowness).await;
            let mut batch = Arc::unwrap_or_clone(batch);
            let mut places = refused.iter();
            batch.upkeep.retain(|_| places.next() == Some(&false));
            let mut committed = self.memory().commit(Arc::new(batch)).await?;
            for place in (0..refused.len()).filter(|place| refused[*place]) {
                committed.upkeep.insert(place, Done::Refused("as told".to_owned()));
            }
            Ok(committed)
        })
    }

    fn load(&self, load: Load) -> Answer<'_, Loaded> {
        panic_while(&self.loads);
        let loading = self.memory().load(load);
        Box::pin(async move {
            let loaded = loading.await?;
            let explosive = self.explosive.load(Ordering::SeqCst);
            let explosive = |row: &PendingDelivery| row.key.message.0 == explosive;
            let place = loaded.deliveries.iter().position(explosive);
            let place = place.or_else(|| {
                (!loaded.deliveries.is_empty() && is_left(&self.grenades)).then_some(0)
            });
            Ok(match place {
                Some(place) => with_grenade(loaded, place),
                None => loaded,
            })
        })
    }

    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>> {
        panic_while(&self.walks);
        self.memory().waiting(partitions)
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.memory().probe()
    }

    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        self.memory().requests(partitions)
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        self.memory().now()
    }

    fn renew(&self, node: Node) -> Answer<'_, Renewal> {
        self.memory().renew(node)
    }

    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>> {
        self.memory().take(node, most)
    }

    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()> {
        if is_left(&self.releases) {
            let text = "as told".to_owned();
            return Box::pin(async { Err(store::Error::Unavailable { text, source: None }) });
        }
        self.memory().release(node, leases)
    }

    fn woken(&self) -> Answer<'_, Call> {
        Box::pin(async {
            self.wake.notified().await;
            Ok(Call::Work(Partition::all().collect()))
        })
    }

    fn call(&self) -> Answer<'_, Timestamp> {
        self.memory().call()
    }

    fn confirm(&self, node: Node, heard: Timestamp) -> Answer<'_, ()> {
        self.memory().confirm(node, heard)
    }

    fn confirmed(&self) -> Answer<'_, Confirmed> {
        self.memory().confirmed()
    }
}

#[tokio::test]
async fn a_committer_that_panics_is_told_instead_of_leaving_everybody_waiting() {
    let store = Scene::begin(&[Step::Answer(200)]).await.end().await;
    let queue = Panics { commits: AtomicU32::new(1), ..Panics::over(&store) };
    let scene = Scene::over(store, Arc::new(queue), &[Step::Answer(200)]).await;
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
    let scene = Scene::over(store, Arc::new(queue), &[Step::Answer(200)]).await;
    assert_eq!(scene.settled(message).await.state, Delivery::Delivered);
    scene.end().await;
}

/// A scene over a store that does as it is told later.
pub(super) async fn obedient(steps: &[Step]) -> (Scene, Arc<Panics>) {
    let store = Scene::begin(steps).await.end().await;
    let queue = Arc::new(Panics::over(&store));
    (Scene::over(store, Arc::clone(&queue) as _, steps).await, queue)
}

#[tokio::test]
async fn a_committer_that_panics_while_the_node_stops_is_told_at_once() {
    let (scene, queue) = obedient(&[Step::Slow(Duration::from_millis(200), 200)]).await;
    scene.send().await;
    scene.arrived(1).await;
    queue.commits.store(1, Ordering::SeqCst);
    assert_eq!(scene.stop().await, Ending::Broken("the committer"));
}

#[tokio::test]
async fn an_engine_that_panics_begins_anew_and_what_it_was_at_does_not_count() {
    let hanging = Step::Slow(Duration::from_secs(600), 200);
    let (scene, queue) = obedient(&[hanging, Step::Answer(200)]).await;
    let message = scene.send().await;
    scene.arrived(1).await;
    let (endpoint, other) = scene.pending_elsewhere().await;
    queue.grenades.store(1, Ordering::SeqCst);
    queue.wake.notify_one();
    for entry in [scene.settled(message).await, scene.settled_for(other, &endpoint).await] {
        assert_eq!((entry.state, entry.recorded), (Delivery::Delivered, 1));
    }
    assert_eq!(queue.grenades.load(Ordering::SeqCst), 0, "it did panic");
    let numbers = scene.numbers();
    let distinct: BTreeSet<_> = numbers.iter().collect();
    assert_eq!((numbers.len(), distinct.len()), (3, 3), "{numbers:?}");
    assert!(numbers[1].0 - numbers[0].0 > u64::from(u32::MAX), "{numbers:?}");
    // It lives on, and stops as usual.
    let next = scene.send().await;
    assert_eq!(scene.settled(next).await.state, Delivery::Delivered);
    assert_eq!(scene.stop().await, Ending::InTime);
}

#[tokio::test]
async fn what_an_engine_had_judged_before_it_panicked_is_not_sent_again() {
    let (scene, queue) = obedient(&[Step::Slow(Duration::from_millis(200), 200)]).await;
    let message = scene.send().await;
    scene.arrived(1).await;
    let (endpoint, other) = scene.pending_elsewhere().await;
    queue.grenades.store(1, Ordering::SeqCst);
    // Longer than it takes to begin anew.
    queue.slowness.store(1_500, Ordering::SeqCst);
    let before = queue.begun.load(Ordering::SeqCst);
    until(|| async { (queue.begun.load(Ordering::SeqCst) > before).then_some(()) }).await;
    queue.wake.notify_one();
    for entry in [scene.settled(message).await, scene.settled_for(other, &endpoint).await] {
        assert_eq!((entry.state, entry.recorded), (Delivery::Delivered, 1));
    }
    assert_eq!(queue.grenades.load(Ordering::SeqCst), 0, "it did panic");
    assert_eq!(scene.arrivals(), 2);
}

#[tokio::test]
async fn a_delivery_whose_end_makes_the_engine_panic_three_times_is_poison_and_others_go_on() {
    let steps = [Step::Grenade, Step::Grenade, Step::Grenade, Step::Answer(200)];
    let scene = Scene::begin(&steps).await;
    // The second one waits behind the first one each time.
    let (poison, behind) = (scene.send().await, scene.send().await);
    let entry = scene.settled(poison).await;
    assert_eq!((entry.state, entry.recorded), (Delivery::Dead(Cause::Poison), 0));
    let entry = scene.settled(behind).await;
    assert_eq!((entry.state, entry.recorded), (Delivery::Delivered, 1));
    assert_eq!(scene.arrivals(), 4);
    let next = scene.send().await;
    assert_eq!(scene.settled(next).await.state, Delivery::Delivered);
    assert_eq!(scene.stop().await, Ending::InTime);
}

#[tokio::test]
async fn a_delivery_whose_end_makes_the_engine_panic_twice_is_sent_again() {
    let scene = Scene::begin(&[Step::Grenade, Step::Grenade, Step::Answer(200)]).await;
    let message = scene.send().await;
    let entry = scene.settled(message).await;
    assert_eq!((entry.state, entry.recorded), (Delivery::Delivered, 1));
    assert_eq!(scene.arrivals(), 3);
}

/// Stops a node whose store does not take anything back so many times, a quarter of a second apart;
/// tells how that went, and how many partitions are free then.
async fn stopped_after(refusals: u32) -> (Ending, usize) {
    let (scene, queue) = obedient(&[Step::Answer(200)]).await;
    let message = scene.send().await;
    scene.settled(message).await;
    queue.releases.store(refusals, Ordering::SeqCst);
    let ending = scene.stop().await;
    (ending, queue.memory().take(Node("next".to_owned()), 64).await.unwrap().len())
}

#[tokio::test]
async fn a_store_that_is_back_before_the_time_to_stop_is_over_gets_everything_back() {
    assert_eq!(stopped_after(4).await, (Ending::InTime, 64));
}

#[tokio::test]
async fn what_could_not_be_given_back_has_not_ended_in_time() {
    let (ending, free) = stopped_after(u32::MAX).await;
    assert_eq!(ending, Ending::TooLate);
    assert!(free < 64, "its leases have not run out yet");
}

#[tokio::test]
async fn a_delivery_that_makes_the_engine_panic_whenever_it_comes_is_poison_though_others_come_with_it()
 {
    let (scene, queue) = obedient(&[Step::Answer(200)]).await;
    let (endpoint, [before, poison, behind]) = scene.several_pending_elsewhere().await;
    let (poison, key) = poison;
    queue.explosive.store(key.0, Ordering::SeqCst);
    queue.wake.notify_one();
    let entry = scene.settled_for(poison, &endpoint).await;
    assert_eq!((entry.state, entry.recorded), (Delivery::Dead(Cause::Poison), 0));
    for (message, _) in [before, behind] {
        let entry = scene.settled_for(message, &endpoint).await;
        assert_eq!((entry.state, entry.recorded), (Delivery::Delivered, 1));
    }
    assert_eq!(scene.stop().await, Ending::InTime);
}
