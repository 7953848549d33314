//! Replays: tasks that run in the background, and what they mean.
//!
//! A task is durable. What it means is written as a document, in the same words whichever call began
//! it; the node that runs it reads that.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::endpoint::State;
use domain::ids::TaskId;
use domain::names::{Channel, EventTypeName};
use domain::replay::Selection;
use domain::rights::Right;
use domain::time::Timestamp;
use serde_json::Value;
use store::catalog::{Endpoint, Name};
pub use store::ledger::{DeliveryEntry, Task, TaskKind, TaskState};
use store::ledger::{NewTask, Payload};

use super::fields::Checks;
use super::idempotency::Promise;
use super::messages::{self, Message};
use super::pages::{Order, Slice, Wanted};
use super::tokens::Reach;
use super::{App, Caller, Error, Nudge, RefusalKind, Scope};
use crate::replay::write_selection;
pub use crate::replay::{Wish, class_number, read_class};

/// The longest range that one task covers.
const LONGEST_RANGE: Duration = Duration::from_secs(14 * 86_400);
/// The most event types that one task names.
const MOST_EVENT_TYPES: usize = 250;
/// How much longer it may be: clocks differ.
const RANGE_SLACK: Duration = Duration::from_secs(5 * 60);

/// Which endpoint and which time a task is about.
#[derive(Debug, Clone)]
pub struct Range {
    /// The endpoint, if only one.
    pub endpoint: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Until when, if not until now.
    pub until: Option<Timestamp>,
}

/// Which example is to be sent.
#[derive(Debug, Clone)]
pub struct Example {
    /// Of which event type.
    pub event_type: String,
    /// Which of its examples, counted from 0.
    pub index: usize,
    /// Another payload in its place.
    pub payload: Option<Value>,
}

impl App {
    /// Starts a replay over a range of time.
    ///
    /// # Errors
    /// If there is no such endpoint, it is disabled, or the range makes no sense.
    pub async fn start_replay(
        &self,
        scope: &Scope,
        kind: TaskKind,
        range: Range,
        mut wish: Wish,
    ) -> Result<Task, Error> {
        check(&wish)?;
        let now = self.clock.now();
        let until = range.until.unwrap_or(now).min(now);
        if range.since > until {
            return Err(Error::field("since", "is later than `until`"));
        }
        if until.since(range.since) > LONGEST_RANGE + RANGE_SLACK {
            return Err(Error::field("since", "is more than 14 days before `until`"));
        }
        wish.selection.since = Some(range.since);
        wish.selection.until = range.until;
        let endpoint = match &range.endpoint {
            Some(named) => Some(self.endpoint(scope, named).await?),
            None => None,
        };
        self.start_task(scope, kind, endpoint.as_ref(), wish).await
    }

    async fn start_task(
        &self,
        scope: &Scope,
        kind: TaskKind,
        endpoint: Option<&Endpoint>,
        mut wish: Wish,
    ) -> Result<Task, Error> {
        if let Some(endpoint) = endpoint {
            refuse_disabled(endpoint)?;
            wish.selection.endpoint = Some(endpoint.id);
        }
        let id = self.id_for(scope.caller());
        if scope.caller().promise.as_ref().is_some_and(Promise::again)
            && let Ok(started) = self.ledger.task(id).await
        {
            return Ok(started);
        }
        let task = self.ledger.start_task(NewTask {
            id,
            application: scope.application().key,
            endpoint: endpoint.map(|endpoint| endpoint.key),
            kind,
            selection: write_selection(&wish),
            by: scope.caller().name(),
            at: self.clock.now(),
        });
        let task = match task.await.map_err(Error::from) {
            Err(Error::Conflict(text)) => Err(Error::refused(RefusalKind::LimitReached, text)),
            started => started,
        }?;
        self.accepting.nudge(Nudge::Task(task.id));
        Ok(task)
    }

    /// Sends a message to an endpoint again.
    ///
    /// # Errors
    /// If it was never for that endpoint, its payload is gone, or the endpoint is disabled.
    pub async fn resend(&self, scope: &Scope, message: &str, endpoint: &str) -> Result<(), Error> {
        let message = self.message_entry(scope, message).await?;
        let endpoint = self.endpoint(scope, endpoint).await?;
        if message.payload == Payload::Gone {
            return Err(payload_gone());
        }
        refuse_disabled(&endpoint)?;
        let deliveries = self.ledger.deliveries_of(message.application, message.key).await?;
        let own = deliveries.into_iter().find(|entry| entry.key.endpoint == endpoint.key);
        self.send_again(scope, &own.ok_or(Error::Missing("delivery"))?).await
    }

    /// Replays one settled delivery.
    pub(super) async fn replay_entry(
        &self,
        scope: &Scope,
        entry: &DeliveryEntry,
    ) -> Result<(), Error> {
        let application = scope.application().key;
        let name = Name::Id(entry.message);
        let message = self.ledger.message_without_payload(application, name).await?;
        if message.payload == Payload::Gone {
            return Err(payload_gone());
        }
        let key = vec![entry.key.endpoint];
        let endpoint = self.catalog.endpoints_by_key(application, key).await?.pop();
        let endpoint = endpoint.filter(|endpoint| endpoint.state != State::Deleted);
        let endpoint = endpoint.ok_or(Error::Missing("endpoint"))?;
        let selection = Selection { ids: BTreeSet::from([entry.id]), ..Selection::default() };
        let wish = Wish { selection, ..Wish::default() };
        self.start_task(scope, TaskKind::BulkReplay, Some(&endpoint), wish).await.map(|_| ())
    }

    /// Sends an example message of an event type to one endpoint.
    ///
    /// # Errors
    /// If there is no such endpoint, or the event type has no example.
    pub async fn send_example(
        &self,
        scope: &Scope,
        endpoint: &str,
        Example { event_type, index, payload }: Example,
    ) -> Result<Message, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        refuse_disabled(&endpoint)?;
        let payload = match payload {
            // What the caller makes up is a message like any other.
            Some(own) => {
                scope.caller().needs(Right::Send)?;
                own
            }
            None => self.example(scope.caller(), &event_type, index).await?,
        };
        let payload = payload.to_string().into();
        let only = Some(endpoint.key);
        let idempotency = scope.caller().promise.as_ref().map(Promise::hash);
        let draft = messages::Draft {
            event_type,
            payload,
            only,
            idempotency,
            ..messages::Draft::default()
        };
        let application = scope.application().id.to_string();
        self.accept(scope.caller(), &application, draft).await
    }

    /// Finds a task that the caller may see.
    ///
    /// # Errors
    /// If there is no such task, or it is another application's.
    pub async fn task(&self, caller: &Caller, id: &str) -> Result<Task, Error> {
        let id: TaskId = id.parse().map_err(|_| Error::Missing("task"))?;
        let task = self.ledger.task(id).await?;
        match self.own_application(caller).await? {
            Some(own) if own != task.application => Err(Error::Missing("task")),
            Some(_) | None => Ok(task),
        }
    }

    /// Lists tasks that are meant, newest first: all, or those of the caller's application.
    ///
    /// # Errors
    /// If the iterator is no id.
    pub async fn tasks(
        &self,
        caller: &Caller,
        wanted: &Wanted,
        is_meant: impl Fn(&Task) -> bool,
    ) -> Result<Slice<Task>, Error> {
        let own = self.own_application(caller).await?;
        let mut listed = self.ledger.tasks(own, wanted.by_id(Order::Descending)?).await?;
        listed.entries.retain(is_meant);
        Ok(wanted.slice(listed, |task| task.id.to_string()))
    }

    async fn own_application(
        &self,
        caller: &Caller,
    ) -> Result<Option<store::keys::ApplicationKey>, Error> {
        match caller.reach {
            Reach::Everything => Ok(None),
            Reach::Application(id) => Ok(Some(self.catalog.application(Name::Id(id)).await?.key)),
        }
    }
}

/// Checks what a task means: it is kept as a document, and looked at for each delivery.
fn check(wish: &Wish) -> Result<(), Error> {
    let mut checks = Checks::default();
    let few = wish.event_types.len() <= MOST_EVENT_TYPES;
    checks.holds("eventTypes", few, &format!("must have at most {MOST_EVENT_TYPES} entries"));
    for name in wish.event_types.iter().filter(|_| few) {
        checks.value("eventTypes", EventTypeName::parse(name));
    }
    if let Some(channel) = &wish.channel {
        checks.value("channel", Channel::parse(channel));
    }
    checks.finish()
}

fn refuse_disabled(endpoint: &Endpoint) -> Result<(), Error> {
    match endpoint.state {
        State::Active | State::Paused => Ok(()),
        State::Disabled(_) | State::Deleted => {
            let text = format!("the endpoint {} is disabled; enable it first", endpoint.id);
            Err(Error::refused(RefusalKind::Generic, text))
        }
    }
}

fn payload_gone() -> Error {
    let text = "the message's payload is gone: its time was over, or it was expunged";
    Error::refused(RefusalKind::MissingPayload, text)
}
