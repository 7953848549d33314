//! A ledger in which one delivery cannot be read.

use std::sync::Arc;

use domain::ids::{AttemptId, DeliveryId, MessageId, TaskId};
use domain::partition::Partition;
use domain::time::Timestamp;
use store::catalog::Name;
use store::damage::Damage;
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use store::ledger::{
    AttemptEntry, AttemptFilter, Counts, DeliveriesOf, DeliveryEntry, DeliveryFilter, MessageEntry,
    MessageFilter, NewTask, StoredAnswer, Tally, Task,
};
use store::memory::Memory;
use store::page::{Listed, Page};
use store::queue::{Minute, Rollup, Subject};
use store::{Answer, Ledger};

/// Reads everything but one delivery.
pub(super) struct Damaged {
    pub(super) memory: Arc<Memory>,
    pub(super) delivery: DeliveryId,
}

impl Ledger for Damaged {
    fn delivery(&self, application: ApplicationKey, id: DeliveryId) -> Answer<'_, DeliveryEntry> {
        if id == self.delivery {
            let (what, text) = ("a delivery".to_owned(), "as told".to_owned());
            return Box::pin(async { Err(store::Error::Damaged { what, text }) });
        }
        self.memory.delivery(application, id)
    }

    fn message(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.memory.message(application, name)
    }

    fn message_without_payload(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.memory.message_without_payload(application, name)
    }

    fn messages(
        &self,
        application: ApplicationKey,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Answer<'_, Listed<MessageEntry, MessageId>> {
        self.memory.messages(application, filter, page)
    }

    fn expunge(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Partition>> {
        self.memory.expunge(application, message, at)
    }

    fn deliveries_of(
        &self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Answer<'_, Vec<DeliveryEntry>> {
        self.memory.deliveries_of(application, message)
    }

    fn deliveries(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: DeliveryFilter,
        page: Page<MessageKey>,
    ) -> Answer<'_, Listed<DeliveryEntry, MessageKey>> {
        self.memory.deliveries(application, endpoint, filter, page)
    }

    fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryEntry, (MessageKey, EndpointKey)>> {
        self.memory.dead_letters(application, filter, page)
    }

    fn cancel(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.memory.cancel(key, at)
    }

    fn retry_now(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.memory.retry_now(key, at)
    }

    fn delivery_counts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        since: Timestamp,
        until: Timestamp,
    ) -> Answer<'_, Counts> {
        self.memory.delivery_counts(application, endpoint, since, until)
    }

    fn dead_letter_count(
        &self,
        application: ApplicationKey,
        endpoint: Option<EndpointKey>,
    ) -> Answer<'_, Tally> {
        self.memory.dead_letter_count(application, endpoint)
    }

    fn purge_dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryKey, (MessageKey, EndpointKey)>> {
        self.memory.purge_dead_letters(application, filter, page)
    }

    fn attempt(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        id: AttemptId,
    ) -> Answer<'_, AttemptEntry> {
        self.memory.attempt(application, message, id)
    }

    fn attempts_of(
        &self,
        of: DeliveriesOf,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.memory.attempts_of(of, filter, page)
    }

    fn attempts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.memory.attempts(application, endpoint, filter, page)
    }

    fn expunge_attempt(&self, key: DeliveryKey, id: AttemptId) -> Answer<'_, ()> {
        self.memory.expunge_attempt(key, id)
    }

    fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Answer<'_, Vec<Rollup>> {
        self.memory.rollups(subject, from, to)
    }

    fn remember_answer(
        &self,
        hash: [u8; 32],
        answer: StoredAnswer,
        at: Timestamp,
    ) -> Answer<'_, StoredAnswer> {
        self.memory.remember_answer(hash, answer, at)
    }

    fn answer(&self, hash: [u8; 32], now: Timestamp) -> Answer<'_, Option<StoredAnswer>> {
        self.memory.answer(hash, now)
    }

    fn forget_answer(&self, hash: [u8; 32], until: Timestamp) -> Answer<'_, ()> {
        self.memory.forget_answer(hash, until)
    }

    fn damage(&self) -> Vec<Damage> {
        self.memory.damage()
    }

    fn start_task(&self, task: NewTask) -> Answer<'_, Task> {
        self.memory.start_task(task)
    }

    fn task(&self, id: TaskId) -> Answer<'_, Task> {
        self.memory.task(id)
    }

    fn tasks(
        &self,
        application: Option<ApplicationKey>,
        page: Page<TaskId>,
    ) -> Answer<'_, Listed<Task, TaskId>> {
        self.memory.tasks(application, page)
    }
}
