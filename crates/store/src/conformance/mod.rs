//! The suite that every implementation passes, one test for each claim.
//!
//! An implementation writes one function that opens an empty store, and one line:
//!
//! ```text
//! async fn open() -> Harness { … }
//! store::conformance!(open);
//! ```
//!
//! The line makes one test of each case, so that no implementation can leave one out, and a test
//! below sees to it that no case is left out of the line. Each case gets a store of its own.
//!
//! # Layout
//! - [`Harness`]: what a case gets
//! - [`Scene`]: what a case arranges with
//! - `queue`: accepting, settling, fencing, loading, leases, what is scheduled, probing
//! - `figures`: sums, and what they keep
//! - `upkeep`, `replays`, `missing`, `pruning`, `retention`: steps of upkeep
//! - `catalog`, `changes`, `disabling`, `editing`, `secrets`, `tokens`: what people set up
//! - `ledger`: listing, pages, filters, records, counting, answers, expunging, what waits

#![expect(missing_docs, reason = "the name of a case is its claim")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a case fails by panicking")]

mod cases;
mod harness;
mod ledger;
mod queue;
mod scene;

pub mod catalog;
pub mod changes;
pub mod disabling;
pub mod editing;
pub mod figures;
pub mod missing;
pub mod pruning;
pub mod replays;
pub mod retention;
pub mod secrets;
pub mod sizes;
pub mod tokens;
pub mod upkeep;

pub use self::ledger::{answers, counting, expunging, filters, listing, pages, records, waiting};
pub use self::queue::{accepting, fencing, leases, loading, probing, scheduled, settling};
pub use harness::{Handle, Harness, Pass};
pub use scene::{MINUTE, NOW, Scene, attempts_of, failure, fresh, later, long_ago, success};

#[cfg(test)]
const THEMES: [(&str, &str); 28] = [
    ("accepting", include_str!("queue/accepting.rs")),
    ("answers", include_str!("ledger/answers.rs")),
    ("catalog", include_str!("catalog.rs")),
    ("changes", include_str!("changes.rs")),
    ("counting", include_str!("ledger/counting.rs")),
    ("disabling", include_str!("disabling.rs")),
    ("editing", include_str!("editing.rs")),
    ("expunging", include_str!("ledger/expunging.rs")),
    ("fencing", include_str!("queue/fencing.rs")),
    ("figures", include_str!("figures.rs")),
    ("filters", include_str!("ledger/filters.rs")),
    ("leases", include_str!("queue/leases.rs")),
    ("listing", include_str!("ledger/listing.rs")),
    ("loading", include_str!("queue/loading.rs")),
    ("missing", include_str!("missing.rs")),
    ("pages", include_str!("ledger/pages.rs")),
    ("probing", include_str!("queue/probing.rs")),
    ("pruning", include_str!("pruning.rs")),
    ("records", include_str!("ledger/records.rs")),
    ("replays", include_str!("replays.rs")),
    ("retention", include_str!("retention.rs")),
    ("scheduled", include_str!("queue/scheduled.rs")),
    ("secrets", include_str!("secrets.rs")),
    ("settling", include_str!("queue/settling.rs")),
    ("sizes", include_str!("sizes.rs")),
    ("tokens", include_str!("tokens.rs")),
    ("upkeep", include_str!("upkeep.rs")),
    ("waiting", include_str!("ledger/waiting.rs")),
];
