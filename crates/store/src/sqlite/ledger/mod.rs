//! The ledger, handed to the threads that can do it.

mod answer;
pub(super) mod attempt;
mod counts;
pub(super) mod dead_letter;
pub(super) mod delivery;
mod expunge;
pub(super) mod message;
pub(super) mod rollup;
mod task;
pub(super) mod waiting;

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
use crate::queue::{Minute, Rollups, Subject};
use crate::sqlite::Sqlite;
use crate::sqlite::ledger::dead_letter::DeadLetters;

impl Ledger for Sqlite {
    fn message(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.read(move |reading| message::find(reading, application, &name))
    }

    fn message_without_payload(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.read(move |reading| message::find_without_payload(reading, application, &name))
    }

    fn messages(
        &self,
        application: ApplicationKey,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Answer<'_, Listed<MessageEntry, MessageId>> {
        self.read(move |reading| message::list(reading, application, &filter, &page))
    }

    fn expunge(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Partition>> {
        self.write(move |writing| expunge::expunge(writing, (application, message), at))
    }

    fn delivery(&self, application: ApplicationKey, id: DeliveryId) -> Answer<'_, DeliveryEntry> {
        self.read(move |reading| delivery::find(reading, application, id))
    }

    fn deliveries_of(
        &self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Answer<'_, Vec<DeliveryEntry>> {
        self.read(move |reading| delivery::of_message(reading, application, message))
    }

    fn deliveries(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: DeliveryFilter,
        page: Page<MessageKey>,
    ) -> Answer<'_, Listed<DeliveryEntry, MessageKey>> {
        let whose = (application, endpoint);
        self.read(move |reading| delivery::list(reading, whose, &filter, &page))
    }

    fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryEntry, (MessageKey, EndpointKey)>> {
        self.read(move |reading| {
            let wanted = DeadLetters { application, filter: &filter, page: &page };
            dead_letter::list(reading.connection, reading.notes, &wanted)
        })
    }

    fn cancel(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.write(move |writing| delivery::cancel(writing, key, at))
    }

    fn retry_now(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.write(move |writing| delivery::retry_now(writing, key, at))
    }

    fn first_in_line(
        &self,
        application: ApplicationKey,
        endpoints: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<DeliveryKey>> {
        self.read(move |reading| waiting::first_in_line(reading, application, &endpoints))
    }

    fn delivery_counts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        since: Timestamp,
        until: Timestamp,
    ) -> Answer<'_, Counts> {
        let whose = (application, endpoint);
        self.read(move |reading| counts::by_state(reading, whose, &(since..until)))
    }

    fn dead_letter_count(&self, within: Within) -> Answer<'_, Tally> {
        self.read(move |reading| counts::dead_letters(reading, within))
    }

    fn depth(&self, within: Within) -> Answer<'_, Depth> {
        self.read(move |reading| waiting::depth(reading, within))
    }

    fn purge_dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryKey, (MessageKey, EndpointKey)>> {
        self.write(move |writing| dead_letter::purge(writing, application, &filter, &page))
    }

    fn attempt(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        id: AttemptId,
    ) -> Answer<'_, AttemptEntry> {
        self.read(move |reading| attempt::find(reading, (application, message), id))
    }

    fn attempts_of(
        &self,
        of: DeliveriesOf,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.read(move |reading| attempt::of_deliveries(reading, of, &filter, &page))
    }

    fn attempts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        let whose = (application, endpoint);
        self.read(move |reading| attempt::list(reading, whose, &filter, &page))
    }

    fn expunge_attempt(&self, key: DeliveryKey, id: AttemptId) -> Answer<'_, ()> {
        self.write(move |writing| attempt::expunge(writing, key, id))
    }

    fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Answer<'_, Rollups> {
        self.read(move |reading| rollup::list(reading, subject, from, to))
    }

    fn remember_answer(
        &self,
        hash: [u8; 32],
        answer: StoredAnswer,
        at: Timestamp,
    ) -> Answer<'_, StoredAnswer> {
        self.write(move |writing| answer::remember(writing, &hash, &answer, at))
    }

    fn answer(&self, hash: [u8; 32], now: Timestamp) -> Answer<'_, Option<StoredAnswer>> {
        self.look_up(move |reading| answer::recall(reading, &hash, now))
    }

    fn forget_answer(&self, hash: [u8; 32], until: Timestamp) -> Answer<'_, ()> {
        self.write(move |writing| answer::forget(writing, &hash, until))
    }

    fn damage(&self) -> Vec<Damage> {
        self.notes.list()
    }

    fn start_task(&self, task: NewTask) -> Answer<'_, Task> {
        self.write(move |writing| task::start(writing, &task))
    }

    fn task(&self, id: TaskId) -> Answer<'_, Task> {
        self.read(move |reading| task::find(reading.connection, id))
    }

    fn tasks(
        &self,
        application: Option<ApplicationKey>,
        page: Page<TaskId>,
    ) -> Answer<'_, Listed<Task, TaskId>> {
        self.read(move |reading| task::list(reading, application, &page))
    }

    fn running_tasks(&self, page: Page<TaskId>) -> Answer<'_, Listed<RunningTask, TaskId>> {
        self.read(move |reading| task::running(reading, &page))
    }
}
