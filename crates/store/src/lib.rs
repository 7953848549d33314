//! Where messages, deliveries and their endpoints are kept.
//!
//! Three small traits, one for each kind of caller, in verbs of the life of a message. SQL
//! persists what `domain` decided and never decides anything itself.
//!
//! # Layout
//! - [`queue`]: the hot path. Batches of accepts, settles and upkeep; loads; leases
//! - [`catalog`]: what people set up. Applications, endpoints, secrets, event types, tokens
//! - [`ledger`]: what people look at. Messages, deliveries, attempts, rollups, replay tasks
//! - [`vault`]: what is kept encrypted
//! - [`keys`], [`page`], [`error`], [`damage`], [`headers`], [`limits`], `retention`: what all of
//!   them share
//! - [`turns`]: one at a time for each application
//! - `codes`: enums as numbers, for both databases
//! - [`postgres`]: everything in PostgreSQL, for any number of nodes
//! - [`memory`]: the reference, for tests and the simulator
//! - `conformance`: what every implementation must do, as tests
//! - [`sqlite`]: the store in one file; [`migrate`]: which schema a store may have
//!
//! Durability: when a call that writes has answered, what it wrote is on disk. A call that failed
//! with a retryable error may have taken effect all the same; repeating it changes nothing more.

pub mod catalog;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod codes;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod damage;
pub mod error;
pub mod headers;
pub mod keys;
pub mod ledger;
pub mod limits;
pub mod memory;
pub mod migrate;
pub mod page;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod queue;
mod retention;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod turns;
pub mod vault;

use std::pin::Pin;

pub use catalog::Catalog;
pub use error::Error;
pub use headers::Headers;
pub use ledger::Ledger;
pub use queue::Queue;
pub use vault::Vault;

/// The answer of a store, to be awaited.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;
