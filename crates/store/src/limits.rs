//! The numbers that every implementation shares.

use std::time::Duration;

use crate::Error;

/// How long a node's lease lasts after it was renewed.
pub const LEASE: Duration = Duration::from_secs(10);

/// How long an idempotency key counts, from the receipt of its message on.
pub const IDEMPOTENCY: Duration = Duration::from_secs(12 * 60 * 60);

/// How long a step of upkeep is recognised when it comes again.
pub const REMEMBERED: Duration = Duration::from_secs(60 * 60);

/// The longest that a change of the catalog may take from the moment that is noted with it to its
/// commit: each of its statements has a few seconds, as have the pauses between them. The tombstone of
/// an application stays as long, so that each node finds it among the changes.
pub const CHANGING: Duration = Duration::from_secs(2 * 60);

/// The most changed applications that are read at once.
pub const CHANGES: usize = 1_024;

/// The most requests that are read at once; the others are read when these are consumed.
pub const REQUESTS: usize = 1_024;

/// The most bytes of a page of a list, as its entries are kept and as they are answered. An entry that
/// is larger is a page of its own.
pub const PAGE_BYTES: usize = 4 << 20;

/// Returns how many requests of each application come first in a read. The rest of it is filled with the
/// oldest ones, so that an application that asks for much is not read any later by itself, and hides no
/// other.
pub(crate) fn requests_of_each(applications: usize) -> usize {
    (REQUESTS / applications.max(1)).max(1)
}

/// How long sums are kept, from their minute on.
pub const ROLLUPS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// How long sums are kept by minute. Those of older minutes are added to those of their hours.
pub const MINUTES: Duration = Duration::from_secs(25 * 60 * 60);

/// How long a node is remembered after its lease has ended.
pub const NODES: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest that a message may be on its way into the store after its receipt. Whoever looks for
/// messages by time looks so much further in both directions.
pub const UNDER_WAY: Duration = Duration::from_secs(60 * 60);

/// How long dead letters are kept, unless the operator says otherwise.
pub const DEAD_LETTERS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long a replay task is remembered after it has finished.
pub const TASKS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most replay tasks of one application that run at the same time.
pub const RUNNING_TASKS: usize = 500;

/// How long a token is remembered after it expired or was revoked.
pub const TOKENS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most names that a migration has changed and that are told of at a time.
pub const RENAMED: i64 = 100;

/// How many old secrets of an endpoint may sign beside the current one.
pub const OLD_SECRETS: usize = 10;

/// Refuses another secret while too many old ones sign.
pub(crate) fn too_many_secrets() -> Error {
    Error::Refused(format!(
        "{OLD_SECRETS} old secrets of this endpoint still sign; wait until one expires"
    ))
}

/// Refuses another replay task while too many of its application run.
pub(crate) fn too_many_tasks() -> Error {
    Error::Refused(format!(
        "{RUNNING_TASKS} replays of this application are running; wait until one has finished"
    ))
}

/// Refuses to switch between FIFO and due order while something is pending.
pub(crate) fn reordered() -> Error {
    let text = "the order of an endpoint can change only while none of its deliveries is pending; \
                wait for them or cancel them";
    Error::Refused(text.to_owned())
}
