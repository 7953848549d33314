//! How many callers share the batches of a committer, and whom it waits for before it cuts the next.

use std::time::Duration;

use super::Which;

/// How many share the batches of a committer, and so how many of them to wait for.
///
/// Who has just been answered tends to come back. If all are answered at once, all come back at
/// once, and the committer would cut a batch for the first few of them: many small commits on a core
/// that those who follow could use. So it waits for half of the crowd. While one half is being
/// committed the other half gets its turn outside, and neither waits for the other. A caller alone
/// is no crowd. Nor are attempts that settle beside it: they end when they end, and whoever hands in
/// a message would wait for them in vain. See [`super::Lanes::callers`].
///
/// Where the disk is slow, all of them together have had their turn long before a commit is done,
/// and one that carries half of them is half in vain. There it waits for all.
#[derive(Debug, Default)]
pub struct Crowd {
    members: usize,
}

/// A batch that was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// The callers that it answered.
    pub callers: usize,
    /// About how many rows and pages they were.
    pub writes: u32,
    /// How long it took.
    pub took: Duration,
}

/// Whom to wait for before the next batch is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quorum {
    /// How many callers should wait.
    pub callers: usize,
    /// How long to wait for them at the most.
    pub patience: Duration,
}

impl Crowd {
    /// The fewest callers, in a batch and behind it, that are a crowd.
    const LEAST: usize = 16;
    /// The longest wait for half of a crowd.
    pub(super) const PATIENCE: Duration = Duration::from_millis(1);
    /// The longest wait for all of it.
    const MOST_PATIENCE: Duration = Duration::from_millis(5);
    /// A commit that takes this long, and longer than its writes account for, waits for the disk.
    const SLOW: Duration = Duration::from_millis(4);
    /// From so many on, attempts that were settled together do not come from one endpoint that keeps the
    /// order and waits for each to be settled.
    const SEVERAL: usize = 4;
    /// The longest wait for attempts that settle apart from messages.
    pub(super) const REST: Duration = Duration::from_millis(2);
    /// The most that one write takes but for the sync.
    pub(super) const WRITE: Duration = Duration::from_micros(60);

    /// Tells whether there are enough of them to be one.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.members >= Self::LEAST
    }

    /// Hears that a batch is committed, of one lane or of all together, and so many callers wait behind
    /// it. Returns whom to wait for before the next one is cut.
    ///
    /// Nobody waits for attempts that settle in a lane of their own, and several of them cost hardly more
    /// than one: what their commits cost is taken from those who hand in messages. So some more may gather
    /// there, for as long as the commit took at the most.
    pub fn committed(&mut self, which: Option<Which>, batch: Carried, waiting: usize) -> Quorum {
        let Carried { callers, writes, took } = batch;
        // It dissolves over a few batches: some come back late.
        let faded = self.members - self.members.div_ceil(8);
        self.members = faded.max(callers + waiting);
        let writing = Self::WRITE.saturating_mul(writes);
        if !self.is_there() && which == Some(Which::Settles) && callers >= Self::SEVERAL {
            Quorum { callers: Self::LEAST, patience: took.min(Self::REST) }
        } else if !self.is_there() {
            Quorum { callers: 1, patience: Self::PATIENCE }
        } else if took >= Self::SLOW.max(writing) {
            Quorum { callers: self.members, patience: (took / 4).min(Self::MOST_PATIENCE) }
        } else {
            Quorum { callers: self.members / 2, patience: Self::PATIENCE }
        }
    }
}
