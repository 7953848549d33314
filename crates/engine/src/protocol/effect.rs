//! What an engine wants done.

use std::sync::Arc;
use std::time::Duration;

use domain::endpoint::Reason;
use domain::partition::Partition;
use domain::policy::Policy;
use domain::time::Timestamp;
use store::keys::{ApplicationKey, EndpointKey, Lease};
use store::queue::{Load, PendingDelivery, Settle, Upkeep};

use crate::protocol::announcement::Announcement;
use crate::protocol::event::Number;
use crate::roster::Member;

/// Something to be carried out.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Renew the lease.
    Renew,
    /// Take up to so many partitions.
    Take {
        /// How many.
        most: u8,
    },
    /// Give partitions back.
    Release(Vec<Lease>),
    /// Find the endpoints of these partitions that have work.
    Walk(Vec<Partition>),
    /// Read the requests that other nodes left for these partitions.
    ReadRequests(Vec<Partition>),
    /// Read an endpoint's pending deliveries.
    Load {
        /// The number to answer under.
        load: Number,
        /// What to read.
        what: Load,
    },
    /// Read an application's roster.
    ReadRoster(ApplicationKey),
    /// Read what was changed in the catalog since a moment of the store's clock, or lately if none is
    /// named. If what event types set was changed, read that as well, and tell it first.
    ReadChanges {
        /// The moment.
        since: Option<Timestamp>,
    },
    /// Tell the store that no attempt begins here any more with what was replaced before a moment of
    /// its clock. It may be lost.
    Confirm {
        /// The moment.
        heard: Timestamp,
    },
    /// Make an attempt.
    Send(Box<Sending>),
    /// Stop an attempt; it still ends, as interrupted if nothing else came first.
    Abort(Number),
    /// Settle an attempt: into the settle lane, repeated until it is answered.
    Settle {
        /// The attempt, to answer under.
        attempt: Number,
        /// What to write.
        settle: Box<Settle>,
    },
    /// Do a step of upkeep: into the upkeep lane, repeated until it is answered.
    Upkeep {
        /// The number to answer under.
        step: Number,
        /// What to do.
        upkeep: Upkeep,
    },
    /// Disable an endpoint in the catalog, unless it has another URL than was tried or was enabled
    /// since; repeated until that is done.
    Disable {
        /// Its application.
        application: ApplicationKey,
        /// The endpoint.
        endpoint: EndpointKey,
        /// Why.
        reason: Reason,
        /// What the attempt was made with.
        tried: Arc<Member>,
    },
    /// Tell whoever listens.
    Announce(Announcement),
    /// Come back at this moment, on the clock that never jumps. It replaces every earlier wish.
    WakeAt(Duration),
    /// Everything is settled and released; the engine may be dropped.
    Stopped,
}

/// An attempt to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Sending {
    /// The number to answer under.
    pub attempt: Number,
    /// Where to, and with which secrets and headers.
    pub member: Arc<Member>,
    /// The version of the application that this is of.
    pub version: i64,
    /// What, with its payload.
    pub delivery: PendingDelivery,
    /// The policy that applies: the transport keeps its deadlines and redirects.
    pub policy: Arc<Policy>,
    /// Whether a person asked for it rather than the schedule.
    pub trigger: store::queue::Trigger,
}
