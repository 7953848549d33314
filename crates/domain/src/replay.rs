//! Which deliveries a replay means.
//!
//! A replay names ids, or describes deliveries by endpoint, cause, status class, time and state.
//! Everything it says must fit. Dead letters are meant unless it says otherwise: sending delivered
//! ones again is a wish that has to be spoken aloud. Pending deliveries are never replayed.

use std::collections::BTreeSet;

use crate::delivery::{Cause, Delivery};
use crate::ids::{DeliveryId, EndpointId};
use crate::time::Timestamp;

/// A description of deliveries. What is empty or missing does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Only these, in whatever settled state they are.
    pub ids: BTreeSet<DeliveryId>,
    /// Only those of this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Only dead letters with one of these causes.
    pub causes: BTreeSet<Cause>,
    /// Only those whose last attempt was answered in this class.
    pub status_class: Option<StatusClass>,
    /// Only those accepted at this moment or later.
    pub since: Option<Timestamp>,
    /// Only those accepted before this moment.
    pub until: Option<Timestamp>,
    /// In which states.
    pub states: States,
    /// How often they were tried.
    pub tried: Tried,
}

/// The settled states that a selection covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum States {
    /// Dead letters.
    #[default]
    Dead,
    /// Dead letters and what was cancelled: everything the receiver did not get.
    Undelivered,
    /// What was cancelled, and no dead letter.
    Cancelled,
    /// What was delivered.
    Delivered,
    /// Everything that is settled.
    Settled,
}

impl States {
    /// Tells whether a delivery's state is among them.
    const fn cover(self, delivery: &Delivery) -> bool {
        match delivery {
            Delivery::Pending(_) => false,
            Delivery::Delivered => match self {
                Self::Delivered | Self::Settled => true,
                Self::Dead | Self::Undelivered | Self::Cancelled => false,
            },
            Delivery::Cancelled => match self {
                Self::Undelivered | Self::Cancelled | Self::Settled => true,
                Self::Dead | Self::Delivered => false,
            },
            Delivery::Dead(_) => match self {
                Self::Dead | Self::Undelivered | Self::Settled => true,
                Self::Cancelled | Self::Delivered => false,
            },
        }
    }
}

/// Whether the number of attempts matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tried {
    /// It does not.
    #[default]
    Whatever,
    /// Only those of which no attempt was ever made.
    Never,
}

/// The class of a status, as lists and replays filter by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusClass {
    /// No answer at all.
    NoAnswer,
    /// 100–199
    Informational,
    /// 200–299
    Success,
    /// 300–399
    Redirect,
    /// 400–499
    ClientError,
    /// 500 and above
    ServerError,
}

impl StatusClass {
    /// Returns the class of an attempt's status, or of the lack of one.
    #[must_use]
    pub const fn of(status: Option<u16>) -> Self {
        match status {
            None | Some(0..=99) => Self::NoAnswer,
            Some(100..=199) => Self::Informational,
            Some(200..=299) => Self::Success,
            Some(300..=399) => Self::Redirect,
            Some(400..=499) => Self::ClientError,
            Some(500..) => Self::ServerError,
        }
    }
}

/// What a selection looks at in a delivery.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its id.
    pub id: DeliveryId,
    /// Its endpoint.
    pub endpoint: EndpointId,
    /// Where it stands.
    pub delivery: &'a Delivery,
    /// When its message was accepted.
    pub accepted_at: Timestamp,
    /// Attempts recorded, over all budgets.
    pub attempts: u32,
    /// The status of the last of them, if it was answered.
    pub last_status: Option<u16>,
}

impl Selection {
    /// Tells whether a delivery is meant.
    #[must_use]
    pub fn selects(&self, candidate: &Candidate<'_>) -> bool {
        self.selects_identity(candidate)
            && self.selects_state(candidate.delivery)
            && self.selects_history(candidate)
    }

    fn selects_identity(&self, candidate: &Candidate<'_>) -> bool {
        (self.ids.is_empty() || self.ids.contains(&candidate.id))
            && self.endpoint.is_none_or(|endpoint| endpoint == candidate.endpoint)
            && self.since.is_none_or(|since| candidate.accepted_at >= since)
            && self.until.is_none_or(|until| candidate.accepted_at < until)
    }

    fn selects_state(&self, delivery: &Delivery) -> bool {
        let meant = !self.ids.is_empty() || self.states.cover(delivery);
        match delivery {
            Delivery::Pending(_) => false,
            Delivery::Delivered | Delivery::Cancelled => meant && self.causes.is_empty(),
            Delivery::Dead(cause) => {
                meant && (self.causes.is_empty() || self.causes.contains(cause))
            }
        }
    }

    fn selects_history(&self, candidate: &Candidate<'_>) -> bool {
        let status = StatusClass::of(candidate.last_status);
        let tried = candidate.attempts > 0;
        let by_status = self.status_class.is_none_or(|class| tried && class == status);
        match self.tried {
            Tried::Whatever => by_status,
            Tried::Never => by_status && !tried,
        }
    }
}

#[cfg(test)]
mod tests;
