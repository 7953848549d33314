//! Many engines on virtual time, in one thread, over a store and a network that fail.
//!
//! One seed gives one history, always the same. The engines are the real ones, so are the lanes of
//! group commit and the rules of the domain; the store is the reference in memory behind a shell
//! that delays and loses. A watch with its own books checks the invariants at every step. Then the
//! faults end, and everything else has to end as well.
//!
//! # Layout
//! - `world`: the loop; `agenda`: what is to come; `chance`: where chance comes from; `plan`: what
//!   kind of world a seed makes
//! - `node`, `effects`, `committer`: a process around its engine
//! - `calls`, `shelf`, `library`: the way to the store, and the store
//! - `senders`, `people`, `wires`: whoever hands messages over, whoever intervenes, and receivers
//! - `nemesis`: what strikes
//! - `watch`: what must hold
//! - [`ramp`]: what arrives after an hour's outage
//! - [`counters`]: which rare paths were taken; [`bugs`]: mistakes to be found; [`trace`]: what
//!   happened

mod agenda;
pub mod bugs;
mod calls;
mod catalog;
mod chance;
mod committer;
pub mod counters;
mod effects;
mod library;
mod nemesis;
mod node;
mod people;
mod plan;
pub mod ramp;
mod senders;
mod shelf;
pub mod trace;
mod watch;
mod wires;
mod world;

pub use bugs::Bug;
pub use trace::Detail;
pub use watch::Violation;
pub use world::History;

/// Runs the history of a seed.
#[must_use]
pub fn run(seed: u64, bug: Option<Bug>, detail: Detail) -> History {
    world::World::new(seed, bug, detail).run(seed)
}
