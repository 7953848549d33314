//! What an engine tells whoever listens: logs, metrics, and the sinks of operational events.

use domain::delivery::Cause;
use domain::endpoint::Reason;
use domain::health::Level;
use domain::partition::Partition;
use domain::time::Timestamp;
use domain::verdict::Notice;
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey};
use store::queue::Settled;

/// Something that people may want to hear about.
#[derive(Debug, Clone, PartialEq)]
pub enum Announcement {
    /// An endpoint is on its way to being disabled.
    Warned {
        /// Its application.
        application: ApplicationKey,
        /// The endpoint.
        endpoint: EndpointKey,
        /// How far along the way.
        level: Level,
        /// By which rule.
        reason: Reason,
    },
    /// An endpoint is being disabled.
    Disabled {
        /// Its application.
        application: ApplicationKey,
        /// The endpoint.
        endpoint: EndpointKey,
        /// Why.
        reason: Reason,
        /// The first failure since its last success.
        failing_since: Option<Timestamp>,
    },
    /// A breaker tripped.
    Tripped {
        /// Its application.
        application: ApplicationKey,
        /// The endpoint.
        endpoint: EndpointKey,
        /// When the probe may go.
        until: Timestamp,
    },
    /// A breaker lets a probe through: it is half-open.
    Probing {
        /// Its application.
        application: ApplicationKey,
        /// The endpoint.
        endpoint: EndpointKey,
    },
    /// A breaker is open again: its probe did not succeed.
    Reopened {
        /// Its application.
        application: ApplicationKey,
        /// The endpoint.
        endpoint: EndpointKey,
        /// When the next probe may go.
        until: Timestamp,
    },
    /// A breaker closed.
    Closed {
        /// Its application.
        application: ApplicationKey,
        /// The endpoint.
        endpoint: EndpointKey,
    },
    /// A delivery's owner is to be told about it.
    Noticed {
        /// The delivery.
        delivery: DeliveryKey,
        /// What.
        notice: Notice,
    },
    /// Deliveries of one endpoint were buried without an attempt.
    Buried {
        /// Their application.
        application: ApplicationKey,
        /// Their endpoint.
        endpoint: EndpointKey,
        /// Why.
        cause: Cause,
        /// How many.
        count: u32,
    },
    /// A delivery made us panic.
    Panicked {
        /// The delivery.
        delivery: DeliveryKey,
        /// How often by now.
        times: u32,
    },
    /// Partitions were taken over.
    Took(Vec<Partition>),
    /// Partitions were lost or given back.
    Lost(Vec<Partition>),
}

impl Announcement {
    /// Tells whether what an attempt led to is so, now that its settle is answered. What was fenced is
    /// for the next owner to decide and to tell. A delivery that was left alone has gone another way,
    /// but what the attempt said about its endpoint counts all the same.
    pub(crate) const fn holds(&self, answer: Settled) -> bool {
        match answer {
            Settled::Applied { .. } => true,
            Settled::LeftAlone | Settled::Missing | Settled::Refused => {
                !matches!(self, Self::Noticed { .. })
            }
            Settled::Fenced => false,
        }
    }
}
