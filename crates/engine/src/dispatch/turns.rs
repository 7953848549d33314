//! Whose turn it is: applications take turns first, then each one's endpoints among themselves.
//!
//! So an application with a thousand endpoints gets no more than one with a single endpoint. An
//! entry may be outdated by the time it comes up; whoever takes it looks again. Those that are set
//! aside, and those that wait for a load, take turns among themselves in the same way.

use std::collections::{BTreeMap, VecDeque};

use store::keys::{ApplicationKey, EndpointKey};

use crate::dispatch::attempts::Counted;
use crate::endpoints::endpoint::At;

/// The endpoints that can start an attempt.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    ready: Queue,
    /// Those that have to wait until fewer attempts are trusted or doubtful.
    parked: Aside<Queue>,
    /// Whether those come first the next time.
    pub(crate) parked_first: bool,
    /// How many turns were taken.
    #[cfg(test)]
    pub(crate) taken: usize,
}

/// What there is once for each kind of those that are set aside.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Aside<T> {
    trusted: T,
    doubtful: T,
}

impl<T> Aside<T> {
    /// Finds what there is for a kind.
    pub(crate) fn of(&mut self, counted: Counted) -> &mut T {
        match counted {
            Counted::Hopeful | Counted::Trusted => &mut self.trusted,
            Counted::Doubtful | Counted::Slow | Counted::Hanging => &mut self.doubtful,
        }
    }
}

/// Endpoints in their order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    applications: VecDeque<ApplicationKey>,
    endpoints: BTreeMap<ApplicationKey, VecDeque<EndpointKey>>,
    length: usize,
}

impl Turns {
    /// Puts an endpoint at the end.
    pub(crate) fn push(&mut self, at: At) {
        self.ready.push(at);
    }

    /// Takes the next one.
    pub(crate) fn next(&mut self) -> Option<At> {
        let next = self.ready.next();
        #[cfg(test)]
        {
            self.taken += usize::from(next.is_some());
        }
        next
    }

    /// Takes the next one of an application that is wanted; the others keep their place.
    pub(crate) fn next_of(&mut self, wanted: impl Fn(ApplicationKey) -> bool) -> Option<At> {
        self.ready.prefer(wanted)?;
        self.next()
    }

    /// Returns how many are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.length
    }

    /// Tells whether any endpoint of an application is ready.
    pub(crate) fn has_ready(&self, application: ApplicationKey) -> bool {
        self.ready.endpoints.get(&application).is_some_and(|queue| !queue.is_empty())
    }

    /// Tells whether any waits for a slot.
    pub(crate) fn is_waiting(&self) -> bool {
        self.ready.length > 0 || self.has_parked()
    }

    /// Tells whether any was set aside.
    pub(crate) fn has_parked(&self) -> bool {
        self.parked.trusted.length + self.parked.doubtful.length > 0
    }

    #[cfg(test)]
    pub(crate) fn parked(&self) -> usize {
        self.parked.trusted.length + self.parked.doubtful.length
    }

    /// Sets an endpoint aside.
    pub(crate) fn park(&mut self, at: At, counted: Counted) {
        self.parked.of(counted).push(at);
    }

    /// Takes the next of those of a kind that were set aside.
    pub(crate) fn unpark(&mut self, counted: Counted) -> Option<At> {
        self.parked.of(counted).next()
    }

    /// Takes the next of those that were set aside of an application that is wanted.
    pub(crate) fn unpark_of(
        &mut self,
        counted: Counted,
        wanted: impl Fn(ApplicationKey) -> bool,
    ) -> Option<At> {
        let parked = self.parked.of(counted);
        parked.prefer(wanted)?;
        parked.next()
    }

    /// Removes the endpoints that are not to be kept.
    pub(crate) fn retain(&mut self, keep: impl Fn(&At) -> bool) {
        self.parked.trusted.retain(&keep);
        self.parked.doubtful.retain(&keep);
        self.ready.retain(&keep);
    }
}

impl Queue {
    /// Puts an endpoint at the end.
    pub(crate) fn push(&mut self, (application, endpoint): At) {
        let queue = self.endpoints.entry(application).or_default();
        if queue.is_empty() {
            self.applications.push_back(application);
        }
        queue.push_back(endpoint);
        self.length += 1;
    }

    /// Takes the next one.
    pub(crate) fn next(&mut self) -> Option<At> {
        let application = self.applications.pop_front()?;
        let queue = self.endpoints.get_mut(&application)?;
        let endpoint = queue.pop_front()?;
        self.length -= 1;
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

    /// Gives the next turn to the first application that is wanted; the others keep their place.
    fn prefer(&mut self, wanted: impl Fn(ApplicationKey) -> bool) -> Option<()> {
        let place = self.applications.iter().position(|it| wanted(*it))?;
        let application = self.applications.remove(place)?;
        self.applications.push_front(application);
        Some(())
    }

    /// Tells whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Takes the next one that is wanted. A few are looked at; those that are not wanted have had
    /// their turn.
    pub(crate) fn next_where(&mut self, wanted: impl Fn(&At) -> bool) -> Option<At> {
        for _ in 0..self.length.min(LOOKED_AT) {
            let at = self.next()?;
            if wanted(&at) {
                return Some(at);
            }
            self.push(at);
        }
        None
    }

    /// Removes the endpoints that are not to be kept.
    pub(crate) fn retain(&mut self, keep: impl Fn(&At) -> bool) {
        for (application, queue) in &mut self.endpoints {
            queue.retain(|endpoint| keep(&(*application, *endpoint)));
        }
        self.endpoints.retain(|_, queue| !queue.is_empty());
        let endpoints = &self.endpoints;
        self.applications.retain(|application| endpoints.contains_key(application));
        self.length = self.endpoints.values().map(VecDeque::len).sum();
    }
}

/// How many applications keep their empty queue.
const EMPTY_KEPT: usize = 1_024;
/// How many are looked at for one that is wanted.
const LOOKED_AT: usize = 16;

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
    fn one_of_an_application_that_is_wanted_passes_the_others() {
        let mut turns = Turns::default();
        for (application, endpoint) in [(1, 0), (1, 1), (2, 0), (3, 0), (3, 1)] {
            turns.push(at(application, endpoint));
        }
        let mut of_third = || turns.next_of(|it| it == ApplicationKey(3));
        assert_eq!([of_third(), of_third(), of_third()], [Some(at(3, 0)), Some(at(3, 1)), None]);
        let order: Vec<At> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order, [at(1, 0), at(2, 0), at(1, 1)]);
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
    fn one_that_is_wanted_comes_before_others() {
        let mut queue = Queue::default();
        for (application, endpoint) in [(1, 0), (1, 1), (2, 0), (3, 0)] {
            queue.push(at(application, endpoint));
        }
        assert_eq!(queue.next_where(|at| at.0.0 == 3), Some(at(3, 0)));
        assert_eq!(queue.next_where(|at| at.0.0 == 3), None);
        assert_eq!(queue.next_where(|at| at.1.0 == 1), Some(at(1, 1)), "behind another of its own");
        for endpoint in 0..40 {
            queue.push(at(4, endpoint));
        }
        // Few are looked at, and others the next time.
        assert_eq!(queue.next_where(|it| *it == at(4, 30)), None);
        assert!((0..5).any(|_| queue.next_where(|it| *it == at(4, 30)).is_some()));
        assert_eq!(queue.length, 41);
    }

    #[test]
    fn what_is_not_kept_is_gone_wherever_it_stood() {
        let mut turns = Turns::default();
        turns.push(at(1, 0));
        turns.push(at(2, 1));
        turns.park(at(1, 2), Counted::Doubtful);
        assert!(turns.has_parked());
        turns.retain(|(application, _)| *application == ApplicationKey(2));
        assert_eq!((turns.ready(), turns.has_parked()), (1, false));
        assert_eq!(turns.next(), Some(at(2, 1)));
        assert_eq!(turns.next(), None);
    }
}
