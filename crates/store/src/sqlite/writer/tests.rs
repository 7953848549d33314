//! What the writer does when something goes wrong.

use std::sync::Arc;
use std::task::{Context, Waker};

use domain::time::Timestamp;
use rusqlite::ffi;

use super::super::{Settings, Sqlite, Writing};
use crate::Error;
use crate::catalog::{ApplicationSettings, Catalog, Name, NewApplication};
use crate::keys::{ApplicationKey, Node};
use crate::queue::{Accept, Accepted, Batch, NewMessage, Queue};

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
        super::super::applications::raise_revision(writing, key)?;
        writing.memo.application(writing.connection, key)?;
        super::super::lease::take(writing, &node, 64)?;
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
    let (begun, begins) = std::sync::mpsc::channel();
    let (close, closed) = std::sync::mpsc::channel::<()>();
    let holds = move |_: &mut Writing<'_>| {
        begun.send(()).unwrap();
        // Until the test lets it go, which it does by dropping its end.
        let _dropped = closed.recv();
        Ok(())
    };
    let mut asked = Vec::from([Box::pin(store.write(holds)) as crate::Answer<'_, ()>]);
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
    while !flag.load(std::sync::atomic::Ordering::Relaxed) {
        std::thread::yield_now();
    }
    drop(close);
    closing.join().unwrap();
    assert_eq!(messages(&open(&directory)).await, 0);
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
