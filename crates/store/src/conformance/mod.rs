//! The suite that every implementation passes, one test for each claim.
//!
//! An implementation writes one function that opens an empty store, and one line:
//!
//! ```ignore
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
//! - `accepting`, `settling`, `fencing`, `loading`, `leases`, `upkeep`, `replays`, `pruning`,
//!   `catalog`, `secrets`, `listing`, `filters`, `records`: the cases, by theme

#![expect(missing_docs, reason = "the name of a case is its claim")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a case fails by panicking")]

mod cases;
mod harness;
mod scene;

pub mod accepting;
pub mod fencing;
pub mod loading;
pub mod settling;

pub use harness::{Handle, Harness, Pass};
pub use scene::{MINUTE, NOW, Scene, failure, fresh, later, success};

#[cfg(test)]
const THEMES: [(&str, &str); 4] = [
    ("accepting", include_str!("accepting.rs")),
    ("fencing", include_str!("fencing.rs")),
    ("loading", include_str!("loading.rs")),
    ("settling", include_str!("settling.rs")),
];
