//! What is decided about a delivery after an attempt, and what that does to its endpoint.

use std::time::Duration;

use crate::delivery::{Budget, Cause};
use crate::endpoint::Reason;
use crate::time::Timestamp;

/// The whole decision about one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What becomes of the delivery.
    pub next: NextState,
    /// Its budget after this attempt.
    pub budget: Budget,
    /// What the attempt means for its endpoint.
    pub endpoint: EndpointEffect,
    /// How long the answer's Retry-After counts, if that is less than it asked for.
    pub retry_after_kept: Option<Duration>,
    /// What the endpoint's owner is told, if anything.
    pub notice: Option<Notice>,
}

/// Where a settled delivery goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextState {
    /// It is sent again.
    Pending {
        /// When.
        due: Timestamp,
    },
    /// It is done.
    Delivered,
    /// It is a dead letter.
    Dead(Cause),
}

/// What an attempt means for its endpoint; breaker, limiter and health take it from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointEffect {
    /// What the attempt says about the receiver.
    pub signal: Signal,
    /// How many at a time it can take.
    pub pressure: Pressure,
    /// It asked, by Retry-After, for no attempt before this moment.
    pub pause_until: Option<Timestamp>,
    /// It is to be disabled.
    pub disable: Option<Reason>,
}

impl EndpointEffect {
    /// Returns the effect of an attempt that says nothing about the receiver.
    #[must_use]
    pub const fn none() -> Self {
        Self { signal: Signal::Nothing, pressure: Pressure::Keep, pause_until: None, disable: None }
    }
}

/// What an attempt says about the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It works.
    Success,
    /// It fails, perhaps not for long. The breaker counts these.
    Failure,
    /// It is up, and refuses this delivery for good. Endpoint health counts these.
    Permanent,
    /// Nothing: the attempt never reached it, or we stopped it ourselves.
    Nothing,
}

/// What an attempt says about how many the receiver can take at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// More.
    Grow,
    /// As many as now.
    Keep,
    /// Half as many.
    Halve,
}

/// What the owner of an endpoint is told about one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// The endpoint answered 410 Gone, or another status that has it disabled.
    Gone,
    /// Too many answers that might have meant "never"; buried.
    Ambiguous,
    /// All attempts are used up.
    Exhausted,
    /// The time is used up.
    Expired,
}
