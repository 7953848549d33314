//! What a reader does when something goes wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use domain::time::Timestamp;

use super::*;
use crate::catalog::Name;
use crate::sqlite::{Settings, Sqlite};
use crate::{Catalog as _, Ledger as _};

/// Opens a store whose clock goes on by a tenth of a second at each look.
fn open(directory: &tempfile::TempDir) -> Sqlite {
    let now = AtomicI64::new(1_800_000_000_000_000);
    let clock = Arc::new(move || Timestamp::from_micros(now.fetch_add(100_000, Ordering::SeqCst)));
    Sqlite::open(Settings::new(directory.path(), |bytes| bytes.fill(7), clock)).unwrap()
}

fn count_to(reading: &Reading<'_>, last: i64) -> Result<i64, Error> {
    let sql = "WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count LIMIT ?1)
        SELECT max(n) FROM count";
    Ok(reading.connection.query_row(sql, [last], |row| row.get(0))?)
}

#[tokio::test]
async fn a_read_that_takes_too_long_is_interrupted_and_the_next_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let error = store.read(|reading| count_to(reading, i64::MAX)).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("interrupt"), "{error}");
    for _ in 0..READERS {
        assert_eq!(store.read(|reading| count_to(reading, 10)).await.unwrap(), 10);
    }
}

#[tokio::test]
async fn a_long_read_in_pieces_is_not_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let pieces = |reading: &Reading<'_>| {
        for _ in 0..20 {
            count_to(reading, 2_000)?;
            reading.next_piece();
        }
        Ok(())
    };
    store.read(pieces).await.unwrap();
}

#[tokio::test]
async fn a_panic_is_answered_for_and_the_thread_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    for _ in 0..READERS * 2 {
        let panics = |_: &Reading<'_>| -> Result<(), Error> { panic!("on purpose") };
        assert!(store.read(panics).await.unwrap_err().is_retryable());
    }
    assert_eq!(store.read(|reading| count_to(reading, 10)).await.unwrap(), 10);
}

#[tokio::test]
async fn readers_cannot_write() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let writes = |reading: &Reading<'_>| Ok(reading.connection.execute("DELETE FROM meta", [])?);
    store.read(writes).await.unwrap_err();
}

#[tokio::test]
async fn what_every_request_looks_up_waits_for_no_list() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&directory));
    let (begun, mut begins) = mpsc::unbounded_channel();
    let (mut gates, mut lists) = (Vec::new(), tokio::task::JoinSet::new());
    for _ in 0..READERS {
        let (gate, opened) = std::sync::mpsc::channel::<()>();
        let (store, begun) = (Arc::clone(&store), begun.clone());
        gates.push(gate);
        let list = move |_: &Reading<'_>| {
            begun.send(()).unwrap();
            // Until the test lets go.
            let _dropped = opened.recv();
            Ok(())
        };
        lists.spawn(async move { store.read(list).await });
    }
    for _ in 0..READERS {
        begins.recv().await.unwrap();
    }
    // More than the queue holds.
    for _ in 0..WAITING_ERRANDS * 2 {
        let store = Arc::clone(&store);
        lists.spawn(async move { store.read(|_| Ok(())).await });
    }
    let is_missing = |error: &Error| matches!(error, Error::Missing(_));
    assert!(store.token(String::new()).await.is_err_and(|error| is_missing(&error)));
    let name = Name::Uid("nobody".to_owned());
    assert!(store.application(name).await.is_err_and(|error| is_missing(&error)));
    assert!(store.answer([0; 32], Timestamp::EPOCH).await.unwrap().is_none());
    store.changes(None, None).await.unwrap();
    drop(gates);
    assert!(lists.join_all().await.into_iter().all(|read| read.is_ok()));
}
