//! Internal keys: the small numbers by which rows refer to each other. Public ids are stored once.

use domain::partition::Partition;

/// The row number of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationKey(pub i64);

/// The row number of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey(pub i64);

/// The row number of a message. Later messages have higher ones: a message sent after another's
/// acknowledgement was received always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub i64);

/// How far a replay task has got, counted as whoever walks it counts: by message rows, or by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub i64);

/// Where a delivery's row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryKey {
    /// The application of both.
    pub application: ApplicationKey,
    /// The endpoint it goes to.
    pub endpoint: EndpointKey,
    /// The message it carries.
    pub message: MessageKey,
}

/// Counts the owners of a partition. What an owner writes counts only while its epoch is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i64);

/// The right to send for, and to settle in, one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// What is owned.
    pub partition: Partition,
    /// Under which epoch.
    pub epoch: Epoch,
}

/// One process of a fleet, by a name that no other process has or had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub String);
