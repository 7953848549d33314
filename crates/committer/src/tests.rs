use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::ids::MessageId;
use domain::partition::Partition;
use domain::time::Timestamp;
use engine::commit::Weight;
use store::Answer;
use store::keys::{Lease, MessageKey, Node};
use store::queue::{Batch, Call, Committed, Confirmed, Load, Loaded, NewMessage, Renewal, Request};

use super::*;

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000)
    }
    fn wall(&self) -> Timestamp {
        self.now()
    }
}

fn start(store: &Arc<Slow>, limits: Limits) -> (Committer, JoinHandle<Counts>) {
    Committer::start(Settings {
        queue: Arc::clone(store) as _,
        clock: Arc::new(Still),
        limits,
        transactions: Transactions::Together,
        listener: Arc::new(Nobody),
    })
}

/// How long a commit takes.
const COMMIT: Duration = Duration::from_millis(20);

/// A store whose commits take a moment, or fail.
#[derive(Default)]
struct Slow {
    commits: AtomicUsize,
    /// So many commits fail before one works.
    failures: AtomicUsize,
}

impl Queue for Slow {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        Box::pin(async move {
            tokio::time::sleep(COMMIT).await;
            self.commits.fetch_add(1, Ordering::Relaxed);
            let fails = |left: usize| left.checked_sub(1);
            if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails).is_ok() {
                return Err(store::Error::Unavailable { text: "full".into(), source: None });
            }
            let number = |accept: &Accept| MessageKey(accept.revision);
            let accepts = batch
                .accepts
                .iter()
                .map(|accept| Accepted::New { message: number(accept), turns: vec![] });
            let changed = |_: &Upkeep| Done::Changed(1);
            Ok(Committed {
                accepts: accepts.collect(),
                settles: Vec::new(),
                upkeep: batch.upkeep.iter().map(changed).collect(),
            })
        })
    }
    fn load(&self, _: Load) -> Answer<'_, Loaded> {
        unimplemented_here()
    }
    fn waiting(&self, _: Vec<Partition>) -> Answer<'_, Vec<store::queue::Waiting>> {
        unimplemented_here()
    }
    fn probe(&self) -> Answer<'_, ()> {
        unimplemented_here()
    }
    fn requests(&self, _: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        unimplemented_here()
    }
    fn now(&self) -> Answer<'_, Timestamp> {
        unimplemented_here()
    }
    fn renew(&self, _: Node) -> Answer<'_, Renewal> {
        unimplemented_here()
    }
    fn take(&self, _: Node, _: u8) -> Answer<'_, Vec<Lease>> {
        unimplemented_here()
    }
    fn release(&self, _: Node, _: Vec<Lease>) -> Answer<'_, ()> {
        unimplemented_here()
    }
    fn woken(&self) -> Answer<'_, Call> {
        unimplemented_here()
    }
    fn call(&self) -> Answer<'_, Timestamp> {
        unimplemented_here()
    }
    fn confirm(&self, _: Node, _: Timestamp) -> Answer<'_, ()> {
        unimplemented_here()
    }
    fn confirmed(&self) -> Answer<'_, Confirmed> {
        unimplemented_here()
    }
}

fn unimplemented_here<'a, T: Send + 'a>() -> Answer<'a, T> {
    Box::pin(async { Err(store::Error::Refused("the committer only commits".into())) })
}

fn accept(application: i64, number: i64) -> Accept {
    Accept {
        application: ApplicationKey(application),
        named: None,
        revision: number,
        message: NewMessage {
            id: MessageId::from_bytes([1; 20]),
            event_type: "a".into(),
            event_id: None,
            channels: vec![],
            payload: Bytes::from_static(b"{}"),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: Still.now(),
            retained_until: Still.now(),
        },
        idempotency: None,
        deliveries: vec![],
    }
}

async fn hand_in_all(committer: &Committer, count: i64) -> Vec<Result<Accepted, Rejected>> {
    let calls = (0..count).map(|n| {
        let committer = committer.clone();
        tokio::spawn(async move { committer.accept(accept(n, n)).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

#[tokio::test]
async fn callers_share_commits_and_each_gets_its_own_answer() {
    let store = Arc::new(Slow::default());
    let limits = Limits::default();
    let (committer, task) = start(&store, limits);
    let answers = hand_in_all(&committer, 100).await;
    let keys: BTreeSet<i64> = answers
        .into_iter()
        .map(|answer| {
            let Accepted::New { message, .. } = answer.unwrap() else { panic!("not new") };
            message.0
        })
        .collect();
    assert_eq!(keys.len(), 100);
    committer.close();
    let counts = task.await.unwrap();
    assert_eq!(counts.items, 100);
    assert!(counts.batches < 20, "{counts:?}");
}

#[tokio::test]
async fn a_caller_alone_is_not_kept_waiting_for_a_crowd_that_has_gone() {
    let store = Arc::new(Slow::default());
    let (committer, _task) = start(&store, Limits::default());
    for _ in 0..3 {
        for answer in hand_in_all(&committer, 100).await {
            answer.unwrap();
        }
        // Nobody else comes, so that only the committer itself can let it go.
        for answer in hand_in_all(&committer, 1).await {
            answer.unwrap();
        }
    }
}

#[tokio::test]
async fn a_failed_batch_is_told_to_everybody_in_it() {
    let store = Arc::new(Slow { failures: AtomicUsize::new(usize::MAX), ..Slow::default() });
    let (committer, _task) = start(&store, Limits::default());
    for answer in hand_in_all(&committer, 10).await {
        assert!(matches!(answer, Err(Rejected::Store(error)) if error.is_retryable()));
    }
}

/// Limits under which a lane holds four messages.
fn narrow() -> Limits {
    Limits { lane: Weight { rows: 8, bytes: 1 << 20 }, ..Limits::default() }
}

fn refused(answers: &[Result<Accepted, Rejected>]) -> usize {
    answers.iter().filter(|it| matches!(it, Err(Rejected::Crowded(_)))).count()
}

#[tokio::test(start_paused = true)]
async fn a_full_lane_makes_callers_wait() {
    let store = Arc::new(Slow::default());
    let (committer, task) = start(&store, narrow());
    let answers = hand_in_all(&committer, 100).await;
    assert_eq!(refused(&answers), 0);
    committer.close();
    assert_eq!(task.await.unwrap(), Counts { batches: 25, items: 100 });
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_has_waited_for_long_enough_is_refused_and_not_committed() {
    let store = Arc::new(Slow::default());
    let limits = Limits { wait: 5 * COMMIT / 2, ..narrow() };
    let (committer, task) = start(&store, limits);
    let answers = hand_in_all(&committer, 50).await;
    let taken = 50 - refused(&answers);
    assert!((8..=16).contains(&taken), "{taken}");
    committer.close();
    assert_eq!(usize::try_from(task.await.unwrap().items).unwrap(), taken);
}

#[tokio::test(start_paused = true)]
async fn beyond_what_may_wait_callers_are_refused_at_once() {
    let store = Arc::new(Slow::default());
    let waiting = engine::commit::Bound { items: 10, bytes: 1 << 20 };
    let (committer, _task) = start(&store, Limits { waiting, ..narrow() });
    let answers = hand_in_all(&committer, 50).await;
    assert_eq!(refused(&answers), 36);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_while_it_waits_leaves_no_message() {
    let store = Arc::new(Slow::default());
    let (committer, task) = start(&store, narrow());
    let calls: Vec<_> = (0..10)
        .map(|number| {
            let committer = committer.clone();
            tokio::spawn(async move { committer.accept(accept(number, number)).await })
        })
        .collect();
    tokio::time::sleep(COMMIT / 2).await;
    // Four are being committed, four are in the lane, two wait.
    calls[8].abort();
    committer.close();
    assert_eq!(task.await.unwrap().items, 9);
}

#[tokio::test]
async fn closing_commits_what_waits_and_takes_nothing_more() {
    let store = Arc::new(Slow::default());
    let (committer, task) = start(&store, Limits::default());
    let waiting = {
        let committer = committer.clone();
        tokio::spawn(async move { committer.accept(accept(1, 1)).await })
    };
    tokio::task::yield_now().await;
    committer.close();
    assert!(matches!(committer.accept(accept(2, 2)).await, Err(Rejected::Closed)));
    assert!(waiting.await.unwrap().is_ok());
    assert_eq!(task.await.unwrap().items, 1);
}

/// Remembers what the core would have been told.
#[derive(Default)]
struct Core(Mutex<Vec<Number>>);

impl Listener for Core {
    fn accepted(&self, _: Timestamp, _: Vec<Accept>, _: &[Accepted]) {}
    fn answered(&self, _: Vec<(Number, Settled)>, upkeep: Vec<(Number, Done)>) {
        self.0.lock().unwrap().extend(upkeep.into_iter().map(|(number, _)| number));
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_alone_waits_for_its_commit_and_for_nothing_else() {
    let store = Arc::new(Slow::default());
    let (committer, _task) = start(&store, Limits::default());
    let calls = async {
        for number in 0..20 {
            committer.accept(accept(1, number)).await.unwrap();
        }
    };
    // A millisecond more for each would be too long.
    tokio::time::timeout(20 * COMMIT + COMMIT / 2, calls).await.expect("they wait for something");
    assert_eq!(store.commits.load(Ordering::Relaxed), 20);
}

#[tokio::test(start_paused = true)]
async fn what_the_core_hands_in_is_repeated_until_it_is_answered() {
    for transactions in [Transactions::Together, Transactions::Apart] {
        let store = Arc::new(Slow { failures: AtomicUsize::new(3), ..Slow::default() });
        let core = Arc::new(Core::default());
        let (committer, task) = Committer::start(Settings {
            queue: Arc::clone(&store) as _,
            clock: Arc::new(Still),
            limits: Limits::default(),
            transactions,
            listener: Arc::clone(&core) as _,
        });
        let step = || Upkeep::Prune { now: Still.now(), most: 1 };
        committer.take_in([], [(Number(1), step()), (Number(2), step())]);
        committer.close();
        task.await.unwrap();
        assert_eq!(*core.0.lock().unwrap(), [Number(1), Number(2)], "{transactions:?}");
        assert_eq!(store.commits.load(Ordering::Relaxed), 4);
    }
}
