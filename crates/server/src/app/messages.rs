//! Messages: accept one or many, find, list, expunge, and ask whether anybody would get one.
//!
//! Accepting costs one commit and no read: the token and the application are remembered, and the
//! commit itself notices if the application has gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::ids::{MessageId, Noun as _, noun};
use domain::names::{Channel, EventTypeName};
use domain::time::Timestamp;
use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;
use store::catalog::Name;
use store::keys::{ApplicationKey, EndpointKey};
use store::ledger::MessageEntry;
pub use store::ledger::{MessageFilter, Payload};

use super::fields::Checks;
use super::pages::{Order, Slice, Wanted};
use super::tokens::Reach;
use super::turns::whole;
use super::{
    App, Caller, Error, Fault, FaultKind, Nudge, RefusalKind, Scope, applications, nesting,
};

/// The fewest and the most days for which a payload can be kept.
const RETENTION_DAYS: std::ops::RangeInclusive<u64> = 5..=90;
/// How far ahead a delivery can be asked for.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 86_400);
/// How often an accept looks for its application: each time but the last, the name had moved between
/// the look and the commit.
const LOOKS: usize = 64;

/// A message on its way in.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// Whose it is.
    pub application: ApplicationKey,
    /// The uid by which the application was named, if not by its id. It must still bear it when the
    /// message is written.
    pub named: Option<Arc<str>>,
    /// Its id, made before the commit.
    pub id: MessageId,
    /// What kind of message it is.
    pub event_type: EventTypeName,
    /// The sender's own id for it.
    pub event_id: Option<String>,
    /// The channels it goes out on.
    pub channels: BTreeSet<Channel>,
    /// The exact bytes to be sent.
    pub payload: Bytes,
    /// What the payload is said to be when it is not JSON.
    pub content_type: Option<String>,
    /// The policy that was set on this very message; it has been read once already.
    pub policy: Option<Value>,
    /// When it was received.
    pub received_at: Timestamp,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<Timestamp>,
    /// When its settled deliveries and attempts may be pruned.
    pub retained_until: Timestamp,
    /// The hash of the idempotency key, if the caller gave one.
    pub idempotency: Option<[u8; 32]>,
    /// The only endpoint that gets it, whatever its filter says; all that fit if none is named.
    pub only: Option<EndpointKey>,
}

/// What decides who gets a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its event type.
    pub event_type: EventTypeName,
    /// The channels it goes out on.
    pub channels: BTreeSet<Channel>,
}

/// What became of a message on its way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is durable.
    New {
        /// Its id.
        id: MessageId,
    },
    /// Its idempotency key was used before; this is the message accepted then.
    Repeated(MessageId),
    /// Its event id was used before, by this message.
    EventIdTaken(MessageId),
    /// The application no longer bears the uid by which it was named; nothing was written.
    NameMoved,
}

/// A message as its sender writes it, not checked yet.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// What kind of message it is.
    pub event_type: String,
    /// The sender's own id for it.
    pub event_id: Option<String>,
    /// The channels it goes out on.
    pub channels: Option<Vec<String>>,
    /// The exact bytes to be sent.
    pub payload: Bytes,
    /// What the payload is said to be when it is not JSON.
    pub content_type: Option<String>,
    /// A policy for this message alone.
    pub policy: Option<Value>,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<Timestamp>,
    /// For how many days its payload is kept.
    pub retention_days: Option<u64>,
    /// The application to create if there is none of that name yet.
    pub application: Option<applications::Draft>,
    /// The hash of the idempotency key, if the caller gave one.
    pub idempotency: Option<[u8; 32]>,
    /// The only endpoint that gets it.
    pub only: Option<EndpointKey>,
}

/// A message as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// What kind of message it is.
    pub event_type: String,
    /// The sender's own id for it.
    pub event_id: Option<String>,
    /// The channels it goes out on.
    pub channels: Vec<String>,
    /// Its payload.
    pub payload: Payload,
    /// What the payload is said to be when it is not JSON.
    pub content_type: Option<String>,
    /// When it was received.
    pub received_at: Timestamp,
    /// When it is to be delivered, if not at once.
    pub deliver_at: Option<Timestamp>,
}

impl From<MessageEntry> for Message {
    fn from(entry: MessageEntry) -> Self {
        Self {
            id: entry.id,
            event_type: entry.event_type,
            event_id: entry.event_id,
            channels: entry.channels,
            payload: entry.payload,
            content_type: entry.content_type,
            received_at: entry.received_at,
            deliver_at: entry.deliver_at,
        }
    }
}

impl From<&NewMessage> for Message {
    fn from(new: &NewMessage) -> Self {
        Self {
            id: new.id,
            event_type: new.event_type.to_string(),
            event_id: new.event_id.clone(),
            channels: new.channels.iter().map(ToString::to_string).collect(),
            payload: Payload::Kept(new.payload.clone()),
            content_type: new.content_type.clone(),
            received_at: new.received_at,
            deliver_at: new.deliver_at,
        }
    }
}

/// Reads how a path names a message.
///
/// # Errors
/// If nothing can have that name.
pub fn name(text: &str) -> Result<Name<MessageId>, Error> {
    if text.starts_with(noun::Message::PREFIX) {
        return text.parse().map(Name::Id).map_err(|_| Error::Missing("message"));
    }
    Ok(Name::Uid(text.to_owned()))
}

impl App {
    /// Accepts a message: returns when it is on disk.
    ///
    /// # Errors
    /// If it makes no sense, its application is missing, its event id is taken, or too much waits.
    pub async fn accept(
        &self,
        caller: &Caller,
        application: &str,
        mut draft: Draft,
    ) -> Result<Message, Error> {
        let on_the_fly = draft.application.take();
        check_uid(application, on_the_fly.as_ref())?;
        let mut new = self.check_message(draft)?;
        let mut found = self.known(caller, application).await;
        for _ in 0..LOOKS {
            let known = match (found, &on_the_fly) {
                (Err(Error::Missing(_)), Some(draft)) if caller.reach == Reach::Everything => {
                    // Its name may be given away at once; the next look tells.
                    match self.ensure_application(caller, draft.clone()).await {
                        Ok(_) | Err(Error::Missing(_)) => {}
                        Err(error) => return Err(error),
                    }
                    found = self.look_up(caller, application).await;
                    continue;
                }
                (found, _) => found?,
            };
            (new.application, new.named) = (known.key, known.named);
            match self.accepting.accept(new.clone()).await {
                Ok(Taken::NameMoved) | Err(Error::Missing(_)) => {}
                taken => return self.taken((caller, application), new, taken?).await,
            }
            found = self.look_up(caller, application).await;
        }
        Err(Error::Unavailable(format!("the application's name `{application}` keeps moving")))
    }

    /// Accepts many messages at a time, so that they share commits. Each has its own answer. A message
    /// that finds its lane full waits for as long as others of the batch are taken.
    ///
    /// # Errors
    /// If there are too many of them.
    pub async fn accept_all(
        &self,
        caller: &Caller,
        application: &str,
        drafts: Vec<Result<Draft, Error>>,
    ) -> Result<Vec<Result<String, Error>>, Error> {
        let most = self.settings.batch_messages;
        if drafts.len() > most {
            let text =
                format!("a batch has at most {most} messages; this one has {}", drafts.len());
            return Err(Error::refused(RefusalKind::LimitReached, text));
        }
        self.ensure_known(caller, application, &drafts).await?;
        let stored = AtomicUsize::new(0);
        let accept = async |draft: Result<Draft, Error>| {
            let draft = draft?;
            loop {
                let before = stored.load(Ordering::Relaxed);
                match self.accept(caller, application, draft.clone()).await {
                    // Its turn comes, as that of others of this batch did while it waited.
                    Err(Error::TooFast | Error::Overloaded | Error::TooManyReads | Error::Busy)
                        if stored.load(Ordering::Relaxed) > before => {}
                    taken => {
                        let message = taken?;
                        stored.fetch_add(1, Ordering::Relaxed);
                        return Ok(message.id.to_string());
                    }
                }
            }
        };
        let answers = stream::iter(drafts).map(accept);
        Ok(answers.buffered(self.settings.batch_concurrency.max(1)).collect().await)
    }

    /// Makes the application of a batch if one of its messages says how: all of them at a time would
    /// get in each other's way.
    async fn ensure_known(
        &self,
        caller: &Caller,
        application: &str,
        drafts: &[Result<Draft, Error>],
    ) -> Result<(), Error> {
        let missing = match self.known(caller, application).await {
            Err(missing @ Error::Missing(_)) => missing,
            known => return known.map(|_| ()),
        };
        let mut named: Vec<applications::Draft> = Vec::new();
        named.extend(drafts.iter().flatten().filter_map(|draft| draft.application.clone()));
        if named.is_empty() || caller.reach != Reach::Everything {
            return Err(missing);
        }
        named.retain(|draft| check_uid(application, Some(draft)).is_ok());
        for draft in named {
            match self.ensure_application(caller, draft).await {
                // Its message says so itself; another one may do better.
                Err(Error::Invalid(_)) => {}
                made => return made.map(|_| ()),
            }
        }
        Ok(())
    }

    async fn taken(
        &self,
        (caller, application): (&Caller, &str),
        new: NewMessage,
        taken: Taken,
    ) -> Result<Message, Error> {
        match taken {
            Taken::New { .. } => Ok(Message::from(&new)),
            Taken::Repeated(id) => {
                let turn = self.turn_if_none(caller, application).await?;
                let (ledger, key) = (Arc::clone(&self.ledger), new.application);
                let found = whole(async move {
                    let _turn = turn;
                    ledger.message(key, Name::Id(id)).await
                });
                Ok(found.await?.into())
            }
            Taken::NameMoved => Err(Error::Missing("application")),
            Taken::EventIdTaken(id) => {
                let event_id = new.event_id.unwrap_or_default();
                Err(Error::Conflict(format!("event id `{event_id}` is taken by the message {id}")))
            }
        }
    }

    fn check_message(&self, draft: Draft) -> Result<NewMessage, Error> {
        let now = self.clock.now();
        let mut checks = Checks::default();
        let event_type = checks.value("eventType", EventTypeName::parse(&draft.event_type));
        checks.uid("eventId", draft.event_id.as_ref(), noun::Message::PREFIX);
        let channels = checks.channels(draft.channels.as_deref());
        checks.policy(draft.policy.as_ref());
        let text = format!("is nested more than {} levels deep", nesting::MOST_LEVELS);
        checks.holds("payload", !nesting::is_too_deep(&draft.payload), &text);
        let soon = draft.deliver_at.is_none_or(|at| at.since(now) <= LONGEST_DELAY);
        checks.holds("deliverAt", soon, "is more than 30 days ahead");
        let days = draft.retention_days;
        let fits = days.is_none_or(|days| RETENTION_DAYS.contains(&days));
        checks.holds("payloadRetentionPeriod", fits, "must be between 5 and 90 days");
        checks.finish()?;
        let kept = days.map_or(self.settings.retention, |days| Duration::from_secs(days * 86_400));
        let begins = draft.deliver_at.unwrap_or(now).max(now);
        Ok(NewMessage {
            application: ApplicationKey(0),
            named: None,
            id: self.new_id(),
            event_type: event_type.ok_or_else(|| Error::field("eventType", "is missing"))?,
            event_id: draft.event_id,
            channels,
            payload: draft.payload,
            content_type: draft.content_type,
            policy: draft.policy,
            received_at: now,
            deliver_at: draft.deliver_at.filter(|at| *at > now),
            retained_until: begins.after(kept),
            idempotency: draft.idempotency,
            only: draft.only,
        })
    }

    /// Finds a message by its id or event id.
    ///
    /// # Errors
    /// If there is no such message in this application.
    pub async fn message(&self, scope: &Scope, named: &str) -> Result<Message, Error> {
        Ok(self.ledger.message(scope.application().key, name(named)?).await?.into())
    }

    /// Finds a message, without its payload.
    pub(super) async fn message_entry(
        &self,
        scope: &Scope,
        named: &str,
    ) -> Result<MessageEntry, Error> {
        let application = scope.application().key;
        Ok(self.ledger.message_without_payload(application, name(named)?).await?)
    }

    /// Lists an application's messages, newest first. If only a beginning is given, the oldest of
    /// them come first.
    ///
    /// # Errors
    /// If the iterator is no id.
    pub async fn messages(
        &self,
        scope: &Scope,
        filter: MessageFilter,
        wanted: Wanted,
    ) -> Result<Slice<Message>, Error> {
        let oldest = filter.since.filter(|_| filter.until.is_none());
        let oldest = oldest.map(|since| MessageId::first_at(since).to_string());
        let wanted = wanted.ending_before(oldest);
        let page = wanted.by_id(Order::Descending)?;
        let listed = self.ledger.messages(scope.application().key, filter, page).await?;
        Ok(wanted.slice(listed, |entry| entry.id.to_string()).map(Message::from))
    }

    /// Removes a message's payload on purpose, and cancels what is pending of it. An attempt that has
    /// begun may still arrive.
    ///
    /// # Errors
    /// If there is no such message.
    pub async fn expunge(&self, scope: &Scope, named: &str) -> Result<(), Error> {
        let entry = self.message_entry(scope, named).await?;
        let (application, now) = (scope.application().key, self.clock.now());
        for partition in self.ledger.expunge(application, entry.key, now).await? {
            self.accepting.nudge(Nudge::Requests(partition));
        }
        Ok(())
    }

    /// Tells whether any endpoint would get a message of this kind.
    ///
    /// # Errors
    /// If the event type or a channel makes no sense.
    pub async fn precheck(
        &self,
        scope: &Scope,
        event_type: &str,
        channels: Option<&[String]>,
    ) -> Result<bool, Error> {
        let mut checks = Checks::default();
        let event_type = checks.value("eventType", EventTypeName::parse(event_type));
        let channels = checks.channels(channels);
        checks.finish()?;
        let Some(event_type) = event_type else { return Ok(false) };
        let application = scope.application();
        let kind = Kind { event_type, channels };
        self.accepting.receives(application.key, application.revision, kind).await
    }
}

/// An application that is to be made on the way must be the one that the path names.
pub(super) fn check_uid(named: &str, draft: Option<&applications::Draft>) -> Result<(), Error> {
    let Some(draft) = draft else { return Ok(()) };
    let (text, kind) = match draft.uid() {
        Some(uid) if uid == named => return Ok(()),
        Some(_) => ("is not the application's uid in the path", FaultKind::ApplicationUidMismatch),
        None => ("is needed to create the application", FaultKind::ApplicationUidMissing),
    };
    let fault = Fault::field("application.uid", text);
    Err(Error::Invalid(vec![Fault { kind, ..fault }]))
}
