//! Endpoints: create, find, change, delete, list, pause, resume, and their breaker.
//!
//! A change is made of the row as it is, in the transaction that writes it, and touches what the
//! request names; `draft` says how.

mod draft;
mod signing;

use std::sync::Arc;
use std::time::Duration;

use domain::ids::{EndpointId, Noun as _, noun};
pub use draft::Draft;
use signing::Named;
use store::catalog::{Changed, EndpointEdit, Name, NewEndpoint, NewSecret};
pub use store::catalog::{Credentials, Endpoint};
pub use store::queue::{Order, RequestKind, Running};

use super::applications::Made;
use super::condition::Tag;
use super::idempotency::Promise;
use super::pages::{Slice, Wanted};
use super::{App, Ask, Error, Rollout, Scope, pauses, secrets};

/// How often a name is looked up whose meaning changes under the request.
const LOOKS: u32 = 4;

/// What becomes of an endpoint's row.
pub(super) type Edit = Arc<dyn Fn(&Endpoint) -> Result<Endpoint, Error> + Send + Sync>;

/// A change of an endpoint.
struct Change {
    edit: Edit,
    secret: Option<NewSecret>,
    /// Whether it means that the endpoint gets its messages again, also if a person never held it.
    resumes: bool,
}

/// Returns an endpoint's whole URL, for its owner's eyes.
#[must_use]
pub fn url(endpoint: &Endpoint) -> String {
    format!("{}{}", endpoint.settings.origin, endpoint.confidential.path_and_query)
}

/// Reads how a path names an endpoint.
///
/// # Errors
/// If nothing can have that name.
pub fn name(text: &str) -> Result<Name<EndpointId>, Error> {
    if text.starts_with(noun::Endpoint::PREFIX) {
        return text.parse().map(Name::Id).map_err(|_| Error::Missing("endpoint"));
    }
    Ok(Name::Uid(text.to_owned()))
}

impl App {
    /// Finds an endpoint.
    ///
    /// # Errors
    /// If there is no such endpoint in this application.
    pub async fn endpoint(&self, scope: &Scope, named: &str) -> Result<Endpoint, Error> {
        Ok(self.catalog.endpoint(scope.application().key, name(named)?).await?)
    }

    /// Creates an endpoint, with the secret its owner gave or a new one.
    ///
    /// # Errors
    /// If the draft makes no sense, its uid is taken, or its URL is not allowed.
    pub async fn create_endpoint(&self, scope: &Scope, draft: Draft) -> Result<Endpoint, Error> {
        let at = self.clock.now();
        let (caller, application) = (scope.caller(), scope.application().key);
        if draft.url.is_none() {
            return Err(Error::field("url", "is missing"));
        }
        let secret = secrets::make(draft.secret.as_deref(), "secret", caller.promise.as_ref(), at)?;
        let vetted = self.vet(scope, draft).await?.signed_by(Some((secret.clone(), "secret")));
        let id = self.id_for(caller);
        if caller.promise.as_ref().is_some_and(Promise::again)
            && let Ok(made) = self.catalog.endpoint(application, Name::Id(id)).await
        {
            return Ok(made);
        }
        let row = vetted.apply(&draft::blank(application, id, at))?;
        self.settings.caps.check(None, &row)?;
        let Endpoint { uid, state, order, settings, confidential, .. } = row;
        let new =
            NewEndpoint { application, id, uid, state, order, settings, confidential, secret, at };
        let admission = self.settings.caps.admission();
        let created = self.catalog.create_endpoint_if(new, admission).await?;
        self.accepting.changed();
        Ok(created)
    }

    /// Changes what a draft names of an endpoint, or creates it under that uid. Of many at the same
    /// moment one creates it. By its id it is changed only: what was deleted does not come back.
    ///
    /// # Errors
    /// As [`App::create_endpoint`].
    pub async fn put_endpoint(
        &self,
        scope: &Scope,
        named: &str,
        mut draft: Draft,
    ) -> Result<(Endpoint, Made), Error> {
        // A caller who names it by its uid means to keep that: the same request twice must not take
        // it off.
        let may_create = match name(named)? {
            Name::Uid(uid) => {
                draft.uid = Some(draft.uid.flatten().or(Some(uid)));
                true
            }
            Name::Id(_) => false,
        };
        let mut look = 1;
        loop {
            match self.update_endpoint(scope, named, draft.clone()).await {
                Err(Error::Missing(_)) if may_create => {}
                updated => return Ok((updated?, Made::Found)),
            }
            scope.caller().condition.check_missing()?;
            match self.create_endpoint(scope, draft.clone()).await {
                // Another request may have created it between our look and our insert.
                Err(Error::Conflict(_)) if look < LOOKS => look += 1,
                created => return Ok((created?, Made::Created)),
            }
        }
    }

    /// Changes what a draft names of an endpoint. A secret other than the current one replaces it,
    /// which goes on signing for a day.
    ///
    /// # Errors
    /// As [`App::create_endpoint`]; also if its order is to be switched while something is pending.
    pub async fn update_endpoint(
        &self,
        scope: &Scope,
        named: &str,
        draft: Draft,
    ) -> Result<Endpoint, Error> {
        // What is not there is missing, whatever is wrong with the request.
        let endpoint = self.endpoint(scope, named).await?;
        let at = self.clock.now();
        let secret = match draft.secret.as_deref() {
            Some(text) => Some(NewSecret {
                secret: secrets::make(Some(text), "secret", None, at)?,
                grace_ends: at.after(Duration::from_secs(secrets::USUAL_GRACE)),
            }),
            None => None,
        };
        let resumes = draft.disabled == Some(false);
        let signs = match (&secret, draft.names()) {
            (Some(new), _) => Some((new.secret.clone(), "secret")),
            (None, Some(Named::Profiles(field))) => {
                self.newest_secret(&endpoint).await?.map(|secret| (secret, field))
            }
            (None, _) => None,
        };
        let vetted = self.vet(scope, draft).await?.signed_by(signs);
        let edit = Arc::new(move |row: &Endpoint| vetted.apply(row));
        self.edit_endpoint(scope, named, Change { edit, secret, resumes }).await
    }

    /// Holds an endpoint's deliveries, or lets them go.
    ///
    /// # Errors
    /// If it is disabled.
    pub async fn pause_endpoint(
        &self,
        scope: &Scope,
        named: &str,
        paused: bool,
    ) -> Result<Endpoint, Error> {
        let edit = move |row: &Endpoint| {
            let state = if paused { row.state.pause() } else { row.state.resume() };
            let state = state.map_err(|refusal| Error::Conflict(refusal.to_string()))?;
            Ok(Endpoint { state, ..row.clone() })
        };
        let change = Change { edit: Arc::new(edit), secret: None, resumes: !paused };
        self.edit_endpoint(scope, named, change).await
    }

    /// Deletes an endpoint: it gets nothing more, and its pending deliveries become dead letters.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn delete_endpoint(&self, scope: &Scope, named: &str) -> Result<Rollout, Error> {
        let edit = |row: &Endpoint| Ok(Endpoint { state: row.state.delete(), ..row.clone() });
        let change = Change { edit: Arc::new(edit), secret: None, resumes: false };
        self.edit_endpoint(scope, named, change).await?;
        self.rolled_out().await
    }

    /// Lists an application's endpoints, newest first.
    ///
    /// # Errors
    /// If the iterator is no id.
    pub async fn endpoints(
        &self,
        scope: &Scope,
        wanted: &Wanted,
    ) -> Result<Slice<Endpoint>, Error> {
        let listed = self.catalog.endpoints(scope.application().key, wanted.by_id()?).await?;
        Ok(wanted.slice(listed, |endpoint| endpoint.id.to_string()))
    }

    /// Returns how an endpoint is doing, as its owner last wrote it.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn running(&self, scope: &Scope, named: &str) -> Result<(Endpoint, Running), Error> {
        let endpoint = self.endpoint(scope, named).await?;
        let running = self.catalog.running(endpoint.application, endpoint.key).await?;
        Ok((endpoint, running))
    }

    /// Asks an endpoint's owner to close its breaker, and to end a pause by Retry-After.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn reset_breaker(&self, scope: &Scope, named: &str) -> Result<(), Error> {
        let endpoint = self.endpoint(scope, named).await?;
        self.end_pause_by(&endpoint, RequestKind::ResetBreaker).await
    }

    /// Changes the endpoint that has a name, if its version is the one that the caller means.
    async fn edit_endpoint(
        &self,
        scope: &Scope,
        named: &str,
        Change { edit, secret, resumes }: Change,
    ) -> Result<Endpoint, Error> {
        let (edit, mut look) = (self.capped(edit), 1);
        let Changed { before, after } = loop {
            let endpoint = self.endpoint(scope, named).await?;
            let (named, condition) = (name(named)?, scope.caller().condition.clone());
            let edit = Arc::clone(&edit);
            let row = move |row: &Endpoint| {
                if !is_named(row, &named) {
                    return Err(Error::Missing("endpoint").into());
                }
                condition.check(Tag::from(row))?;
                Ok(edit(row)?)
            };
            let admission = self.settings.caps.admission();
            let change = EndpointEdit { row: Box::new(row), secret: secret.clone(), admission };
            let (application, key) = (endpoint.application, endpoint.key);
            let changed = self.catalog.change_endpoint(application, key, change, self.clock.now());
            match changed.await.map_err(Error::from) {
                // The name was taken off it after our look; another one may have it by now.
                Err(Error::Missing(_)) if look < LOOKS => look += 1,
                changed => break changed?,
            }
        };
        if before != after {
            self.accepting.changed();
        }
        if resumes || pauses::ends_pause(&before, &after) {
            self.end_pause(&after).await?;
        }
        Ok(after)
    }

    pub(super) async fn ask_owner(
        &self,
        endpoint: &Endpoint,
        kind: RequestKind,
    ) -> Result<(), Error> {
        let ask = Ask {
            application: endpoint.application,
            endpoint: endpoint.key,
            partition: endpoint.partition,
            kind,
            at: self.clock.now(),
        };
        self.accepting.ask(ask).await
    }
}

fn is_named(row: &Endpoint, name: &Name<EndpointId>) -> bool {
    match name {
        Name::Id(id) => row.id == *id,
        Name::Uid(uid) => row.uid.as_ref() == Some(uid),
    }
}
