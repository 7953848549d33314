//! Listeners and connections: how many clients may connect, how long the server waits for each, and how it
//! closes their connections when it stops. Requests are answered by `api`; only `/metrics` is served here.
//!
//! # Layout
//! - `listen`: beginning to listen; `door`: where clients connect; `clients`, `ranked`: who holds the
//!   connections, and who gives one up; `tls`: encrypted connections
//! - `patient`, `activity`, `pieces`: clients that do not read, or do nothing; `rest`: what they send in vain
//! - [`scraping`]: `/metrics`, on a listener of its own

mod activity;
mod clients;
mod door;
mod listen;
mod patient;
mod pieces;
mod ranked;
mod rest;
pub(crate) mod scraping;
mod tls;

pub(crate) use clients::{Client, Holder, Serving};
pub(crate) use door::Door;
pub(crate) use listen::listen;
pub(crate) use pieces::Pieces;
pub(crate) use tls::{Identity, Secure};
