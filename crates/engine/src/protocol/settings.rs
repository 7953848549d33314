//! An engine's limits, each with its name and default.

use std::time::Duration;

use store::keys::Node;

/// What an engine may use, and how often it looks.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Its name in the fleet.
    pub node: Node,
    /// The most partitions one node takes; all of them by default.
    pub partitions: u8,
    /// The most attempts in flight that do not hang, over all endpoints. Endpoints that have not
    /// answered within `hanging_after` may hold half of it.
    pub in_flight: u32,
    /// The most attempts that hang beside these, and the most for endpoints that had not answered
    /// within `hanging_after` when they began. At the limit only endpoints start that have; but if it
    /// is they who are slow, some of the others may. The last quarter is for applications of which less
    /// than a sixteenth hangs.
    pub hanging: u32,
    /// An attempt that runs longer than this hangs.
    pub hanging_after: Duration,
    /// While many attempts hang, those for endpoints that have not answered within `hanging_after`, and
    /// have failed before, begin so far apart, beyond a burst: they would all run into their deadline
    /// at once.
    pub silent_step: Duration,
    /// The same for endpoints that have not failed.
    pub trusted_step: Duration,
    /// How far ahead of that they may be. So long a burst, each taking a step, is hardly noticed by
    /// others.
    pub silent_burst: Duration,
    /// The most attempts whose settle has not committed yet. At the limit nothing is started.
    pub settling: u32,
    /// How long a settle may have waited while others are started. What is sent faster than it is
    /// settled is sent twice after a crash.
    pub settle_patience: Duration,
    /// The most deliveries of one endpoint in memory. What is handed over beyond that is read back
    /// from the store in its turn.
    pub window: u32,
    /// The most deliveries that one load adds to a window; the next one follows at half of it.
    pub load_rows: u32,
    /// The most deliveries in memory, over all endpoints. Those that have answered within
    /// `hanging_after` may go beyond it: by twice what they may have in flight until there is a quarter
    /// more, and then by as many. Those that have nothing in memory may go beyond it by one, until
    /// there is half as much more.
    pub rows: u32,
    /// The most payload bytes in memory, over all endpoints. When this or `rows` is half used up, a
    /// window takes no more than a load would bring, so that a flood leaves room for the others. So that
    /// each endpoint can have an attempt in flight, there may be twice as much, and one payload beyond
    /// that, for applications whose attempts in flight hold less than a sixteenth of it. For others there
    /// may be three quarters more; for endpoints that have not answered within `hanging_after` half as much
    /// more, and if they failed before, a quarter. Only while nothing is in flight this does not count.
    pub payload_bytes: u64,
    /// The most loads that run at once.
    pub loads: u32,
    /// A retry that is due within this time stays in memory; a later one is loaded when due.
    pub kept_within: Duration,
    /// How often the store is walked for endpoints that memory has wrong or does not know.
    pub walk_every: Duration,
    /// How often requests from other nodes are read.
    pub requests_every: Duration,
    /// How often it is asked what was changed in the catalog.
    pub changes_every: Duration,
    /// Without an answer to that for this long nothing is started. It is counted from before the
    /// question was sent.
    pub changes_trusted: Duration,
    /// How old a roster may become before it is read again.
    pub roster_age: Duration,
    /// The most bytes of rosters in memory; beyond them none is kept that nothing uses.
    pub roster_memory: u64,
    /// How often the lease is renewed.
    pub renew_every: Duration,
    /// Without a renewal for this long nothing is started and what is in flight is aborted. It is
    /// counted from before the renewal was sent.
    pub lease_trusted: Duration,
    /// The most deliveries buried in one step of upkeep.
    pub bury_chunk: u32,
}

impl Settings {
    /// Returns the defaults for a node.
    #[must_use]
    pub fn of(node: Node) -> Self {
        Self {
            node,
            partitions: domain::partition::PARTITIONS,
            in_flight: 1_024,
            hanging: 4_096,
            hanging_after: Duration::from_secs(1),
            silent_step: Duration::from_millis(2),
            trusted_step: Duration::from_micros(250),
            silent_burst: Duration::from_millis(16),
            settling: 4_096,
            settle_patience: Duration::from_millis(500),
            window: 8_192,
            load_rows: 256,
            rows: 65_536,
            payload_bytes: 64 << 20,
            loads: 8,
            kept_within: Duration::from_secs(10),
            walk_every: Duration::from_secs(5),
            requests_every: Duration::from_secs(1),
            changes_every: Duration::from_secs(1),
            changes_trusted: Duration::from_secs(2),
            roster_age: Duration::from_secs(30),
            roster_memory: 64 << 20,
            renew_every: Duration::from_secs(2),
            lease_trusted: Duration::from_secs(7),
            bury_chunk: 200,
        }
    }
}
