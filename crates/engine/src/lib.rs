//! One node's core as a pure machine: it is told what happened and says what to do.
//!
//! No tokio, no clock, no dice, no iteration over hashed maps: the same events give the same
//! effects, in the server and in the simulator.
//!
//! # Layout
//! - [`lanes`]: what waits to be committed, and how it is cut into batches

pub mod lanes;
