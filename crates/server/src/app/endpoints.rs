//! Endpoints: create, find, change, delete, list, pause, resume, and their breaker.

use std::collections::BTreeMap;

use domain::endpoint::{Reason, State};
use domain::filter::EventTypePattern;
use domain::ids::{EndpointId, Noun as _, noun};
use domain::policy::Profile;
use serde_json::Value;
use store::catalog::{Confidential, EndpointSettings, Name, NewEndpoint};
pub use store::catalog::{Credentials, Endpoint};
pub use store::queue::{Order, RequestKind, Running};

use super::applications::Made;
use super::fields::{Checks, LONGEST_DESCRIPTION};
use super::idempotency::Promise;
use super::pages::{Slice, Wanted};
use super::{App, Ask, Error, Scope, headers, secrets};

/// The most attempts per second that an endpoint can be limited to.
const MOST_RATE: u32 = 65_535;
/// The most attempts in flight that an endpoint can ask for.
const MOST_IN_FLIGHT: u32 = 1_000;
/// The most event types that an endpoint lists.
const MOST_EVENT_TYPES: usize = 500;

/// What an endpoint's owner sets, not checked yet.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Where its messages go.
    pub url: String,
    /// A text for people.
    pub description: String,
    /// The owner's own id for it.
    pub uid: Option<String>,
    /// Whether it gets nothing.
    pub disabled: bool,
    /// The event types it gets, if not all.
    pub event_types: Option<Vec<String>>,
    /// The channels it listens on, if it chooses.
    pub channels: Option<Vec<String>>,
    /// The most attempts per second.
    pub rate: Option<u32>,
    /// The most attempts in flight.
    pub in_flight: Option<u32>,
    /// Its policy: a preset's name, or a document.
    pub policy: Option<Value>,
    /// Its signature profiles, if it sets its own.
    pub signatures: Vec<String>,
    /// Headers added to its attempts.
    pub headers: BTreeMap<String, String>,
    /// How attempts authenticate themselves.
    pub credentials: Option<Credentials>,
    /// Whether its messages arrive in the order in which they were accepted.
    pub fifo: bool,
    /// Whatever its owner wants to remember.
    pub metadata: BTreeMap<String, String>,
}

impl Draft {
    /// Begins a draft with nothing but a URL.
    #[must_use]
    pub fn of(url: String) -> Self {
        Self {
            url,
            description: String::new(),
            uid: None,
            disabled: false,
            event_types: None,
            channels: None,
            rate: None,
            in_flight: None,
            policy: None,
            signatures: Vec::new(),
            headers: BTreeMap::new(),
            credentials: None,
            fifo: false,
            metadata: BTreeMap::new(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let mut checks = Checks::default();
        checks.uid("uid", self.uid.as_ref(), noun::Endpoint::PREFIX);
        checks.rate("throttleRate", self.rate, MOST_RATE);
        checks.rate("inFlight", self.in_flight, MOST_IN_FLIGHT);
        checks.policy(self.policy.as_ref());
        checks.metadata(&self.metadata);
        checks.channels(self.channels.as_deref());
        checks.length("description", &self.description, LONGEST_DESCRIPTION);
        headers::check(&mut checks, &self.headers);
        headers::check_credentials(&mut checks, self.credentials.as_ref(), &self.headers);
        if let Some(types) = &self.event_types {
            let fits = (1..=MOST_EVENT_TYPES).contains(&types.len());
            checks.holds("eventTypes", fits, "must have 1 to 500 entries; leave it out to get all");
            for text in types {
                checks.value("eventTypes", EventTypePattern::parse(text));
            }
        }
        let words = Profile::ALL.map(Profile::word);
        for profile in &self.signatures {
            let text = format!("knows no `{profile}`; choose from {}", words.join(", "));
            checks.holds("signatures", words.contains(&profile.as_str()), &text);
        }
        let signs = self.signatures.iter().any(|word| word != Profile::EventId.word());
        let fits = signs || self.signatures.is_empty();
        checks.holds("signatures", fits, "must hold one that signs");
        checks.finish()
    }
}

impl From<&Endpoint> for Draft {
    fn from(endpoint: &Endpoint) -> Self {
        let settings = endpoint.settings.clone();
        let listed = |list: Vec<String>| (!list.is_empty()).then_some(list);
        Self {
            url: url(endpoint),
            description: settings.description,
            uid: endpoint.uid.clone(),
            disabled: matches!(endpoint.state, State::Disabled(_)),
            event_types: listed(settings.event_types),
            channels: listed(settings.channels),
            rate: settings.rate,
            in_flight: settings.in_flight,
            policy: settings.policy,
            signatures: settings.signatures,
            headers: headers::all(endpoint),
            credentials: endpoint.confidential.credentials.clone(),
            fifo: endpoint.order == Order::Fifo,
            metadata: settings.metadata,
        }
    }
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

/// What is kept of a checked draft.
struct Parts {
    uid: Option<String>,
    order: Order,
    settings: EndpointSettings,
    confidential: Confidential,
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
    pub async fn create_endpoint(
        &self,
        scope: &Scope,
        draft: Draft,
        secret: Option<String>,
    ) -> Result<Endpoint, Error> {
        let at = self.clock.now();
        let promise = scope.caller().promise.as_ref();
        let secret = secrets::make(secret.as_deref(), "secret", promise, at)?;
        let state = if draft.disabled { State::Disabled(Reason::ByPerson) } else { State::Active };
        let parts = self.vet(scope, draft).await?;
        let (caller, application) = (scope.caller(), scope.application().key);
        let id = self.id_for(caller);
        if caller.promise.as_ref().is_some_and(Promise::again)
            && let Ok(made) = self.catalog.endpoint(application, Name::Id(id)).await
        {
            return Ok(made);
        }
        let created = self.catalog.create_endpoint(NewEndpoint {
            application,
            id,
            uid: parts.uid,
            state,
            order: parts.order,
            settings: parts.settings,
            confidential: parts.confidential,
            secret,
            at,
        });
        let created = created.await?;
        self.accepting.changed(created.application, Some(created.key));
        Ok(created)
    }

    /// Replaces what an endpoint's owner set, or creates it under that name.
    ///
    /// # Errors
    /// As [`App::create_endpoint`].
    pub async fn put_endpoint(
        &self,
        scope: &Scope,
        named: &str,
        mut draft: Draft,
    ) -> Result<(Endpoint, Made), Error> {
        // Whoever calls it by its uid means to keep that: the same request twice must not take it off.
        if let Ok(Name::Uid(uid)) = name(named) {
            draft.uid.get_or_insert(uid);
        }
        match self.endpoint(scope, named).await {
            Ok(_) => {
                let replace = |own: &mut Draft| {
                    // Headers have their own place in the API, and credentials are never read
                    // back: whoever writes back what was read must not lose them.
                    if draft.headers.is_empty() {
                        draft.headers = std::mem::take(&mut own.headers);
                    }
                    draft.credentials = draft.credentials.take().or(own.credentials.take());
                    *own = draft;
                };
                Ok((self.update_endpoint(scope, named, replace).await?, Made::Found))
            }
            Err(Error::Missing(_)) => {
                Ok((self.create_endpoint(scope, draft, None).await?, Made::Created))
            }
            Err(other) => Err(other),
        }
    }

    /// Changes what an endpoint's owner set.
    ///
    /// # Errors
    /// As [`App::create_endpoint`]; also if its order is to be switched while something is pending.
    pub async fn update_endpoint(
        &self,
        scope: &Scope,
        named: &str,
        change: impl FnOnce(&mut Draft),
    ) -> Result<Endpoint, Error> {
        let mut endpoint = self.endpoint(scope, named).await?;
        let mut draft = Draft::from(&endpoint);
        change(&mut draft);
        let state = if draft.disabled {
            endpoint.state.disable(Reason::ByPerson)
        } else {
            endpoint.state.enable()
        };
        let parts = self.vet(scope, draft).await?;
        endpoint.state = state.map_err(|refusal| Error::Conflict(refusal.to_string()))?;
        endpoint.uid = parts.uid;
        endpoint.order = parts.order;
        endpoint.settings = parts.settings;
        endpoint.confidential = parts.confidential;
        self.save_endpoint(endpoint).await
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
        let mut endpoint = self.endpoint(scope, named).await?;
        let state = if paused { endpoint.state.pause() } else { endpoint.state.resume() };
        endpoint.state = state.map_err(|refusal| Error::Conflict(refusal.to_string()))?;
        self.save_endpoint(endpoint).await
    }

    /// Deletes an endpoint: it gets nothing more, and its pending deliveries become dead letters.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn delete_endpoint(&self, scope: &Scope, named: &str) -> Result<(), Error> {
        let endpoint = self.endpoint(scope, named).await?;
        let (application, key) = (endpoint.application, endpoint.key);
        self.catalog.delete_endpoint(application, key, self.clock.now()).await?;
        self.accepting.changed(application, Some(key));
        self.ask_owner(&endpoint, RequestKind::Refresh).await
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

    /// Asks an endpoint's owner to close its breaker.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn reset_breaker(&self, scope: &Scope, named: &str) -> Result<(), Error> {
        let endpoint = self.endpoint(scope, named).await?;
        self.ask_owner(&endpoint, RequestKind::ResetBreaker).await
    }

    async fn save_endpoint(&self, mut endpoint: Endpoint) -> Result<Endpoint, Error> {
        endpoint.updated_at = self.clock.now();
        let saved = self.catalog.update_endpoint(endpoint).await?;
        self.accepting.changed(saved.application, Some(saved.key));
        self.ask_owner(&saved, RequestKind::Refresh).await?;
        Ok(saved)
    }

    async fn ask_owner(&self, endpoint: &Endpoint, kind: RequestKind) -> Result<(), Error> {
        let ask = Ask {
            application: endpoint.application,
            endpoint: endpoint.key,
            partition: endpoint.partition,
            kind,
            at: self.clock.now(),
        };
        self.accepting.ask(ask).await
    }

    /// Checks a draft, what it names, and where its URL leads.
    async fn vet(&self, scope: &Scope, draft: Draft) -> Result<Parts, Error> {
        draft.check()?;
        let url = {
            let guard = self.guard.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            guard.vet_url(&draft.url, scope.application().id)
        };
        let url = url.map_err(|refusal| {
            let application = scope.application().id;
            tracing::info!(%application, "an endpoint's URL was refused: {}", refusal.for_operator());
            Error::url(&refusal)
        })?;
        let event_types = draft.event_types.unwrap_or_default();
        self.exist(&event_types).await?;
        let mut settings = EndpointSettings {
            origin: url.origin().to_owned(),
            description: draft.description,
            event_types,
            channels: draft.channels.unwrap_or_default(),
            rate: draft.rate,
            in_flight: draft.in_flight,
            policy: draft.policy,
            signatures: draft.signatures,
            headers: BTreeMap::new(),
            metadata: draft.metadata,
        };
        let mut confidential = Confidential {
            path_and_query: url.expose_path_and_query().to_owned(),
            headers: BTreeMap::new(),
            credentials: draft.credentials,
        };
        headers::part(draft.headers, &mut settings, &mut confidential);
        let order = if draft.fifo { Order::Fifo } else { Order::Due };
        Ok(Parts { uid: draft.uid, order, settings, confidential })
    }
}
