//! Counts, as far as they can be counted quickly.

use domain::delivery::Delivery;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::Subject;

/// Whose deliveries are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// All there are.
    Whole,
    /// Those of an application.
    Application(ApplicationKey),
    /// Those to one of its endpoints.
    Endpoint(ApplicationKey, EndpointKey),
}

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// How many deliveries are pending.
    pub waiting: Tally,
    /// The earliest due time of those whose turn is first at their endpoint.
    pub oldest_due: Option<Timestamp>,
}

impl Within {
    /// Tells whether what goes to an endpoint is meant.
    #[must_use]
    pub fn has(self, application: ApplicationKey, endpoint: EndpointKey) -> bool {
        match self {
            Self::Whole => true,
            Self::Application(key) => key == application,
            Self::Endpoint(key, one) => (key, one) == (application, endpoint),
        }
    }
}

impl From<Within> for Subject {
    fn from(within: Within) -> Self {
        match within {
            Within::Whole => Self::Whole,
            Within::Application(key) => Self::Application(key),
            Within::Endpoint(_, key) => Self::Endpoint(key),
        }
    }
}

/// An endpoint's deliveries by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Delivered ones.
    pub delivered: u32,
    /// Pending ones.
    pub pending: u32,
    /// Dead letters.
    pub dead: u32,
    /// Cancelled ones.
    pub cancelled: u32,
    /// Whether these are all; otherwise the newest of them, as many as one walk may look at.
    pub complete: bool,
}

/// A number of things, up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// How many there are.
    pub number: u32,
    /// Whether these are all; otherwise there are more.
    pub complete: bool,
}

impl Counts {
    /// Begins to count.
    pub(crate) const fn begin() -> Self {
        Self { delivered: 0, pending: 0, dead: 0, cancelled: 0, complete: true }
    }

    /// Counts one delivery.
    pub(crate) fn add(&mut self, state: Delivery) {
        match state {
            Delivery::Pending(_) => self.pending += 1,
            Delivery::Delivered => self.delivered += 1,
            Delivery::Dead(_) => self.dead += 1,
            Delivery::Cancelled => self.cancelled += 1,
        }
    }
}

impl Tally {
    /// Makes a tally of what was counted on a walk that went one beyond its limit, if there was so
    /// much.
    pub(crate) fn up_to(limit: u32, walked: u32, counted: u32) -> Self {
        Self { number: counted.min(limit), complete: walked <= limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_at_its_limit_is_complete_and_one_beyond_it_is_not() {
        assert_eq!(Tally::up_to(10, 10, 10), Tally { number: 10, complete: true });
        assert_eq!(Tally::up_to(10, 11, 11), Tally { number: 10, complete: false });
        assert_eq!(Tally::up_to(10, 11, 3), Tally { number: 3, complete: false });
    }
}
