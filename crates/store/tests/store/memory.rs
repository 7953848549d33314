//! The suite on the reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use domain::time::Timestamp;
use store::conformance::{Handle, Harness, NOW, Pass};
use store::memory::{Memory, State};

store::conformance!(open);

/// Opens an empty store in memory.
pub(crate) async fn open() -> Harness {
    open_with(State::default(), NOW).1
}

/// Opens a store in memory with a given state, at a given time.
pub(crate) fn open_with(state: State, now: Timestamp) -> (Arc<Memory>, Harness) {
    let now = Arc::new(AtomicI64::new(now.as_micros()));
    let (read, pass) = (now.clone(), now);
    let clock = Box::new(move || Timestamp::from_micros(read.load(Ordering::SeqCst)));
    let pass: Pass = Box::new(move |by: Duration| {
        pass.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
        Box::pin(async { Ok(()) })
    });
    let memory = Arc::new(Memory::new(state, clock));
    (memory.clone(), Harness::alone(Handle::new(memory), pass))
}
