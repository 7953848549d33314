//! What tests and benchmarks put around a server that runs. Nothing of the product depends on it but
//! `redial bench`, and it knows none of our other crates.
//!
//! # Layout
//! - [`server`]: `redial serve` as a process of its own
//! - [`receiver`]: who gets the requests; [`connection`]: a client with one connection
//! - [`database`]: databases that vanish, on a PostgreSQL server

pub mod connection;
pub mod database;
pub mod receiver;
pub mod server;

use std::time::Duration;

/// Asks again and again, for thirty seconds at the most.
///
/// # Panics
/// If there is no answer by then.
#[expect(clippy::panic, reason = "a test that waits in vain has failed")]
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1_500 {
        if let Some(found) = ask().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("within thirty seconds it did not happen that {what}");
}
