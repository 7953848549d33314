//! All deliveries of an application, newest message first.
//!
//! No index has them in this order, and one more would cost every message a write. So the walk goes
//! from message to message, and to the deliveries of each. Whoever names an endpoint, or wants dead
//! letters, is served from an index instead.

use domain::ids::MessageId;
use store::catalog::Name;
use store::keys::{ApplicationKey, EndpointKey};
use store::ledger::{DeliveryEntry, DeliveryFilter, MessageEntry, MessageFilter};
use store::page::{From, Listed, Page};

use super::pages::{Slice, Wanted};
use super::places::Places;
use super::{App, Error};

/// How many messages are read at a time. They are looked into one after the other: the request's turn is for one
/// reader of the store.
const STEP: u32 = 50;
/// The most messages that one page looks into.
const MOST_MESSAGES: u32 = 1_000;

/// Where a delivery stands in the list: messages downwards, endpoints upwards.
type Place = (MessageId, EndpointKey);

/// A walk under way.
struct Walk<'a> {
    filter: &'a DeliveryFilter,
    backward: bool,
    limit: usize,
    entries: Vec<DeliveryEntry>,
    reached: Option<Place>,
    /// Whether there is more than the page may hold.
    full: bool,
}

impl Walk<'_> {
    /// Takes the deliveries of a message, those beyond a place only.
    fn take(&mut self, mut deliveries: Vec<DeliveryEntry>, beyond: Option<EndpointKey>) {
        if self.backward {
            deliveries.reverse();
        }
        for entry in deliveries {
            let endpoint = entry.key.endpoint;
            let passed = beyond.is_some_and(|place| {
                if self.backward { endpoint >= place } else { endpoint <= place }
            });
            if passed || self.full {
                continue;
            }
            if self.filter.wants(&entry) {
                if self.entries.len() == self.limit {
                    self.full = true;
                    return;
                }
                self.reached = Some((entry.message, endpoint));
                self.entries.push(entry);
            }
        }
    }

    /// Notes that everything of a message was looked at.
    fn pass(&mut self, message: MessageId) {
        if !self.full {
            let end = if self.backward { i64::MIN } else { i64::MAX };
            self.reached = Some((message, EndpointKey(end)));
        }
    }

    fn finish(mut self, places: &Places<'_>, done: bool) -> Listed<DeliveryEntry, String> {
        if self.backward {
            self.entries.reverse();
        }
        let reached = self.reached.map(|place| places.write_by_id(place));
        Listed { entries: self.entries, reached, done: done && !self.full }
    }
}

impl App {
    /// Walks through an application's deliveries by way of their messages.
    pub(super) async fn walk_deliveries(
        &self,
        application: ApplicationKey,
        filter: &DeliveryFilter,
        wanted: &Wanted,
    ) -> Result<Slice<DeliveryEntry>, Error> {
        let places = self.places("deliveries", application, None);
        let end = (MessageId::from_bytes([0; 20]), EndpointKey(0));
        let page = wanted.by(|text| places.read_by_id(text), end)?;
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let backward = matches!(page.from, From::Before(_));
        let (entries, reached) = (Vec::new(), None);
        let mut walk = Walk { filter, backward, limit, entries, reached, full: false };
        let from = match page.from {
            From::Start => From::Start,
            From::After((message, endpoint)) => {
                self.rest_of(application, (message, endpoint), &mut walk).await?;
                From::After(message)
            }
            From::Before((message, endpoint)) => {
                self.rest_of(application, (message, endpoint), &mut walk).await?;
                From::Before(message)
            }
        };
        let done = self.walk_messages(application, from, &mut walk).await?;
        let place = |entry: &DeliveryEntry| places.write_by_id((entry.message, entry.key.endpoint));
        Ok(wanted.slice(walk.finish(&places, done), place))
    }

    /// Takes what is left of the message that the page before ended in, unless it is gone.
    async fn rest_of(
        &self,
        application: ApplicationKey,
        (message, endpoint): Place,
        walk: &mut Walk<'_>,
    ) -> Result<(), Error> {
        match self.ledger.message_without_payload(application, Name::Id(message)).await {
            Ok(found) => {
                let deliveries = self.ledger.deliveries_of(application, found.key).await?;
                walk.take(deliveries, Some(endpoint));
                Ok(())
            }
            Err(store::Error::Missing(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes from message to message; answers whether there are no more of them.
    async fn walk_messages(
        &self,
        application: ApplicationKey,
        mut from: From<MessageId>,
        walk: &mut Walk<'_>,
    ) -> Result<bool, Error> {
        let filter = MessageFilter {
            event_types: walk.filter.event_types.clone(),
            channel: None,
            since: walk.filter.since,
            until: walk.filter.until,
            with_payload: false,
        };
        for _ in 0..MOST_MESSAGES / STEP {
            if walk.full {
                return Ok(false);
            }
            let page = Page { from: from.clone(), limit: STEP };
            let mut listed = self.ledger.messages(application, filter.clone(), page).await?;
            if walk.backward {
                listed.entries.reverse();
            }
            self.look_into(application, listed.entries, walk).await?;
            let Some(reached) = listed.reached.filter(|_| !listed.done) else {
                return Ok(true);
            };
            walk.pass(reached);
            from = if walk.backward { From::Before(reached) } else { From::After(reached) };
        }
        Ok(false)
    }

    async fn look_into(
        &self,
        application: ApplicationKey,
        messages: Vec<MessageEntry>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Error> {
        for message in messages {
            let found = self.ledger.deliveries_of(application, message.key).await?;
            walk.take(found, None);
            if walk.full {
                return Ok(());
            }
            walk.pass(message.id);
        }
        Ok(())
    }
}
