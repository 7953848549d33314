//! Deliveries and attempts as they are looked at.

use domain::delivery::{Cause, Delivery};
use domain::ids::{AttemptId, DeliveryId, MessageId};
use domain::replay::StatusClass;
use domain::time::Timestamp;

use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
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
    /// The policy that was set on its message, as a document, if it was asked for.
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

impl DeliveryEntry {
    /// Leaves out the policy of its message: as many deliveries as there are endpoints have the same.
    pub(crate) fn without_policy(self) -> Self {
        Self { policy: None, ..self }
    }

    /// Returns how many bytes it has that somebody chose.
    pub(crate) fn bytes(&self) -> usize {
        self.event_type.len() + self.policy.as_ref().map_or(0, String::len)
    }
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
    /// Whether the policies of their messages are wanted.
    pub with_policy: bool,
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

    /// Takes a delivery if it is wanted, as it is wanted.
    pub(crate) fn takes(&self, entry: DeliveryEntry) -> Option<DeliveryEntry> {
        if !self.wants(&entry) {
            return None;
        }
        Some(if self.with_policy { entry } else { entry.without_policy() })
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

impl AttemptEntry {
    /// Returns how many bytes it has that somebody chose.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let AttemptRecord { request_headers, response_headers, response_body, error, .. } =
            &self.record;
        let headers = request_headers.stored().len() + response_headers.stored().len();
        let error = error.as_ref().map_or(0, String::len);
        self.event_type.len() + headers + response_body.len() + error
    }
}

/// Whose attempts are meant: those of all deliveries of a message, or of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveriesOf {
    /// The message's application.
    pub application: ApplicationKey,
    /// The message.
    pub message: MessageKey,
    /// The endpoint of the only delivery that is meant; all deliveries if none is named.
    pub endpoint: Option<EndpointKey>,
}

impl From<DeliveryKey> for DeliveriesOf {
    fn from(key: DeliveryKey) -> Self {
        let DeliveryKey { application, endpoint, message } = key;
        Self { application, message, endpoint: Some(endpoint) }
    }
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
