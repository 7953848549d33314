//! Loading: from the index of pending deliveries into an engine's window.

use bytes::Bytes;
use domain::delivery::Pending;
use domain::ids::MessageId;
use domain::partition::Partition;
use domain::time::Timestamp;

use super::turn::SCHEDULED;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey};

/// Which deliveries are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The endpoint's application.
    pub application: ApplicationKey,
    /// The endpoint.
    pub endpoint: EndpointKey,
    /// The lowest turn to return. Whoever knows everything below it need not read that again. From
    /// [`SCHEDULED`] on these are the deliveries of a FIFO endpoint that are scheduled, which no other
    /// load returns: there may be any number of them, and none can be sent.
    pub from: i64,
    /// The most deliveries to return.
    pub most: u32,
    /// The most payload bytes to return; later deliveries come without their payload.
    pub most_bytes: u64,
}

impl Load {
    /// Returns the turn before which the load ends.
    #[must_use]
    pub const fn until(&self) -> i64 {
        if self.from < SCHEDULED { SCHEDULED } else { i64::MAX }
    }
}

/// An endpoint's earliest pending deliveries, from a turn on.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Earliest turn first.
    pub deliveries: Vec<PendingDelivery>,
    /// Whether these are all there are from there on.
    pub complete: bool,
}

/// A pending delivery with all that is needed to send it.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingDelivery {
    /// Its row.
    pub key: DeliveryKey,
    /// Its endpoint's partition.
    pub partition: Partition,
    /// What orders it among its endpoint's deliveries.
    pub turn: i64,
    /// When it is due, and what is left of its budget.
    pub pending: Pending,
    /// Attempts recorded, over all budgets. A settle names it, so that it applies only once.
    pub recorded: u32,
    /// When it had ended before it was replayed, if it ever was. A settle names it, so that a verdict
    /// on what was cancelled does not apply to what has begun anew since.
    pub ended_before: Option<Timestamp>,
    /// When its last attempt ended, if there was one.
    pub last_attempt_at: Option<Timestamp>,
    /// The message's id.
    pub message: MessageId,
    /// The message's event type.
    pub event_type: String,
    /// When the message was received.
    pub received_at: Timestamp,
    /// The message's own policy, as a document.
    pub policy: Option<String>,
    /// What the payload is said to be when it is not JSON.
    pub content_type: Option<String>,
    /// The exact bytes to be sent; none if the load's limit on bytes was reached before.
    pub payload: Option<Bytes>,
    /// Whether the payload was expunged: then there is nothing to be sent, and its owner cancels it.
    /// What is pending when its payload is expunged is cancelled at once.
    pub expunged: bool,
}

/// An endpoint that has something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The endpoint's application.
    pub application: ApplicationKey,
    /// The endpoint.
    pub endpoint: EndpointKey,
    /// Its partition.
    pub partition: Partition,
    /// The due time of the delivery whose turn is first; none if all are scheduled.
    pub due: Option<Timestamp>,
    /// When the first of its scheduled deliveries is due; none if there are none.
    pub scheduled: Option<Timestamp>,
}

impl Waiting {
    /// Returns when the first of them is due: the one whose turn it is, or one that is scheduled.
    #[must_use]
    pub fn first_due(&self) -> Option<Timestamp> {
        [self.due, self.scheduled].into_iter().flatten().min()
    }
}

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Endpoints with something pending.
    pub endpoints: u32,
    /// The earliest due time of a delivery whose turn is first.
    pub oldest_due: Option<Timestamp>,
}

impl Backlog {
    /// Sums up the endpoints that wait.
    #[must_use]
    pub fn of(waiting: &[Waiting]) -> Self {
        Self {
            endpoints: u32::try_from(waiting.len()).unwrap_or(u32::MAX),
            oldest_due: waiting.iter().filter_map(Waiting::first_due).min(),
        }
    }
}
