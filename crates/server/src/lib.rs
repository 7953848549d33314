//! The shell around the pure rooms: command line, API, node, transport, and the policy lab.
//!
//! A library, so that the binary stays a few lines and tests can reach inside.
//!
//! # Layout
//! - [`config`]: what an operator can set
//! - [`app`]: everything that can be done, once; `api`: the same over HTTP; `problem`: its errors
//! - [`cli`]: one file per command; `http`: listeners and connections
//! - `lab`: what a policy does to a receiver, on virtual time
//! - [`node`]: the shell around the engine; [`transport`]: the one way out
//! - `turns`: how many of something run at a time, and who is next; [`network`]: addresses as limits
//!   count them
//! - `replay`: what a replay task means, as it is kept; `telemetry`: logs and figures
//!
//! The clock, the dice and what else a process needs are [`host`]'s; batches are carried by the
//! [`committer`].

mod api;
#[cfg(fuzzing)]
pub use api::fuzzing;
pub mod app;
pub mod cli;
pub mod config;
mod http;
mod lab;
pub mod network;
pub mod node;
mod problem;
mod replay;
mod telemetry;
pub mod transport;
mod turns;

pub use ::committer;
pub use host::{clock, process};
use host::{dice, disk, words};
