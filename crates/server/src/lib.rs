//! The shell around the pure rooms: command line, committer, clock, and the policy lab.
//!
//! A library, so that the binary stays a few lines and benchmarks can reach inside.
//!
//! # Layout
//! - `bench`: benchmarks that a sceptic can run
//! - [`cli`]: one file per command
//! - [`committer`]: carries waiting work to the store, batch by batch
//! - `lab`: what a policy does to a receiver, on virtual time
//! - [`clock`]: the only place that tells the time; `dice`: where throws come from
//! - [`transport`]: the one way out
//! - `words`: numbers as people say them

mod bench;
pub mod cli;
pub mod clock;
pub mod committer;
mod dice;
mod lab;
pub mod transport;
pub mod node;
mod replay;
mod words;
