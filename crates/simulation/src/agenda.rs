//! What is still to happen, in the order in which it will.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Event;
use engine::commit::Waiter;
use store::keys::{ApplicationKey, EndpointKey};

use crate::nemesis::Fault;
use crate::node::NodeRef;

/// The number of a store call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallId(pub(crate) u64);

/// The number of an attempt on the wire, over all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WireId(pub(crate) u64);

/// The number of a sender's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId(pub(crate) u64);

/// The number of a request's arrival at a process: each makes a message of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArrivalId(pub(crate) u64);

/// Something that happens at a moment.
#[derive(Debug)]
pub(crate) enum Happening {
    /// Something reaches a node; while it is frozen, that has to wait.
    At(NodeRef, Input),
    /// A store call takes effect.
    TakesEffect(CallId),
    /// A request reaches its receiver.
    Arrives(WireId),
    /// A receiver has done with a request.
    Leaves(WireId),
    /// A sender hands over its next message.
    SenderSends,
    /// A sender hands a message over again, because nobody answered.
    SenderRepeats(RequestId),
    /// A person does something.
    PersonActs,
    /// A receiver changes its ways.
    MoodSwings(EndpointKey),
    /// A fault begins.
    FaultStrikes,
    /// A fault ends.
    FaultEnds(Fault),
    /// A place in the fleet gets its next process.
    Starts(usize),
    /// Somebody's shell prunes.
    Prunes,
}

/// What can reach a node.
#[derive(Debug)]
pub(crate) enum Input {
    /// Its own alarm, if it is still the last one it asked for.
    Alarm(u64),
    /// Nothing but time, a little before that alarm.
    TooEarly(u64),
    /// Something for the engine.
    Event(Box<Event>),
    /// The answer to a store call.
    Answer(CallId),
    /// A message from a sender.
    Request(RequestId),
    /// The end of an attempt.
    End(WireId),
    /// A batch is to be committed again.
    Repeat(usize),
    /// A committer has waited long enough for those who come back, if it still waits that time.
    Gathered(usize, u64),
    /// A message has waited for the lane of a committer for as long as its sender does.
    GaveUp(usize, Waiter<ApplicationKey>),
    /// The signal to stop.
    Stop,
    /// The end of its grace time.
    StopNow,
}

/// The happenings to come. Two at the same moment happen in the order of their planning.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    planned: BTreeMap<(Duration, u64), Happening>,
    count: u64,
}

impl Agenda {
    /// Plans something.
    pub(crate) fn plan(&mut self, at: Duration, happening: Happening) {
        self.count += 1;
        self.planned.insert((at, self.count), happening);
    }

    /// Takes what happens next, if it does until a moment.
    pub(crate) fn next_until(&mut self, end: Duration) -> Option<(Duration, Happening)> {
        let first = self.planned.first_entry().filter(|first| first.key().0 <= end)?;
        let ((at, _), happening) = first.remove_entry();
        Some((at, happening))
    }
}
