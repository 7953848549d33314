//! Deliveries and attempts as they are looked at.

use domain::delivery::{Cause, Delivery};
use domain::ids::{AttemptId, DeliveryId, MessageId};
use domain::replay::StatusClass;
use domain::time::Timestamp;

use crate::keys::{DeliveryKey, EndpointKey};
use crate::queue::AttemptRecord;

/// A delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryEntry {
    /// Its row.
    pub key: DeliveryKey,
    /// Its id.
    pub id: DeliveryId,
    /// Its message's id.
    pub message: MessageId,
    /// Its message's event type.
    pub event_type: String,
    /// When its message was received.
    pub received_at: Timestamp,
    /// The policy that was set on its message, as a document.
    pub policy: Option<String>,
    /// Where it stands.
    pub state: Delivery,
    /// When it got there, if it is settled.
    pub settled_at: Option<Timestamp>,
    /// Attempts recorded, over all budgets.
    pub recorded: u32,
    /// The last of them.
    pub last_attempt: Option<AttemptId>,
    /// The status of the last of them, if it was answered.
    pub last_status: Option<u16>,
}

/// Returns when a delivery was settled. The row of one that was replayed says when it had ended
/// before that.
pub(crate) const fn settled_at(state: Delivery, ended_at: Option<Timestamp>) -> Option<Timestamp> {
    match state {
        Delivery::Pending(_) => None,
        Delivery::Delivered | Delivery::Dead(_) | Delivery::Cancelled => ended_at,
    }
}

/// Which deliveries are wanted. What is missing does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryFilter {
    /// Only to this endpoint.
    pub endpoint: Option<EndpointKey>,
    /// Only in this state, by its word.
    pub state: Option<&'static str>,
    /// Only dead letters with this cause.
    pub cause: Option<Cause>,
    /// Only whose last attempt was answered in this class.
    pub status_class: Option<StatusClass>,
    /// Only of these event types; empty for all.
    pub event_types: Vec<String>,
    /// Only whose message was received at this moment or later.
    pub since: Option<Timestamp>,
    /// Only whose message was received before this moment.
    pub until: Option<Timestamp>,
}

impl DeliveryFilter {
    /// Tells whether a delivery is wanted.
    #[must_use]
    pub fn wants(&self, entry: &DeliveryEntry) -> bool {
        let class = (entry.recorded > 0).then(|| StatusClass::of(entry.last_status));
        self.endpoint.is_none_or(|endpoint| entry.key.endpoint == endpoint)
            && self.state.is_none_or(|word| entry.state.word() == word)
            && self.cause.is_none_or(|cause| entry.state == Delivery::Dead(cause))
            && self.status_class.is_none_or(|wanted| class == Some(wanted))
            && (self.event_types.is_empty() || self.event_types.contains(&entry.event_type))
            && self.since.is_none_or(|since| entry.received_at >= since)
            && self.until.is_none_or(|until| entry.received_at < until)
    }
}

/// An attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptEntry {
    /// Its delivery's row.
    pub key: DeliveryKey,
    /// Its message's id.
    pub message: MessageId,
    /// Its message's event type.
    pub event_type: String,
    /// Which attempt of the delivery it was, counted from 1 over all budgets.
    pub number: u32,
    /// When the next one was due after it, if the delivery was to be sent again.
    pub next_due: Option<Timestamp>,
    /// The record.
    pub record: AttemptRecord,
}

/// Which attempts are wanted. What is missing does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptFilter {
    /// Only successes (2xx), or only failures.
    pub succeeded: Option<bool>,
    /// Only answered in this class.
    pub status_class: Option<StatusClass>,
    /// Only of these event types; empty for all.
    pub event_types: Vec<String>,
    /// Only begun at this moment or later.
    pub since: Option<Timestamp>,
    /// Only begun before this moment.
    pub until: Option<Timestamp>,
}

impl AttemptFilter {
    /// Tells whether an attempt is wanted that was answered like this, and begun then.
    #[must_use]
    pub fn wants(&self, status: Option<u16>, event_type: &str, began_at: Timestamp) -> bool {
        let class = StatusClass::of(status);
        let succeeded = class == StatusClass::Success;
        self.succeeded.is_none_or(|wanted| wanted == succeeded)
            && self.status_class.is_none_or(|wanted| wanted == class)
            && (self.event_types.is_empty() || self.event_types.iter().any(|it| it == event_type))
            && self.since.is_none_or(|since| began_at >= since)
            && self.until.is_none_or(|until| began_at < until)
    }
}
