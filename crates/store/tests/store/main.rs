//! The stores as their callers see them: each passes the whole suite, and all answer alike.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damaged;
mod faults;
mod golden;
mod memory;
mod model;
mod postgres;
mod renamed;
mod sqlite;
mod wide;
