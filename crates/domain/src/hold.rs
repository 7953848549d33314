//! What keeps a pending delivery from being sent, and until when, as far as stored rows tell.
//!
//! The owner of an endpoint's partition knows more: the attempts in flight, the rate, the free slots of
//! its node. None of that is stored. A delivery that is due and that nothing here holds is therefore
//! [`Hold::Queued`]: its owner sends it as soon as it may.

use crate::breaker::{Admission, Breaker, WhileOpen};
use crate::delivery::Pending;
use crate::endpoint::State;
use crate::time::Timestamp;

/// What holds a pending delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Its own due time.
    Schedule,
    /// Nothing but its turn: it is due, or just being sent.
    Queued,
    /// The deliveries before it: its endpoint gets one at a time, in order.
    Fifo,
    /// Its endpoint's breaker.
    Breaker,
    /// A pause that its receiver asked for by Retry-After.
    RetryAfter,
    /// A person, who has paused its endpoint.
    Paused,
    /// Its endpoint is disabled: it becomes a dead letter.
    Disabled,
    /// Its endpoint is deleted: it becomes a dead letter.
    Deleted,
}

/// What is stored about a delivery's endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Where the endpoint stands.
    pub state: State,
    /// Its breaker.
    pub breaker: Breaker,
    /// What its open breaker does with deliveries; none if its policy has no breaker.
    pub while_open: Option<WhileOpen>,
    /// Until when its receiver asked to be left alone.
    pub paused_until: Option<Timestamp>,
    /// Whether another delivery comes first in the endpoint's order.
    pub is_preceded: bool,
}

/// What a pending delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// What holds it longest.
    pub held_by: Hold,
    /// The earliest moment of its next attempt; none if that is not known, or there will be none.
    pub next_attempt: Option<Timestamp>,
}

impl Hold {
    /// Returns the word that JSON uses.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Queued => "queued",
            Self::Fifo => "fifo",
            Self::Breaker => "breaker",
            Self::RetryAfter => "retry_after",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
            Self::Deleted => "deleted",
        }
    }
}

/// Returns what holds all deliveries of an endpoint for some time, and until when: the later of an open
/// breaker and a pause by Retry-After. Where the policy has no breaker, a closed one is meant.
#[must_use]
pub fn ends(
    breaker: Breaker,
    paused_until: Option<Timestamp>,
    now: Timestamp,
) -> Option<(Hold, Timestamp)> {
    let open_until = match breaker.admission(now) {
        Admission::Wait(until) => Some((Hold::Breaker, until)),
        Admission::All | Admission::Probe | Admission::WaitForProbe => None,
    };
    let paused = paused_until.filter(|until| *until > now).map(|until| (Hold::RetryAfter, until));
    [open_until, paused].into_iter().flatten().max_by_key(|(_, until)| *until)
}

/// Returns what a pending delivery waits for.
#[must_use]
pub fn wait(pending: &Pending, facts: &Facts, now: Timestamp) -> Wait {
    let (due, is_due) = (pending.due.max(now), pending.due <= now);
    let for_good = |held_by| Wait { held_by, next_attempt: None };
    match facts.state {
        State::Active => {}
        State::Paused => return for_good(Hold::Paused),
        State::Disabled(_) => return for_good(Hold::Disabled),
        State::Deleted => return for_good(Hold::Deleted),
    }
    // What is scheduled is not in line before it is due.
    if facts.is_preceded && is_due {
        return for_good(Hold::Fifo);
    }
    let breaker = facts.while_open.map_or_else(Breaker::default, |_| facts.breaker);
    let held = ends(breaker, facts.paused_until, now).filter(|(_, until)| *until > due);
    if let Some((held_by, until)) = held {
        let is_closed = matches!(breaker, Breaker::Closed { .. });
        if facts.while_open == Some(WhileOpen::Bury) && !is_closed {
            return for_good(Hold::Breaker);
        }
        let is_given_up = pending.budget.expires_at.is_some_and(|end| until > end);
        return Wait { held_by, next_attempt: (!is_given_up).then_some(until) };
    }
    match breaker.admission(now) {
        Admission::WaitForProbe if is_due => for_good(Hold::Breaker),
        Admission::Probe if is_due => Wait { held_by: Hold::Breaker, next_attempt: Some(now) },
        Admission::All | Admission::Probe | Admission::Wait(_) | Admission::WaitForProbe => {
            let held_by = if is_due { Hold::Queued } else { Hold::Schedule };
            Wait { held_by, next_attempt: Some(due) }
        }
    }
}

#[cfg(test)]
mod tests;
