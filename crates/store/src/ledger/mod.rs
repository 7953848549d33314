//! What people look at: messages, deliveries, attempts, sums, and the replays they start.
//!
//! Each list walks one index. Whatever else it is filtered by is looked at while walking, up to
//! [`MOST_WALKED`] rows a page; a page may therefore be short and say that it is not the last. So may one
//! that has [`crate::limits::PAGE_BYTES`].

mod answer;
mod buckets;
mod counts;
mod delivery;
mod message;
mod task;

use domain::ids::{AttemptId, DeliveryId, MessageId, TaskId};
use domain::partition::Partition;
use domain::time::Timestamp;

pub use answer::StoredAnswer;
pub use buckets::{BUCKETS, bucket, bucket_ends_at, percentile};
pub use counts::{Counts, Depth, Tally, Within};
pub(crate) use delivery::settled_at;
pub use delivery::{AttemptEntry, AttemptFilter, DeliveriesOf, DeliveryEntry, DeliveryFilter};
pub use message::{MessageEntry, MessageFilter, Payload};
pub use task::{NewTask, RunningTask, Task, TaskKind, TaskState};

use crate::Answer;
use crate::damage::Damage;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::page::{Listed, Page};
use crate::queue::{Minute, Rollups, Subject};

/// The most rows that one page, or one count by time, looks at.
pub const MOST_WALKED: u32 = 20_000;

/// The most dead letters that are counted.
pub const MOST_COUNTED: u32 = 100_000;

/// What is kept of an attempt's answer that was removed on purpose.
pub const EXPUNGED: &str = "EXPUNGED";

/// What the API and the dashboard read, and the few things they change there.
pub trait Ledger: Send + Sync {
    /// Finds a message by its id, or by the sender's id for it.
    fn message(
        &self,
        application: ApplicationKey,
        name: crate::catalog::Name<MessageId>,
    ) -> Answer<'_, MessageEntry>;
    /// Finds a message as [`Ledger::message`] does, and does not read its payload.
    fn message_without_payload(
        &self,
        application: ApplicationKey,
        name: crate::catalog::Name<MessageId>,
    ) -> Answer<'_, MessageEntry>;
    /// Lists an application's messages, newest first.
    fn messages(
        &self,
        application: ApplicationKey,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Answer<'_, Listed<MessageEntry, MessageId>>;
    /// Removes a message's payload on purpose, cancels its deliveries that are pending, and leaves a
    /// request for their owners to forget them. Returns the partitions of these.
    fn expunge(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Partition>>;

    /// Finds a delivery by its id.
    fn delivery(&self, application: ApplicationKey, id: DeliveryId) -> Answer<'_, DeliveryEntry>;
    /// Returns all deliveries of a message, by endpoint, without its policy.
    fn deliveries_of(
        &self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Answer<'_, Vec<DeliveryEntry>>;
    /// Lists an endpoint's deliveries, newest message first.
    fn deliveries(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: DeliveryFilter,
        page: Page<MessageKey>,
    ) -> Answer<'_, Listed<DeliveryEntry, MessageKey>>;
    /// Lists an application's dead letters, newest message first.
    fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryEntry, (MessageKey, EndpointKey)>>;
    /// Cancels a pending delivery, and leaves a request for its owner to forget it.
    fn cancel(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry>;
    /// Makes a pending delivery due at a moment, unless it is due earlier, and leaves a request for
    /// its owner to send it. In a line it does not overtake.
    fn retry_now(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry>;
    /// Returns, of each of these FIFO endpoints, the delivery that comes first in its order. One that has
    /// none, or only scheduled ones, is left out.
    fn first_in_line(
        &self,
        application: ApplicationKey,
        endpoints: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<DeliveryKey>>;
    /// Counts an endpoint's deliveries by state: those whose message was received at `since` or
    /// later, and before `until`.
    fn delivery_counts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        since: Timestamp,
        until: Timestamp,
    ) -> Answer<'_, Counts>;
    /// Counts dead letters. At most [`MOST_COUNTED`] are looked at: of an application, if those to one of
    /// its endpoints are meant.
    fn dead_letter_count(&self, within: Within) -> Answer<'_, Tally>;
    /// Tells how much waits. At most [`MOST_COUNTED`] deliveries are counted; the earliest due time is
    /// looked up at each endpoint that is meant.
    fn depth(&self, within: Within) -> Answer<'_, Depth>;
    /// Removes dead letters and their attempts for good. It walks like [`Ledger::dead_letters`] and
    /// removes what that would list: whoever wants all of them asks on until it is done.
    fn purge_dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryKey, (MessageKey, EndpointKey)>>;

    /// Finds an attempt of a message.
    fn attempt(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        id: AttemptId,
    ) -> Answer<'_, AttemptEntry>;
    /// Lists the attempts of a message's deliveries, or of one of them, newest first. No index has them
    /// together: of each delivery the newest [`MOST_WALKED`] are looked at.
    fn attempts_of(
        &self,
        of: DeliveriesOf,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>>;
    /// Lists an endpoint's attempts, newest first.
    fn attempts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>>;

    /// Removes what an attempt sent and got back on purpose: headers and body, for which [`EXPUNGED`]
    /// stands from then on. That it was made, and how it ended, stays.
    fn expunge_attempt(&self, key: DeliveryKey, id: AttemptId) -> Answer<'_, ()>;

    /// Returns a subject's sums from one minute up to, but without, another.
    fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Answer<'_, Rollups>;

    /// Remembers, encrypted, what a call with an idempotency key was answered, and returns it. If
    /// another answer is remembered under the hash, that one stays and is returned.
    fn remember_answer(
        &self,
        hash: [u8; 32],
        answer: StoredAnswer,
        at: Timestamp,
    ) -> Answer<'_, StoredAnswer>;
    /// Returns what is remembered under a hash, for [`crate::limits::IDEMPOTENCY`].
    fn answer(&self, hash: [u8; 32], now: Timestamp) -> Answer<'_, Option<StoredAnswer>>;
    /// Forgets what was remembered under a hash at a moment or before it. What was remembered later
    /// stays: it is somebody else's.
    fn forget_answer(&self, hash: [u8; 32], until: Timestamp) -> Answer<'_, ()>;

    /// Returns the rows that were passed over since the store was opened because they do not read
    /// as what they should be; each once, the last [`crate::damage::MOST_NOTED`] of them.
    fn damage(&self) -> Vec<Damage>;

    /// Starts a replay task. Refused while [`crate::limits::RUNNING_TASKS`] of its application run.
    fn start_task(&self, task: NewTask) -> Answer<'_, Task>;
    /// Finds a task.
    fn task(&self, id: TaskId) -> Answer<'_, Task>;
    /// Lists tasks, newest first; all of them, or those of one application.
    fn tasks(
        &self,
        application: Option<ApplicationKey>,
        page: Page<TaskId>,
    ) -> Answer<'_, Listed<Task, TaskId>>;
    /// Lists the tasks of all applications that are running, newest first, without what they mean.
    fn running_tasks(&self, page: Page<TaskId>) -> Answer<'_, Listed<RunningTask, TaskId>>;
}
