//! Event types: create, find, change, archive, remove, list.

use domain::filter::EventTypePattern;
use domain::names::EventTypeName;
use serde_json::Value;
pub use store::catalog::{EventType, EventTypeSettings};
use store::page::Listed;

use super::applications::Made;
use super::fields::{Checks, LONGEST_DESCRIPTION, LONGEST_NAME};
use super::idempotency::Promise;
use super::pages::{Slice, Wanted};
use super::{App, Caller, Error, Nudge, RefusalKind};

/// The event type that an example can be sent of although nobody made it.
const PING: &str = "svix.ping";

/// The most bytes of an event type's schemas, written as JSON.
const MOST_SCHEMAS: usize = 256 << 10;

/// Whether archived event types are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archived {
    /// They are.
    Included,
    /// They are not.
    Left,
}

impl App {
    /// Finds an event type, archived or not.
    ///
    /// # Errors
    /// If there is none of that name.
    pub async fn event_type(&self, name: &str) -> Result<EventType, Error> {
        Ok(self.catalog.event_type(name.to_owned()).await?)
    }

    /// Creates an event type. An archived one of that name comes back with what is given.
    ///
    /// # Errors
    /// If the name makes no sense, or is in use.
    pub async fn create_event_type(
        &self,
        caller: &Caller,
        name: String,
        settings: EventTypeSettings,
    ) -> Result<EventType, Error> {
        match self.event_type(&name).await {
            // This very request may have made it, before its answer was on disk.
            Ok(there)
                if caller.promise.as_ref().is_some_and(Promise::again)
                    && there.settings == settings =>
            {
                Ok(there)
            }
            Ok(there) if !there.settings.archived => Err(Error::EventTypeExists(name)),
            Ok(there) => self.save_event_type(EventType { settings, ..there }).await,
            Err(Error::Missing(_)) => {
                let fresh = self.fresh(name, settings);
                check(&fresh)?;
                let created = self.catalog.create_event_type(fresh.clone()).await;
                // Somebody else may have made it since.
                if let Err(store::Error::Taken { name, .. }) = created {
                    return Err(Error::EventTypeExists(name));
                }
                created?;
                self.accepting.nudge(Nudge::EventTypes);
                Ok(fresh)
            }
            Err(other) => Err(other),
        }
    }

    /// Replaces an event type, or creates it.
    ///
    /// # Errors
    /// If the name makes no sense.
    pub async fn put_event_type(
        &self,
        name: String,
        settings: EventTypeSettings,
    ) -> Result<(EventType, Made), Error> {
        match self.event_type(&name).await {
            Ok(there) => {
                Ok((self.save_event_type(EventType { settings, ..there }).await?, Made::Found))
            }
            Err(Error::Missing(_)) => {
                let new = self.fresh(name, settings);
                Ok((self.save_event_type(new).await?, Made::Created))
            }
            Err(other) => Err(other),
        }
    }

    /// Changes an event type.
    ///
    /// # Errors
    /// If there is none of that name.
    pub async fn update_event_type(
        &self,
        name: &str,
        change: impl FnOnce(&mut EventTypeSettings),
    ) -> Result<EventType, Error> {
        let mut event_type = self.event_type(name).await?;
        change(&mut event_type.settings);
        self.save_event_type(event_type).await
    }

    /// Archives an event type, or removes it for good.
    ///
    /// # Errors
    /// If there is none of that name.
    pub async fn delete_event_type(&self, name: &str, for_good: bool) -> Result<(), Error> {
        if for_good {
            return Ok(self.catalog.remove_event_type(name.to_owned()).await?);
        }
        self.update_event_type(name, |settings| settings.archived = true).await.map(|_| ())
    }

    /// Lists event types by name.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn event_types(
        &self,
        wanted: &Wanted,
        archived: Archived,
    ) -> Result<Slice<EventType>, Error> {
        let Listed { mut entries, reached, done } =
            self.catalog.event_types(wanted.by_name()).await?;
        if archived == Archived::Left {
            entries.retain(|event_type| !event_type.settings.archived);
        }
        let listed = Listed { entries, reached, done };
        Ok(wanted.slice(listed, |event_type| event_type.name.clone()))
    }

    /// Returns the example of an event type's newest schema, as JSON.
    ///
    /// # Errors
    /// If it has none.
    pub async fn example(&self, name: &str) -> Result<Value, Error> {
        if name == PING {
            return Ok(serde_json::json!({ "success": true }));
        }
        let event_type = self.event_type(name).await?;
        let newest = event_type.settings.schemas.as_ref().and_then(Value::as_object);
        let newest = newest.and_then(|schemas| {
            schemas.iter().max_by_key(|(version, _)| version.parse::<u64>().unwrap_or(0))
        });
        let example = newest.and_then(|(_, schema)| {
            let first = schema.get("examples").and_then(|examples| examples.get(0));
            first.or_else(|| schema.get("example")).filter(|example| example.is_object())
        });
        example.cloned().ok_or_else(|| {
            let text = format!("the event type `{name}` has no schema with an example object");
            Error::refused(RefusalKind::InvalidScheme, text)
        })
    }

    /// Makes sure that the event types an endpoint names exist.
    pub(super) async fn exist(&self, patterns: &[String]) -> Result<(), Error> {
        let mut unknown = Vec::new();
        for text in patterns {
            if let Ok(EventTypePattern::Exact(name)) = EventTypePattern::parse(text) {
                match self.event_type(name.as_str()).await {
                    Ok(_) => {}
                    Err(Error::Missing(_)) => unknown.push(text.as_str()),
                    Err(other) => return Err(other),
                }
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let text = format!("The following event types don't exist: {}", unknown.join(", "));
        Err(Error::field("eventTypes", text))
    }

    fn fresh(&self, name: String, settings: EventTypeSettings) -> EventType {
        let now = self.clock.now();
        EventType { name, settings, created_at: now, updated_at: now }
    }

    async fn save_event_type(&self, event_type: EventType) -> Result<EventType, Error> {
        check(&event_type)?;
        let event_type = EventType { updated_at: self.clock.now(), ..event_type };
        self.catalog.put_event_type(event_type.clone()).await?;
        self.accepting.nudge(Nudge::EventTypes);
        Ok(event_type)
    }
}

fn check(event_type: &EventType) -> Result<(), Error> {
    let mut checks = Checks::default();
    checks.value("name", EventTypeName::parse(&event_type.name));
    checks.policy(event_type.settings.policy.as_ref());
    let schemas = event_type.settings.schemas.as_ref();
    checks.holds("schemas", schemas.is_none_or(Value::is_object), "must be an object");
    let size = schemas.map_or(0, |schemas| schemas.to_string().len());
    let text = format!("has {size} bytes as JSON; allowed are {MOST_SCHEMAS}");
    checks.holds("schemas", size <= MOST_SCHEMAS, &text);
    let settings = &event_type.settings;
    checks.length("description", &settings.description, LONGEST_DESCRIPTION);
    let words = [("featureFlag", &settings.feature_flag), ("groupName", &settings.group)];
    for (field, word) in words {
        checks.length(field, word.as_deref().unwrap_or_default(), LONGEST_NAME);
    }
    checks.finish()
}
