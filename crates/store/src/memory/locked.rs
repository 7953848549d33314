//! The three traits: a state behind a lock, with a clock.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::{ApplicationId, AttemptId, DeliveryId, EndpointId, MessageId, TaskId};
use domain::partition::Partition;
use domain::time::Timestamp;

use crate::catalog::{
    Admission, Application, Change, Changed, Changes, Check, Edit, Endpoint, EndpointEdit,
    EventType, Expiry, FanOut, Name, NewApplication, NewEndpoint, Schemas, Secret, Token,
};
use crate::damage::Damage;
use crate::keys::{ApplicationKey, DeliveryKey, EndpointKey, Lease, MessageKey, Node};
use crate::ledger::{
    AttemptEntry, AttemptFilter, Counts, DeliveriesOf, DeliveryEntry, DeliveryFilter, Depth,
    MessageEntry, MessageFilter, NewTask, RunningTask, StoredAnswer, Tally, Task, Within,
};
use crate::memory::State;
use crate::page::{Listed, Page};
use crate::queue::{
    Batch, Call, Committed, Confirmed, Load, Loaded, Minute, Renewal, Request, Rollups, Running,
    Subject, Waiting,
};
use crate::{Answer, Catalog, Error, Ledger, Queue};

/// Tells the time.
pub type Clock = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// A store in memory.
pub struct Memory {
    state: Mutex<State>,
    clock: Clock,
}

impl Memory {
    /// Makes a store of a state and a clock for its leases.
    #[must_use]
    pub fn new(state: State, clock: Clock) -> Self {
        Self { state: Mutex::new(state), clock }
    }

    /// Returns the state as it is now.
    #[must_use]
    pub fn state(&self) -> State {
        self.lock().clone()
    }

    // A panic inside a call leaves the lock poisoned; the state is a value and stays readable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers when it is awaited, not before.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        call: impl FnOnce(&mut State) -> Result<T, Error> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move { call(&mut self.lock()) })
    }
}

impl Queue for Memory {
    fn commit(&self, batch: Arc<Batch>) -> Answer<'_, Committed> {
        self.answer(move |state| Ok(state.commit(Arc::unwrap_or_clone(batch))))
    }

    fn load(&self, load: Load) -> Answer<'_, Loaded> {
        self.answer(move |state| Ok(state.load(load)))
    }

    fn waiting(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Waiting>> {
        self.answer(move |state| Ok(state.waiting(&partitions)))
    }

    fn probe(&self) -> Answer<'_, ()> {
        self.answer(|_| Ok(()))
    }

    fn requests(&self, partitions: Vec<Partition>) -> Answer<'_, Vec<Request>> {
        self.answer(move |state| Ok(state.requests(&partitions)))
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        self.answer(|_| Ok((self.clock)()))
    }

    fn renew(&self, node: Node) -> Answer<'_, Renewal> {
        self.answer(move |state| Ok(state.renew(node, (self.clock)())))
    }

    fn take(&self, node: Node, most: u8) -> Answer<'_, Vec<Lease>> {
        self.answer(move |state| Ok(state.take(&node, most, (self.clock)())))
    }

    fn release(&self, node: Node, leases: Vec<Lease>) -> Answer<'_, ()> {
        self.answer(move |state| {
            state.release(&node, &leases);
            Ok(())
        })
    }

    /// There is no other node, so none calls.
    fn woken(&self) -> Answer<'_, Call> {
        Box::pin(std::future::pending())
    }

    fn call(&self) -> Answer<'_, Timestamp> {
        self.now()
    }

    fn confirm(&self, node: Node, heard: Timestamp) -> Answer<'_, ()> {
        self.answer(move |state| {
            state.confirm(node, heard);
            Ok(())
        })
    }

    fn confirmed(&self) -> Answer<'_, Confirmed> {
        self.answer(|state| Ok(state.confirmed((self.clock)())))
    }
}

impl Catalog for Memory {
    fn create_application(&self, new: NewApplication) -> Answer<'_, Application> {
        self.answer(move |state| state.create_application(new))
    }

    fn application(&self, name: Name<ApplicationId>) -> Answer<'_, Application> {
        self.answer(move |state| state.application(&name))
    }

    fn change_application(
        &self,
        key: ApplicationKey,
        change: Edit<Application>,
        at: Timestamp,
    ) -> Answer<'_, Changed<Application>> {
        self.answer(move |state| state.change_application(key, &change, at))
    }

    fn delete_application_if(
        &self,
        key: ApplicationKey,
        check: Check<Application>,
        at: Timestamp,
    ) -> Answer<'_, ()> {
        self.answer(move |state| state.delete_application_if(key, &check, at))
    }

    fn applications(
        &self,
        page: Page<ApplicationId>,
    ) -> Answer<'_, Listed<Application, ApplicationId>> {
        self.answer(move |state| Ok(state.applications(&page)))
    }

    fn create_endpoint_if(&self, new: NewEndpoint, admission: Admission) -> Answer<'_, Endpoint> {
        self.answer(move |state| state.create_endpoint_if(new, &admission))
    }

    fn endpoint(
        &self,
        application: ApplicationKey,
        name: Name<EndpointId>,
    ) -> Answer<'_, Endpoint> {
        self.answer(move |state| state.endpoint(application, &name))
    }

    fn change_endpoint(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        change: EndpointEdit,
        at: Timestamp,
    ) -> Answer<'_, Changed<Endpoint>> {
        self.answer(move |state| state.change_endpoint((application, key), &change, at))
    }

    fn endpoints(
        &self,
        application: ApplicationKey,
        page: Page<EndpointId>,
    ) -> Answer<'_, Listed<Endpoint, EndpointId>> {
        self.answer(move |state| Ok(state.endpoints(application, &page)))
    }

    fn endpoints_by_key(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<Endpoint>> {
        self.answer(move |state| Ok(state.endpoints_by_key(application, &keys)))
    }

    fn endpoint_ids(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<(EndpointKey, EndpointId)>> {
        self.answer(move |state| Ok(state.endpoint_ids(application, &keys)))
    }

    fn endpoint_key(&self, application: ApplicationKey, id: EndpointId) -> Answer<'_, EndpointKey> {
        self.answer(move |state| state.endpoint_key(application, id))
    }

    fn running(
        &self,
        application: ApplicationKey,
        keys: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<(EndpointKey, Running)>> {
        self.answer(move |state| {
            let keys = BTreeSet::from_iter(keys).into_iter();
            Ok(keys.filter_map(|key| Some((key, state.running(application, key).ok()?))).collect())
        })
    }

    fn secrets(
        &self,
        application: ApplicationKey,
        key: EndpointKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Secret>> {
        self.answer(move |state| state.secrets(application, key, at))
    }

    fn fan_out(&self, application: ApplicationKey, at: Timestamp) -> Answer<'_, FanOut> {
        self.answer(move |state| state.fan_out(application, at))
    }

    fn changes(&self, since: Option<Timestamp>, after: Option<Change>) -> Answer<'_, Changes> {
        self.answer(move |state| Ok(state.changes((self.clock)(), since, after)))
    }

    fn create_event_type(&self, event_type: EventType) -> Answer<'_, ()> {
        self.answer(move |state| state.create_event_type(event_type))
    }

    fn change_event_type(
        &self,
        name: String,
        change: Edit<EventType>,
        at: Timestamp,
    ) -> Answer<'_, Changed<EventType>> {
        self.answer(move |state| state.change_event_type(&name, &change, at))
    }

    fn event_type(&self, name: String) -> Answer<'_, EventType> {
        self.answer(move |state| state.event_type(&name))
    }

    fn remove_event_type(&self, name: String, check: Check<EventType>) -> Answer<'_, ()> {
        self.answer(move |state| state.remove_event_type(&name, &check))
    }

    fn event_types(
        &self,
        schemas: Schemas,
        page: Page<String>,
    ) -> Answer<'_, Listed<EventType, String>> {
        self.answer(move |state| Ok(state.event_types(schemas, &page)))
    }

    fn create_token(&self, token: Token) -> Answer<'_, ()> {
        self.answer(move |state| state.create_token(token))
    }

    fn keep_admin_token(&self, hash: Option<[u8; 32]>) -> Answer<'_, Option<[u8; 32]>> {
        self.answer(move |state| Ok(state.keep_admin_token(hash)))
    }

    fn token(&self, id: String) -> Answer<'_, Token> {
        self.answer(move |state| state.token(&id))
    }

    fn revoke_token(&self, id: String, at: Timestamp) -> Answer<'_, ()> {
        self.answer(move |state| state.revoke_token(&id, at))
    }

    fn expire_tokens(&self, expiry: Expiry) -> Answer<'_, u32> {
        self.answer(move |state| Ok(state.expire_tokens(&expiry)))
    }

    fn tokens(&self, page: Page<String>) -> Answer<'_, Listed<Token, String>> {
        self.answer(move |state| Ok(state.tokens(&page)))
    }
}

impl Ledger for Memory {
    fn message(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.answer(move |state| state.message(application, name))
    }

    fn message_without_payload(
        &self,
        application: ApplicationKey,
        name: Name<MessageId>,
    ) -> Answer<'_, MessageEntry> {
        self.answer(move |state| state.message_without_payload(application, name))
    }

    fn messages(
        &self,
        application: ApplicationKey,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Answer<'_, Listed<MessageEntry, MessageId>> {
        self.answer(move |state| Ok(state.messages(application, &filter, &page)))
    }

    fn expunge(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        at: Timestamp,
    ) -> Answer<'_, Vec<Partition>> {
        self.answer(move |state| state.expunge(application, message, at))
    }

    fn delivery(&self, application: ApplicationKey, id: DeliveryId) -> Answer<'_, DeliveryEntry> {
        self.answer(move |state| state.delivery(application, id))
    }

    fn deliveries_of(
        &self,
        application: ApplicationKey,
        message: MessageKey,
    ) -> Answer<'_, Vec<DeliveryEntry>> {
        self.answer(move |state| Ok(state.deliveries_of(application, message)))
    }

    fn deliveries(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: DeliveryFilter,
        page: Page<MessageKey>,
    ) -> Answer<'_, Listed<DeliveryEntry, MessageKey>> {
        self.answer(move |state| Ok(state.deliveries(application, endpoint, &filter, &page)))
    }

    fn dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryEntry, (MessageKey, EndpointKey)>> {
        self.answer(move |state| Ok(state.dead_letters(application, &filter, &page)))
    }

    fn cancel(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.answer(move |state| state.cancel(key, at))
    }

    fn retry_now(&self, key: DeliveryKey, at: Timestamp) -> Answer<'_, DeliveryEntry> {
        self.answer(move |state| state.retry_now(key, at))
    }

    fn first_in_line(
        &self,
        application: ApplicationKey,
        endpoints: Vec<EndpointKey>,
    ) -> Answer<'_, Vec<DeliveryKey>> {
        self.answer(move |state| Ok(state.first_in_line(application, &endpoints)))
    }

    fn delivery_counts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        since: Timestamp,
        until: Timestamp,
    ) -> Answer<'_, Counts> {
        let range = since..until;
        self.answer(move |state| Ok(state.delivery_counts(application, endpoint, &range)))
    }

    fn dead_letter_count(&self, within: Within) -> Answer<'_, Tally> {
        self.answer(move |state| Ok(state.dead_letter_count(within)))
    }

    fn depth(&self, within: Within) -> Answer<'_, Depth> {
        self.answer(move |state| Ok(state.depth(within)))
    }

    fn purge_dead_letters(
        &self,
        application: ApplicationKey,
        filter: DeliveryFilter,
        page: Page<(MessageKey, EndpointKey)>,
    ) -> Answer<'_, Listed<DeliveryKey, (MessageKey, EndpointKey)>> {
        self.answer(move |state| Ok(state.purge_dead_letters(application, &filter, &page)))
    }

    fn attempt(
        &self,
        application: ApplicationKey,
        message: MessageKey,
        id: AttemptId,
    ) -> Answer<'_, AttemptEntry> {
        self.answer(move |state| state.attempt(application, message, id))
    }

    fn attempts_of(
        &self,
        of: DeliveriesOf,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.answer(move |state| Ok(state.attempts_of(of, &filter, &page)))
    }

    fn attempts(
        &self,
        application: ApplicationKey,
        endpoint: EndpointKey,
        filter: AttemptFilter,
        page: Page<AttemptId>,
    ) -> Answer<'_, Listed<AttemptEntry, AttemptId>> {
        self.answer(move |state| Ok(state.attempts(application, endpoint, &filter, &page)))
    }

    fn expunge_attempt(&self, key: DeliveryKey, id: AttemptId) -> Answer<'_, ()> {
        self.answer(move |state| state.expunge_attempt(key, id))
    }

    fn rollups(&self, subject: Subject, from: Minute, to: Minute) -> Answer<'_, Rollups> {
        self.answer(move |state| Ok(state.rollups(subject, from, to)))
    }

    fn remember_answer(
        &self,
        hash: [u8; 32],
        answer: StoredAnswer,
        at: Timestamp,
    ) -> Answer<'_, StoredAnswer> {
        self.answer(move |state| Ok(state.remember_answer(hash, answer, at)))
    }

    fn answer(&self, hash: [u8; 32], now: Timestamp) -> Answer<'_, Option<StoredAnswer>> {
        Memory::answer(self, move |state| Ok(state.answer(hash, now)))
    }

    fn forget_answer(&self, hash: [u8; 32], until: Timestamp) -> Answer<'_, ()> {
        self.answer(move |state| {
            state.forget_answer(hash, until);
            Ok(())
        })
    }

    /// Values in memory are what they are.
    fn damage(&self) -> Vec<Damage> {
        Vec::new()
    }

    fn start_task(&self, task: NewTask) -> Answer<'_, Task> {
        self.answer(move |state| state.start_task(task))
    }

    fn task(&self, id: TaskId) -> Answer<'_, Task> {
        self.answer(move |state| state.task(id))
    }

    fn tasks(
        &self,
        application: Option<ApplicationKey>,
        page: Page<TaskId>,
    ) -> Answer<'_, Listed<Task, TaskId>> {
        self.answer(move |state| Ok(state.tasks(application, &page)))
    }

    fn running_tasks(&self, page: Page<TaskId>) -> Answer<'_, Listed<RunningTask, TaskId>> {
        self.answer(move |state| Ok(state.running_tasks(&page)))
    }
}
