//! Turns: how many of something may run at a time, for each key and in all, and who is next.
//!
//! A caller that finds no turn free waits. Keys take turns, and within one key the caller that came first goes
//! first: [`Waiters`] decides, as it does for messages beside a full lane. How many wait is bounded, too; at
//! the bound the newest callers of the key with most of them are refused. A caller that stops waiting leaves
//! nothing behind.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::commit::{Bound, Crowded, Full, Joined, Waiter, Waiters, Weight};
use tokio::sync::oneshot;

/// Every turn weighs the same.
const ONE: Weight = Weight { rows: 1, bytes: 0 };

/// How many turns there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The most that one key holds at a time.
    pub(crate) each: usize,
    /// The most that all keys hold at a time.
    pub(crate) all: usize,
    /// The most callers that wait.
    pub(crate) waiting: usize,
}

/// Who has a turn, and who waits for one.
pub(crate) struct Turns<Key: Ord + Copy> {
    bounds: Bounds,
    state: Mutex<State<Key>>,
}

struct State<Key: Ord + Copy> {
    held: BTreeMap<Key, usize>,
    all: usize,
    waiters: Waiters<Key, Reply<Key>>,
}

/// A key's turn, until it is dropped.
pub(crate) struct Turn<Key: Ord + Copy> {
    turns: Arc<Turns<Key>>,
    key: Key,
}

type Given<Key> = Result<Turn<Key>, Crowded>;
type Reply<Key> = oneshot::Sender<Given<Key>>;

/// A caller that asked for a turn.
enum Asked<Key: Ord + Copy> {
    Has(Turn<Key>),
    Waits(Waiting<Key>),
}

/// A caller that waits. Dropping it takes it out.
struct Waiting<Key: Ord + Copy> {
    turns: Arc<Turns<Key>>,
    waiter: Waiter<Key>,
    answer: oneshot::Receiver<Given<Key>>,
}

impl<Key: Ord + Copy> Turns<Key> {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        let most = Bound { items: bounds.waiting, bytes: u64::MAX };
        let state = State { held: BTreeMap::new(), all: 0, waiters: Waiters::new(most) };
        Arc::new(Self { bounds, state: Mutex::new(state) })
    }

    /// Waits for a key's turn, however long that takes.
    ///
    /// # Errors
    /// Says what is full if too many wait already.
    pub(crate) async fn take(self: &Arc<Self>, key: Key) -> Given<Key> {
        match self.ask(key)? {
            Asked::Has(turn) => Ok(turn),
            Asked::Waits(mut waiting) => waiting.given().await,
        }
    }

    /// Waits for a key's turn for a while.
    ///
    /// # Errors
    /// Says what was full all the time, or if too many wait already.
    pub(crate) async fn take_within(self: &Arc<Self>, key: Key, wait: Duration) -> Given<Key> {
        match self.ask(key)? {
            Asked::Has(turn) => Ok(turn),
            Asked::Waits(mut waiting) => match tokio::time::timeout(wait, waiting.given()).await {
                Ok(given) => given,
                Err(_) => waiting.give_up(),
            },
        }
    }

    fn ask(self: &Arc<Self>, key: Key) -> Result<Asked<Key>, Crowded> {
        let mut state = self.lock();
        let full = state.what_is_full_for(key, self.bounds);
        if full.is_none() && !state.waiters.are_before(key) {
            state.hold(key);
            return Ok(Asked::Has(Turn { turns: Arc::clone(self), key }));
        }
        let (reply, answer) = oneshot::channel();
        let joined = state.waiters.join(key, (ONE, reply), full.unwrap_or(Crowded::Lane));
        drop(state);
        let Joined { waiter, refused } = joined.map_err(|full| full.what)?;
        for Full { item, what } in refused {
            // A caller that has just stopped waiting need not know.
            drop(item.send(Err(what)));
        }
        Ok(Asked::Waits(Waiting { turns: Arc::clone(self), waiter, answer }))
    }

    fn give_back(self: &Arc<Self>, key: Key) {
        let next = {
            let mut state = self.lock();
            state.let_go(key);
            state.waiters.resume(key);
            state.admit(self.bounds)
        };
        for (key, reply) in next {
            // One that comes back because its caller has just stopped waiting gives itself back.
            drop(reply.send(Ok(Turn { turns: Arc::clone(self), key })));
        }
    }

    // Nothing panics while it is held.
    fn lock(&self) -> MutexGuard<'_, State<Key>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Key: Ord + Copy> State<Key> {
    fn what_is_full_for(&self, key: Key, bounds: Bounds) -> Option<Crowded> {
        if self.held.get(&key).is_some_and(|held| *held >= bounds.each) {
            Some(Crowded::Share)
        } else if self.all >= bounds.all {
            Some(Crowded::Lane)
        } else {
            None
        }
    }

    fn hold(&mut self, key: Key) {
        *self.held.entry(key).or_default() += 1;
        self.all += 1;
    }

    fn let_go(&mut self, key: Key) {
        self.all -= 1;
        if let Some(held) = self.held.get_mut(&key) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&key);
            }
        }
    }

    /// Gives turns to callers that wait, as far as there are any.
    fn admit(&mut self, bounds: Bounds) -> Vec<(Key, Reply<Key>)> {
        let mut admitted = Vec::new();
        while let Some((key, _)) = self.waiters.first() {
            match self.what_is_full_for(key, bounds) {
                None => {
                    let Some((_, reply)) = self.waiters.take_first() else { break };
                    self.hold(key);
                    admitted.push((key, reply));
                }
                Some(Crowded::Share) => self.waiters.hold_up(key),
                Some(Crowded::Lane) => break,
            }
        }
        admitted
    }
}

impl<Key: Ord + Copy> Waiting<Key> {
    async fn given(&mut self) -> Given<Key> {
        // A reply is dropped unanswered only when this one is taken out.
        (&mut self.answer).await.unwrap_or(Err(Crowded::Lane))
    }

    fn give_up(mut self) -> Given<Key> {
        let left = self.turns.lock().waiters.leave(self.waiter);
        match left {
            Some(full) => Err(full.what),
            // Answered at this very moment.
            None => self.answer.try_recv().unwrap_or(Err(Crowded::Lane)),
        }
    }
}

impl<Key: Ord + Copy> Drop for Waiting<Key> {
    fn drop(&mut self) {
        let left = self.turns.lock().waiters.leave(self.waiter);
        drop(left);
    }
}

impl<Key: Ord + Copy> Drop for Turn<Key> {
    fn drop(&mut self) {
        self.turns.give_back(self.key);
    }
}

impl<Key: Ord + Copy> fmt::Debug for Turn<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures_util::FutureExt as _;

    use super::*;

    const WAIT: Duration = Duration::from_secs(1);

    fn turns(each: usize, all: usize, waiting: usize) -> Arc<Turns<u8>> {
        Turns::new(Bounds { each, all, waiting })
    }

    type Taking<'a> = Pin<Box<dyn Future<Output = Given<u8>> + 'a>>;

    fn taking(turns: &Arc<Turns<u8>>, key: u8) -> Taking<'_> {
        let mut taking: Taking<'_> = Box::pin(turns.take(key));
        assert!(taking.as_mut().now_or_never().is_none(), "it has a turn");
        taking
    }

    fn now(turns: &Arc<Turns<u8>>, key: u8) -> Turn<u8> {
        turns.take(key).now_or_never().unwrap().unwrap()
    }

    fn given(taking: &mut Taking<'_>) -> Option<Turn<u8>> {
        taking.as_mut().now_or_never().map(Result::unwrap)
    }

    fn is_clear(turns: &Turns<u8>) -> bool {
        let state = turns.lock();
        state.held.is_empty() && state.all == 0 && state.waiters.is_empty()
    }

    #[test]
    fn a_key_holds_no_more_than_its_share_and_others_need_not_wait_for_it() {
        let turns = turns(2, 3, 10);
        let mut own = vec![now(&turns, 1), now(&turns, 1)];
        let mut third = taking(&turns, 1);
        let other = now(&turns, 2);
        own.pop();
        assert!(given(&mut third).is_some());
        drop((own, other));
        drop(third);
        assert!(is_clear(&turns));
    }

    #[test]
    fn keys_take_turns_and_within_a_key_the_first_goes_first() {
        let turns = turns(1, 1, 10);
        let mut held = Some(now(&turns, 9));
        let order = [1, 1, 1, 2, 3];
        let mut waiting: Vec<_> = order.iter().map(|key| Some(taking(&turns, *key))).collect();
        let mut seen = Vec::new();
        while held.take().is_some() {
            for (place, slot) in waiting.iter_mut().enumerate() {
                if let Some(turn) = slot.as_mut().and_then(given) {
                    seen.push((order[place], place));
                    held = Some(turn);
                    *slot = None;
                }
            }
        }
        assert_eq!(seen, [(1, 0), (2, 3), (3, 4), (1, 1), (1, 2)]);
        assert!(is_clear(&turns));
    }

    #[test]
    fn a_caller_that_stops_waiting_leaves_nothing_behind() {
        let turns = turns(1, 2, 10);
        let first = now(&turns, 1);
        drop(taking(&turns, 1));
        // Given a turn that nobody looked at any more.
        let unseen = taking(&turns, 1);
        let mut last = taking(&turns, 1);
        drop(first);
        drop(unseen);
        assert!(given(&mut last).is_some());
        drop(last);
        assert!(is_clear(&turns));
    }

    #[test]
    fn at_the_bound_the_key_with_most_is_refused_and_a_new_one_waits() {
        let turns = turns(1, 2, 3);
        let held = [now(&turns, 1), now(&turns, 2)];
        let mut flood: Vec<_> = (0..3).map(|_| taking(&turns, 1)).collect();
        let refused = turns.take(1).now_or_never().unwrap();
        assert_eq!(refused.map(drop), Err(Crowded::Share));
        let mut other = taking(&turns, 2);
        let newest = flood.pop().unwrap().now_or_never().unwrap();
        assert_eq!(newest.map(drop), Err(Crowded::Share));
        let [one, two] = held;
        drop(two);
        let second = given(&mut other).unwrap();
        drop((one, second));
        assert!(given(&mut flood[0]).is_some());
        drop((flood, other));
        assert!(is_clear(&turns));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_and_says_what_was_full() {
        let turns = turns(1, 2, 10);
        let own = now(&turns, 1);
        let refused = turns.take_within(1, WAIT).await;
        assert_eq!(refused.map(drop), Err(Crowded::Share));
        let other = now(&turns, 2);
        assert_eq!(turns.take_within(3, WAIT).await.map(drop), Err(Crowded::Lane));
        let soon = async {
            tokio::time::sleep(WAIT / 2).await;
            drop(other);
        };
        let (turn, ()) = tokio::join!(turns.take_within(3, WAIT), soon);
        drop((turn.unwrap(), own));
        assert!(is_clear(&turns));
    }
}
