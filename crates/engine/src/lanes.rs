//! Group commit: what waits to be written, and how much of it goes into the next batch.
//!
//! Three bounded lanes. Accepting and settling each get up to half of a batch, so that neither can
//! starve the other; upkeep gets a small step beside them, what is urgent first. An idle committer cuts a batch as soon
//! as something is offered, a busy one finds more when it comes back, and so batches grow with the
//! load by themselves. A busy one that comes back too early waits a moment: see [`Crowd`]. Beside few
//! callers not everything is settled at once: see [`Pace`].
//!
//! A full accept lane is the caller's signal to answer 429 or 503; one application may hold a
//! quarter of it at the most, so that a flood of its own making turns away nobody else. A full
//! settle lane is the engine's signal to start no further attempt.

mod pace;
mod steps;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use domain::time::Timestamp;

pub use self::pace::Pace;
use self::steps::Steps;
pub use self::steps::Urgency;

/// How long upkeep may be passed over while the other lanes are busy.
const UPKEEP_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// What an item costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// Rows it writes, fan-out included.
    pub rows: u32,
    /// Bytes it writes, roughly.
    pub bytes: u64,
}

impl Weight {
    const fn plus(self, other: Self) -> Self {
        let rows = self.rows.saturating_add(other.rows);
        Self { rows, bytes: self.bytes.saturating_add(other.bytes) }
    }

    const fn minus(self, other: Self) -> Self {
        let rows = self.rows.saturating_sub(other.rows);
        Self { rows, bytes: self.bytes.saturating_sub(other.bytes) }
    }

    const fn fills(self, room: Self) -> bool {
        self.rows >= room.rows || self.bytes >= room.bytes
    }

    const fn is_within(self, limit: Self) -> bool {
        self.rows <= limit.rows && self.bytes <= limit.bytes
    }
}

/// The limits of lanes and batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most that one batch holds of accepts and settles together.
    pub batch: Weight,
    /// The most that each of these two lanes holds.
    pub lane: Weight,
    /// The most upkeep rows in one batch.
    pub upkeep_rows: u32,
    /// The most upkeep steps that wait, of those that are urgent and of the others.
    pub upkeep_steps: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch: Weight { rows: 4_096, bytes: 8 << 20 },
            lane: Weight { rows: 16_384, bytes: 64 << 20 },
            upkeep_rows: 256,
            upkeep_steps: 1_024,
        }
    }
}

/// Why an item was not taken in. It comes back with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full<T> {
    /// The item.
    pub item: T,
    /// What is full.
    pub what: Crowded,
}

/// What is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowded {
    /// The lane: the server is overloaded.
    Lane,
    /// The application's share of the lane: it alone is too fast.
    Share,
}

/// How many share the batches of a committer, and so how many of them to wait for.
///
/// Who has just been answered tends to come back. If all are answered at once, all come back at
/// once, and the committer would cut a batch for the first few of them: many small commits on a core
/// that those who follow could use. So it waits for half of the crowd. While one half is being
/// committed the other half gets its turn outside, and neither waits for the other. A caller alone
/// is no crowd. Nor are attempts that settle beside it: they end when they end, and whoever hands in
/// a message would wait for them in vain. See [`Lanes::callers`].
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
    const PATIENCE: Duration = Duration::from_millis(1);
    /// The longest wait for all of it.
    const MOST_PATIENCE: Duration = Duration::from_millis(5);
    /// A commit that takes this long, and longer than its writes account for, waits for the disk.
    const SLOW: Duration = Duration::from_millis(4);
    /// From so many on, attempts that were settled together do not come from one endpoint that keeps the
    /// order and waits for each to be settled.
    const SEVERAL: usize = 4;
    /// The longest wait for attempts that settle apart from messages.
    const REST: Duration = Duration::from_millis(2);
    /// The most that one write takes but for the sync.
    const WRITE: Duration = Duration::from_micros(60);

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

/// The lanes of one committer, over whatever items its callers have.
#[derive(Debug)]
pub struct Lanes<Key, Accept, Settle, Upkeep> {
    limits: Limits,
    accepts: Lane<(Key, Accept)>,
    settles: Lane<Settle>,
    upkeep: Steps<Upkeep>,
    shares: BTreeMap<Key, Weight>,
    last_upkeep: Timestamp,
}

/// One of the three lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Messages to accept.
    Accepts,
    /// Attempts to settle.
    Settles,
    /// Everything else.
    Upkeep,
}

/// What goes into one batch.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut<Accept, Settle, Upkeep> {
    /// Oldest first.
    pub accepts: Vec<Accept>,
    /// Oldest first.
    pub settles: Vec<Settle>,
    /// Urgent ones first, and otherwise the oldest.
    pub upkeep: Vec<Upkeep>,
}

impl<Key: Ord + Copy, Accept, Settle, Upkeep> Lanes<Key, Accept, Settle, Upkeep> {
    /// Makes empty lanes.
    #[must_use]
    pub fn new(limits: Limits, now: Timestamp) -> Self {
        Self {
            limits,
            accepts: Lane::default(),
            settles: Lane::default(),
            upkeep: Steps::default(),
            shares: BTreeMap::new(),
            last_upkeep: now,
        }
    }

    /// Takes in a message to accept.
    ///
    /// # Errors
    /// Gives it back if the lane, or its application's quarter of it, is full.
    pub fn offer_accept(
        &mut self,
        application: Key,
        weight: Weight,
        item: Accept,
    ) -> Result<(), Full<Accept>> {
        let held = self.shares.get(&application).copied().unwrap_or_default();
        // An application that holds nothing may always enter: a fan-out may be wider than a share.
        let Weight { rows, bytes } = self.limits.lane;
        let quarter = Weight { rows: rows / 4, bytes: bytes / 4 };
        if held != Weight::default() && !held.plus(weight).is_within(quarter) {
            return Err(Full { item, what: Crowded::Share });
        }
        if !self.accepts.has_room(weight, self.limits.lane) {
            return Err(Full { item, what: Crowded::Lane });
        }
        let share = self.shares.entry(application).or_default();
        *share = share.plus(weight);
        self.accepts.push(weight, (application, item));
        Ok(())
    }

    /// Takes in an attempt to settle.
    ///
    /// # Errors
    /// Gives it back if the lane is full.
    pub fn offer_settle(&mut self, weight: Weight, item: Settle) -> Result<(), Full<Settle>> {
        if !self.settles.has_room(weight, self.limits.lane) {
            return Err(Full { item, what: Crowded::Lane });
        }
        self.settles.push(weight, item);
        Ok(())
    }

    /// Takes in a step of upkeep.
    ///
    /// # Errors
    /// Gives it back if too many of its kind wait.
    pub fn offer_upkeep(
        &mut self,
        urgency: Urgency,
        rows: u32,
        item: Upkeep,
    ) -> Result<(), Full<Upkeep>> {
        let steps = self.upkeep.of(urgency);
        if steps.len() >= self.limits.upkeep_steps {
            return Err(Full { item, what: Crowded::Lane });
        }
        steps.push_back((rows, item));
        Ok(())
    }

    /// Tells whether the settle lane could take more than what is in flight will bring.
    #[must_use]
    pub fn has_room_for_settles(&self, in_flight: Weight) -> bool {
        self.settles.has_room(in_flight, self.limits.lane)
    }

    /// Tells whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting(None) == 0
    }

    /// Returns how many items wait in one lane, or in all of them.
    #[must_use]
    pub fn waiting(&self, lane: Option<Which>) -> usize {
        match lane {
            Some(Which::Accepts) => self.accepts.queue.len(),
            Some(Which::Settles) => self.settles.queue.len(),
            Some(Which::Upkeep) => self.upkeep.len(),
            None => self.accepts.queue.len() + self.settles.queue.len() + self.upkeep.len(),
        }
    }

    /// Returns how many wait who come back when they are answered: in one lane all of them, of all
    /// lanes together those who hand in messages.
    #[must_use]
    pub fn callers(&self, lane: Option<Which>) -> usize {
        self.waiting(Some(lane.unwrap_or(Which::Accepts)))
    }

    /// Tells whether enough wait for the next batch to be cut: so many callers, or as much as fills
    /// it; anybody, if nobody else is waited for.
    #[must_use]
    pub fn has_enough(&self, lane: Option<Which>, callers: usize) -> bool {
        let enough =
            if callers <= 1 { self.waiting(lane) > 0 } else { self.callers(lane) >= callers };
        enough || self.fills_a_batch(lane)
    }

    /// Tells whether one lane, or one of all, fills its share of the next batch: then nobody need be
    /// waited for.
    #[must_use]
    pub fn fills_a_batch(&self, lane: Option<Which>) -> bool {
        let (whole, half) = (self.limits.batch, self.half_a_batch());
        match lane {
            None => self.accepts.held.fills(half) || self.settles.held.fills(half),
            Some(Which::Accepts) => self.accepts.held.fills(whole),
            Some(Which::Settles) => self.settles.held.fills(whole),
            Some(Which::Upkeep) => self.upkeep.len() > 0,
        }
    }

    /// Returns what accepts, and settles, get of a batch at the most.
    const fn half_a_batch(&self) -> Weight {
        let Weight { rows, bytes } = self.limits.batch;
        Weight { rows: rows / 2, bytes: bytes / 2 }
    }

    /// Cuts the next batch with so many settles at the most, or returns none if nothing waits.
    ///
    /// Upkeep goes along when the other lanes are not busy, and in any case once a second. Messages
    /// that are left over are more than fit a batch. Attempts that are left over may just be the next
    /// portion, so they count only if they fill their half of the next batch.
    pub fn cut(&mut self, now: Timestamp, settles: usize) -> Option<Cut<Accept, Settle, Upkeep>> {
        if self.is_empty() {
            return None;
        }
        let half = self.half_a_batch();
        let accepts = self.accepts.take(half, usize::MAX);
        for (weight, (application, _)) in &accepts {
            self.give_back(*application, *weight);
        }
        let accepts: Vec<Accept> = accepts.into_iter().map(|(_, (_, item))| item).collect();
        let settles = self.settles.take(half, settles).into_iter().map(|(_, item)| item).collect();
        let overdue = now.since(self.last_upkeep) >= UPKEEP_AT_LEAST_EVERY;
        let busy = !self.accepts.queue.is_empty() || self.settles.held.fills(half);
        let upkeep = if busy && !overdue { Vec::new() } else { self.take_upkeep(now) };
        Some(Cut { accepts, settles, upkeep })
    }

    /// Cuts the next batch of one lane alone, for stores whose lanes are transactions of their own.
    pub fn cut_lane(&mut self, lane: Which, now: Timestamp) -> Option<Cut<Accept, Settle, Upkeep>> {
        let whole = self.limits.batch;
        let mut cut = Cut { accepts: Vec::new(), settles: Vec::new(), upkeep: Vec::new() };
        match lane {
            Which::Accepts => {
                for (weight, (application, item)) in self.accepts.take(whole, usize::MAX) {
                    self.give_back(application, weight);
                    cut.accepts.push(item);
                }
            }
            Which::Settles => {
                cut.settles
                    .extend(self.settles.take(whole, usize::MAX).into_iter().map(|(_, item)| item));
            }
            Which::Upkeep => cut.upkeep = self.take_upkeep(now),
        }
        let empty = cut.accepts.is_empty() && cut.settles.is_empty() && cut.upkeep.is_empty();
        (!empty).then_some(cut)
    }

    /// Takes in a settle whatever waits: for a caller that keeps within limits of its own.
    pub fn append_settle(&mut self, weight: Weight, item: Settle) {
        self.settles.push(weight, item);
    }

    /// Takes in a step of upkeep whatever waits: for a caller that keeps within limits of its own.
    pub fn append_upkeep(&mut self, urgency: Urgency, rows: u32, item: Upkeep) {
        self.upkeep.of(urgency).push_back((rows, item));
    }

    /// Takes a settle back whose batch failed, ahead of all others: it was here before. There is
    /// always room for it, because there was when it came.
    pub fn restore_settle(&mut self, weight: Weight, item: Settle) {
        self.settles.push_front(weight, item);
    }

    /// Takes a step of upkeep back whose batch failed.
    pub fn restore_upkeep(&mut self, urgency: Urgency, rows: u32, item: Upkeep) {
        self.upkeep.of(urgency).push_front((rows, item));
    }

    fn take_upkeep(&mut self, now: Timestamp) -> Vec<Upkeep> {
        let steps = self.upkeep.take(self.limits.upkeep_rows);
        if !steps.is_empty() {
            self.last_upkeep = now;
        }
        steps
    }

    fn give_back(&mut self, application: Key, weight: Weight) {
        let Some(held) = self.shares.get_mut(&application) else { return };
        *held = held.minus(weight);
        if *held == Weight::default() {
            self.shares.remove(&application);
        }
    }
}

#[derive(Debug)]
struct Lane<T> {
    queue: VecDeque<(Weight, T)>,
    held: Weight,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), held: Weight::default() }
    }
}

impl<T> Lane<T> {
    /// An empty lane takes anything: what is larger than a whole lane must still get through.
    fn has_room(&self, weight: Weight, limit: Weight) -> bool {
        self.queue.is_empty() || self.held.plus(weight).is_within(limit)
    }

    fn push(&mut self, weight: Weight, item: T) {
        self.held = self.held.plus(weight);
        self.queue.push_back((weight, item));
    }

    fn push_front(&mut self, weight: Weight, item: T) {
        self.held = self.held.plus(weight);
        self.queue.push_front((weight, item));
    }

    /// Takes the oldest items that fit, so many at the most and at least one.
    fn take(&mut self, limit: Weight, most: usize) -> Vec<(Weight, T)> {
        let (mut taken, mut used) = (Vec::new(), Weight::default());
        while let Some((weight, _)) = self.queue.front() {
            used = used.plus(*weight);
            if !taken.is_empty() && (!used.is_within(limit) || taken.len() >= most) {
                break;
            }
            let Some((weight, item)) = self.queue.pop_front() else { break };
            self.held = self.held.minus(weight);
            taken.push((weight, item));
        }
        taken
    }
}

#[cfg(test)]
mod tests;
