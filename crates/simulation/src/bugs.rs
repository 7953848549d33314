//! Planted bugs: mistakes that somebody could make, each switchable, none of them on by default.
//! A simulator that does not find them would not find the ones nobody planted.
//!
//! Mistakes of the shell and of the store are made here, in the simulated ones; mistakes of the
//! engine are made in the engine, behind its feature `planted`.

use engine::planted;

/// A mistake to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// The store settles whatever the epoch says.
    SettleWithoutTheEpoch,
    /// The store accepts a fan-out that is older than the catalog.
    AcceptWithAnOldRevision,
    /// A sender gets its 202 before the commit.
    AcknowledgeBeforeCommit,
    /// The store does not remember idempotency keys.
    ForgetIdempotencyKeys,
    /// A shell now and then loses an engine's wish to be woken.
    LoseAnAlarm,
    /// The committer does not repeat a batch that failed.
    ForgetFailedSettles,
    /// A take-over answers with the epoch before.
    AnswerTheOldEpoch,
    /// A take-over does not wait for the lease to run out.
    TakeWhatIsOwned,
    /// A lease is counted from the answer, not from the question.
    LeaseFromTheAnswer,
    /// A hand-over says that its commit was issued just now.
    HandOverAsIfNew,
    /// A load mixes up payloads.
    MixPayloads,
    /// The walk, which finds what was lost, finds nothing.
    WalkFindsNothing,
    /// The store does not keep an endpoint's running state.
    DropRunningState,
    /// The store accepts a message whatever its application is called by now.
    AcceptAnyName,
    /// The store lists no changes.
    ListNoChanges,
    /// One of the engine's own.
    Engine(planted::Bug),
}

impl Bug {
    /// The mistakes of the shell and of the store.
    const OUTSIDE: [Self; 15] = [
        Self::SettleWithoutTheEpoch,
        Self::AcceptWithAnOldRevision,
        Self::AcknowledgeBeforeCommit,
        Self::ForgetIdempotencyKeys,
        Self::LoseAnAlarm,
        Self::ForgetFailedSettles,
        Self::AnswerTheOldEpoch,
        Self::TakeWhatIsOwned,
        Self::LeaseFromTheAnswer,
        Self::HandOverAsIfNew,
        Self::MixPayloads,
        Self::WalkFindsNothing,
        Self::DropRunningState,
        Self::AcceptAnyName,
        Self::ListNoChanges,
    ];

    /// Returns all of them, in the order of the list in the documentation.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let inside = planted::Bug::ALL.into_iter().map(Self::Engine);
        Self::OUTSIDE.into_iter().chain(inside).collect()
    }

    /// Returns its name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        let debug =
            if let Self::Engine(bug) = self { format!("{bug:?}") } else { format!("{self:?}") };
        let mut name = String::new();
        for letter in debug.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(letter.to_lowercase());
        }
        name
    }

    /// Finds the bug of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|bug| bug.name() == name)
    }

    /// Plants it where it belongs, or removes what was planted in this thread before.
    pub(crate) fn plant(bug: Option<Self>) {
        planted::plant(if let Some(Self::Engine(bug)) = bug { Some(bug) } else { None });
    }
}
