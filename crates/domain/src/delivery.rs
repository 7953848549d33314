//! A delivery's states and the transitions between them.
//!
//! ```text
//! accept ─▶ pending ──settle──▶ delivered ─┐
//!             │ ▲  └──settle──▶ dead{cause} ├─replay─▶ pending
//!             │ └──settle (retry)           │
//!             └───cancel──────▶ cancelled ──┘
//! ```
//!
//! "Queued" and "sending" are shown to people but are no states: they would cost a write each and
//! be wrong after every crash.

use std::time::Duration;

use crate::policy::Limits;
use crate::time::Timestamp;
use crate::verdict::NextState;

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// To be sent when due.
    Pending(Pending),
    /// The receiver said 2xx.
    Delivered,
    /// Not delivered, kept as a dead letter.
    Dead(Cause),
    /// A person called it off, or expunged what was to be sent.
    Cancelled,
}

/// A delivery that is still to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// When the next attempt is to begin.
    pub due: Timestamp,
    /// What has been used of the attempts and the time that the policy grants.
    pub budget: Budget,
}

/// What a delivery has used since it was accepted or last replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Attempts that count.
    pub attempts: u32,
    /// Those of them that were answered ambiguously.
    pub ambiguous: u32,
    /// The wait before the current attempt; zero before the first.
    pub last_wait: Duration,
    /// When it is given up, if the policy limits the time.
    pub expires_at: Option<Timestamp>,
}

/// Why a delivery is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The receiver said "never".
    Permanent,
    /// The attempts are used up.
    Exhausted,
    /// The time is used up.
    Expired,
    /// Its endpoint is disabled.
    EndpointDisabled,
    /// Its endpoint was deleted.
    EndpointDeleted,
    /// The address guard refused the destination.
    Blocked,
    /// The breaker was open, and the endpoint's breaker does not hold.
    BreakerOpen,
    /// It made our own code fail, as [`is_poison`] says; never a verdict on the receiver.
    Poison,
}

impl Cause {
    /// All causes, in the order in which they are listed to people.
    pub const ALL: [Self; 8] = [
        Self::Permanent,
        Self::Exhausted,
        Self::Expired,
        Self::EndpointDisabled,
        Self::EndpointDeleted,
        Self::Blocked,
        Self::BreakerOpen,
        Self::Poison,
    ];

    /// Returns the word that SQL, JSON and metrics use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::EndpointDisabled => "endpoint_disabled",
            Self::EndpointDeleted => "endpoint_deleted",
            Self::Blocked => "blocked",
            Self::BreakerOpen => "breaker_open",
            Self::Poison => "poison",
        }
    }

    /// Finds the cause that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.word() == word)
    }
}

/// Tells whether a delivery that has made our own code panic so often is buried as poison.
#[must_use]
pub const fn is_poison(panics: u32) -> bool {
    panics >= 3
}

/// A transition that the current state does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {verb} a delivery that is {state}")]
pub struct InvalidTransition {
    /// What was asked for.
    pub verb: &'static str,
    /// The state that does not allow it.
    pub state: &'static str,
}

impl Pending {
    /// Accepts a delivery: due at once, or at the moment that the sender named. The give-up time
    /// counts from there.
    #[must_use]
    pub fn accept(limits: &Limits, now: Timestamp, deliver_at: Option<Timestamp>) -> Self {
        Self::fresh(limits, deliver_at.unwrap_or(now).max(now))
    }

    /// Makes a delivery that is due at `due` and whose time starts then.
    #[must_use]
    pub fn fresh(limits: &Limits, due: Timestamp) -> Self {
        let expires_at = limits.give_up_after().map(|span| due.after(span));
        let budget = Budget { attempts: 0, ambiguous: 0, last_wait: Duration::ZERO, expires_at };
        Self { due, budget }
    }
}

impl Delivery {
    /// Moves it where a verdict says, with the budget that is left.
    ///
    /// # Errors
    /// Only a pending delivery is settled; a cancel that came in between stands.
    pub fn settle(self, next: NextState, budget: Budget) -> Result<Self, InvalidTransition> {
        self.pending("settle")?;
        Ok(match next {
            NextState::Delivered => Self::Delivered,
            NextState::Pending { due } => Self::Pending(Pending { due, budget }),
            NextState::Dead(cause) => Self::Dead(cause),
        })
    }

    /// Buries it for a reason that no attempt gave.
    ///
    /// # Errors
    /// Only a pending delivery can be buried.
    pub fn bury(self, cause: Cause) -> Result<Self, InvalidTransition> {
        self.pending("bury").map(|_| Self::Dead(cause))
    }

    /// Calls it off.
    ///
    /// # Errors
    /// Only a pending delivery can be cancelled.
    pub fn cancel(self) -> Result<Self, InvalidTransition> {
        self.pending("cancel").map(|_| Self::Cancelled)
    }

    /// Makes a pending delivery due now. Its budget stays as it is.
    ///
    /// # Errors
    /// Only a pending delivery can be hurried.
    pub fn retry_now(self, now: Timestamp) -> Result<Self, InvalidTransition> {
        let pending = self.pending("retry")?;
        Ok(Self::Pending(Pending { due: pending.due.min(now), ..pending }))
    }

    /// Sends a settled delivery again, with fresh attempts and fresh time.
    ///
    /// # Errors
    /// A pending delivery is still on its way.
    pub fn replay(self, fresh: Pending) -> Result<Self, InvalidTransition> {
        match self {
            Self::Pending(_) => Err(InvalidTransition { verb: "replay", state: self.word() }),
            Self::Delivered | Self::Dead(_) | Self::Cancelled => Ok(Self::Pending(fresh)),
        }
    }

    /// Returns the word that SQL, JSON and metrics use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending(_) => "pending",
            Self::Delivered => "delivered",
            Self::Dead(_) => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    fn pending(self, verb: &'static str) -> Result<Pending, InvalidTransition> {
        match self {
            Self::Pending(pending) => Ok(pending),
            Self::Delivered | Self::Dead(_) | Self::Cancelled => {
                Err(InvalidTransition { verb, state: self.word() })
            }
        }
    }
}

/// What a pending delivery has been through since it became due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinceDue {
    /// Nothing: we were down, or had no slot for it. That is our doing.
    Untouched,
    /// At least one attempt ended.
    Tried,
    /// Its endpoint's open breaker, or a pause, kept it from being sent.
    Held,
}

/// Tells whether a waiting delivery has run out of time. One that never got its turn has not,
/// whatever the clock says: a night's downtime of ours must not bury what nobody tried to send.
#[must_use]
pub fn expires(pending: &Pending, since_due: SinceDue, now: Timestamp) -> bool {
    let late = pending.budget.expires_at.is_some_and(|end| now > end);
    match since_due {
        SinceDue::Untouched => false,
        SinceDue::Tried | SinceDue::Held => late,
    }
}

#[cfg(test)]
mod tests;
