//! Numbering: a scheduled delivery of a FIFO endpoint takes its place in the order when it is due.
//!
//! Until then it is in the store alone, so that any number of them costs one moment in memory: when the
//! first of them is due, as far as that is known. They get their numbers behind all that have one, and
//! are loaded and sent like any other. What holds the endpoint does not keep them from taking their
//! places; a disabled endpoint's are buried where they are.

use std::time::Duration;

use domain::time::Timestamp;
use store::keys::Lease;
use store::queue::{Done, Number, Upkeep};

use crate::dispatch::burying::Step;
use crate::endpoints::endpoint::At;
use crate::endpoints::horizon::Horizon;
use crate::engine::{Act, Engine};
use crate::planted::{self, Bug};

/// How long after the store refused to number an endpoint's deliveries it is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// The most deliveries that one step numbers: their endpoint sends them one by one.
const MOST: u32 = 32;

impl Engine {
    /// Has scheduled deliveries numbered that are due; returns when the next of them are.
    pub(crate) fn number_due(&mut self, at: At, act: &mut Act<'_>) -> Timestamp {
        let now = act.now.rows;
        let (application, key) = at;
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return Timestamp::FAR_FUTURE };
        if endpoint.numbering {
            return Timestamp::FAR_FUTURE;
        }
        let early = planted::has(Bug::NumberEarly);
        let until = if early { now.after(Duration::from_secs(5)) } else { now };
        if endpoint.scheduled > until {
            return endpoint.scheduled;
        }
        let Some(lease) = self.leases.lease(endpoint.partition) else {
            return Timestamp::FAR_FUTURE;
        };
        // What is handed over from now on may not be seen by this step, and is taken in beside it.
        endpoint.scheduled = Timestamp::FAR_FUTURE;
        endpoint.numbering = true;
        let number = Number { lease, application, endpoint: key, until, most: MOST };
        let behind = endpoint.window.last_turn();
        self.keep_up(Step::Number { lease, at, behind }, Upkeep::Number(number), act);
        Timestamp::FAR_FUTURE
    }

    /// Takes in what became of a step. The answer to one that was repeated does not count what the first
    /// try has numbered, so the store is read in any case: behind what waited when the step was made,
    /// because no number is lower than one that was given before.
    pub(crate) fn numbered(
        &mut self,
        (lease, at): (Lease, At),
        behind: Option<i64>,
        answer: Done,
        act: &mut Act<'_>,
    ) {
        self.vacate(lease);
        let now = act.now.rows;
        let next = match answer {
            Done::Fenced => return self.fenced(lease, act),
            Done::Refused(_) => Some(now.after(AGAIN_AFTER)),
            Done::Numbered { next, .. } => next,
            Done::Changed(_) => None,
        };
        // The endpoint may have been lost and remembered since.
        if self.leases.lease(lease.partition) != Some(lease) {
            return;
        }
        let Some(endpoint) = self.endpoints.get_mut(&at) else { return };
        endpoint.numbering = false;
        endpoint.expect(next);
        let unknown = Horizon::unknown(now);
        let turn = behind.map_or(unknown.turn, |turn| turn.saturating_add(1));
        endpoint.window.lower(Horizon { turn, ..unknown });
        self.look(at, act);
    }
}
