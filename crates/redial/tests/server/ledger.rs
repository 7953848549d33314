//! A ledger that a test meddles with.

use std::sync::Arc;

use domain::ids::{AttemptId, DeliveryId, MessageId, TaskId};
use domain::partition::Partition;
use domain::time::Timestamp;
use store::catalog::Name;
use store::damage::Damage;
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use store::ledger::{
    AttemptEntry, AttemptFilter, Counts, DeliveriesOf, DeliveryEntry, DeliveryFilter, Depth,
    MessageEntry, MessageFilter, NewTask, RunningTask, StoredAnswer, Tally, Task, Within,
};
use store::page::{Listed, Page};
use store::queue::{Minute, Rollups, Subject};
use store::{Answer, Ledger};

/// What a test may meddle with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// For one delivery.
    Delivery(DeliveryId),
    /// For a list of an application's messages.
    Messages(ApplicationKey),
}

/// Says whether something is answered, and when.
type Meddle = Box<dyn Fn(Asked) -> Answer<'static, ()> + Send + Sync>;

/// A ledger that is asked only after somebody else was.
pub(crate) struct Meddled {
    ledger: Arc<dyn Ledger>,
    meddle: Meddle,
}

impl Meddled {
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        meddle: impl Fn(Asked) -> Answer<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { ledger, meddle: Box::new(meddle) }
    }

    /// Has one delivery that cannot be read.
    pub(crate) fn damaged(ledger: Arc<dyn Ledger>, delivery: DeliveryId) -> Self {
        Self::new(ledger, move |asked| {
            Box::pin(async move {
                let (what, text) = ("a delivery".to_owned(), "as told".to_owned());
                if asked == Asked::Delivery(delivery) {
                    return Err(store::Error::Damaged { what, text });
                }
                Ok(())
            })
        })
    }
}

impl Ledger for Meddled {
    fn delivery(&self, application: ApplicationKey, id: DeliveryId) -> Answer<'_, DeliveryEntry> {
        Box::pin(async move {
            (self.meddle)(Asked::Delivery(id)).await?;
            self.ledger.delivery(application, id).await
        })
    }

    fn message(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.ledger.message(application, name)
    }

    fn message_without_payload(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.ledger.message_without_payload(application, name)
    }

    fn messages(
        &self,
        application: ApplicationKey,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Answer<'_, Listed<MessageEntry, MessageId>> {
        Box::pin(async move {
            (self.meddle)(Asked::Messages(application)).await?;
            self.ledger.messages(application, filter, page).await
        })
    }

    fn expunge(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Partition>> {
        self.ledger.expunge(application, message, at)
    }

    fn deliveries_of(
        &self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Answer<'_, Vec<DeliveryEntry>> {
        self.ledger.deliveries_of(application, message)
    }

    fn deliveries(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: DeliveryFilter,
        page: Page<MessageKey>,
    ) -> Answer<'_, Listed<DeliveryEntry, MessageKey>> {
        self.ledger.deliveries(application, endpoint, filter, page)
    }

    fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryEntry, (MessageKey, EndpointKey)>> {
        self.ledger.dead_letters(application, filter, page)
    }

    fn cancel(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.ledger.cancel(key, at)
    }

    fn retry_now(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.ledger.retry_now(key, at)
    }

    fn first_in_line(
        &self,
        application: ApplicationKey,
        endpoints: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<DeliveryKey>> {
        self.ledger.first_in_line(application, endpoints)
    }

    fn delivery_counts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        since: Timestamp,
        until: Timestamp,
    ) -> Answer<'_, Counts> {
        self.ledger.delivery_counts(application, endpoint, since, until)
    }

    fn dead_letter_count(&self, within: Within) -> Answer<'_, Tally> {
        self.ledger.dead_letter_count(within)
    }

    fn depth(&self, within: Within) -> Answer<'_, Depth> {
        self.ledger.depth(within)
    }

    fn purge_dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryKey, (MessageKey, EndpointKey)>> {
        self.ledger.purge_dead_letters(application, filter, page)
    }

    fn attempt(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        id: AttemptId,
    ) -> Answer<'_, AttemptEntry> {
        self.ledger.attempt(application, message, id)
    }

    fn attempts_of(
        &self,
        of: DeliveriesOf,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.ledger.attempts_of(of, filter, page)
    }

    fn attempts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.ledger.attempts(application, endpoint, filter, page)
    }

    fn expunge_attempt(&self, key: DeliveryKey, id: AttemptId) -> Answer<'_, ()> {
        self.ledger.expunge_attempt(key, id)
    }

    fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Answer<'_, Rollups> {
        self.ledger.rollups(subject, from, to)
    }

    fn remember_answer(
        &self,
        hash: [u8; 32],
        answer: StoredAnswer,
        at: Timestamp,
    ) -> Answer<'_, StoredAnswer> {
        self.ledger.remember_answer(hash, answer, at)
    }

    fn answer(&self, hash: [u8; 32], now: Timestamp) -> Answer<'_, Option<StoredAnswer>> {
        self.ledger.answer(hash, now)
    }

    fn forget_answer(&self, hash: [u8; 32], until: Timestamp) -> Answer<'_, ()> {
        self.ledger.forget_answer(hash, until)
    }

    fn damage(&self) -> Vec<Damage> {
        self.ledger.damage()
    }

    fn start_task(&self, task: NewTask) -> Answer<'_, Task> {
        self.ledger.start_task(task)
    }

    fn task(&self, id: TaskId) -> Answer<'_, Task> {
        self.ledger.task(id)
    }

    fn tasks(
        &self,
        application: Option<ApplicationKey>,
        page: Page<TaskId>,
    ) -> Answer<'_, Listed<Task, TaskId>> {
        self.ledger.tasks(application, page)
    }

    fn running_tasks(&self, page: Page<TaskId>) -> Answer<'_, Listed<RunningTask, TaskId>> {
        self.ledger.running_tasks(page)
    }
}
