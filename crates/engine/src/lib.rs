//! One node's core as a pure machine: it is told what happened, and says what to do.
//!
//! There is no clock, no randomness, no runtime and no I/O here, and no iteration over hashed maps:
//! the same events give the same effects. The server has a thin shell that carries the effects out;
//! the simulator has another.
//!
//! # Layout
//! - [`event`], [`effect`], [`announcement`]: what goes in and what comes out
//! - [`moment`], [`settings`]: the time, and the limits
//! - [`roster`]: an application's endpoints, read once and shared; fanning a message out
//! - [`lanes`]: group commit, what goes into the next batch
//! - [`Engine`]: the machine. What it keeps: `leases`, `unclaimed`, `endpoint`, `endpoints`, `window`,
//!   `horizon`, `sharing`, `attempts`, `trickle`, `turns`, `rosters`, `documents`, `timers`, `recent`.
//!   What it does, a verb each:
//!   `owning`, `walking`, `looking`, `loading`, `starting`, `ending`, `settling`, `burying`,
//!   `numbering`, `requests`, `stopping`
//! - [`planted`]: mistakes for the simulator to find

pub mod announcement;
mod attempts;
mod burying;
mod documents;
pub mod effect;
mod ending;
mod endpoint;
mod endpoints;
mod engine;
pub mod event;
mod hearing;
mod horizon;
pub mod lanes;
mod leases;
mod loading;
mod looking;
pub mod moment;
mod numbering;
mod owning;
pub mod planted;
mod recent;
mod requests;
pub mod roster;
mod rosters;
pub mod settings;
mod settling;
mod sharing;
mod starting;
mod stopping;
mod suspect;
mod timers;
mod trickle;
mod turns;
mod unclaimed;
mod walking;
mod window;

pub use announcement::Announcement;
pub use effect::{Effect, Sending};
pub use engine::Engine;
pub use event::{End, Event, Number, Unanswered};
pub use moment::Moment;
pub use roster::{Member, Policies, Roster};
pub use settings::Settings;
pub use suspect::Suspect;
