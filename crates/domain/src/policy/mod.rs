//! The policy: how long, how often and on which answers a delivery is tried again.
//!
//! A policy is data. It is read from TOML or JSON ([`read`]), written back ([`write_value`]), and
//! every part checks itself when it is made, so that a policy that exists makes sense. The decisions
//! taken with it are in [`crate::judge`].
//!
//! # Layout
//! - `backoff`: the wait before each retry, made of a `schedule` and a `jitter`
//! - `limits`: attempts and time; `timeouts`: of one attempt; `redirects`: hops
//! - `classification`: what each answer means; `status`: sets of HTTP statuses
//! - `patience`: what Retry-After changes
//! - `scope`: which policy applies; `timetable`, `warnings`: what people are shown
//! - `read`, `write`, `fields`: the policy as a document; `presets`: the policies by name

mod backoff;
mod classification;
mod fields;
mod jitter;
mod limits;
mod patience;
mod preset;
mod presets;
mod read;
mod redirects;
mod schedule;
mod scope;
mod status;
mod timeouts;
mod timetable;
mod warnings;
mod write;

pub use backoff::Backoff;
pub use classification::{Class, Classification, Listed};
pub use fields::{Problem, ReadError};
pub use jitter::Jitter;
pub use limits::Limits;
pub use patience::Patience;
pub use preset::{BodyLimit, EndpointDefaults, Part, Preset, Profile, ResponseKept};
pub use presets::{UnknownPreset, preset, preset_names};
pub use read::{read_json, read_saved, read_toml, read_value};
pub use redirects::{HopHeaders, Redirects, is_redirect};
pub use schedule::Schedule;
pub use scope::{Scope, Scopes};
pub use status::{Pattern, Statuses};
pub use timeouts::Timeouts;
pub use timetable::{Timetable, Turn};
pub use warnings::Warning;
pub use write::write_value;

use crate::outcome::Outcome;

/// How a delivery is tried: schedule, jitter, limits, classification, Retry-After, timeouts.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Its name, such as `redial`, by which people are told of it.
    pub name: String,
    /// The wait before each retry.
    pub backoff: Backoff,
    /// How many attempts, and for how long.
    pub limits: Limits,
    /// What each answer and each failure means.
    pub classification: Classification,
    /// What a receiver's Retry-After changes.
    pub patience: Patience,
    /// How many redirects one attempt follows, and with which headers.
    pub redirects: Redirects,
    /// How long one attempt may take.
    pub timeouts: Timeouts,
}

impl Policy {
    /// Returns what an outcome means. A redirect that is still the answer where redirects are followed
    /// could not be: to try again would lead to the same place.
    #[must_use]
    pub fn class_of(&self, outcome: Outcome) -> Class {
        match outcome.status() {
            Some(status) if self.redirects.follows(status) => Class::Permanent,
            Some(_) | None => self.classification.class_of(outcome),
        }
    }
}
