//! Attempts as they are looked at, and what was sent to whom.

use std::collections::{BTreeMap, BTreeSet};

use domain::delivery::Delivery;
use domain::ids::{AttemptId, EndpointId, MessageId};
use store::catalog::{Endpoint, Name};
use store::keys::{ApplicationKey, EndpointKey, MessageKey};
use store::ledger::DeliveriesOf;
use store::ledger::MessageEntry;
pub use store::ledger::{AttemptEntry, AttemptFilter, DeliveryEntry, DeliveryFilter};
use store::page::{From, Listed, Page};
pub use store::queue::{AttemptRecord, Phases, Trigger};

use super::messages::{Message, Payload};
use super::pages::{Filling, Order, Slice, Wanted};
use super::waits::{Wait, Waits};
use super::{App, Error, Scope, endpoints};

/// An attempt with what an answer shows besides its record.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The attempt.
    pub entry: AttemptEntry,
    /// Its endpoint's id.
    pub endpoint: EndpointId,
    /// Its endpoint's URL.
    pub url: String,
    /// Its message, if it was asked for.
    pub message: Option<Message>,
}

/// Which attempts are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// What the store can filter by.
    pub filter: AttemptFilter,
    /// In which state, as the SDKs number them.
    pub status: Option<Status>,
    /// Only of messages on this channel.
    pub channel: Option<String>,
    /// Only of this endpoint.
    pub endpoint: Option<String>,
    /// Whether each comes with its message.
    pub with_message: bool,
    /// Whether payloads are shown.
    pub with_content: bool,
}

/// Which of an endpoint's messages are wanted.
#[derive(Debug, Clone, Default)]
pub struct MessagesWish {
    /// What the store can filter by.
    pub filter: DeliveryFilter,
    /// In which state.
    pub status: Option<Status>,
    /// Only those on this channel.
    pub channel: Option<String>,
    /// Whether payloads are shown.
    pub with_content: bool,
}

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// As the SDKs say it.
    pub status: Status,
    /// What it waits for, while it is pending.
    pub wait: Option<Wait>,
}

/// How things stand, as the SDKs say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It arrived.
    Success,
    /// It was not tried yet.
    Pending,
    /// It failed, and is not tried again.
    Fail,
    /// It failed, and will be tried again.
    Sending,
    /// Somebody called it off.
    Cancelled,
}

impl Standing {
    fn of(delivery: &DeliveryEntry, waits: &Waits) -> Self {
        Self { status: Status::of(delivery), wait: waits.of(delivery) }
    }
}

impl Status {
    /// Returns how a delivery stands.
    #[must_use]
    pub fn of(delivery: &DeliveryEntry) -> Self {
        match delivery.state {
            Delivery::Delivered => Self::Success,
            Delivery::Pending(_) if delivery.recorded > 0 => Self::Sending,
            Delivery::Pending(_) => Self::Pending,
            Delivery::Dead(_) => Self::Fail,
            Delivery::Cancelled => Self::Cancelled,
        }
    }

    /// Returns how an attempt ended.
    #[must_use]
    pub fn of_attempt(record: &AttemptRecord) -> Self {
        if record.outcome.is_2xx() { Self::Success } else { Self::Fail }
    }

    /// Returns the word of the stored state that this one is part of.
    const fn state(self) -> &'static str {
        match self {
            Self::Success => "delivered",
            Self::Pending | Self::Sending => "pending",
            Self::Fail => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How many endpoints are read at a time: each may be as large as an endpoint may be.
pub(super) const STEP: usize = 16;

/// Puts what a page shows of all deliveries of a message into the order of its walk, by endpoint; tells
/// whether there is no more.
fn walked<T>(
    all: BTreeMap<EndpointId, T>,
    page: &Page<EndpointId>,
) -> (Vec<(EndpointId, T)>, bool) {
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let mut ahead: Vec<_> = match page.from {
        From::Start => all.into_iter().collect(),
        From::After(id) => all.into_iter().filter(|(it, _)| *it > id).collect(),
        From::Before(id) => all.into_iter().filter(|(it, _)| *it < id).rev().collect(),
    };
    let done = ahead.len() <= limit;
    ahead.truncate(limit);
    (ahead, done)
}

impl Wish {
    /// Returns what the store filters by; nothing if no attempt can be wanted.
    fn filter(&self) -> Option<AttemptFilter> {
        let succeeded = match self.status {
            None => None,
            Some(Status::Success) => Some(true),
            Some(Status::Fail) => Some(false),
            // An attempt is recorded when it is over.
            Some(Status::Pending | Status::Sending | Status::Cancelled) => return None,
        };
        Some(AttemptFilter { succeeded, ..self.filter.clone() })
    }
}

impl App {
    /// Lists an endpoint's attempts, newest first.
    ///
    /// # Errors
    /// If there is no such endpoint, or the iterator is no id.
    pub async fn attempts_of_endpoint(
        &self,
        scope: &Scope,
        endpoint: &str,
        wish: Wish,
        wanted: Wanted,
    ) -> Result<Slice<Attempt>, Error> {
        let oldest = wish.filter.since.filter(|_| wish.filter.until.is_none());
        let oldest = oldest.map(|since| AttemptId::first_at(since).to_string());
        let wanted = wanted.ending_before(oldest);
        let page = wanted.by_id(Order::Descending)?;
        let endpoint = self.endpoint(scope, endpoint).await?;
        let Some(filter) = wish.filter() else { return Ok(Slice::nothing()) };
        let (application, key) = (endpoint.application, endpoint.key);
        let filling = Filling::of(&page);
        let Listed { entries, reached, done } =
            self.ledger.attempts(application, key, filter, page).await?;
        let receiver = Receiver::of(&endpoint);
        let shown = |entry| Attempt::new(&receiver, entry);
        let entries = entries.into_iter().map(shown).collect();
        let listed = Listed { entries, reached, done };
        let listed = self.complete(application, listed, filling, &wish).await?;
        Ok(wanted.slice(listed, |attempt| attempt.entry.record.id.to_string()))
    }

    /// Lists a message's attempts, newest first.
    ///
    /// # Errors
    /// If there is no such message, or the iterator is no id.
    pub async fn attempts_of_message(
        &self,
        scope: &Scope,
        message: &str,
        wish: Wish,
        wanted: Wanted,
    ) -> Result<Slice<Attempt>, Error> {
        let page = wanted.by_id(Order::Descending)?;
        let message = self.message_entry(scope, message).await?;
        let (application, message, channels) = (message.application, message.key, message.channels);
        let endpoint = match self.endpoint_key(scope, wish.endpoint.as_deref()).await {
            // Nothing went there.
            Err(Error::Missing(_)) => return Ok(Slice::nothing()),
            endpoint => endpoint?,
        };
        let Some(filter) = wish.filter() else { return Ok(Slice::nothing()) };
        if wish.channel.as_ref().is_some_and(|channel| !channels.contains(channel)) {
            return Ok(Slice::nothing());
        }
        let filling = Filling::of(&page);
        let of = DeliveriesOf { application, message, endpoint };
        let Listed { entries, reached, done } = self.ledger.attempts_of(of, filter, page).await?;
        let receivers = self.receivers(application, &entries).await?;
        let shown = |entry: AttemptEntry| {
            receivers.get(&entry.key.endpoint).map(|receiver| Attempt::new(receiver, entry))
        };
        let entries = entries.into_iter().filter_map(shown).collect();
        let listed = Listed { entries, reached, done };
        let listed = self.complete(application, listed, filling, &wish).await?;
        Ok(wanted.slice(listed, |attempt| attempt.entry.record.id.to_string()))
    }

    /// Finds an attempt of a message.
    ///
    /// # Errors
    /// If there is no such attempt.
    pub async fn attempt(
        &self,
        scope: &Scope,
        message: &str,
        attempt: &str,
    ) -> Result<Attempt, Error> {
        let id: AttemptId = attempt.parse().map_err(|_| Error::Missing("attempt"))?;
        let message = self.message_entry(scope, message).await?;
        let entry = self.ledger.attempt(message.application, message.key, id).await?;
        let receivers = self.receivers(message.application, std::slice::from_ref(&entry)).await?;
        let receiver = receivers.get(&entry.key.endpoint).ok_or(Error::Missing("attempt"))?;
        Ok(Attempt::new(receiver, entry))
    }

    /// Removes what an attempt sent and got back; that it was made, and how it ended, stays.
    ///
    /// # Errors
    /// If there is no such attempt.
    pub async fn expunge_attempt(
        &self,
        scope: &Scope,
        message: &str,
        attempt: &str,
    ) -> Result<(), Error> {
        let AttemptEntry { key, record, .. } = self.attempt(scope, message, attempt).await?.entry;
        Ok(self.ledger.expunge_attempt(key, record.id).await?)
    }

    /// Lists the messages that go to an endpoint, newest first, with how they stand.
    ///
    /// # Errors
    /// If there is no such endpoint, or the iterator is none.
    pub async fn attempted_messages(
        &self,
        scope: &Scope,
        endpoint: &str,
        wish: MessagesWish,
        wanted: &Wanted,
    ) -> Result<Slice<(Message, Standing)>, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        let (application, key) = (endpoint.application, endpoint.key);
        let places = self.places("messages", application, Some(key));
        let read = |text: &str| places.read(text).map(|(message, _)| message);
        let page = wanted.by(read, MessageKey(0))?;
        let filter = DeliveryFilter { state: wish.status.map(Status::state), ..wish.filter };
        let mut filling = Filling::of(&page);
        let listed = self.ledger.deliveries(application, key, filter, page).await?;
        for delivery in filling.ordered(listed.entries) {
            let place = delivery.key.message;
            if wish.status.is_some_and(|status| status != Status::of(&delivery)) {
                filling.pass(place);
                continue;
            }
            let message = self.read(application, delivery.message, wish.with_content).await?;
            let heard = |message: &MessageEntry| {
                wish.channel.as_ref().is_none_or(|channel| message.channels.contains(channel))
            };
            let Some(message) = message.filter(heard) else {
                filling.pass(place);
                continue;
            };
            let bytes = message.bytes();
            if !filling.add(place, (Message::from(message), delivery), bytes) {
                break;
            }
        }
        let Listed { entries, reached, done } = filling.finish(listed.reached, listed.done);
        let reached = reached.map(|message| places.write((message, key)));
        let listed = Listed { entries, reached, done };
        let slice = wanted.slice(listed, |(_, delivery)| places.write((delivery.key.message, key)));
        let waits = self.waits(scope, slice.entries.iter().map(|(_, delivery)| delivery)).await?;
        Ok(slice.map(|(message, delivery)| (message, Standing::of(&delivery, &waits))))
    }

    /// Lists the endpoints that a message goes to, oldest first, with how it stands there.
    ///
    /// # Errors
    /// If there is no such message, or the iterator is no id.
    pub async fn attempted_endpoints(
        &self,
        scope: &Scope,
        message: &str,
        wanted: &Wanted,
    ) -> Result<Slice<(Endpoint, Standing)>, Error> {
        let page = wanted.by_id(Order::Ascending)?;
        let message = self.message_entry(scope, message).await?;
        let application = message.application;
        let deliveries = self.ledger.deliveries_of(application, message.key).await?;
        let ids = self.directory(scope, &deliveries).await?;
        let by_id = |entry: DeliveryEntry| Some((*ids.get(&entry.key.endpoint)?, entry));
        let mut filling = Filling::of(&page);
        let (ahead, done) = walked(deliveries.into_iter().filter_map(by_id).collect(), &page);
        'page: for step in ahead.chunks(STEP) {
            let keys = step.iter().map(|(_, entry)| entry.key.endpoint).collect();
            let found = self.catalog.endpoints_by_key(application, keys).await?;
            let mut found: BTreeMap<_, _> =
                found.into_iter().map(|endpoint| (endpoint.id, endpoint)).collect();
            for (id, entry) in step {
                let Some(endpoint) = found.remove(id) else { continue };
                let bytes = endpoint.bytes();
                if !filling.add(*id, (endpoint, entry.clone()), bytes) {
                    break 'page;
                }
            }
        }
        let listed = filling.finish(ahead.last().map(|(id, _)| *id), done);
        let slice = wanted.slice(listed, |(endpoint, _)| endpoint.id.to_string());
        let waits = self.waits(scope, slice.entries.iter().map(|(_, delivery)| delivery)).await?;
        Ok(slice.map(|(endpoint, delivery)| (endpoint, Standing::of(&delivery, &waits))))
    }

    /// Returns the ids of the endpoints of some deliveries, by row. Deleted ones are among them: whatever
    /// went there can be looked at.
    pub(super) async fn directory(
        &self,
        scope: &Scope,
        deliveries: &[DeliveryEntry],
    ) -> Result<BTreeMap<EndpointKey, EndpointId>, Error> {
        let keys: BTreeSet<_> = deliveries.iter().map(|entry| entry.key.endpoint).collect();
        let keys = keys.into_iter().collect();
        let found = self.catalog.endpoint_ids(scope.application().key, keys).await?;
        Ok(found.into_iter().collect())
    }

    /// Returns where some attempts went. Of each endpoint only that is kept.
    async fn receivers(
        &self,
        application: ApplicationKey,
        attempts: &[AttemptEntry],
    ) -> Result<BTreeMap<EndpointKey, Receiver>, Error> {
        let keys: BTreeSet<_> = attempts.iter().map(|entry| entry.key.endpoint).collect();
        let keys: Vec<_> = keys.into_iter().collect();
        let mut receivers = BTreeMap::new();
        for step in keys.chunks(STEP) {
            let found = self.catalog.endpoints_by_key(application, step.to_vec()).await?;
            receivers.extend(found.iter().map(|one| (one.key, Receiver::of(one))));
        }
        Ok(receivers)
    }

    /// Adds messages where they are asked for, up to the bytes of a page, and leaves out what is on
    /// other channels.
    async fn complete(
        &self,
        application: ApplicationKey,
        listed: Listed<Attempt, AttemptId>,
        mut filling: Filling<Attempt, AttemptId>,
        wish: &Wish,
    ) -> Result<Listed<Attempt, AttemptId>, Error> {
        if !wish.with_message && wish.channel.is_none() {
            return Ok(listed);
        }
        let with_content = wish.with_content && wish.with_message;
        // Attempts of one message often follow each other.
        let mut last: Option<MessageEntry> = None;
        for mut attempt in filling.ordered(listed.entries) {
            let (place, id) = (attempt.entry.record.id, attempt.entry.message);
            if last.as_ref().is_none_or(|known| known.id != id) {
                last = self.read(application, id, with_content).await?;
            }
            let heard = |message: &&MessageEntry| {
                wish.channel.as_ref().is_none_or(|channel| message.channels.contains(channel))
            };
            let Some(message) = last.as_ref().filter(heard) else {
                filling.pass(place);
                continue;
            };
            attempt.message = wish.with_message.then(|| Message::from(message.clone()));
            let bytes = attempt.entry.bytes() + message.bytes();
            if !filling.add(place, attempt, bytes) {
                break;
            }
        }
        Ok(filling.finish(listed.reached, listed.done))
    }

    /// Reads a message, unless it is gone by now; its payload only if that is shown.
    async fn read(
        &self,
        application: ApplicationKey,
        id: MessageId,
        with_content: bool,
    ) -> Result<Option<MessageEntry>, Error> {
        let found = match with_content {
            true => self.ledger.message(application, Name::Id(id)).await,
            false => self.ledger.message_without_payload(application, Name::Id(id)).await,
        };
        match found {
            Ok(entry) if with_content => Ok(Some(entry)),
            Ok(entry) => Ok(Some(MessageEntry { payload: Payload::Omitted, ..entry })),
            Err(store::Error::Missing(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Where attempts went.
struct Receiver {
    id: EndpointId,
    url: String,
}

impl Receiver {
    fn of(endpoint: &Endpoint) -> Self {
        Self { id: endpoint.id, url: endpoints::url(endpoint) }
    }
}

impl Attempt {
    fn new(receiver: &Receiver, entry: AttemptEntry) -> Self {
        Self { endpoint: receiver.id, url: receiver.url.clone(), entry, message: None }
    }
}
