//! Benchmarks that a sceptic can run: everything is measured in one run, beside the bare thing it
//! is made of, and told as a ratio first.
//!
//! # Layout
//! - `lifecycle`: many callers who accept and settle through the committer
//! - `pairs`: interleaved pairs and their medians
//! - `store`: what the store makes of a bare loop over the same rows

mod lifecycle;
mod pairs;
pub(crate) mod store;
