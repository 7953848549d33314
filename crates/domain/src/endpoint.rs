//! An endpoint's states, and what a message finds when it is fanned out to one.

use crate::delivery::Cause;

/// Where an endpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Deliveries are sent.
    Active,
    /// A person holds it: deliveries wait, and their give-up time runs.
    Paused,
    /// Deliveries become dead letters at once, and can be replayed.
    Disabled(Reason),
    /// A tombstone. It gets nothing any more.
    Deleted,
}

/// Why an endpoint is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It answered 410, or another status by which its policy has endpoints disabled.
    Gone,
    /// Too many permanent failures in a row.
    PermanentStreak,
    /// Too long without a success.
    WithoutSuccess,
    /// A person did it.
    ByPerson,
}

/// What an endpoint in some state does with a new delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// It waits for its turn.
    Pending,
    /// It becomes a dead letter at once.
    Dead(Cause),
    /// No delivery is made.
    None,
}

/// A transition that the current state does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot {verb} an endpoint that is {state}")]
pub struct InvalidTransition {
    /// What was asked for.
    pub verb: &'static str,
    /// The state that does not allow it.
    pub state: &'static str,
}

impl Reason {
    /// Returns the word that SQL, JSON and metrics use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::PermanentStreak => "permanent_streak",
            Self::WithoutSuccess => "without_success",
            Self::ByPerson => "by_person",
        }
    }
}

impl State {
    /// Holds the endpoint's deliveries. Pausing twice changes nothing.
    ///
    /// # Errors
    /// A disabled endpoint has nothing to hold; a deleted one is gone.
    pub fn pause(self) -> Result<Self, InvalidTransition> {
        match self {
            Self::Active | Self::Paused => Ok(Self::Paused),
            Self::Disabled(_) | Self::Deleted => Err(self.refuses("pause")),
        }
    }

    /// Lets a paused endpoint's deliveries go. Resuming twice changes nothing.
    ///
    /// # Errors
    /// A disabled endpoint is enabled, not resumed; a deleted one is gone.
    pub fn resume(self) -> Result<Self, InvalidTransition> {
        match self {
            Self::Active | Self::Paused => Ok(Self::Active),
            Self::Disabled(_) | Self::Deleted => Err(self.refuses("resume")),
        }
    }

    /// Disables it. The first reason stays: it is the one the owner has to look at.
    ///
    /// # Errors
    /// A deleted endpoint is gone.
    pub fn disable(self, reason: Reason) -> Result<Self, InvalidTransition> {
        match self {
            Self::Active | Self::Paused => Ok(Self::Disabled(reason)),
            Self::Disabled(first) => Ok(Self::Disabled(first)),
            Self::Deleted => Err(self.refuses("disable")),
        }
    }

    /// Makes a disabled endpoint active. One that is paused stays paused.
    ///
    /// # Errors
    /// A deleted endpoint is gone.
    pub fn enable(self) -> Result<Self, InvalidTransition> {
        match self {
            Self::Active | Self::Disabled(_) => Ok(Self::Active),
            Self::Paused => Ok(Self::Paused),
            Self::Deleted => Err(self.refuses("enable")),
        }
    }

    /// Deletes it, whatever it was. Deleting twice changes nothing.
    #[must_use]
    pub fn delete(self) -> Self {
        Self::Deleted
    }

    /// Returns what becomes of a delivery that is fanned out to it.
    #[must_use]
    pub const fn reception(self) -> Reception {
        match self {
            Self::Active | Self::Paused => Reception::Pending,
            Self::Disabled(_) => Reception::Dead(Cause::EndpointDisabled),
            Self::Deleted => Reception::None,
        }
    }

    /// Returns the word that SQL, JSON and metrics use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Disabled(_) => "disabled",
            Self::Deleted => "deleted",
        }
    }

    const fn refuses(self, verb: &'static str) -> InvalidTransition {
        InvalidTransition { verb, state: self.word() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISABLED: State = State::Disabled(Reason::Gone);

    #[test]
    fn every_verb_in_every_state_does_what_the_table_says() {
        let by_person = State::Disabled(Reason::ByPerson);
        // state, pause, resume, disable by a person, enable
        let table = [
            (
                State::Active,
                Some(State::Paused),
                Some(State::Active),
                Some(by_person),
                Some(State::Active),
            ),
            (
                State::Paused,
                Some(State::Paused),
                Some(State::Active),
                Some(by_person),
                Some(State::Paused),
            ),
            (DISABLED, None, None, Some(DISABLED), Some(State::Active)),
            (State::Deleted, None, None, None, None),
        ];
        for (state, pause, resume, disable, enable) in table {
            assert_eq!(state.pause().ok(), pause, "pause {state:?}");
            assert_eq!(state.resume().ok(), resume, "resume {state:?}");
            assert_eq!(state.disable(Reason::ByPerson).ok(), disable, "disable {state:?}");
            assert_eq!(state.enable().ok(), enable, "enable {state:?}");
            assert_eq!(state.delete(), State::Deleted);
        }
    }

    #[test]
    fn a_refused_transition_names_the_verb_and_the_state() {
        let refusal = DISABLED.resume().unwrap_err();
        assert_eq!(refusal.to_string(), "cannot resume an endpoint that is disabled");
    }

    #[test]
    fn a_disabled_endpoint_keeps_what_it_does_not_send() {
        assert_eq!(State::Active.reception(), Reception::Pending);
        assert_eq!(State::Paused.reception(), Reception::Pending);
        assert_eq!(DISABLED.reception(), Reception::Dead(Cause::EndpointDisabled));
        assert_eq!(State::Deleted.reception(), Reception::None);
    }

    #[test]
    fn words_are_stable() {
        let states = [State::Active, State::Paused, DISABLED, State::Deleted].map(State::word);
        assert_eq!(states, ["active", "paused", "disabled", "deleted"]);
        let reasons =
            [Reason::Gone, Reason::PermanentStreak, Reason::WithoutSuccess, Reason::ByPerson];
        assert_eq!(
            reasons.map(Reason::word),
            ["gone", "permanent_streak", "without_success", "by_person"]
        );
    }
}
