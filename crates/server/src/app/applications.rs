//! Applications: create, find, change, delete, list.

use std::collections::BTreeMap;

use domain::ids::{ApplicationId, Noun as _, noun};
use serde_json::Value;
pub use store::catalog::Application;
use store::catalog::{ApplicationSettings, Name, NewApplication};

use super::fields::{Checks, LONGEST_NAME};
use super::idempotency::Promise;
use super::memory::Known;
use super::pages::{Slice, Wanted};
use super::{App, Caller, Error, Scope};

/// The most messages per second that an application can be limited to.
const MOST_RATE: u32 = 65_535;

/// What an application's owner sets, not checked yet.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// A name for people.
    pub name: String,
    /// The sender's own id for it.
    pub uid: Option<String>,
    /// The most messages per second.
    pub rate: Option<u32>,
    /// Its policy: a preset's name, or a document.
    pub policy: Option<Value>,
    /// Whatever its owner wants to remember.
    pub metadata: BTreeMap<String, String>,
}

/// Whether something had to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It is new.
    Created,
    /// It was there.
    Found,
}

impl From<&Application> for Draft {
    fn from(application: &Application) -> Self {
        let settings = application.settings.clone();
        Self {
            name: settings.name,
            uid: application.uid.clone(),
            rate: settings.rate,
            policy: settings.policy,
            metadata: settings.metadata,
        }
    }
}

impl Draft {
    fn check(self) -> Result<(Option<String>, ApplicationSettings), Error> {
        let mut checks = Checks::default();
        checks.holds("name", !self.name.is_empty(), "must not be empty");
        checks.length("name", &self.name, LONGEST_NAME);
        checks.uid("uid", self.uid.as_ref(), noun::Application::PREFIX);
        checks.rate("throttleRate", self.rate, MOST_RATE);
        checks.policy(self.policy.as_ref());
        checks.metadata(&self.metadata);
        checks.finish()?;
        let Self { name, uid, rate, policy, metadata } = self;
        Ok((uid, ApplicationSettings { name, rate, policy, metadata }))
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
        let (uid, settings) = draft.check()?;
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
        let uid = draft.uid.clone();
        match self.create_application(caller, draft).await {
            Ok(application) => Ok((application, Made::Created)),
            Err(Error::Conflict(text)) => {
                let uid = uid.ok_or(Error::Conflict(text))?;
                Ok((self.catalog.application(Name::Uid(uid)).await?, Made::Found))
            }
            Err(other) => Err(other),
        }
    }

    /// Replaces what an application's owner set, or creates it under that name.
    ///
    /// # Errors
    /// If the draft makes no sense, its uid is taken, or the application is somebody else's.
    pub async fn put_application(
        &self,
        caller: &Caller,
        named: &str,
        mut draft: Draft,
    ) -> Result<(Application, Made), Error> {
        // Whoever calls it by its uid means to keep that: the same request twice must not take it off.
        if let Ok(Name::Uid(uid)) = name(named) {
            draft.uid.get_or_insert(uid);
        }
        match self.enter(caller, named).await {
            Ok(scope) => {
                Ok((self.update_application(&scope, |own| *own = draft).await?, Made::Found))
            }
            Err(Error::Missing(_)) if caller.reach == super::tokens::Reach::Everything => {
                Ok((self.create_application(caller, draft).await?, Made::Created))
            }
            Err(other) => Err(other),
        }
    }

    /// Changes what an application's owner set.
    ///
    /// # Errors
    /// If what comes out makes no sense, or its uid is taken.
    pub async fn update_application(
        &self,
        scope: &Scope,
        change: impl FnOnce(&mut Draft),
    ) -> Result<Application, Error> {
        let mut draft = Draft::from(scope.application());
        change(&mut draft);
        let (uid, settings) = draft.check()?;
        let key = scope.application().key;
        let changed = self.catalog.update_application(key, uid, settings, self.clock.now()).await?;
        self.remembered.forget_application(key);
        self.accepting.changed(key, None);
        Ok(changed)
    }

    /// Deletes an application: it is gone at once, what is its is removed in time.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn delete_application(&self, scope: &Scope) -> Result<(), Error> {
        let key = scope.application().key;
        self.catalog.delete_application(key, self.clock.now()).await?;
        self.remembered.forget_application(key);
        self.accepting.changed(key, None);
        Ok(())
    }

    /// Lists applications by id.
    ///
    /// # Errors
    /// If the iterator is no id.
    pub async fn applications(&self, wanted: &Wanted) -> Result<Slice<Application>, Error> {
        let listed = self.catalog.applications(wanted.by_id()?).await?;
        Ok(wanted.slice(listed, |application| application.id.to_string()))
    }

    /// Finds what accepting a message needs of an application, in memory if possible. What is
    /// remembered may be another customer's by now, so that only the store refuses somebody.
    pub(super) async fn known(&self, caller: &Caller, named: &str) -> Result<Known, Error> {
        match self.remembered.application(named) {
            Some(known) if caller.reaches(known.id) => Ok(known),
            Some(_) | None => self.look_up(caller, named).await,
        }
    }

    /// Finds what accepting a message needs of an application, in the store.
    pub(super) async fn look_up(&self, caller: &Caller, named: &str) -> Result<Known, Error> {
        let name = name(named)?;
        let found = match self.catalog.application(name.clone()).await {
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
