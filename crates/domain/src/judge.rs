//! The decision after an attempt: delivered, retry, or bury.
//!
//! This is the whole retry table of the product. The server, the policy lab, the dashboard's
//! schedule and the simulator call it; nothing else decides, least of all SQL.

mod explanation;

use std::time::Duration;

use crate::delivery::{Budget, Cause, Pending};
use crate::dice::Dice;
use crate::endpoint::Reason;
use crate::outcome::Outcome;
use crate::policy::{Class, Policy};
use crate::time::Timestamp;
use crate::verdict::{EndpointEffect, NextState, Notice, Pressure, Signal, Verdict};

pub use explanation::explain;

/// Decides what an attempt's outcome means for its delivery and its endpoint.
#[must_use]
pub fn judge(
    policy: &Policy,
    delivery: &Pending,
    outcome: Outcome,
    now: Timestamp,
    dice: Dice,
) -> Verdict {
    match outcome {
        Outcome::Interrupted => put_back(delivery),
        Outcome::Blocked => blocked(delivery),
        Outcome::Answered { .. }
        | Outcome::TimedOut
        | Outcome::Unreachable(_)
        | Outcome::TlsFailed
        | Outcome::BrokenAnswer => weigh(policy, delivery, outcome, now, dice),
    }
}

/// A failure of ours costs the delivery nothing: same count, same due time.
fn put_back(delivery: &Pending) -> Verdict {
    Verdict {
        next: NextState::Pending { due: delivery.due },
        budget: delivery.budget,
        endpoint: EndpointEffect::none(),
        retry_after_kept: None,
        notice: None,
    }
}

/// The address guard's refusal is final for every policy, and says nothing about the receiver.
fn blocked(delivery: &Pending) -> Verdict {
    Verdict {
        next: NextState::Dead(Cause::Blocked),
        budget: counted(delivery.budget, Class::Permanent),
        endpoint: EndpointEffect::none(),
        retry_after_kept: None,
        notice: None,
    }
}

fn weigh(
    policy: &Policy,
    delivery: &Pending,
    outcome: Outcome,
    now: Timestamp,
    dice: Dice,
) -> Verdict {
    let class = policy.class_of(outcome);
    let mut budget = counted(delivery.budget, class);
    let asked = asked(policy, class, outcome, now);
    let honoured = asked.map(|asked| asked.honoured);
    let (next, notice) = match class {
        Class::Success => (NextState::Delivered, None),
        Class::Permanent | Class::Disable => {
            let gone = matches!(outcome, Outcome::Answered { status: 410, .. });
            let told = gone || class == Class::Disable;
            (NextState::Dead(Cause::Permanent), told.then_some(Notice::Gone))
        }
        Class::Ambiguous if budget.ambiguous >= policy.classification.ambiguous_limit() => {
            (NextState::Dead(Cause::Permanent), Some(Notice::Ambiguous))
        }
        Class::Retry | Class::Ambiguous => {
            let wait = wait(policy, &budget, honoured, dice);
            let decided = retry_or_bury(policy, &budget, now.after(wait));
            budget.last_wait = wait;
            decided
        }
    };
    Verdict {
        next,
        budget,
        endpoint: effect(class, outcome, asked.map(|asked| now.after(asked.pause))),
        retry_after_kept: asked.and_then(|asked| asked.kept),
        notice,
    }
}

fn counted(budget: Budget, class: Class) -> Budget {
    let ambiguous = u32::from(class == Class::Ambiguous);
    Budget {
        attempts: budget.attempts.saturating_add(1),
        ambiguous: budget.ambiguous.saturating_add(ambiguous),
        ..budget
    }
}

/// What a receiver asked for by Retry-After, and what the policy makes of it.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// How long the delivery waits.
    honoured: Duration,
    /// How long the endpoint pauses. One answer must not make everything else that is pending there
    /// expire, so that this is at most the time after which a delivery is given up.
    pause: Duration,
    /// The pause, if more was asked for.
    kept: Option<Duration>,
}

/// Returns what the receiver asked for, where the policy listens to it.
fn asked(policy: &Policy, class: Class, outcome: Outcome, now: Timestamp) -> Option<Asked> {
    match (class, outcome) {
        (Class::Retry | Class::Ambiguous, Outcome::Answered { status, retry_after }) => {
            let wanted = retry_after?.wait(now)?;
            let honoured = policy.patience.honoured(status, wanted)?;
            let pause = honoured.min(policy.limits.give_up_after().unwrap_or(Duration::MAX));
            Some(Asked { honoured, pause, kept: (pause < wanted).then_some(pause) })
        }
        _ => None,
    }
}

fn wait(policy: &Policy, budget: &Budget, asked: Option<Duration>, dice: Dice) -> Duration {
    let drawn = policy.backoff.draw(budget.attempts, budget.last_wait, dice);
    match asked {
        None => drawn,
        Some(asked) => policy.patience.combine(asked, drawn),
    }
}

/// The attempts limit speaks first: a delivery that has used them all is exhausted, even if the
/// next attempt would also have come too late.
///
/// There is no grace for the time that attempts take: people are shown when a delivery is given up.
fn retry_or_bury(policy: &Policy, budget: &Budget, due: Timestamp) -> (NextState, Option<Notice>) {
    if policy.limits.max_attempts().is_some_and(|most| budget.attempts >= most.get()) {
        return (NextState::Dead(Cause::Exhausted), Some(Notice::Exhausted));
    }
    if budget.expires_at.is_some_and(|end| due > end) {
        return (NextState::Dead(Cause::Expired), Some(Notice::Expired));
    }
    (NextState::Pending { due }, None)
}

fn effect(class: Class, outcome: Outcome, pause_until: Option<Timestamp>) -> EndpointEffect {
    let signal = match class {
        Class::Success => Signal::Success,
        Class::Retry | Class::Ambiguous => Signal::Failure,
        Class::Permanent | Class::Disable => Signal::Permanent,
    };
    let pressure = match signal {
        Signal::Success => Pressure::Grow,
        Signal::Failure | Signal::Permanent | Signal::Nothing if outcome.asks_for_less() => {
            Pressure::Halve
        }
        Signal::Failure | Signal::Permanent | Signal::Nothing => Pressure::Keep,
    };
    EndpointEffect {
        signal,
        pressure,
        pause_until,
        disable: (class == Class::Disable).then_some(Reason::Gone),
    }
}

#[cfg(test)]
mod tests;
