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
//! - `accepting`, `settling`, `fencing`, `loading`, `leases`, `upkeep`, `replays`,
//!   `missing`, `pruning`, `retention`, `scheduled`, `expunging`, `catalog`, `changes`, `disabling`,
//!   `editing`,
//!   `secrets`, `listing`, `filters`, `records`, `counting`, `answers`, `tokens`: the cases, by theme

#![expect(missing_docs, reason = "the name of a case is its claim")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a case fails by panicking")]

mod cases;
mod harness;
mod scene;

pub mod accepting;
pub mod answers;
pub mod catalog;
pub mod changes;
pub mod counting;
pub mod disabling;
pub mod editing;
pub mod expunging;
pub mod fencing;
pub mod filters;
pub mod leases;
pub mod listing;
pub mod loading;
pub mod missing;
pub mod pruning;
pub mod records;
pub mod replays;
pub mod retention;
pub mod scheduled;
pub mod secrets;
pub mod settling;
pub mod sizes;
pub mod tokens;
pub mod upkeep;

pub use harness::{Handle, Harness, Pass};
pub use scene::{MINUTE, NOW, Scene, failure, fresh, later, long_ago, success};

#[cfg(test)]
const THEMES: [(&str, &str); 24] = [
    ("accepting", include_str!("accepting.rs")),
    ("answers", include_str!("answers.rs")),
    ("catalog", include_str!("catalog.rs")),
    ("changes", include_str!("changes.rs")),
    ("counting", include_str!("counting.rs")),
    ("disabling", include_str!("disabling.rs")),
    ("editing", include_str!("editing.rs")),
    ("expunging", include_str!("expunging.rs")),
    ("fencing", include_str!("fencing.rs")),
    ("filters", include_str!("filters.rs")),
    ("leases", include_str!("leases.rs")),
    ("listing", include_str!("listing.rs")),
    ("loading", include_str!("loading.rs")),
    ("missing", include_str!("missing.rs")),
    ("pruning", include_str!("pruning.rs")),
    ("records", include_str!("records.rs")),
    ("replays", include_str!("replays.rs")),
    ("retention", include_str!("retention.rs")),
    ("scheduled", include_str!("scheduled.rs")),
    ("secrets", include_str!("secrets.rs")),
    ("settling", include_str!("settling.rs")),
    ("sizes", include_str!("sizes.rs")),
    ("tokens", include_str!("tokens.rs")),
    ("upkeep", include_str!("upkeep.rs")),
];
