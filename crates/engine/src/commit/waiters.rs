//! Items that found their lane, or whatever else they want to enter, full: which of them wait, and which enters
//! next.
//!
//! Applications take turns, and within one application the oldest item goes first. So a flood of one
//! application delays another's item by at most one of its own items per turn. An application that is
//! held up by its own share of the lane leaves the turns until the share shrinks: it delays no other.
//!
//! What waits is bounded in number and bytes. When that bound is reached, an application that has less
//! than its fair part still gets in, and the newest items of the application with most are refused.

use std::collections::BTreeMap;

use super::{Crowded, Full, Weight};

/// What a row takes in memory while it waits, roughly.
const ROW_BYTES: u64 = 64;

/// The most that waits beside a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bound {
    /// How many items.
    pub items: usize,
    /// How many bytes they take, roughly.
    pub bytes: u64,
}

impl Bound {
    /// The two ways in which something can be too much.
    const SIZES: [fn(Self) -> u64; 2] = [|it| it.items as u64, |it| it.bytes];

    const fn of(weight: Weight) -> Self {
        let rows = ROW_BYTES.saturating_mul(weight.rows as u64);
        Self { items: 1, bytes: weight.bytes.saturating_add(rows) }
    }

    const fn plus(self, other: Self) -> Self {
        Self { items: self.items + other.items, bytes: self.bytes.saturating_add(other.bytes) }
    }

    const fn minus(self, other: Self) -> Self {
        let items = self.items.saturating_sub(other.items);
        Self { items, bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

/// Names an item that waits. No other ever has the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter<Key> {
    application: Key,
    number: u64,
}

/// An item that waits from now on.
#[derive(Debug)]
pub struct Joined<Key, T> {
    /// Names it, for a caller that gives up.
    pub waiter: Waiter<Key>,
    /// Items of applications with more than a fair part of the room to wait, which were refused so that this one
    /// fits.
    pub refused: Vec<Full<T>>,
}

/// The items of one application.
#[derive(Debug)]
struct Line<T> {
    items: BTreeMap<u64, (Weight, T)>,
    held: Bound,
    /// Its place among the turns; none while its own share of the lane is full.
    turn: Option<u64>,
}

/// The items that wait beside one lane, or for whatever else has a limit.
#[derive(Debug)]
pub struct Waiters<Key, T> {
    bound: Bound,
    held: Bound,
    lines: BTreeMap<Key, Line<T>>,
    turns: BTreeMap<u64, Key>,
    /// Numbers items and turns in the order in which they came.
    next: u64,
}

impl<Key: Ord + Copy, T> Waiters<Key, T> {
    /// Begins with nothing that waits, and so much of it at the most.
    #[must_use]
    pub const fn new(bound: Bound) -> Self {
        let held = Bound { items: 0, bytes: 0 };
        Self { bound, held, lines: BTreeMap::new(), turns: BTreeMap::new(), next: 0 }
    }

    /// Tells whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Tells whether items wait that enter before a new one of this application.
    #[must_use]
    pub fn are_before(&self, application: Key) -> bool {
        !self.turns.is_empty() || !self.is_empty() && self.lines.contains_key(&application)
    }

    /// Has an item wait because of what is full.
    ///
    /// # Errors
    /// Gives it back if too much waits already.
    pub fn join(
        &mut self,
        application: Key,
        (weight, item): (Weight, T),
        what: Crowded,
    ) -> Result<Joined<Key, T>, Full<T>> {
        let Some(refused) = self.make_room(application, Bound::of(weight)) else {
            return Err(Full { item, what });
        };
        let (number, turn) = (self.number(), self.number());
        let line = self.lines.entry(application).or_insert_with(|| {
            let turn = match what {
                Crowded::Lane => Some(turn),
                Crowded::Share => None,
            };
            self.turns.extend(turn.map(|turn| (turn, application)));
            Line { items: BTreeMap::new(), held: Bound::default(), turn }
        });
        line.held = line.held.plus(Bound::of(weight));
        self.held = self.held.plus(Bound::of(weight));
        line.items.insert(number, (weight, item));
        Ok(Joined { waiter: Waiter { application, number }, refused })
    }

    /// Returns whose turn it is, and what its item weighs.
    #[must_use]
    pub fn first(&self) -> Option<(Key, Weight)> {
        let (_, application) = self.turns.first_key_value()?;
        let (_, (weight, _)) = self.lines.get(application)?.items.first_key_value()?;
        Some((*application, *weight))
    }

    /// Takes out the item whose turn it is. Its application's next turn comes after all others'.
    pub fn take_first(&mut self) -> Option<(Weight, T)> {
        let (_, application) = self.turns.pop_first()?;
        let turn = self.number();
        let line = self.lines.get_mut(&application)?;
        let number = *line.items.first_key_value()?.0;
        line.turn = Some(turn);
        self.turns.insert(turn, application);
        self.remove(Waiter { application, number })
    }

    /// Passes an application over until its share of the lane has shrunk.
    pub fn hold_up(&mut self, application: Key) {
        let turn = self.lines.get_mut(&application).and_then(|line| line.turn.take());
        turn.map(|turn| self.turns.remove(&turn));
    }

    /// Gives an application that was held up its turn again, after all others.
    pub fn resume(&mut self, application: Key) {
        if self.is_empty() {
            return;
        }
        let number = self.number();
        let Some(line) = self.lines.get_mut(&application) else { return };
        if line.turn.is_none() {
            line.turn = Some(number);
            self.turns.insert(number, application);
        }
    }

    /// Takes out an item whose caller gave up, with what kept it out.
    pub fn leave(&mut self, waiter: Waiter<Key>) -> Option<Full<T>> {
        let line = self.lines.get(&waiter.application)?;
        let what = if line.turn.is_some() { Crowded::Lane } else { Crowded::Share };
        self.remove(waiter).map(|(_, item)| Full { item, what })
    }

    fn remove(&mut self, waiter: Waiter<Key>) -> Option<(Weight, T)> {
        let line = self.lines.get_mut(&waiter.application)?;
        let (weight, item) = line.items.remove(&waiter.number)?;
        line.held = line.held.minus(Bound::of(weight));
        self.held = self.held.minus(Bound::of(weight));
        if line.items.is_empty() {
            line.turn.map(|turn| self.turns.remove(&turn));
            self.lines.remove(&waiter.application);
        }
        Some((weight, item))
    }

    /// Makes room for an item, if its application then has no more than its fair part of it or the room
    /// suffices anyway. Returns the items that were refused for it.
    fn make_room(&mut self, application: Key, new: Bound) -> Option<Vec<Full<T>>> {
        let own = self.lines.get(&application).map(|line| line.held);
        let parts = self.lines.len() + usize::from(own.is_none());
        let wanted = own.unwrap_or_default().plus(new);
        let fair = |bound: u64| bound / u64::try_from(parts).unwrap_or(u64::MAX);
        let mut refused = Vec::new();
        for size in Bound::SIZES {
            let fits = |held: Bound| size(held.plus(new)) <= size(self.bound);
            if !fits(self.held) && size(wanted) > fair(size(self.bound)) {
                return None;
            }
        }
        // An application within its fair part finds another above it whenever the room does not suffice.
        for size in Bound::SIZES {
            while size(self.held.plus(new)) > size(self.bound) {
                let (largest, line) = self.lines.iter().max_by_key(|(_, line)| size(line.held))?;
                let waiter =
                    Waiter { application: *largest, number: *line.items.last_key_value()?.0 };
                let (_, item) = self.remove(waiter)?;
                refused.push(Full { item, what: Crowded::Share });
            }
        }
        Some(refused)
    }

    const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests;
