//! What an engine is told.
//!
//! Every effect that asks for an answer gets exactly one, some time later, with the number it was
//! asked under. Answers may come in any order, and what they say may be as old as the question.

use std::sync::Arc;
use std::time::Duration;

use domain::dice::Dice;
use store::catalog::Changes;
use store::keys::{ApplicationKey, EndpointKey, Lease};
use store::queue::{
    AttemptRecord, Call, Done, Loaded, PendingDelivery, Renewal, Request, Settled, Waiting,
};

use crate::roster::{Policies, Roster};

/// The number of an attempt, a load or a step of upkeep; never used twice by one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub u64);

/// The store did not answer. Whether the question took effect is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Nothing but time: the moment that [`crate::Effect::WakeAt`] named has come.
    TimePassed,
    /// The policies that apply beyond endpoints and applications; the first event of all.
    Policies(Arc<Policies>),
    /// The answer to [`crate::Effect::Renew`].
    Renewed {
        /// When the question was sent, on the clock that never jumps.
        asked_at: Duration,
        /// The answer.
        answer: Result<Renewal, Unanswered>,
    },
    /// The answer to [`crate::Effect::Take`].
    Taken(Result<Vec<Lease>, Unanswered>),
    /// The answer to [`crate::Effect::Release`].
    Released(Result<(), Unanswered>),
    /// The answer to [`crate::Effect::Walk`].
    Walked(Result<Vec<Waiting>, Unanswered>),
    /// The answer to [`crate::Effect::Load`].
    Loaded {
        /// Of which load.
        load: Number,
        /// The answer.
        answer: Result<Loaded, Unanswered>,
    },
    /// The answer to [`crate::Effect::ReadRoster`].
    Roster {
        /// Whose.
        application: ApplicationKey,
        /// The roster; none if the application is gone.
        answer: Result<Option<Arc<Roster>>, Unanswered>,
    },
    /// A roster that the node came by unasked. It may have been read before the question that is on
    /// its way was asked, so it is no answer to that.
    RosterSeen {
        /// The roster.
        roster: Arc<Roster>,
        /// When its read began, on the clock that never jumps.
        began: Duration,
    },
    /// The answer to [`crate::Effect::ReadChanges`]. What event types set was read and told before, if
    /// that was changed.
    Changes(Result<Changes, Unanswered>),
    /// This node accepted messages for partitions it owns. It may be lost; that costs time only.
    HandedOver {
        /// When their commit was issued, on the clock that never jumps.
        issued_at: Duration,
        /// The deliveries, payloads included.
        deliveries: Vec<PendingDelivery>,
    },
    /// An attempt is over.
    Ended {
        /// Which.
        attempt: Number,
        /// How it went.
        end: End,
        /// For the wait before the next one.
        dice: Dice,
    },
    /// The answer to [`crate::Effect::Settle`]. The committer repeats a settle until it is
    /// answered, so there is no other.
    Settled {
        /// Of which attempt.
        attempt: Number,
        /// The answer.
        answer: Settled,
    },
    /// The answer to [`crate::Effect::Upkeep`], which the committer repeats likewise.
    Upkept {
        /// Which step.
        step: Number,
        /// The answer.
        answer: Done,
    },
    /// An endpoint was disabled, as [`crate::Effect::Disable`] wished, or is gone.
    Disabled {
        /// The endpoint.
        endpoint: EndpointKey,
    },
    /// The answer to [`crate::Effect::ReadRequests`].
    Requests(Result<Vec<Request>, Unanswered>),
    /// A request was left on this node: it is read at once instead of at the next look.
    Asked,
    /// Another node calls. This one calls itself, too: when it lost a hand-over, or changed something
    /// in the catalog.
    Woken(Call),
    /// Finish what is in flight, settle, release, and then say [`crate::Effect::Stopped`].
    Stop,
    /// The grace time is over: abort what is in flight, then settle and release as before.
    StopNow,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// It has an outcome, which may be that we interrupted it.
    Recorded(Box<AttemptRecord>),
    /// Our own code panicked while making it.
    Panicked,
}

impl End {
    /// Tells whether the attempt counts for nothing: we stopped it, or failed ourselves.
    #[must_use]
    pub fn costs_nothing(&self) -> bool {
        match self {
            Self::Recorded(record) => record.outcome == domain::outcome::Outcome::Interrupted,
            Self::Panicked => true,
        }
    }
}
