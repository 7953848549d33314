//! Listeners and connections: which clients are let in, how long each wait for one of them lasts, and how
//! the last ones are seen off. What is asked and answered is the business of others, but for figures.
//!
//! # Layout
//! - `door`: connections, as many as there is room for; `tls`: those that are encrypted
//! - `patient`, `activity`: clients that do not read, or do nothing; `rest`: what they send in vain
//! - [`scraping`]: `/metrics`, on a listener of its own

mod activity;
mod door;
mod patient;
mod rest;
pub(crate) mod scraping;
mod tls;

pub(crate) use door::Door;
pub(crate) use tls::Secure;
