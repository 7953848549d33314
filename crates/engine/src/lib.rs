//! One node's core as a pure machine: it is told what happened, and says what to do.
//!
//! There is no clock, no randomness, no runtime and no I/O here, and no iteration over hashed maps:
//! the same events give the same effects. The server has a thin shell that carries the effects out;
//! the simulator has another.
//!
//! # Layout
//! - [`protocol`]: what goes in and what comes out; the time, and the limits
//! - [`Engine`]: the machine, and the order of a step
//! - `ownership`: which partitions this node has: leases, walks, giving back
//! - `endpoints`: what is in memory of each endpoint, and what a look at it decides
//! - `dispatch`: which delivery goes next, and what becomes of it
//! - [`roster`]: an application's endpoints, read once and shared; fanning a message out; hearing of
//!   changes
//! - `requests`: what people and other nodes ask of an owner
//! - [`commit`]: group commit, what goes into the next batch
//! - [`planted`]: mistakes for the simulator to find

pub mod commit;
mod dispatch;
mod endpoints;
mod engine;
mod ownership;
pub mod planted;
pub mod protocol;
mod requests;
pub mod roster;

pub use engine::Engine;
pub use protocol::announcement::Announcement;
pub use protocol::effect::{Effect, Sending};
pub use protocol::event::{End, Event, Number, Unanswered};
pub use protocol::moment::Moment;
pub use protocol::settings::Settings;
pub use protocol::suspect::Suspect;
pub use roster::{Member, Policies, Roster};
