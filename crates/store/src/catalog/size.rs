//! How much an application's owner has set up.
//!
//! A store counts it with each application, in the transaction that changes an endpoint: so whoever
//! wants to cap it is asked before the change is written, and of two changes at once the second one is
//! measured with the first. Which caps there are is not the store's matter.

use domain::endpoint::State;

use super::{Confidential, Endpoint, EndpointSettings, NewEndpoint, Refusal};
use crate::Error;
use crate::page::json_bytes;

/// The endpoints of an application that are not deleted, and what their owner set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// How many there are.
    pub endpoints: u64,
    /// The event types and channels that they name, all in all.
    pub patterns: u64,
    /// The bytes of what was set of them, confidential or not, as JSON.
    pub bytes: u64,
}

/// What an application's size becomes by a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// What it is.
    pub before: Size,
    /// What it would be.
    pub after: Size,
}

/// Whether an application may become as large as a change makes it.
pub type Admission = Box<dyn Fn(&Growth) -> Result<(), Refusal> + Send + Sync>;

impl Size {
    /// Returns how much one endpoint is.
    #[must_use]
    pub fn of(endpoint: &Endpoint) -> Self {
        match endpoint.state {
            State::Deleted => Self::default(),
            State::Active | State::Paused | State::Disabled(_) => {
                Self::one(&endpoint.settings, &endpoint.confidential)
            }
        }
    }

    /// Returns how much an endpoint will be that is not in the store yet.
    pub(crate) fn of_new(new: &NewEndpoint) -> Self {
        Self::one(&new.settings, &new.confidential)
    }

    /// Returns how much this and another are.
    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            endpoints: self.endpoints.saturating_add(other.endpoints),
            patterns: self.patterns.saturating_add(other.patterns),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Returns how much is left of this without a part of it.
    const fn without(self, part: Self) -> Self {
        Self {
            endpoints: self.endpoints.saturating_sub(part.endpoints),
            patterns: self.patterns.saturating_sub(part.patterns),
            bytes: self.bytes.saturating_sub(part.bytes),
        }
    }

    /// Replaces a part of an application's size by another, if that is admitted.
    pub(crate) fn replace(
        self,
        (part, by): (Self, Self),
        admission: &Admission,
    ) -> Result<Self, Error> {
        let after = self.without(part).and(by);
        admission(&Growth { before: self, after }).map_err(Error::Declined)?;
        Ok(after)
    }

    fn one(settings: &EndpointSettings, confidential: &Confidential) -> Self {
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        // An endpoint can be enabled whatever the caps: what the store counts is not its owner's.
        let settings = &EndpointSettings { enabled: 0, ..settings.clone() };
        Self {
            endpoints: 1,
            patterns: count(settings.event_types.len() + settings.channels.len()),
            bytes: count(json_bytes(settings) + json_bytes(confidential)),
        }
    }
}

/// Admits all.
#[must_use]
pub fn admit_all() -> Admission {
    Box::new(|_| Ok(()))
}
