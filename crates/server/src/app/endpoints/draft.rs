//! What a request names of an endpoint, from what was written to what is kept.
//!
//! What can be said of a field by itself, or needs other rows, is checked before anything is written.
//! What depends on the rest of the endpoint is checked on the row as it is, when the change is made.

use std::collections::BTreeMap;

use domain::endpoint::{Reason, State};
use domain::filter::EventTypePattern;
use domain::ids::{EndpointId, Noun as _, noun};
use domain::partition::Partition;
use domain::policy::Profile;
use domain::time::Timestamp;
use serde_json::Value;
use store::catalog::{Confidential, Credentials, Endpoint, EndpointSettings};
use store::keys::{ApplicationKey, EndpointKey};
use store::queue::Order;

use crate::app::fields::{Checks, LONGEST_DESCRIPTION, set};
use crate::app::{App, Error, Scope, headers};

/// The most attempts per second that an endpoint can be limited to.
const MOST_RATE: u32 = 65_535;
/// The most attempts in flight that an endpoint can ask for.
const MOST_IN_FLIGHT: u32 = 1_000;

/// What a request names of an endpoint, not checked yet. What it does not name stays as it is; a new
/// endpoint begins without it.
#[derive(Clone, Default)]
pub struct Draft {
    /// Where its messages go. A new endpoint needs it.
    pub url: Option<String>,
    /// A text for people.
    pub description: Option<String>,
    /// The owner's own id for it, or that it has none.
    pub uid: Option<Option<String>>,
    /// Whether it gets nothing.
    pub disabled: Option<bool>,
    /// The event types it gets, or that it gets all.
    pub event_types: Option<Option<Vec<String>>>,
    /// The channels it listens on, or that it does not choose.
    pub channels: Option<Option<Vec<String>>>,
    /// The most attempts per second, or that it sets none.
    pub rate: Option<Option<u32>>,
    /// The most attempts in flight, or that it sets none.
    pub in_flight: Option<Option<u32>>,
    /// Its policy: a preset's name, a document, or none.
    pub policy: Option<Option<Value>>,
    /// Its signature profiles; empty for those of its policy.
    pub signatures: Option<Vec<String>>,
    /// What becomes of the headers added to its attempts.
    pub headers: Option<headers::Edit>,
    /// How attempts authenticate themselves, or that they do not.
    pub credentials: Option<Option<Credentials>>,
    /// Whether its messages arrive in the order in which they were accepted.
    pub fifo: Option<bool>,
    /// Whatever its owner wants to remember.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Its signing secret.
    pub secret: Option<String>,
}

/// A draft whose fields were checked one by one.
pub(super) struct Vetted {
    draft: Draft,
    /// Origin, and path with query, of its URL.
    address: Option<(String, String)>,
}

impl Draft {
    /// Begins a draft with nothing but a URL.
    #[must_use]
    pub fn of(url: String) -> Self {
        Self { url: Some(url), ..Self::default() }
    }

    fn check(&self) -> Result<(), Error> {
        let mut checks = Checks::default();
        checks.uid("uid", self.uid.iter().flatten().next(), noun::Endpoint::PREFIX);
        checks.rate("throttleRate", self.rate.flatten(), MOST_RATE);
        checks.rate("inFlight", self.in_flight.flatten(), MOST_IN_FLIGHT);
        checks.policy(self.policy.iter().flatten().next());
        checks.channels(self.channels.iter().flatten().next().map(Vec::as_slice));
        if let Some(metadata) = &self.metadata {
            checks.metadata(metadata);
        }
        if let Some(description) = &self.description {
            checks.length("description", description, LONGEST_DESCRIPTION);
        }
        if let Some(edit) = &self.headers {
            edit.check(&mut checks);
        }
        headers::check_credentials(&mut checks, self.credentials.iter().flatten().next());
        if let Some(types) = self.event_types.iter().flatten().next() {
            let text = "must have an entry; leave it out to get all";
            checks.holds("eventTypes", !types.is_empty(), text);
            for text in types {
                checks.value("eventTypes", EventTypePattern::parse(text));
            }
        }
        check_signatures(&mut checks, self.signatures.as_deref().unwrap_or_default());
        checks.finish()
    }
}

fn check_signatures(checks: &mut Checks, signatures: &[String]) {
    let words = Profile::ALL.map(Profile::word);
    for profile in signatures {
        let text = format!("knows no `{profile}`; choose from {}", words.join(", "));
        checks.holds("signatures", words.contains(&profile.as_str()), &text);
    }
    let signs = signatures.iter().any(|word| word != Profile::EventId.word());
    checks.holds("signatures", signs || signatures.is_empty(), "must hold one that signs");
}

impl Vetted {
    /// Makes the change on an endpoint's row as it is.
    ///
    /// # Errors
    /// If its state does not allow it, or what comes out does not fit together.
    pub(super) fn apply(&self, row: &Endpoint) -> Result<Endpoint, Error> {
        let mut after = row.clone();
        if let Some(disabled) = self.draft.disabled {
            let state =
                if disabled { row.state.disable(Reason::ByPerson) } else { row.state.enable() };
            after.state = state.map_err(|refusal| Error::Conflict(refusal.to_string()))?;
        }
        if let Some(fifo) = self.draft.fifo {
            after.order = if fifo { Order::Fifo } else { Order::Due };
        }
        set(&mut after.uid, self.draft.uid.as_ref());
        self.set_plain(&mut after.settings);
        self.set_confidential(&mut after)?;
        Ok(after)
    }

    fn set_plain(&self, settings: &mut EndpointSettings) {
        let draft = &self.draft;
        let listed = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        set(&mut settings.description, draft.description.as_ref());
        set(&mut settings.event_types, draft.event_types.as_ref().map(listed).as_ref());
        set(&mut settings.channels, draft.channels.as_ref().map(listed).as_ref());
        set(&mut settings.rate, draft.rate.as_ref());
        set(&mut settings.in_flight, draft.in_flight.as_ref());
        set(&mut settings.policy, draft.policy.as_ref());
        set(&mut settings.signatures, draft.signatures.as_ref());
        set(&mut settings.metadata, draft.metadata.as_ref());
    }

    fn set_confidential(&self, after: &mut Endpoint) -> Result<(), Error> {
        let Endpoint { settings, confidential, .. } = after;
        if let Some((origin, path_and_query)) = &self.address {
            settings.origin.clone_from(origin);
            confidential.path_and_query.clone_from(path_and_query);
        }
        set(&mut confidential.credentials, self.draft.credentials.as_ref());
        if self.draft.headers.is_none() && self.draft.credentials.is_none() {
            return Ok(());
        }
        let mut all = headers::all(settings, confidential);
        if let Some(edit) = &self.draft.headers {
            edit.apply(&mut all);
        }
        let mut checks = Checks::default();
        headers::check_together(&mut checks, &all, confidential.credentials.as_ref());
        checks.finish()?;
        headers::part(all, settings, confidential);
        Ok(())
    }
}

/// Returns an endpoint of which nothing has been named yet.
pub(super) fn blank(application: ApplicationKey, id: EndpointId, at: Timestamp) -> Endpoint {
    Endpoint {
        key: EndpointKey(0),
        application,
        id,
        uid: None,
        partition: Partition::of(&id),
        state: State::Active,
        order: Order::Due,
        settings: EndpointSettings::default(),
        confidential: Confidential::default(),
        created_at: at,
        updated_at: at,
    }
}

impl App {
    /// Checks what a draft names field by field, what it refers to, and where its URL leads.
    pub(super) async fn vet(&self, scope: &Scope, draft: Draft) -> Result<Vetted, Error> {
        draft.check()?;
        let address = match &draft.url {
            Some(url) => Some(self.vet_url(scope, url)?),
            None => None,
        };
        if let Some(types) = draft.event_types.iter().flatten().next() {
            self.exist(types).await?;
        }
        Ok(Vetted { draft, address })
    }

    fn vet_url(&self, scope: &Scope, url: &str) -> Result<(String, String), Error> {
        let application = scope.application().id;
        let url = {
            let guard = self.guard.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            guard.vet_url(url, application)
        };
        let url = url.map_err(|refusal| {
            tracing::info!(%application, "an endpoint's URL was refused: {}", refusal.for_operator());
            Error::url(&refusal, scope.caller())
        })?;
        Ok((url.origin().to_owned(), url.expose_path_and_query().to_owned()))
    }
}
