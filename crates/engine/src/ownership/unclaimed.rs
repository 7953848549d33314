//! Partitions that nobody takes, and that this node takes beyond its share.
//!
//! A node that stops gives back what has drained, and keeps what is still busy. As long as one
//! attempt hangs it renews its lease, so the others leave it a share that it will not take. What
//! stays free from one renewal to the next is wanted by nobody, and whoever sees it takes it all.

use std::time::Duration;

use store::limits::LEASE;

/// How long partitions are free until nobody is believed to want them. Two renewals may follow each
/// other at once, when others call; within this time those who want something have heard of it.
const LASTING: Duration = Duration::from_secs(1);

/// How long more than the share is kept, unless other nodes come or go. Longer than a node usually
/// takes to stop; then the others get their chance.
const KEPT: Duration = Duration::from_secs(60);

/// What is known about partitions that nobody takes.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed {
    /// How many were free by the newest renewal.
    free: u8,
    /// Since when there were some by all renewals.
    since: Option<Duration>,
    /// Until when what is free may be what this node gave back to be taken by others.
    modest_until: Duration,
    /// Until when more than the share is kept, and beside how many other nodes.
    kept: Option<(Duration, u32)>,
}

impl Unclaimed {
    /// Takes in how many partitions are free by a renewal that was asked for at a moment.
    pub(crate) fn count(&mut self, free: u8, asked_at: Duration) {
        self.free = free;
        self.since = self.since.or(Some(asked_at)).filter(|_| free > 0);
    }

    /// Notes that this node has too many, and gives them to the others.
    pub(crate) fn give(&mut self, now: Duration) {
        self.modest_until = now.saturating_add(LEASE);
        self.kept = None;
    }

    /// Returns how many partitions nobody else takes.
    pub(crate) fn wanted(&self, now: Duration) -> u8 {
        let lasting = self.since.is_some_and(|since| now >= since.saturating_add(LASTING));
        if lasting && now >= self.modest_until { self.free } else { 0 }
    }

    /// Notes that partitions are asked for: what is free by now may be ours soon.
    pub(crate) fn ask(&mut self) {
        self.since = None;
    }

    /// Notes that more than the share is taken, beside so many other nodes.
    pub(crate) fn take(&mut self, now: Duration, others: u32) {
        self.kept = Some((now.saturating_add(KEPT), others));
    }

    /// Tells whether more than the share is kept for now.
    pub(crate) fn is_kept(&self, now: Duration, others: u32) -> bool {
        self.kept.is_some_and(|(until, beside)| now < until && others == beside)
    }
}
