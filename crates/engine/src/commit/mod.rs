//! Group commit: what waits to be written, and how much of it goes into the next batch.
//!
//! Three bounded lanes. Accepting and settling each get up to half of a batch, so that neither can
//! starve the other; upkeep gets a small step beside them, what is urgent first. An idle committer cuts a batch as soon
//! as something is offered, a busy one finds more when it comes back, and so batches grow with the
//! load by themselves. A busy one that comes back too early waits a moment: see [`Crowd`]. Beside few
//! callers not everything is settled at once: see [`Pace`].
//!
//! A message that finds the accept lane full, or its application's quarter of it, waits beside the lane
//! and enters when the next batch leaves room: applications take turns, see [`waiters`]. The callers
//! decide how long they wait, and the answer is 429 or 503 afterwards. Requests for the owner of an
//! endpoint wait likewise. A full settle lane is the engine's signal to start no further attempt.

mod crowd;
mod pace;
mod steps;
mod waiters;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use domain::time::Timestamp;

pub use self::crowd::{Carried, Crowd, Quorum};
pub use self::pace::Pace;
use self::steps::Steps;
pub use self::steps::Urgency;
pub use self::waiters::{Bound, Joined, Waiter, Waiters};

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
    /// The most that waits beside a full lane. Beyond it callers are refused at once.
    pub waiting: Bound,
    /// How long it waits there before its caller gives up.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch: Weight { rows: 4_096, bytes: 8 << 20 },
            lane: Weight { rows: 16_384, bytes: 64 << 20 },
            upkeep_rows: 256,
            upkeep_steps: 1_024,
            waiting: Bound { items: 16_384, bytes: 64 << 20 },
            wait: Duration::from_secs(1),
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

/// Where an item is that was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entered<Key, T> {
    /// In its lane: it goes into one of the next batches.
    Lane,
    /// Beside its lane, which is full.
    Waits {
        /// Names it, for a caller that gives up.
        waiter: Waiter<Key>,
        /// Items of applications with more than a fair part of the room to wait, which were refused
        /// so that this one fits.
        refused: Vec<Full<T>>,
    },
}

impl<Key, T> From<Joined<Key, T>> for Entered<Key, T> {
    fn from(Joined { waiter, refused }: Joined<Key, T>) -> Self {
        Self::Waits { waiter, refused }
    }
}

/// What is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowded {
    /// The lane: the server is overloaded.
    Lane,
    /// The application's share of the lane: it alone is too fast.
    Share,
}

/// The lanes of one committer, over whatever items its callers have.
#[derive(Debug)]
pub struct Lanes<Key, Accept, Settle, Upkeep> {
    limits: Limits,
    accepts: Lane<(Key, Accept)>,
    settles: Lane<Settle>,
    upkeep: Steps<Upkeep>,
    shares: BTreeMap<Key, Weight>,
    accept_waiters: Waiters<Key, Accept>,
    request_waiters: Waiters<Key, Upkeep>,
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
            accept_waiters: Waiters::new(limits.waiting),
            request_waiters: Waiters::new(limits.waiting),
            last_upkeep: now,
        }
    }

    /// Takes in a message to accept. It waits if the lane, or its application's quarter of it, is full.
    ///
    /// # Errors
    /// Gives it back if too much waits already.
    pub fn offer_accept(
        &mut self,
        application: Key,
        weight: Weight,
        item: Accept,
    ) -> Result<Entered<Key, Accept>, Full<Accept>> {
        let full = self.what_is_full_for(application, weight);
        if full.is_none() && !self.accept_waiters.are_before(application) {
            self.enter(application, weight, item);
            return Ok(Entered::Lane);
        }
        let what = full.unwrap_or(Crowded::Lane);
        self.accept_waiters.join(application, (weight, item), what).map(Entered::from)
    }

    /// Forgets a message that waits, because its caller gave up. Returns none if it is in its lane.
    pub fn give_up_accept(&mut self, waiter: Waiter<Key>) -> Option<Full<Accept>> {
        let left = self.accept_waiters.leave(waiter);
        // It may have been the one that was too large for the room that is left.
        self.admit_accepts();
        left
    }

    /// Tells what keeps an item out of the lane of messages.
    fn what_is_full_for(&self, application: Key, weight: Weight) -> Option<Crowded> {
        let held = self.shares.get(&application).copied().unwrap_or_default();
        // An application that holds nothing may always enter: a fan-out may be wider than a share.
        let Weight { rows, bytes } = self.limits.lane;
        let quarter = Weight { rows: rows / 4, bytes: bytes / 4 };
        if held != Weight::default() && !held.plus(weight).is_within(quarter) {
            Some(Crowded::Share)
        } else if !self.accepts.has_room(weight, self.limits.lane) {
            Some(Crowded::Lane)
        } else {
            None
        }
    }

    fn enter(&mut self, application: Key, weight: Weight, item: Accept) {
        let share = self.shares.entry(application).or_default();
        *share = share.plus(weight);
        self.accepts.push(weight, (application, item));
    }

    /// Lets in the messages whose turn it is, as far as there is room.
    fn admit_accepts(&mut self) {
        while let Some((application, weight)) = self.accept_waiters.first() {
            match self.what_is_full_for(application, weight) {
                None => {
                    let Some((weight, item)) = self.accept_waiters.take_first() else { return };
                    self.enter(application, weight, item);
                }
                Some(Crowded::Share) => self.accept_waiters.hold_up(application),
                // Its turn stands: smaller ones that went past it could keep it out for ever.
                Some(Crowded::Lane) => return,
            }
        }
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

    /// Takes in a request that somebody has for the owner of an application's endpoint: an urgent step
    /// that waits if too many do.
    ///
    /// # Errors
    /// Gives it back if too much waits already.
    pub fn offer_request(
        &mut self,
        application: Key,
        rows: u32,
        item: Upkeep,
    ) -> Result<Entered<Key, Upkeep>, Full<Upkeep>> {
        let steps = self.upkeep.of(Urgency::Urgent);
        if steps.len() < self.limits.upkeep_steps && self.request_waiters.is_empty() {
            steps.push_back((rows, item));
            return Ok(Entered::Lane);
        }
        let weight = Weight { rows, bytes: 0 };
        let joined = self.request_waiters.join(application, (weight, item), Crowded::Lane);
        joined.map(Entered::from)
    }

    /// Forgets a request that waits, because its caller gave up. Returns none if it is in its lane.
    pub fn give_up_request(&mut self, waiter: Waiter<Key>) -> Option<Full<Upkeep>> {
        self.request_waiters.leave(waiter)
    }

    fn admit_requests(&mut self) {
        let steps = self.upkeep.of(Urgency::Urgent);
        while steps.len() < self.limits.upkeep_steps {
            let Some((weight, item)) = self.request_waiters.take_first() else { return };
            steps.push_back((weight.rows, item));
        }
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
        // What waits beside the lane can only enter when a batch is cut.
        let waits = !self.accept_waiters.is_empty();
        match lane {
            None => waits || self.accepts.held.fills(half) || self.settles.held.fills(half),
            Some(Which::Accepts) => waits || self.accepts.held.fills(whole),
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
        self.admit_accepts();
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
                self.admit_accepts();
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
        self.admit_requests();
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
        self.accept_waiters.resume(application);
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
