//! Real processes, real sockets, and everything that can happen to them: what the tests beside it
//! do for seconds, `examples/faults.rs` does for as long as is asked for.
//!
//! # Layout
//! - `process`: the server as a process; `scene`: several of them with endpoints and receivers
//! - `database`, `stalls`: what a fleet's database says about it
//! - `client`, `senders`: who sends, with a ledger; `payload`: what they send
//! - `receiver`: who gets it, with a log; `books`: ledger and log compared
//! - `kills`, `takeover`: servers are killed under load; `restarts`: their database is
//! - `limits`: what receivers see while partitions change hands; `stops`: a server that is busy stops
//! - `bad`, `modes`: receivers that behave badly
//! - `chance`: what is random, from a seed

pub(crate) mod bad;
mod books;
mod chance;
mod client;
mod database;
pub(crate) mod kills;
pub(crate) mod limits;
mod modes;
mod payload;
mod process;
mod receiver;
pub(crate) mod restarts;
mod scene;
mod senders;
mod stalls;
pub(crate) mod stops;
pub(crate) mod takeover;

pub(crate) use scene::Ground;
