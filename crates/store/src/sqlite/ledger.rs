//! The ledger, handed to the threads that can do it.

use domain::ids::{AttemptId, DeliveryId, MessageId, TaskId};
use domain::time::Timestamp;

use super::{Sqlite, attempts, deliveries, messages, rollups, tasks};
use crate::Answer;
use crate::catalog::Name;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, MessageKey};
use crate::ledger::{
    AttemptEntry, AttemptFilter, DeliveryEntry, DeliveryFilter, Ledger, MessageEntry,
    MessageFilter, NewTask, Task,
};
use crate::page::{Listed, Page};
use crate::queue::{Minute, Rollup, Subject};

impl Ledger for Sqlite {
    fn message(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.read(move |reading| messages::find(reading, application, &name))
    }

    fn messages(
        &self,
        application: ApplicationKey,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Answer<'_, Listed<MessageEntry, MessageId>> {
        self.read(move |reading| messages::list(reading, application, &filter, &page))
    }

    fn expunge(&self, application: ApplicationKey, message: MessageKey) -> Answer<'_, ()> {
        self.write(move |writing| messages::expunge(writing.connection, application, message))
    }

    fn delivery(&self, application: ApplicationKey, id: DeliveryId) -> Answer<'_, DeliveryEntry> {
        self.read(move |reading| deliveries::by_id(reading, application, id))
    }

    fn deliveries_of(
        &self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Answer<'_, Vec<DeliveryEntry>> {
        self.read(move |reading| deliveries::of_message(reading, application, message))
    }

    fn deliveries(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: DeliveryFilter,
        page: Page<MessageKey>,
    ) -> Answer<'_, Listed<DeliveryEntry, MessageKey>> {
        let whose = (application, endpoint);
        self.read(move |reading| deliveries::of_endpoint(reading, whose, &filter, &page))
    }

    fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryEntry, (MessageKey, EndpointKey)>> {
        self.read(move |reading| deliveries::dead_letters(reading, application, &filter, &page))
    }

    fn cancel(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.write(move |writing| deliveries::cancel(writing, key, at))
    }

    fn attempts_of(&self, key: DeliveryKey) -> Answer<'_, Vec<AttemptEntry>> {
        self.read(move |reading| attempts::of_delivery(reading, key))
    }

    fn attempts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        let whose = (application, endpoint);
        self.read(move |reading| attempts::of_endpoint(reading, whose, &filter, &page))
    }

    fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Answer<'_, Vec<Rollup>> {
        self.read(move |reading| rollups::between(reading, subject, from, to))
    }

    fn start_task(&self, task: NewTask) -> Answer<'_, Task> {
        self.write(move |writing| tasks::start(writing, &task))
    }

    fn task(&self, id: TaskId) -> Answer<'_, Task> {
        self.read(move |reading| tasks::find(reading.connection, id))
    }

    fn tasks(
        &self,
        application: Option<ApplicationKey>,
        page: Page<TaskId>,
    ) -> Answer<'_, Listed<Task, TaskId>> {
        self.read(move |reading| tasks::list(reading, application, &page))
    }
}
