//! Applications: create, find, change, delete, list.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::ids::{ApplicationId, Noun as _, noun};
use serde_json::Value;
pub use store::catalog::Application;
use store::catalog::{ApplicationSettings, Name, NewApplication};

use super::condition::Tag;
use super::fields::{Checks, LONGEST_NAME, set};
use super::idempotency::Promise;
use super::memory::Known;
use super::pages::{Order, Slice, Wanted};
use super::tokens::Reach;
use super::turns::{LookTurn, whole};
use super::{App, Caller, Error, Rollout, Scope};

/// The most messages per second that an application can be limited to.
const MOST_RATE: u32 = 65_535;

/// How often a name is looked up whose meaning changes under the request.
const LOOKS: u32 = 4;

/// What a request names of an application, not checked yet. What it does not name stays as it is; a
/// new application begins without it.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// A name for people. A new application needs it.
    pub name: Option<String>,
    /// The sender's own id for it, or that it has none.
    pub uid: Option<Option<String>>,
    /// The most messages per second, or that it sets none.
    pub rate: Option<Option<u32>>,
    /// Its policy: a preset's name, a document, or none.
    pub policy: Option<Option<Value>>,
    /// Whatever its owner wants to remember.
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Whether something had to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It is new.
    Created,
    /// It was there.
    Found,
}

impl Draft {
    /// Returns the uid it gives.
    #[must_use]
    pub fn uid(&self) -> Option<&String> {
        self.uid.iter().flatten().next()
    }

    fn check(&self) -> Result<(), Error> {
        let mut checks = Checks::default();
        if let Some(name) = &self.name {
            checks.holds("name", !name.is_empty(), "must not be empty");
            checks.length("name", name, LONGEST_NAME);
        }
        checks.uid("uid", self.uid(), noun::Application::PREFIX);
        checks.rate("throttleRate", self.rate.flatten(), MOST_RATE);
        checks.policy(self.policy.iter().flatten().next());
        if let Some(metadata) = &self.metadata {
            checks.metadata(metadata);
        }
        checks.finish()
    }

    /// Makes the change on an application's uid and settings as they are.
    fn apply(&self, uid: &mut Option<String>, settings: &mut ApplicationSettings) {
        set(uid, self.uid.as_ref());
        set(&mut settings.name, self.name.as_ref());
        set(&mut settings.rate, self.rate.as_ref());
        set(&mut settings.policy, self.policy.as_ref());
        set(&mut settings.metadata, self.metadata.as_ref());
    }
}

/// Reads how a path names an application.
///
/// # Errors
/// If nothing can have that name.
pub fn name(text: &str) -> Result<Name<ApplicationId>, Error> {
    if text.starts_with(noun::Application::PREFIX) {
        return text.parse().map(Name::Id).map_err(|_| Error::Missing("application"));
    }
    Ok(Name::Uid(text.to_owned()))
}

impl App {
    /// Creates an application.
    ///
    /// # Errors
    /// If the draft makes no sense, or its uid is taken.
    pub async fn create_application(
        &self,
        caller: &Caller,
        draft: Draft,
    ) -> Result<Application, Error> {
        draft.check()?;
        if draft.name.is_none() {
            return Err(Error::field("name", "is missing"));
        }
        let (mut uid, mut settings) = (None, ApplicationSettings::default());
        draft.apply(&mut uid, &mut settings);
        let (id, at) = (self.id_for(caller), self.clock.now());
        if caller.promise.as_ref().is_some_and(Promise::again)
            && let Ok(made) = self.catalog.application(Name::Id(id)).await
        {
            return Ok(made);
        }
        let new = NewApplication { id, uid, settings, at };
        Ok(self.catalog.create_application(new).await?)
    }

    /// Returns the application with the draft's uid, or creates it.
    ///
    /// # Errors
    /// If the draft makes no sense.
    pub async fn ensure_application(
        &self,
        caller: &Caller,
        draft: Draft,
    ) -> Result<(Application, Made), Error> {
        let uid = draft.uid().cloned();
        let mut look = 1;
        loop {
            let text = match self.create_application(caller, draft.clone()).await {
                Ok(application) => return Ok((application, Made::Created)),
                Err(Error::Conflict(text)) => text,
                Err(other) => return Err(other),
            };
            let uid = uid.clone().ok_or(Error::Conflict(text))?;
            match self.catalog.application(Name::Uid(uid)).await {
                // The one in the way was deleted since.
                Err(store::Error::Missing(_)) if look < LOOKS => look += 1,
                found => return Ok((found?, Made::Found)),
            }
        }
    }

    /// Changes what a draft names of an application, or creates it under that uid. Of many at the
    /// same moment one creates it. By its id it is changed only: what was deleted does not come back.
    ///
    /// # Errors
    /// If the draft makes no sense, its uid is taken, or the application is somebody else's.
    pub async fn put_application(
        &self,
        caller: &Caller,
        named: &str,
        mut draft: Draft,
    ) -> Result<(Application, Made), Error> {
        // A caller who names it by its uid means to keep that: the same request twice must not take
        // it off.
        let may_create = match name(named)? {
            Name::Uid(uid) => {
                draft.uid = Some(draft.uid.flatten().or(Some(uid)));
                caller.reach == Reach::Everything
            }
            Name::Id(_) => false,
        };
        let mut look = 1;
        loop {
            let changed = match self.enter(caller, named).await {
                Ok(scope) => self.update_application(&scope, draft.clone()).await,
                Err(missing) => Err(missing),
            };
            match changed {
                Err(Error::Missing(_)) if may_create => {}
                changed => return Ok((changed?, Made::Found)),
            }
            caller.condition.check_missing()?;
            match self.create_application(caller, draft.clone()).await {
                // Another request may have created it between our look and our insert.
                Err(Error::Conflict(_)) if look < LOOKS => look += 1,
                created => return Ok((created?, Made::Created)),
            }
        }
    }

    /// Changes what a draft names of an application.
    ///
    /// # Errors
    /// If the draft makes no sense, or its uid is taken.
    pub async fn update_application(
        &self,
        scope: &Scope,
        draft: Draft,
    ) -> Result<Application, Error> {
        draft.check()?;
        let (key, condition) = (scope.application().key, scope.caller().condition.clone());
        let is_still_named = scope.is_still_named();
        let change = move |row: &Application| {
            is_still_named(row)?;
            condition.check(Tag::from(row))?;
            let mut row = row.clone();
            draft.apply(&mut row.uid, &mut row.settings);
            Ok(row)
        };
        let changed = self.catalog.change_application(key, Box::new(change), self.clock.now());
        let changed = changed.await?;
        if !changed.is_nothing() {
            self.remembered.forget_application(key);
            self.accepting.changed();
        }
        Ok(changed.after)
    }

    /// Deletes an application: it is gone at once, what is its is removed in time.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn delete_application(&self, scope: &Scope) -> Result<Rollout, Error> {
        let (key, condition) = (scope.application().key, scope.caller().condition.clone());
        let is_still_named = scope.is_still_named();
        let check = move |row: &Application| {
            is_still_named(row)?;
            Ok(condition.check(Tag::from(row))?)
        };
        self.catalog.delete_application_if(key, Box::new(check), self.clock.now()).await?;
        self.remembered.forget_application(key);
        self.accepting.changed();
        self.rolled_out(scope.caller()).await
    }

    /// Lists applications by id.
    ///
    /// # Errors
    /// If the iterator is no id.
    pub async fn applications(&self, wanted: &Wanted) -> Result<Slice<Application>, Error> {
        let listed = self.catalog.applications(wanted.by_id(Order::Ascending)?).await?;
        Ok(wanted.slice(listed, |application| application.id.to_string()))
    }

    /// Finds what accepting a message needs of an application, in memory if possible. What is
    /// remembered may be another customer's by now, so that only the store refuses somebody.
    pub(super) async fn known(&self, caller: &Caller, named: &str) -> Result<Known, Error> {
        match self.remembered.application(named) {
            Some(known) if caller.reaches(known.id) => return Ok(known),
            Some(_) | None => {}
        }
        let turn = self.turns.look(caller, named).await?;
        // Another message may have had it looked up meanwhile.
        match self.remembered.application(named) {
            Some(known) if caller.reaches(known.id) => Ok(known),
            Some(_) | None => self.look_up_in(turn, caller, named).await,
        }
    }

    /// Finds what accepting a message needs of an application, in the store.
    pub(super) async fn look_up(&self, caller: &Caller, named: &str) -> Result<Known, Error> {
        let turn = self.turns.look(caller, named).await?;
        self.look_up_in(turn, caller, named).await
    }

    async fn look_up_in(
        &self,
        turn: LookTurn,
        caller: &Caller,
        named: &str,
    ) -> Result<Known, Error> {
        let name = name(named)?;
        let (catalog, wanted) = (Arc::clone(&self.catalog), name.clone());
        let found = whole(async move {
            let _turn = turn;
            catalog.application(wanted).await
        });
        let found = match found.await {
            Ok(found) => found,
            Err(error) => {
                self.remembered.forget_name(named);
                return Err(error.into());
            }
        };
        let known = Known::of(&found, &name);
        self.remembered.keep_application(named, known.clone());
        if caller.reaches(known.id) { Ok(known) } else { Err(Error::Missing("application")) }
    }
}
