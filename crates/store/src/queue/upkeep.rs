//! Upkeep: everything that is not accepting or settling, in steps small enough to stall neither.

use domain::delivery::{Cause, Delivery, Pending};
use domain::ids::TaskId;
use domain::partition::Partition;
use domain::time::Timestamp;

use super::{Order, Rollup, Running};
use crate::keys::{ApplicationKey, Cursor, DeliveryKey, EndpointKey, Lease, MessageKey};

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Upkeep {
    /// Buries pending deliveries of one endpoint, or cancels them.
    Bury(Bury),
    /// Numbers scheduled deliveries of one endpoint that are due.
    Number(Number),
    /// Makes settled deliveries pending again, and missing ones, for a replay task.
    Replay(Replay),
    /// Writes an endpoint's running state outside of a settle.
    Run {
        /// The right to do so.
        lease: Lease,
        /// The endpoint's application.
        application: ApplicationKey,
        /// The endpoint.
        endpoint: EndpointKey,
        /// Its running state.
        running: Running,
    },
    /// Leaves a request for whoever owns the endpoint's partition.
    Ask {
        /// By what a repetition is recognised.
        once: Once,
        /// The request.
        request: Request,
    },
    /// Removes requests that their owner has consumed.
    Consume {
        /// The right to do so.
        lease: Lease,
        /// The requests, by number.
        requests: Vec<i64>,
    },
    /// Adds to per-minute sums.
    RollUp {
        /// The right to do so: of the partition whose attempts are summed up. What is fenced is
        /// counted again from the attempts, by whoever owns the partition now. None if there is nothing of
        /// attempts in it.
        lease: Option<Lease>,
        /// By what a repetition is recognised.
        once: Once,
        /// What is added. Sums of an application that is deleted, or of an endpoint that is gone, are
        /// left out: nobody can ask for them, and nothing would remove them. An endpoint is looked for
        /// in the applications that have sums here, so its own come along with those of its
        /// application.
        rollups: Vec<Rollup>,
    },
    /// Adds the sums of minutes that are older than [`crate::limits::MINUTES`] to those of their hours: at
    /// most so many minutes.
    Fold {
        /// The time.
        now: Timestamp,
        /// The most minutes.
        most: u32,
    },
    /// Removes what has outlived its time: at most so many rows.
    Prune {
        /// The time.
        now: Timestamp,
        /// The most rows to remove.
        most: u32,
    },
}

/// What makes a step harmless that would do more if it were done again: a store remembers it for
/// [`crate::limits::REMEMBERED`] and answers a repetition as it answered the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Once {
    /// When the step was made.
    pub at: Timestamp,
    /// What no other step of that moment has: random bytes.
    pub id: [u8; 16],
}

/// Deliveries of one endpoint that end without an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Bury {
    /// The right to do so.
    pub lease: Lease,
    /// The endpoint's application.
    pub application: ApplicationKey,
    /// The endpoint.
    pub endpoint: EndpointKey,
    /// Which of its deliveries; those that are no longer as they were loaded are left alone.
    pub deliveries: Vec<Doomed>,
    /// How.
    pub ending: Ending,
    /// When.
    pub at: Timestamp,
}

/// How a delivery ends without an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As a dead letter.
    Dead(Cause),
    /// Its payload is gone, so there is nothing to send.
    Cancelled,
}

/// A delivery to be buried, as it was loaded. A step may wait, or come again because its answer got
/// lost: what was cancelled and replayed meanwhile has begun anew, and is nobody's to bury.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doomed {
    /// Its message.
    pub message: MessageKey,
    /// How many attempts were recorded.
    pub recorded: u32,
    /// When it had ended before it was replayed, if it ever was.
    pub ended_before: Option<Timestamp>,
}

/// Scheduled deliveries of a FIFO endpoint that take their places in its order, by due time and then
/// by acceptance. One that has its number is not scheduled any more, so a step that comes again because
/// its answer got lost leaves it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The right to do so.
    pub lease: Lease,
    /// The endpoint's application.
    pub application: ApplicationKey,
    /// The endpoint.
    pub endpoint: EndpointKey,
    /// What is due at this moment, or was before, is numbered.
    pub until: Timestamp,
    /// The most deliveries to number.
    pub most: u32,
}

/// A chunk of a replay task.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The right to run the task: of the partition its id hashes to.
    pub lease: Lease,
    /// The task.
    pub task: TaskId,
    /// How far it had got before this chunk; if it is elsewhere by now, nothing is written.
    pub cursor: Option<Cursor>,
    /// How far it has got with it; none when it is finished.
    pub next_cursor: Option<Cursor>,
    /// Deliveries that become pending; those that are no longer as they were chosen are left alone.
    /// Their turns follow the order that the endpoint has when this is written: it may have been
    /// another when they were chosen.
    pub deliveries: Vec<Chosen>,
    /// Deliveries that are made, if the task means such.
    pub missing: Option<Missing>,
    /// How many the task means and leaves as they are: their endpoint takes nothing. They are counted
    /// as skipped.
    pub passed_over: u32,
    /// When.
    pub at: Timestamp,
}

/// A settled delivery to be replayed, as it was chosen. A chunk may wait while another task means the
/// same delivery: what was replayed since and has ended anew is not what was asked for, and if it has
/// arrived by now it would arrive once more.
///
/// Recorded attempts do not count here, unlike with a [`Doomed`] one: an attempt that was in flight
/// when its delivery was cancelled is recorded later, and must not take the replay away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chosen {
    /// Which delivery.
    pub key: DeliveryKey,
    /// Its endpoint's partition.
    pub partition: Partition,
    /// The state it was in. Why a dead letter is dead does not matter.
    pub state: Delivery,
    /// When it had got there.
    pub ended_at: Option<Timestamp>,
    /// What it becomes.
    pub pending: Pending,
}

/// Deliveries of messages that their endpoint did not get when they were accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    /// The application of all of them.
    pub application: ApplicationKey,
    /// Its revision as of which they were chosen. If it is another by now, the whole chunk is
    /// fenced: the endpoint may be gone, or want something else.
    pub revision: i64,
    /// What is made. If the message ever had a delivery to the endpoint, nothing is; if its payload
    /// is gone, or its time is over, there is nothing to send, and the task counts it as skipped.
    pub deliveries: Vec<(DeliveryKey, Partition, Order, Pending)>,
}

/// Something that an endpoint's owner is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its number; given by the store.
    pub number: i64,
    /// The endpoint's application.
    pub application: ApplicationKey,
    /// The endpoint.
    pub endpoint: EndpointKey,
    /// The endpoint's partition.
    pub partition: Partition,
    /// What to do.
    pub kind: RequestKind,
    /// When it was asked.
    pub at: Timestamp,
}

/// What an owner can be asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Close the breaker, and end a pause by Retry-After.
    ResetBreaker,
    /// End a pause by Retry-After, and read the endpoint's configuration again: it was resumed, enabled or
    /// got another URL.
    EndPause,
    /// Read the endpoint's configuration again. Only earlier versions leave it: every change is among
    /// `Catalog::changes` now.
    Refresh,
    /// Send this delivery now.
    RetryNow(MessageKey),
    /// Forget this delivery: it was cancelled.
    Cancel(MessageKey),
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// So many rows changed.
    Changed(u32),
    /// So many deliveries got their numbers.
    Numbered {
        /// How many.
        count: u32,
        /// When the first of those that are still scheduled is due.
        next: Option<Timestamp>,
    },
    /// The lease is not current, or a task has moved on: nothing is written.
    Fenced,
    /// The database refused this step; the others are unharmed. The text is for the operator.
    Refused(String),
}
