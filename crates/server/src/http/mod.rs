//! Listeners and connections: how many clients may connect, how long the server waits for each, and how it
//! closes their connections when it stops. Requests are answered by `api`; only `/metrics` is served here.
//!
//! # Layout
//! - `listen`: beginning to listen; `door`: connections up to a limit; `tls`: encrypted connections
//! - `patient`, `activity`: clients that do not read, or do nothing; `rest`: what they send in vain
//! - [`scraping`]: `/metrics`, on a listener of its own

mod activity;
mod door;
mod listen;
mod patient;
mod rest;
pub(crate) mod scraping;
mod tls;

pub(crate) use door::Door;
pub(crate) use listen::listen;
pub(crate) use tls::{Identity, Secure};
