//! What people look at, and the few things they change there.

mod answer;
mod attempt;
mod counts;
mod dead_letter;
mod delivery;
mod expunge;
mod message;
pub(super) mod rollup;
mod task;
mod waiting;

use domain::ids::{AttemptId, DeliveryId, MessageId, TaskId};
use domain::partition::Partition;
use domain::time::Timestamp;

use crate::Answer;
use crate::catalog::Name;
use crate::damage::Damage;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{
    AttemptEntry, AttemptFilter, Counts, DeliveriesOf, DeliveryEntry, DeliveryFilter, Depth,
    Ledger, MessageEntry, MessageFilter, NewTask, RunningTask, StoredAnswer, Tally, Task, Within,
};
use crate::page::{Listed, Page};
use crate::postgres::Postgres;
use crate::queue::{Minute, Rollups, Subject};

impl Ledger for Postgres {
    fn message(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.answer(message::find(self, application, name))
    }

    fn message_without_payload(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.answer(message::find_without_payload(self, application, name))
    }

    fn messages(
        &self,
        application: ApplicationKey,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Answer<'_, Listed<MessageEntry, MessageId>> {
        self.answer(message::list(self, application, filter, page))
    }

    fn expunge(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Partition>> {
        self.answer(expunge::expunge(self, (application, message), at))
    }

    fn delivery(&self, application: ApplicationKey, id: DeliveryId) -> Answer<'_, DeliveryEntry> {
        self.answer(delivery::find(self, application, id))
    }

    fn deliveries_of(
        &self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Answer<'_, Vec<DeliveryEntry>> {
        self.answer(delivery::of_message(self, application, message))
    }

    fn deliveries(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: DeliveryFilter,
        page: Page<MessageKey>,
    ) -> Answer<'_, Listed<DeliveryEntry, MessageKey>> {
        self.answer(delivery::list(self, (application, endpoint), filter, page))
    }

    fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryEntry, (MessageKey, EndpointKey)>> {
        self.answer(dead_letter::list(self, application, filter, page))
    }

    fn cancel(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.answer(delivery::cancel(self, key, at))
    }

    fn retry_now(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.answer(delivery::retry_now(self, key, at))
    }

    fn first_in_line(
        &self,
        application: ApplicationKey,
        endpoints: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<DeliveryKey>> {
        self.answer(waiting::first_in_line(self, application, endpoints))
    }

    fn delivery_counts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        since: Timestamp,
        until: Timestamp,
    ) -> Answer<'_, Counts> {
        self.answer(counts::by_state(self, (application, endpoint), since..until))
    }

    fn dead_letter_count(&self, within: Within) -> Answer<'_, Tally> {
        self.answer(counts::dead_letters(self, within))
    }

    fn depth(&self, within: Within) -> Answer<'_, Depth> {
        self.answer(waiting::depth(self, within))
    }

    fn purge_dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryKey, (MessageKey, EndpointKey)>> {
        self.answer(dead_letter::purge(self, application, filter, page))
    }

    fn attempt(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        id: AttemptId,
    ) -> Answer<'_, AttemptEntry> {
        self.answer(attempt::find(self, (application, message), id))
    }

    fn attempts_of(
        &self,
        of: DeliveriesOf,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.answer(attempt::of_deliveries(self, of, filter, page))
    }

    fn attempts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.answer(attempt::list(self, (application, endpoint), filter, page))
    }

    fn expunge_attempt(&self, key: DeliveryKey, id: AttemptId) -> Answer<'_, ()> {
        self.answer(attempt::expunge(self, key, id))
    }

    fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Answer<'_, Rollups> {
        self.answer(rollup::list(self, subject, from, to))
    }

    fn remember_answer(
        &self,
        hash: [u8; 32],
        answer: StoredAnswer,
        at: Timestamp,
    ) -> Answer<'_, StoredAnswer> {
        self.answer(answer::remember(self, hash, answer, at))
    }

    fn answer(&self, hash: [u8; 32], now: Timestamp) -> Answer<'_, Option<StoredAnswer>> {
        Postgres::answer(self, answer::recall(self, hash, now))
    }

    fn forget_answer(&self, hash: [u8; 32], until: Timestamp) -> Answer<'_, ()> {
        self.answer(answer::forget(self, hash, until))
    }

    fn damage(&self) -> Vec<Damage> {
        self.notes.list()
    }

    fn start_task(&self, task: NewTask) -> Answer<'_, Task> {
        self.answer(task::start(self, task))
    }

    fn task(&self, id: TaskId) -> Answer<'_, Task> {
        self.answer(task::find(self, id))
    }

    fn tasks(
        &self,
        application: Option<ApplicationKey>,
        page: Page<TaskId>,
    ) -> Answer<'_, Listed<Task, TaskId>> {
        self.answer(task::list(self, application, page))
    }

    fn running_tasks(&self, page: Page<TaskId>) -> Answer<'_, Listed<RunningTask, TaskId>> {
        self.answer(task::running(self, page))
    }
}
