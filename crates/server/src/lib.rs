//! The shell around the pure rooms: command line, committer, clock, and the policy lab.
//!
//! A library, so that the binary stays a few lines and benchmarks can reach inside.
//!
//! # Layout
//! - [`config`]: what an operator can set
//! - [`app`]: everything that can be done, once; `api`: the same over HTTP; `problem`: its errors
//! - `bench`: benchmarks that a sceptic can run
//! - [`cli`]: one file per command
//! - [`committer`]: carries waiting work to the store, batch by batch
//! - `lab`: what a policy does to a receiver, on virtual time
//! - [`clock`]: the only place that tells the time; `dice`: where throws come from
//! - [`node`]: the shell around the engine; [`transport`]: the one way out
//! - [`process`]: files and signals of the process, and how another one is started
//! - `replay`: what a replay task means, as it is kept
//! - `telemetry`: logs; `words`: numbers as people say them

mod api;
#[cfg(fuzzing)]
pub use api::fuzzing;
pub mod app;
mod bench;
pub mod cli;
pub mod clock;
pub mod committer;
pub mod config;
mod dice;
mod lab;
pub mod node;
mod problem;
pub mod process;
mod replay;
mod telemetry;
pub mod transport;
mod words;
