//! When endpoints want to be looked at again, on the timeline of the rows.
//!
//! Due times are on that timeline, and with a shared store this node's idea of it may jump. So the
//! timers are kept on it, and only the earliest is translated, anew in every step.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::time::Timestamp;

use crate::endpoints::endpoint::{At, Endpoint};
use crate::protocol::moment::Moment;

/// The endpoints' timers, at most one each.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Timestamp, At)>,
    /// What was wished for last, until it has come.
    wish: Option<Duration>,
}

impl Timers {
    /// Sets, moves or removes an endpoint's timer.
    pub(crate) fn set(&mut self, at: At, endpoint: &mut Endpoint, wake: Timestamp) {
        if endpoint.wake == wake {
            return;
        }
        if endpoint.wake != Timestamp::FAR_FUTURE {
            self.set.remove(&(endpoint.wake, at));
        }
        if wake != Timestamp::FAR_FUTURE {
            self.set.insert((wake, at));
        }
        endpoint.wake = wake;
    }

    /// Takes the first timer that has gone off.
    pub(crate) fn expired(&mut self, now: Timestamp) -> Option<At> {
        let first = self.set.first().filter(|(wake, _)| *wake <= now)?;
        let at = first.1;
        self.set.pop_first();
        Some(at)
    }

    /// Returns when to come back, if that is sooner than what was wished for before.
    pub(crate) fn wish(&mut self, now: Moment, others: Option<Duration>) -> Option<Duration> {
        let first = self.set.first().map(|(wake, _)| now.reaches(*wake));
        let earliest = [first, others].into_iter().flatten().min()?.max(now.elapsed);
        let standing = self.wish.filter(|wish| *wish > now.elapsed);
        if standing.is_some_and(|standing| standing <= earliest) {
            return None;
        }
        self.wish = Some(earliest);
        self.wish
    }
}

#[cfg(test)]
mod tests {
    use domain::partition::Partition;
    use store::keys::{ApplicationKey, EndpointKey};

    use super::*;
    use crate::endpoints::window::Window;

    const SECOND: Duration = Duration::from_secs(1);

    fn moment(elapsed: u64, rows: i64) -> Moment {
        Moment { elapsed: Duration::from_secs(elapsed), rows: Timestamp::from_seconds(rows) }
    }

    fn endpoint() -> Endpoint {
        let partition = Partition::from_number(0).unwrap();
        Endpoint::new(partition, Window::new(None, Duration::ZERO), moment(0, 0))
    }

    #[test]
    fn an_endpoint_has_one_timer_at_most() {
        let (mut timers, mut endpoint) = (Timers::default(), endpoint());
        let at = (ApplicationKey(1), EndpointKey(1));
        timers.set(at, &mut endpoint, Timestamp::from_seconds(5));
        timers.set(at, &mut endpoint, Timestamp::from_seconds(3));
        assert_eq!(timers.expired(Timestamp::from_seconds(2)), None);
        assert_eq!(timers.expired(Timestamp::from_seconds(9)), Some(at));
        assert_eq!(timers.expired(Timestamp::from_seconds(9)), None);
    }

    #[test]
    fn a_wish_is_repeated_only_when_it_becomes_sooner_or_has_come() {
        let (mut timers, mut endpoint) = (Timers::default(), endpoint());
        let at = (ApplicationKey(1), EndpointKey(1));
        timers.set(at, &mut endpoint, Timestamp::from_seconds(105));
        assert_eq!(timers.wish(moment(0, 100), None), Some(5 * SECOND));
        assert_eq!(timers.wish(moment(1, 101), None), None);
        // The rows' timeline has jumped forward.
        assert_eq!(timers.wish(moment(2, 104), None), Some(3 * SECOND));
        assert_eq!(timers.wish(moment(3, 105), None), Some(3 * SECOND));
        assert_eq!(timers.wish(moment(3, 104), Some(SECOND)), Some(3 * SECOND));
    }
}
