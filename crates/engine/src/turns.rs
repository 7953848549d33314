//! Whose turn it is: applications take turns first, then each one's endpoints among themselves.
//!
//! So an application with a thousand endpoints gets no more than one with a single endpoint. An
//! entry may be outdated by the time it comes up; whoever takes it looks again.

use std::collections::{BTreeMap, VecDeque};

use store::keys::{ApplicationKey, EndpointKey};

use crate::endpoint::At;

/// The endpoints that can start an attempt.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    applications: VecDeque<ApplicationKey>,
    endpoints: BTreeMap<ApplicationKey, VecDeque<EndpointKey>>,
    /// Those that have to wait until fewer attempts are doubtful.
    parked: VecDeque<At>,
    ready: usize,
}

impl Turns {
    /// Puts an endpoint at the end.
    pub(crate) fn push(&mut self, (application, endpoint): At) {
        let queue = self.endpoints.entry(application).or_default();
        if queue.is_empty() {
            self.applications.push_back(application);
        }
        queue.push_back(endpoint);
        self.ready += 1;
    }

    /// Takes the next one.
    pub(crate) fn next(&mut self) -> Option<At> {
        let application = self.applications.pop_front()?;
        let queue = self.endpoints.get_mut(&application)?;
        let endpoint = queue.pop_front()?;
        self.ready -= 1;
        if queue.is_empty() {
            // Kept for a while: most applications come again at once.
            if self.endpoints.len() > EMPTY_KEPT {
                self.endpoints.remove(&application);
            }
        } else {
            self.applications.push_back(application);
        }
        Some((application, endpoint))
    }

    /// Returns how many are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// Tells whether any waits for a slot.
    pub(crate) fn is_waiting(&self) -> bool {
        self.ready > 0 || !self.parked.is_empty()
    }

    /// Sets an endpoint aside.
    pub(crate) fn park(&mut self, at: At) {
        self.parked.push_back(at);
    }

    /// Returns all that were set aside.
    pub(crate) fn unpark(&mut self) -> VecDeque<At> {
        std::mem::take(&mut self.parked)
    }

    /// Removes the endpoints that are not to be kept.
    pub(crate) fn retain(&mut self, keep: impl Fn(&At) -> bool) {
        self.parked.retain(&keep);
        for (application, queue) in &mut self.endpoints {
            queue.retain(|endpoint| keep(&(*application, *endpoint)));
        }
        self.endpoints.retain(|_, queue| !queue.is_empty());
        let endpoints = &self.endpoints;
        self.applications.retain(|application| endpoints.contains_key(application));
        self.ready = self.endpoints.values().map(VecDeque::len).sum();
    }
}

/// How many applications keep their empty queue.
const EMPTY_KEPT: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(application: i64, endpoint: i64) -> At {
        (ApplicationKey(application), EndpointKey(endpoint))
    }

    #[test]
    fn applications_take_turns_first_and_then_their_endpoints() {
        let mut turns = Turns::default();
        for endpoint in 0..3 {
            turns.push(at(1, endpoint));
        }
        turns.push(at(2, 9));
        let order: Vec<At> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, [at(1, 0), at(2, 9), at(1, 1), at(1, 2)]);
        assert_eq!(turns.ready(), 0);
    }

    #[test]
    fn one_that_comes_again_goes_to_the_end() {
        let mut turns = Turns::default();
        turns.push(at(1, 0));
        turns.push(at(1, 1));
        assert_eq!(turns.next(), Some(at(1, 0)));
        turns.push(at(1, 0));
        assert_eq!(turns.next(), Some(at(1, 1)));
        assert_eq!(turns.next(), Some(at(1, 0)));
    }

    #[test]
    fn what_is_not_kept_is_gone_wherever_it_stood() {
        let mut turns = Turns::default();
        turns.push(at(1, 0));
        turns.push(at(2, 1));
        turns.park(at(1, 2));
        turns.retain(|(application, _)| *application == ApplicationKey(2));
        assert_eq!((turns.ready(), turns.unpark().len()), (1, 0));
        assert_eq!(turns.next(), Some(at(2, 1)));
        assert_eq!(turns.next(), None);
    }
}
