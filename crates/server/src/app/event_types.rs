//! Event types: create, find, change, archive, remove, list.

use domain::filter::EventTypePattern;
use domain::names::EventTypeName;
use serde_json::Value;
use store::catalog::Refusal;
pub use store::catalog::{EventType, EventTypeSettings, Schemas};
use store::page::Listed;

use super::applications::Made;
use super::condition::Tag;
use super::fields::{Checks, LONGEST_DESCRIPTION, LONGEST_NAME, set};
use super::idempotency::Promise;
use super::pages::{BEHIND_ALL, Slice, Wanted};
use super::{App, Caller, Error, RefusalKind};

/// The event type that an example can be sent of although nobody made it.
const PING: &str = "svix.ping";

/// How often a name is looked up whose meaning changes under the request.
const LOOKS: u32 = 4;
/// The most feature flags of an event type.
const MOST_FLAGS: usize = 100;
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

/// What a request names of an event type, not checked yet. What it does not name stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// A text for people.
    pub description: Option<String>,
    /// Whether it is hidden from lists.
    pub archived: Option<bool>,
    /// Whether it is not to be used any more.
    pub deprecated: Option<bool>,
    /// JSON schemas by version, or that it has none.
    pub schemas: Option<Option<Value>>,
    /// The flags of which a token needs one to see it; none if every token does.
    pub flags: Option<Vec<String>>,
    /// The group it is listed in, or that it is in none.
    pub group: Option<Option<String>>,
    /// Its policy, or that it has none.
    pub policy: Option<Option<Value>>,
}

impl Draft {
    /// Makes the change on settings as they are.
    fn apply(&self, settings: &mut EventTypeSettings) {
        set(&mut settings.description, self.description.as_ref());
        set(&mut settings.archived, self.archived.as_ref());
        set(&mut settings.deprecated, self.deprecated.as_ref());
        set(&mut settings.schemas, self.schemas.as_ref());
        if let Some(flags) = &self.flags {
            settings.feature_flag = flags.first().cloned();
            settings.other_flags = flags.iter().skip(1).cloned().collect();
        }
        set(&mut settings.group, self.group.as_ref());
        set(&mut settings.policy, self.policy.as_ref());
    }

    /// Returns the settings of an event type that has nothing else.
    fn alone(&self) -> EventTypeSettings {
        let mut settings = EventTypeSettings::default();
        self.apply(&mut settings);
        settings
    }
}

impl App {
    /// Finds an event type, archived or not.
    ///
    /// # Errors
    /// If there is none of that name, or it is not shown to the caller.
    pub async fn event_type(&self, caller: &Caller, name: &str) -> Result<EventType, Error> {
        let found = self.catalog.event_type(name.to_owned()).await?;
        if caller.sees(&found) { Ok(found) } else { Err(Error::Missing("event type")) }
    }

    /// Creates an event type. An archived one of that name comes back with what is given.
    ///
    /// # Errors
    /// If the name makes no sense, or is in use.
    pub async fn create_event_type(
        &self,
        caller: &Caller,
        name: String,
        draft: Draft,
    ) -> Result<EventType, Error> {
        let settings = draft.alone();
        check(&name, &settings)?;
        let mut look = 1;
        loop {
            match self.add_event_type(&name, settings.clone()).await {
                Err(Error::EventTypeExists(_)) => {}
                created => return created,
            }
            let again = caller.promise.as_ref().is_some_and(Promise::again);
            match self.restore_event_type(&name, settings.clone(), again).await {
                // The one in the way was removed since.
                Err(Error::Missing(_)) if look < LOOKS => look += 1,
                restored => return restored,
            }
        }
    }

    /// Changes what a draft names of an event type, or creates it. Of many at the same moment one
    /// creates it.
    ///
    /// # Errors
    /// If the name makes no sense.
    pub async fn put_event_type(
        &self,
        caller: &Caller,
        name: &str,
        draft: Draft,
    ) -> Result<(EventType, Made), Error> {
        check(name, &draft.alone())?;
        let mut look = 1;
        loop {
            match self.update_event_type(caller, name, draft.clone()).await {
                Err(Error::Missing(_)) => {}
                updated => return Ok((updated?, Made::Found)),
            }
            caller.condition.check_missing()?;
            match self.add_event_type(name, draft.alone()).await {
                // Another request may have created it between our look and our insert.
                Err(Error::EventTypeExists(_)) if look < LOOKS => look += 1,
                created => return Ok((created?, Made::Created)),
            }
        }
    }

    /// Changes what a draft names of an event type.
    ///
    /// # Errors
    /// If there is none of that name.
    pub async fn update_event_type(
        &self,
        caller: &Caller,
        name: &str,
        draft: Draft,
    ) -> Result<EventType, Error> {
        // What is not there is missing, whatever is wrong with the request.
        self.event_type(caller, name).await?;
        check(name, &draft.alone())?;
        let condition = caller.condition.clone();
        let edit = move |row: &EventType| {
            condition.check(Tag::from(row))?;
            let mut row = row.clone();
            draft.apply(&mut row.settings);
            Ok(row)
        };
        self.edit_event_type(name, edit).await
    }

    /// Archives an event type, or removes it for good.
    ///
    /// # Errors
    /// If there is none of that name.
    pub async fn delete_event_type(
        &self,
        caller: &Caller,
        name: &str,
        for_good: bool,
    ) -> Result<(), Error> {
        if for_good {
            let condition = caller.condition.clone();
            let check = move |row: &EventType| Ok(condition.check(Tag::from(row))?);
            self.catalog.remove_event_type(name.to_owned(), Box::new(check)).await?;
            return Ok(());
        }
        let draft = Draft { archived: Some(true), ..Draft::default() };
        self.update_event_type(caller, name, draft).await.map(drop)
    }

    /// Lists event types by name.
    ///
    /// # Errors
    /// If the iterator is no name.
    pub async fn event_types(
        &self,
        caller: &Caller,
        wanted: &Wanted,
        archived: Archived,
        schemas: Schemas,
    ) -> Result<Slice<EventType>, Error> {
        let read = |text: &str| EventTypeName::parse(text).ok().map(|name| name.to_string());
        let page = wanted.by(read, BEHIND_ALL.to_owned())?;
        let Listed { mut entries, reached, done } = self.catalog.event_types(schemas, page).await?;
        let wants = |entry: &EventType| archived == Archived::Included || !entry.settings.archived;
        entries.retain(|entry| wants(entry) && caller.sees(entry));
        let listed = Listed { entries, reached, done };
        Ok(wanted.slice(listed, |event_type| event_type.name.clone()))
    }

    /// Returns an example of an event type's newest schema, as JSON: the one at that place if it lists
    /// several.
    ///
    /// # Errors
    /// If it has none there.
    pub async fn example(&self, caller: &Caller, name: &str, index: usize) -> Result<Value, Error> {
        if name == PING {
            return Ok(serde_json::json!({ "success": true }));
        }
        let event_type = self.event_type(caller, name).await?;
        let newest = event_type.settings.schemas.as_ref().and_then(Value::as_object);
        let newest = newest.and_then(|schemas| {
            schemas.iter().max_by_key(|(version, _)| version.parse::<u64>().unwrap_or(0))
        });
        let example = newest.and_then(|(_, schema)| {
            let first = schema.get("examples").and_then(|examples| examples.get(index));
            first.or_else(|| schema.get("example")).filter(|example| example.is_object())
        });
        example.cloned().ok_or_else(|| {
            let text = format!(
                "the event type `{name}` has no schema with an example object, or not so many of them"
            );
            Error::refused(RefusalKind::InvalidScheme, text)
        })
    }

    /// Makes sure that the event types an endpoint names exist, and are shown to the caller if they are
    /// new to it.
    pub(super) async fn exist(
        &self,
        caller: &Caller,
        patterns: &[String],
        known: &[String],
    ) -> Result<(), Error> {
        let mut unknown = Vec::new();
        for text in patterns {
            if let Ok(EventTypePattern::Exact(name)) = EventTypePattern::parse(text) {
                match self.catalog.event_type(name.to_string()).await {
                    Ok(found) if caller.sees(&found) || known.contains(text) => {}
                    Ok(_) | Err(store::Error::Missing(_)) => unknown.push(text.as_str()),
                    Err(other) => return Err(other.into()),
                }
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let text = format!("The following event types don't exist: {}", unknown.join(", "));
        Err(Error::field("eventTypes", text))
    }

    /// Creates an event type whose name is not in use.
    async fn add_event_type(
        &self,
        name: &str,
        settings: EventTypeSettings,
    ) -> Result<EventType, Error> {
        let (name, now) = (name.to_owned(), self.clock.now());
        let new = EventType { name, settings, created_at: now, updated_at: now };
        match self.catalog.create_event_type(new.clone()).await {
            Err(store::Error::Taken { name, .. }) => Err(Error::EventTypeExists(name)),
            created => {
                created?;
                self.accepting.changed();
                Ok(new)
            }
        }
    }

    /// Brings an archived event type back with other settings.
    async fn restore_event_type(
        &self,
        name: &str,
        settings: EventTypeSettings,
        again: bool,
    ) -> Result<EventType, Error> {
        let edit = move |row: &EventType| {
            // This very request may have made it, before its answer was on disk.
            let made = again && row.settings == settings;
            if !row.settings.archived && !made {
                return Err(Error::EventTypeExists(row.name.clone()).into());
            }
            Ok(EventType { settings: settings.clone(), ..row.clone() })
        };
        self.edit_event_type(name, edit).await
    }

    async fn edit_event_type(
        &self,
        name: &str,
        edit: impl Fn(&EventType) -> Result<EventType, Refusal> + Send + Sync + 'static,
    ) -> Result<EventType, Error> {
        let now = self.clock.now();
        let changed = self.catalog.change_event_type(name.to_owned(), Box::new(edit), now).await?;
        if !changed.is_nothing() {
            self.accepting.changed();
        }
        Ok(changed.after)
    }
}

fn check(name: &str, settings: &EventTypeSettings) -> Result<(), Error> {
    let mut checks = Checks::default();
    checks.value("name", EventTypeName::parse(name));
    checks.policy(settings.policy.as_ref());
    let schemas = settings.schemas.as_ref();
    checks.holds("schemas", schemas.is_none_or(Value::is_object), "must be an object");
    let size = schemas.map_or(0, |schemas| schemas.to_string().len());
    let text = format!("has {size} bytes as JSON; allowed are {MOST_SCHEMAS}");
    checks.holds("schemas", size <= MOST_SCHEMAS, &text);
    checks.length("description", &settings.description, LONGEST_DESCRIPTION);
    for flag in settings.flags() {
        checks.length("featureFlags", flag, LONGEST_NAME);
    }
    let text = format!("may be at most {MOST_FLAGS}");
    checks.holds("featureFlags", settings.flags().count() <= MOST_FLAGS, &text);
    checks.length("groupName", settings.group.as_deref().unwrap_or_default(), LONGEST_NAME);
    checks.finish()
}
