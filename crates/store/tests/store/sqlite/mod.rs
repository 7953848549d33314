//! The suite on SQLite, and what only SQLite promises.

mod damage;
mod expunging;
mod migrating;
mod opening;
mod pruning;
mod recovery;
mod space;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use domain::time::Timestamp;
use store::conformance::{Handle, Harness, NOW, Pass};
use store::sqlite::{Settings, Sqlite};

use crate::{memory, model, wide};

store::conformance!(open);

#[test]
fn sqlite_answers_like_the_reference() {
    model::check(8, memory::open, open);
}

#[tokio::test]
async fn wide_fan_outs_are_looked_at_in_steps() {
    wide::fan_outs_are_looked_at_in_steps(open().await).await;
}

/// Opens an empty store in a directory of its own.
pub(crate) async fn open() -> Harness {
    let directory = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(NOW.as_micros()));
    let (read, pass) = (now.clone(), now);
    let clock = Arc::new(move || Timestamp::from_micros(read.load(Ordering::SeqCst)));
    let pass: Pass = Box::new(move |by: Duration| {
        pass.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
        Box::pin(async { Ok(()) })
    });
    let store = Sqlite::open(Settings::new(directory.path(), entropy, clock)).unwrap();
    Harness { guard: Box::new(directory), ..Harness::alone(Handle::new(Arc::new(store)), pass) }
}

/// Describes a store whose clock stands still.
fn settings(directory: &Path) -> Settings {
    Settings::new(directory, entropy, Arc::new(|| NOW))
}

/// Opens a store in a directory that outlives it.
fn harness(directory: &Path) -> Harness {
    let store = Sqlite::open(settings(directory)).unwrap();
    let pass: Pass = Box::new(|_| Box::pin(async { Ok(()) }));
    Harness::alone(Handle::new(Arc::new(store)), pass)
}

/// Makes bytes that are never the same twice.
fn entropy(bytes: &mut [u8]) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for chunk in bytes.chunks_mut(8) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        chunk.copy_from_slice(&number[..chunk.len()]);
    }
}
