//! Accepting a message: the message, its deliveries and its idempotency key, or none of them.

use std::sync::Arc;

use bytes::Bytes;
use domain::delivery::{Cause, Pending};
use domain::ids::MessageId;
use domain::partition::Partition;
use domain::time::Timestamp;

use super::turn;
use crate::keys::{ApplicationKey, EndpointKey, MessageKey};

/// A message with the deliveries it was fanned out to.
#[derive(Debug, Clone, PartialEq)]
pub struct Accept {
    /// Whose message it is.
    pub application: ApplicationKey,
    /// The uid by which the sender named the application; none if it was named by its id. If the
    /// application bears another one by now, nothing is written.
    pub named: Option<Arc<str>>,
    /// The revision of the application that the fan-out used. If it is no longer the current one,
    /// nothing is written and the message must be fanned out again.
    pub revision: i64,
    /// The message.
    pub message: NewMessage,
    /// The hash of the idempotency key, if the caller gave one.
    pub idempotency: Option<[u8; 32]>,
    /// One per endpoint that gets it; no endpoint twice.
    pub deliveries: Vec<NewDelivery>,
}

/// A message that is not in the store yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// Its id, made before the commit so that a repeated commit is recognised.
    pub id: MessageId,
    /// What kind of message it is.
    pub event_type: String,
    /// The sender's own id for it, unique in the application.
    pub event_id: Option<String>,
    /// The channels it goes out on.
    pub channels: Vec<String>,
    /// The exact bytes to be sent.
    pub payload: Bytes,
    /// What the payload is said to be when it is not JSON.
    pub content_type: Option<String>,
    /// The policy that was set on this very message, as a document.
    pub policy: Option<String>,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<Timestamp>,
    /// The only endpoint it is for, whatever is replayed later; all that fit if none is named.
    pub only: Option<EndpointKey>,
    /// When it was received.
    pub received_at: Timestamp,
    /// When its settled deliveries and attempts may be pruned at the earliest. What settles late is
    /// kept for as long as it was from receipt, or from `deliver_at`, to this moment.
    pub retained_until: Timestamp,
}

/// A delivery that is not in the store yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewDelivery {
    /// Where it goes.
    pub endpoint: EndpointKey,
    /// The endpoint's partition.
    pub partition: Partition,
    /// What decides its turn.
    pub order: Order,
    /// How it begins.
    pub state: FirstState,
}

impl NewDelivery {
    /// Returns the turn of a delivery that becomes known now, unless it gets the next number.
    #[must_use]
    pub fn turn(&self, now: Timestamp) -> Option<i64> {
        match self.state {
            FirstState::Dead(_) => Some(0),
            FirstState::Pending(pending) => turn::first(self.order, pending.due, now),
        }
    }
}

/// What decides the turn of an endpoint's deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Their due times.
    Due,
    /// Numbers given inside the transaction: now, or for a scheduled delivery when it is due.
    Fifo,
}

/// How a delivery begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FirstState {
    /// To be sent.
    Pending(Pending),
    /// A dead letter from the start: its endpoint is disabled.
    Dead(Cause),
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// It is durable.
    New {
        /// Its row.
        message: MessageKey,
        /// The turns of its deliveries, in their order.
        turns: Vec<i64>,
    },
    /// Its idempotency key was used before; this is the message accepted then.
    Repeated(MessageId),
    /// Its event id was used before, by this message.
    EventIdTaken(MessageId),
    /// The application changed since the fan-out; this is its revision now.
    Stale(i64),
    /// The application is gone.
    ApplicationMissing,
    /// The application no longer bears the uid by which it was named. This counts before any earlier
    /// use of a key: the uid may be another application's by now.
    NameMoved,
    /// The database refused this one; the others are unharmed. The text is for the operator.
    Refused(String),
}
