//! What the writer does when something goes wrong.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use domain::time::Timestamp;
use rusqlite::ffi;

use crate::catalog::{ApplicationSettings, Catalog, Name, NewApplication, Touches};
use crate::keys::{ApplicationKey, Lease, Node};
use crate::limits::LEASE;
use crate::queue::{Accept, Accepted, Batch, NewMessage, Queue};
use crate::sqlite::catalog::application::changed;
use crate::sqlite::queue::lease;
use crate::sqlite::{Settings, Sqlite, Writing};
use crate::{Answer, Error};

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

fn open(directory: &tempfile::TempDir) -> Sqlite {
    Sqlite::open(Settings::new(directory.path(), |bytes| bytes.fill(7), Arc::new(|| NOW))).unwrap()
}

async fn application(store: &Sqlite) -> ApplicationKey {
    let id = domain::ids::ApplicationId::new(NOW, [1; 16]);
    let (uid, settings) = (None, ApplicationSettings::default());
    let new = NewApplication { id, uid, settings, at: NOW };
    store.create_application(new).await.unwrap().key
}

fn message(application: ApplicationKey, number: u8, bytes: usize) -> Accept {
    Accept {
        application,
        named: None,
        revision: 1,
        message: NewMessage {
            id: domain::ids::MessageId::new(NOW, [number; 16]),
            event_type: "invoice.paid".to_owned(),
            event_id: None,
            channels: Vec::new(),
            payload: vec![number; bytes].into(),
            content_type: None,
            policy: None,
            deliver_at: None,
            only: None,
            received_at: NOW,
            retained_until: NOW,
        },
        idempotency: Some([number; 32]),
        deliveries: Vec::new(),
    }
}

async fn accept(store: &Sqlite, accept: Accept) -> Result<Accepted, Error> {
    let batch = Batch { accepts: vec![accept], ..Batch::default() };
    Ok(store.commit(batch.into()).await?.accepts.remove(0))
}

async fn messages(store: &Sqlite) -> i64 {
    let sql = "SELECT count(*) FROM messages";
    store
        .read(|reading| Ok(reading.connection.query_row(sql, [], |row| row.get(0))?))
        .await
        .unwrap()
}

/// Begins a transaction that ends as `work` does, once what comes beside its answer is dropped.
fn hold<T: Send + 'static>(
    store: &Sqlite,
    work: impl FnOnce(&mut Writing<'_>) -> Result<T, Error> + Send + 'static,
) -> (Answer<'_, T>, mpsc::Sender<()>) {
    let (begun, begins) = mpsc::channel();
    let (let_go, held) = mpsc::channel::<()>();
    let mut answer = store.write(move |writing| {
        let result = work(writing);
        begun.send(()).unwrap();
        let _dropped = held.recv();
        result
    });
    // Once is enough to send it on its way.
    assert!(polled(&mut answer).is_pending());
    begins.recv().unwrap();
    (answer, let_go)
}

fn polled<T>(answer: &mut Answer<'_, T>) -> Poll<Result<T, Error>> {
    answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Renews a lease, which must not take any time, and returns what is owned.
fn renewed(store: &Sqlite, node: &Node) -> Vec<Lease> {
    match polled(&mut store.renew(node.clone())) {
        Poll::Ready(renewal) => renewal.unwrap().owned,
        Poll::Pending => panic!("a renewal waits"),
    }
}

async fn set_most_pages(store: &Sqlite, pages: i64) {
    let set = move |writing: &mut Writing<'_>| {
        let name = "max_page_count";
        Ok(writing.connection.pragma_update_and_check(None, name, pages, |_| Ok(()))?)
    };
    store.write(set).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_acknowledges_nothing_and_is_forgotten_when_there_is_space() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let application = application(&store).await;
    set_most_pages(&store, 100).await;
    let mut accepted = 0;
    let error = loop {
        match accept(&store, message(application, accepted, 20_000)).await {
            Ok(answer) => assert!(matches!(answer, Accepted::New { .. }), "{answer:?}"),
            Err(error) => break error,
        }
        accepted += 1;
    };
    assert!(error.is_retryable() && error.to_string().contains("full"), "{error}");
    assert_eq!(messages(&store).await, i64::from(accepted));
    set_most_pages(&store, 10_000).await;
    let again = accept(&store, message(application, accepted, 20_000)).await.unwrap();
    assert!(matches!(again, Accepted::New { .. }), "{again:?}");
    assert_eq!(messages(&store).await, i64::from(accepted) + 1);
}

#[tokio::test]
async fn after_a_failed_fsync_the_file_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let application = application(&store).await;
    let leases = store.take(Node("node".to_owned()), 64).await.unwrap();
    let mark = |writing: &mut Writing<'_>| {
        Ok(writing.connection.execute_batch("CREATE TEMP TABLE mark (a)")?)
    };
    store.write(mark).await.unwrap();
    let failed = |writing: &mut Writing<'_>| -> Result<(), Error> {
        writing.connection.execute("DELETE FROM applications", [])?;
        writing.memo.forget(ApplicationKey(1));
        let error = ffi::Error::new(ffi::SQLITE_IOERR_FSYNC);
        Err(rusqlite::Error::SqliteFailure(error, None).into())
    };
    assert!(store.write(failed).await.unwrap_err().is_retryable());
    let answer = accept(&store, message(application, 1, 1)).await.unwrap();
    assert!(matches!(answer, Accepted::New { .. }), "{answer:?}");
    let marked =
        |writing: &mut Writing<'_>| Ok(writing.connection.prepare("SELECT * FROM mark").is_ok());
    assert!(!store.write(marked).await.unwrap(), "it is the same connection");
    let renewal = store.renew(Node("node".to_owned())).await.unwrap();
    assert_eq!(renewal.owned, leases);
}

#[tokio::test]
async fn a_panic_is_answered_for_and_harms_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let application = application(&store).await;
    let panics = |writing: &mut Writing<'_>| -> Result<(), Error> {
        writing.connection.execute("DELETE FROM applications", [])?;
        panic!("on purpose")
    };
    let error = store.write(panics).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let answer = accept(&store, message(application, 1, 1)).await.unwrap();
    assert!(matches!(answer, Accepted::New { .. }), "{answer:?}");
}

#[tokio::test]
async fn what_a_failed_transaction_changed_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let key = application(&store).await;
    let node = Node("node".to_owned());
    let fails = move |writing: &mut Writing<'_>| -> Result<(), Error> {
        changed(writing, key, Touches::FanOut, NOW)?;
        writing.memo.application(writing.connection, key)?;
        lease::take(writing, &node, 64)?;
        Err(Error::Missing("nothing"))
    };
    store.write(fails).await.unwrap_err();
    let id = domain::ids::ApplicationId::new(NOW, [1; 16]);
    assert_eq!(store.application(Name::Id(id)).await.unwrap().revision, 1);
    let answer = accept(&store, message(key, 1, 1)).await.unwrap();
    assert!(matches!(answer, Accepted::New { .. }), "{answer:?}");
    let taken = store.take(Node("other".to_owned()), 64).await.unwrap();
    assert_eq!(taken.len(), 64);
    assert!(taken.iter().all(|lease| lease.epoch.0 == 1));
}

#[tokio::test]
async fn a_store_that_is_closed_does_not_begin_what_nobody_waits_for() {
    const WAITING: usize = 20;
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let key = application(&store).await;
    let (begun, begins) = mpsc::channel();
    let (close, closed) = mpsc::channel::<()>();
    let holds = move |_: &mut Writing<'_>| {
        begun.send(()).unwrap();
        // Until the test lets it go, which it does by dropping its end.
        let _dropped = closed.recv();
        Ok(())
    };
    let mut asked = Vec::from([Box::pin(store.write(holds)) as Answer<'_, ()>]);
    for number in 0..WAITING {
        let insert = message(key, u8::try_from(number).unwrap(), 1);
        let batch = Batch { accepts: vec![insert], ..Batch::default() };
        let commit = store.commit(batch.into());
        asked.push(Box::pin(async { commit.await.map(drop) }));
    }
    for answer in &mut asked {
        // Once is enough to send it on its way.
        let polled = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
    begins.recv().unwrap();
    drop(asked);
    let flag = Arc::clone(&store.writer.closed);
    let closing = std::thread::spawn(move || drop(store));
    while !flag.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    drop(close);
    closing.join().unwrap();
    assert_eq!(messages(&open(&directory)).await, 0);
}

#[tokio::test]
async fn a_renewal_does_not_wait_for_what_is_being_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let node = Node("node".to_owned());
    let leases = store.take(node.clone(), 64).await.unwrap();
    let (answer, let_go) = hold(&store, |_| Ok(()));
    assert_eq!(renewed(&store, &node), leases);
    assert!(matches!(polled(&mut store.now()), Poll::Ready(Ok(NOW))));
    drop(let_go);
    answer.await.unwrap();
}

#[tokio::test]
async fn what_is_being_taken_is_nobodys_until_it_is_committed() {
    let directory = tempfile::tempdir().unwrap();
    let seconds = Arc::new(AtomicU64::new(0));
    let passed = Arc::clone(&seconds);
    let clock = move || NOW.after(Duration::from_secs(passed.load(Ordering::Relaxed)));
    let settings = Settings::new(directory.path(), |bytes| bytes.fill(7), Arc::new(clock));
    let store = Sqlite::open(settings).unwrap();
    let [one, two] = ["one", "two"].map(|name| Node(name.to_owned()));
    let before = store.take(one.clone(), 64).await.unwrap();
    for fails in [true, false] {
        // The first is silent for so long that it may be robbed.
        seconds.fetch_add(2 * LEASE.as_secs(), Ordering::Relaxed);
        let robber = two.clone();
        let (answer, let_go) = hold(&store, move |writing| {
            let taken = lease::take(writing, &robber, 64)?;
            if fails { Err(Error::Missing("nothing")) } else { Ok(taken) }
        });
        assert_eq!((renewed(&store, &one), renewed(&store, &two)), (Vec::new(), Vec::new()));
        drop(let_go);
        let expected = match answer.await {
            Ok(taken) => (Vec::new(), taken),
            Err(_) => (before.clone(), Vec::new()),
        };
        assert_eq!((renewed(&store, &one), renewed(&store, &two)), expected);
        assert_eq!(expected.0.is_empty(), !fails);
    }
}

#[tokio::test]
async fn numbers_are_never_given_twice_even_if_their_messages_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let key = application(&store).await;
    let first = accept(&store, message(key, 1, 1)).await.unwrap();
    let remove =
        |writing: &mut Writing<'_>| Ok(writing.connection.execute("DELETE FROM messages", [])?);
    store.write(remove).await.unwrap();
    drop(store);
    let second = accept(&open(&directory), message(key, 2, 1)).await.unwrap();
    let (Accepted::New { message: first, .. }, Accepted::New { message: second, .. }) =
        (first, second)
    else {
        panic!("not new");
    };
    assert!(second > first, "{second:?} {first:?}");
}
