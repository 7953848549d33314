//! The hot path: accept, load, settle, and who owns what.
//!
//! Group commit happens above this trait. A batch is one transaction (on PostgreSQL one per lane),
//! and nothing about one of its items may harm another: each gets its own answer.

mod accept;
mod load;
mod settle;
pub mod turn;
mod upkeep;

use std::sync::Arc;

use domain::partition::Partition;
use domain::time::Timestamp;

pub use accept::{Accept, Accepted, FirstState, NewDelivery, NewMessage, Order};
pub use domain::verdict::NextState;
pub use load::{Backlog, Load, Loaded, PendingDelivery, Waiting};
pub use settle::{AttemptRecord, Hop, Phases, Running, Settle, Settled, Trigger};
pub use upkeep::{
    Bury, Chosen, Done, Doomed, Ending, Minute, Missing, Number, Once, Replay, Request,
    RequestKind, Rollup, Subject, Upkeep,
};

use crate::keys::{Lease, Node};
use crate::{Answer, limits};

/// What a node needs to accept, send and settle.
pub trait Queue: Send + Sync {
    /// Writes a batch durably and answers each of its items, in their order.
    ///
    /// After a retryable error the same batch may be given again: items that had taken effect are
    /// recognised by their ids and answered as if for the first time, or change nothing more.
    /// That is why it is shared: whoever may have to repeat a batch keeps it without a copy.
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed>;

    /// Returns an endpoint's pending deliveries, earliest turn first; scheduled ones only if no other
    /// are asked for.
    fn load(&self, load: Load) -> Answer<'_, Loaded>;

    /// Returns every endpoint of these partitions that has pending deliveries, with when the first
    /// of them is due, and the first of those that are scheduled. One loose walk over the index, whatever the backlog behind an endpoint.
    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>>;

    /// Tells how much waits in these partitions, for metrics. It is as quick as
    /// [`Queue::waiting`], and says nothing about how many deliveries wait behind an endpoint.
    fn backlog(&self, partitions: Vec<Partition>) -> Answer<'_, Backlog> {
        Box::pin(async move { Ok(Backlog::of(&self.waiting(partitions).await?)) })
    }

    /// Returns how often the disk was asked to sync since the store was opened, for metrics. Nothing
    /// if that cannot be known here, because a database does it somewhere else.
    fn syncs(&self) -> Option<u64> {
        None
    }

    /// Looks whether the files of the store are still where they were opened, and says which is gone.
    /// Nothing if there are none, because a database has them somewhere else.
    fn missing_files(&self) -> Option<String> {
        None
    }

    /// Returns the requests for these partitions that nobody has consumed yet, oldest first, at most
    /// [`crate::limits::REQUESTS`] of them.
    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>>;

    /// Tells the time of the rows' timeline. Whoever asks is not counted as a node.
    fn now(&self) -> Answer<'_, Timestamp>;

    /// Registers a node, or renews its lease on everything it owns.
    fn renew(&self, node: Node) -> Answer<'_, Renewal>;

    /// Takes up to `most` partitions that nobody owns, or whose owner has not renewed its lease.
    /// Each gets a new epoch, durably, before this answers. It renews the node's own lease, too:
    /// nobody owns anything without one.
    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>>;

    /// Gives partitions back. Ones that another node has taken in the meantime are left alone. A
    /// node that has none left does not count any more, until it renews or takes again.
    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()>;

    /// Waits until another node calls. A call may be missed, so a node that relies on it also looks for
    /// itself from time to time.
    fn woken(&self) -> Answer<'_, Call>;

    /// Calls every node because something in the catalog was changed. Returns a moment of the store's
    /// clock before the call: a node that has heard it and asks for changes hears of all before that.
    fn call(&self) -> Answer<'_, Timestamp>;

    /// Notes that a node sends by all changes of the catalog that were committed before a moment of the
    /// store's clock.
    fn confirm(&self, node: Node, heard: Timestamp) -> Answer<'_, ()>;

    /// Returns the moment of the store's clock up to which every node whose lease is current has
    /// confirmed the changes of the catalog. Nothing if no lease is current: then nothing is sent, and
    /// the next owner reads everything anew.
    fn confirmed(&self) -> Answer<'_, Confirmed>;
}

/// What a node tells the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// It committed work for these partitions.
    Work(Vec<Partition>),
    /// It gave partitions back.
    Free,
    /// It changed something in the catalog.
    Changed,
}

/// How far the nodes that send have confirmed changes of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// No node has a current lease.
    NobodySends,
    /// Each has confirmed what was committed before this moment of the store's clock.
    Until(Timestamp),
}

impl Confirmed {
    /// Returns what follows from how far each node with a current lease has confirmed.
    pub(crate) fn of(nodes: impl Iterator<Item = Option<Timestamp>>) -> Self {
        let heard = nodes.map(|heard| heard.unwrap_or(Timestamp::EPOCH)).min();
        heard.map_or(Self::NobodySends, Self::Until)
    }

    /// Tells whether a change that was committed before a moment is known wherever anything is sent.
    #[must_use]
    pub fn covers(self, moment: Timestamp) -> bool {
        match self {
            Self::NobodySends => true,
            Self::Until(heard) => heard >= moment,
        }
    }
}

/// What is committed together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Messages to accept.
    pub accepts: Vec<Accept>,
    /// Attempts to settle.
    pub settles: Vec<Settle>,
    /// Everything else, in small steps.
    pub upkeep: Vec<Upkeep>,
}

/// The answers to a batch, each list in the order of its items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Committed {
    /// To the accepts.
    pub accepts: Vec<Accepted>,
    /// To the settles.
    pub settles: Vec<Settled>,
    /// To the upkeep.
    pub upkeep: Vec<Done>,
}

/// What a node learns when it renews its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The time of the rows' timeline.
    pub now: Timestamp,
    /// What the node owns.
    pub owned: Vec<Lease>,
    /// Other nodes whose lease is current: between them and this one the partitions are shared.
    pub others: u32,
    /// When the first of their leases ends, unless it is renewed: then there is something to take.
    pub others_until: Option<Timestamp>,
    /// Partitions that nobody owns whose lease is current.
    pub free: u8,
}

impl Renewal {
    /// Says what follows from when the living others have renewed their leases.
    pub(crate) fn of(now: Timestamp, owned: Vec<Lease>, others: &[Timestamp], free: u8) -> Self {
        let others_until = others.iter().min().map(|renewed| renewed.after(limits::LEASE));
        let others = u32::try_from(others.len()).unwrap_or(u32::MAX);
        Self { now, owned, others, others_until, free }
    }
}
