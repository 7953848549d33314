//! Attempts as they are looked at, and what was sent to whom.

use std::collections::{BTreeMap, BTreeSet};

use domain::delivery::Delivery;
use domain::ids::{AttemptId, EndpointId, MessageId};
use store::catalog::{Endpoint, Name};
use store::keys::{ApplicationKey, EndpointKey, MessageKey};
use store::ledger::MessageEntry;
pub use store::ledger::{AttemptEntry, AttemptFilter, DeliveryEntry, DeliveryFilter};
use store::page::{From, Listed, Page};
pub use store::queue::{AttemptRecord, Hop, Phases, Trigger};

use super::messages::{self, Message, Payload};
use super::pages::{Filling, Slice, Wanted};
use super::tokens::Reach;
use super::{App, Caller, Error, Scope, endpoints};

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

/// Where a walk over attempts or endpoints in memory begins and ends.
fn cut<T, K: Ord + Copy>(entries: Vec<T>, page: &Page<K>, key: impl Fn(&T) -> K) -> Listed<T, K> {
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    // Newest first: what comes behind an entry is smaller than it.
    let (mut kept, backwards): (Vec<T>, bool) = match page.from {
        From::Start => (entries, false),
        From::After(id) => (entries.into_iter().filter(|it| key(it) < id).collect(), false),
        From::Before(id) => (entries.into_iter().filter(|it| key(it) > id).collect(), true),
    };
    let done = kept.len() <= limit;
    if backwards {
        kept.drain(..kept.len().saturating_sub(limit));
    } else {
        kept.truncate(limit);
    }
    let reached = if backwards { kept.first().map(&key) } else { kept.last().map(&key) };
    Listed { entries: kept, reached, done }
}

fn fits(entry: &AttemptEntry, wish: &Wish) -> bool {
    let record = &entry.record;
    let filter = &wish.filter;
    wish.status.is_none_or(|status| status == Status::of_attempt(record))
        && filter.wants(record.outcome.status(), &entry.event_type, record.began_at)
}

/// Has an operator read why the address guard refused; for everybody else it is one and the same text,
/// because the reason tells what is behind the server.
pub(super) fn told_to(caller: &Caller, mut entry: AttemptEntry) -> AttemptEntry {
    let record = &mut entry.record;
    if let (Some(refusal), Reach::Everything) = (record.refusal.take(), caller.reach) {
        let told = record.error.take().map(|error| format!("{error} ({refusal})"));
        record.error = Some(told.unwrap_or(refusal));
    }
    entry
}

fn is_named(endpoint: &Endpoint, named: &str) -> bool {
    endpoint.uid.as_deref() == Some(named) || endpoint.id.to_string() == named
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
        let endpoint = self.endpoint(scope, endpoint).await?;
        let mut filter = wish.filter.clone();
        filter.succeeded = match wish.status {
            None => None,
            Some(Status::Success) => Some(true),
            Some(Status::Fail) => Some(false),
            // An attempt is recorded when it is over.
            Some(Status::Pending | Status::Sending | Status::Cancelled) => {
                return Ok(Slice::nothing());
            }
        };
        let oldest = filter.since.filter(|_| filter.until.is_none());
        let oldest = oldest.map(|since| AttemptId::first_at(since).to_string());
        let wanted = wanted.ending_before(oldest);
        let page = wanted.by_id()?;
        let (application, key) = (endpoint.application, endpoint.key);
        let filling = Filling::of(&page);
        let Listed { entries, reached, done } =
            self.ledger.attempts(application, key, filter, page).await?;
        let shown = |entry| Attempt::new(&endpoint, told_to(scope.caller(), entry));
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
        let page = wanted.by_id()?;
        let message = self.message_entry(scope, message).await?;
        if wish.channel.as_ref().is_some_and(|channel| !message.channels.contains(channel)) {
            return Ok(Slice::nothing());
        }
        let application = message.application;
        let deliveries = self.ledger.deliveries_of(application, message.key).await?;
        let endpoints = self.directory(scope, &deliveries).await?;
        let mut attempts = Vec::new();
        for delivery in deliveries {
            let Some(endpoint) = endpoints.get(&delivery.key.endpoint) else { continue };
            if wish.endpoint.as_ref().is_some_and(|named| !is_named(endpoint, named)) {
                continue;
            }
            let entries = self.ledger.attempts_of(delivery.key).await?;
            let entries = entries.into_iter().filter(|entry| fits(entry, &wish));
            let entries = entries.map(|entry| told_to(scope.caller(), entry));
            attempts.extend(entries.map(|entry| Attempt::new(endpoint, entry)));
        }
        attempts.sort_by_key(|attempt| std::cmp::Reverse(attempt.entry.record.id));
        let listed = cut(attempts, &page, |attempt| attempt.entry.record.id);
        let listed = self.complete(application, listed, Filling::of(&page), &wish).await?;
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
        let deliveries = self.ledger.deliveries_of(message.application, message.key).await?;
        let endpoints = self.directory(scope, &deliveries).await?;
        for delivery in deliveries {
            let entries = self.ledger.attempts_of(delivery.key).await?;
            let found = entries.into_iter().find(|entry| entry.record.id == id);
            if let (Some(entry), Some(endpoint)) = (found, endpoints.get(&delivery.key.endpoint)) {
                return Ok(Attempt::new(endpoint, told_to(scope.caller(), entry)));
            }
        }
        Err(Error::Missing("attempt"))
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
    ) -> Result<Slice<(Message, DeliveryEntry)>, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        let mut filter = wish.filter;
        filter.state = wish.status.map(Status::state);
        let parse = |text: &str| text.parse().ok().map(MessageKey);
        let page = wanted.by(parse, MessageKey(i64::MAX))?;
        let mut filling = Filling::of(&page);
        let (application, key) = (endpoint.application, endpoint.key);
        let listed = self.ledger.deliveries(application, key, filter, page).await?;
        for delivery in filling.ordered(listed.entries) {
            if !filling.passes(delivery.key.message) {
                break;
            }
            if wish.status.is_some_and(|status| status != Status::of(&delivery)) {
                continue;
            }
            let read = self.read(application, delivery.message, wish.with_content).await?;
            let Some(message) = read else { continue };
            let heard = |channel: &String| message.channels.contains(channel);
            if wish.channel.as_ref().is_none_or(heard) {
                let size = messages::size(&message);
                filling.add((Message::from(message), delivery), size);
            }
        }
        let Listed { entries, reached, done } = filling.finish(listed.reached, listed.done);
        let listed = Listed { entries, reached: reached.map(|reached| reached.0), done };
        Ok(wanted.slice(listed, |(_, delivery)| delivery.key.message.0.to_string()))
    }

    /// Lists the endpoints that a message goes to, with how it stands there.
    ///
    /// # Errors
    /// If there is no such message.
    pub async fn attempted_endpoints(
        &self,
        scope: &Scope,
        message: &str,
        wanted: &Wanted,
    ) -> Result<Slice<(Endpoint, DeliveryEntry)>, Error> {
        let message = self.message_entry(scope, message).await?;
        let deliveries = self.ledger.deliveries_of(message.application, message.key).await?;
        let endpoints = self.directory(scope, &deliveries).await?;
        let pair = |delivery: DeliveryEntry| {
            Some((endpoints.get(&delivery.key.endpoint)?.clone(), delivery))
        };
        let mut pairs: Vec<_> = deliveries.into_iter().filter_map(pair).collect();
        pairs.sort_by_key(|(endpoint, _)| std::cmp::Reverse(endpoint.id));
        let listed = cut(pairs, &wanted.by_id()?, |(endpoint, _)| endpoint.id);
        Ok(wanted.slice(listed, |(endpoint, _)| endpoint.id.to_string()))
    }

    /// Returns the endpoints of some deliveries, by row. Deleted ones are among them: whatever went
    /// there can be looked at.
    pub(super) async fn directory(
        &self,
        scope: &Scope,
        deliveries: &[DeliveryEntry],
    ) -> Result<BTreeMap<EndpointKey, Endpoint>, Error> {
        let keys: BTreeSet<_> = deliveries.iter().map(|entry| entry.key.endpoint).collect();
        let keys = keys.into_iter().collect();
        let found = self.catalog.endpoints_by_key(scope.application().key, keys).await?;
        Ok(found.into_iter().map(|endpoint| (endpoint.key, endpoint)).collect())
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
            if !filling.passes(attempt.entry.record.id) {
                break;
            }
            let id = attempt.entry.message;
            if last.as_ref().is_none_or(|known| known.id != id) {
                last = self.read(application, id, with_content).await?;
            }
            let Some(message) = &last else { continue };
            if wish.channel.as_ref().is_none_or(|channel| message.channels.contains(channel)) {
                attempt.message = wish.with_message.then(|| Message::from(message.clone()));
                filling.add(attempt, messages::size(message));
            }
        }
        Ok(filling.finish(listed.reached, listed.done))
    }

    /// Reads a message, unless it is gone by now. A payload that nobody wants is dropped at once.
    async fn read(
        &self,
        application: ApplicationKey,
        id: MessageId,
        with_content: bool,
    ) -> Result<Option<MessageEntry>, Error> {
        match self.ledger.message(application, Name::Id(id)).await {
            Ok(entry) if with_content => Ok(Some(entry)),
            Ok(entry) => Ok(Some(MessageEntry { payload: Payload::Omitted, ..entry })),
            Err(store::Error::Missing(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Attempt {
    fn new(endpoint: &Endpoint, entry: AttemptEntry) -> Self {
        Self { endpoint: endpoint.id, url: endpoints::url(endpoint), entry, message: None }
    }
}
