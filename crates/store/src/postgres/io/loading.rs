//! Loads that share a statement.
//!
//! To begin a transaction and to plan a statement costs more than to look up a few rows, and a node
//! that was called by another has many endpoints to look at. So what is asked for while others are
//! being read waits a moment, and is read together; whoever comes first goes at once.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::Error;
use crate::damage::Notes;
use crate::keys::EndpointKey;
use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Pool, closed};
use crate::postgres::queue::load::load_all;
use crate::queue::{Load, Loaded};

/// The most statements that run at once.
const AT_ONCE: usize = 2;
/// What one of them reads at the most.
const LOADS: usize = 64;
const ROWS: u32 = 16_384;
/// The most endpoints that are remembered as slow.
const SLOW: usize = 1_024;

type Reply = oneshot::Sender<Result<Loaded, Error>>;

/// Whoever loads asks here.
pub(crate) struct Loads(Arc<Shared>);

struct Shared {
    pool: Arc<Pool>,
    notes: Arc<Notes>,
    /// How long a statement may be waited for: a network that swallows packets does not tell.
    patience: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Load, Reply)>,
    /// How many tasks read.
    reading: usize,
    /// Endpoints whose last load took too long. They are read alone, and one at a time, so that no
    /// others wait for them.
    slow: BTreeSet<EndpointKey>,
    /// Whether one of them is being read.
    slow_is_read: bool,
}

impl Loads {
    pub(crate) fn new(pool: Arc<Pool>, notes: Arc<Notes>, patience: Duration) -> Self {
        Self(Arc::new(Shared { pool, notes, patience, state: Mutex::default() }))
    }

    /// Returns an endpoint's earliest pending deliveries.
    pub(crate) async fn load(&self, load: Load) -> Result<Loaded, Failure> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.0.lock();
            state.waiting.push_back((load, reply));
            if state.reading < AT_ONCE {
                state.reading += 1;
                let shared = Arc::clone(&self.0);
                tokio::spawn(read(Reader { shared, reads_slow: false, has_left: false }));
            }
        }
        Ok(answer.await.map_err(|_| closed())??)
    }
}

impl State {
    /// Has each of these read alone: one of them may have been slow.
    fn put_back(&mut self, loads: Vec<Load>, replies: Vec<Reply>) {
        if self.slow.len() + loads.len() > SLOW {
            // Those that are slow still are soon found out again.
            self.slow.clear();
        }
        self.slow.extend(loads.iter().map(|load| load.endpoint));
        for pair in loads.into_iter().zip(replies).rev() {
            self.waiting.push_front(pair);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, loads: &[Load]) -> Result<Vec<Loaded>, Failure> {
        let reading = load_all(&self.pool, &self.notes, loads);
        tokio::time::timeout(self.patience, reading).await.unwrap_or_else(|_| {
            let text = format!("PostgreSQL did not answer within {:?}", self.patience);
            Err(Failure::Final(Error::Unavailable { text, source: None }))
        })
    }

    /// Reads for one endpoint, and remembers whether that took too long.
    async fn read_alone(&self, load: Load) -> Result<Loaded, Error> {
        let loaded = self.read(&[load]).await;
        let was_slow = matches!(loaded, Err(Failure::Slow(_)));
        let slow = &mut self.lock().slow;
        if !was_slow {
            slow.remove(&load.endpoint);
        } else if slow.len() < SLOW {
            slow.insert(load.endpoint);
        }
        Ok(loaded.and_then(|mut all| all.pop().ok_or_else(closed))?)
    }
}

/// A task's place among those that read.
struct Reader {
    shared: Arc<Shared>,
    /// Whether it reads for an endpoint that was slow.
    reads_slow: bool,
    has_left: bool,
}

impl Reader {
    /// Takes what is read together, or leaves if there is nothing: under one lock, so that whoever
    /// comes next finds either the task or its place.
    fn take(&mut self) -> Option<(Vec<Load>, Vec<Reply>)> {
        let mut state = self.shared.lock();
        let State { waiting, slow, slow_is_read, .. } = &mut *state;
        // Whoever comes back for more has read what it had.
        *slow_is_read &= !std::mem::take(&mut self.reads_slow);
        let taken = take(waiting, slow, *slow_is_read);
        self.reads_slow = taken.0.first().is_some_and(|load| slow.contains(&load.endpoint));
        *slow_is_read |= self.reads_slow;
        if taken.0.is_empty() {
            state.reading -= 1;
            self.has_left = true;
            return None;
        }
        Some(taken)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.has_left {
            // It panicked, or the runtime ends. Those who wait are told by losing their answer.
            let mut state = self.shared.lock();
            state.reading -= 1;
            state.slow_is_read &= !self.reads_slow;
            state.waiting.clear();
        }
    }
}

/// Takes as many as fit into a statement, and at least one; a slow one alone, and none while another
/// is being read: whoever reads that one comes back for it.
fn take(
    waiting: &mut VecDeque<(Load, Reply)>,
    slow: &BTreeSet<EndpointKey>,
    slow_is_read: bool,
) -> (Vec<Load>, Vec<Reply>) {
    let alone = |load: &Load| slow.contains(&load.endpoint);
    let mut rows = 0_u32;
    let mut taken: (Vec<Load>, Vec<Reply>) = (Vec::new(), Vec::new());
    let mut passed = VecDeque::new();
    while let Some((next, _)) = waiting.front() {
        if slow_is_read && alone(next) {
            passed.extend(waiting.pop_front());
            continue;
        }
        rows = rows.saturating_add(next.most);
        let full = taken.0.len() >= LOADS || rows > ROWS;
        if !taken.0.is_empty() && (full || alone(next) || taken.0.iter().any(alone)) {
            break;
        }
        let Some((load, reply)) = waiting.pop_front() else { break };
        // Nobody reads for whoever has given up.
        if !reply.is_closed() {
            taken.0.push(load);
            taken.1.push(reply);
        }
    }
    passed.append(waiting);
    *waiting = passed;
    taken
}

async fn read(mut reader: Reader) {
    while let Some((loads, replies)) = reader.take() {
        if let [alone] = loads[..] {
            let loaded = reader.shared.read_alone(alone).await;
            answer(replies, [loaded]);
            continue;
        }
        match reader.shared.read(&loads).await {
            Ok(answers) => answer(replies, answers.into_iter().map(Ok)),
            // One of them may be to blame, and the others need not suffer for it.
            Err(Failure::Slow(_) | Failure::Data { .. }) => {
                reader.shared.lock().put_back(loads, replies)
            }
            Err(failure) => {
                let error = Error::from(failure);
                let text = error.to_string();
                let copy = || Err(Error::Unavailable { text: text.clone(), source: None });
                answer(replies, std::iter::once(Err(error)).chain(std::iter::repeat_with(copy)));
            }
        }
    }
}

fn answer(replies: Vec<Reply>, answers: impl IntoIterator<Item = Result<Loaded, Error>>) {
    for (reply, answer) in replies.into_iter().zip(answers) {
        // Whoever has given up asks again.
        let _heard = reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ApplicationKey;

    type Answer = oneshot::Receiver<Result<Loaded, Error>>;

    /// Lets loads of so many rows wait.
    fn waiting(rows: impl IntoIterator<Item = u32>) -> (VecDeque<(Load, Reply)>, Vec<Answer>) {
        let load = |(endpoint, most)| {
            let (application, endpoint) = (ApplicationKey(1), EndpointKey(endpoint));
            let (reply, answer) = oneshot::channel();
            ((Load { application, endpoint, from: i64::MIN, most, most_bytes: 1 }, reply), answer)
        };
        (0..).zip(rows).map(load).unzip()
    }

    #[test]
    fn the_oldest_are_read_together_as_many_as_fit_and_at_least_one() {
        let (mut queue, _answers) = waiting([1; 70]);
        let none = BTreeSet::new();
        let (taken, replies) = take(&mut queue, &none, false);
        assert_eq!((taken.len(), replies.len(), queue.len()), (LOADS, LOADS, 70 - LOADS));
        assert_eq!((taken[0].endpoint.0, taken[LOADS - 1].endpoint.0), (0, 63));
        let (mut queue, _answers) = waiting([ROWS + 1, ROWS / 2, ROWS / 2, 1]);
        let taken = [(); 4].map(|()| take(&mut queue, &none, false).0.len());
        assert_eq!(taken, [1, 2, 1, 0]);
    }

    #[test]
    fn whoever_was_slow_is_read_alone() {
        let slow = BTreeSet::from([EndpointKey(2), EndpointKey(3)]);
        let (mut queue, _answers) = waiting([1; 6]);
        let taken = [(); 5].map(|()| take(&mut queue, &slow, false).0.len());
        assert_eq!(taken, [2, 1, 1, 2, 0]);
    }

    #[test]
    fn whoever_was_slow_waits_while_another_is_read_and_holds_up_nobody() {
        let slow = BTreeSet::from([EndpointKey(0), EndpointKey(2)]);
        let (mut queue, _answers) = waiting([1; 4]);
        let endpoints = |(loads, _): (Vec<Load>, Vec<Reply>)| -> Vec<i64> {
            loads.iter().map(|load| load.endpoint.0).collect()
        };
        assert_eq!(endpoints(take(&mut queue, &slow, true)), [1, 3]);
        assert_eq!(endpoints(take(&mut queue, &slow, true)), [0_i64; 0]);
        assert_eq!(endpoints(take(&mut queue, &slow, false)), [0]);
        assert_eq!(endpoints(take(&mut queue, &slow, false)), [2]);
    }

    #[test]
    fn those_of_a_statement_that_failed_are_read_one_by_one_before_others() {
        let (waiting, _answers) = waiting([1; 4]);
        let mut state = State { waiting, ..State::default() };
        let others = state.waiting.split_off(3);
        let (loads, replies) = take(&mut state.waiting, &BTreeSet::new(), false);
        state.waiting = others;
        state.slow = (1_000..).take(SLOW).map(EndpointKey).collect();
        state.put_back(loads, replies);
        let State { waiting, slow, .. } = &mut state;
        let taken = [(); 5].map(|()| take(waiting, slow, false).0);
        let endpoints = taken.map(|loads| loads.iter().map(|it| it.endpoint.0).collect::<Vec<_>>());
        assert_eq!(endpoints, [vec![0], vec![1], vec![2], vec![3], vec![]]);
    }

    #[test]
    fn nothing_is_read_for_whoever_has_given_up() {
        let (mut queue, mut answers) = waiting([1; 3]);
        drop(answers.remove(1));
        let endpoints: Vec<_> = take(&mut queue, &BTreeSet::new(), false)
            .0
            .iter()
            .map(|load| load.endpoint.0)
            .collect();
        assert_eq!(endpoints, [0, 2]);
    }
}
