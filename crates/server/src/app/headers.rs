//! The headers that an endpoint's owner has added to its attempts.
//!
//! What may hold a credential is kept encrypted and shown to nobody, not even to whoever wrote it.
//! What can be set is what the transport sends: it has the rule, and both ask it.

use std::collections::{BTreeMap, BTreeSet};

use signature::comparable;
use store::catalog::{Confidential, Credentials, Endpoint, EndpointSettings};

use super::endpoints::Draft;
use super::fields::Checks;
use super::{App, Error, Scope};
use crate::transport::headers::{is_sensitive, safe_header, safe_headers};

/// The most bytes of credentials. Written in Base64 they are longer by a third.
const LONGEST_CREDENTIALS: usize = 2_048;
/// The most headers that one change names.
const MOST_NAMED: usize = 64;
/// The field that holds them.
const CREDENTIALS: &str = "credentials";

/// An endpoint's headers as they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Those that may be seen.
    pub headers: BTreeMap<String, String>,
    /// The names of the others.
    pub sensitive: Vec<String>,
}

/// What becomes of an endpoint's headers.
#[derive(Clone)]
pub enum Edit {
    /// They are replaced by these.
    All(BTreeMap<String, String>),
    /// Single ones are set or, without a value, removed. Names count whatever their case,
    /// and all but letters and digits as `-`.
    Some(BTreeMap<String, Option<String>>),
}

impl Edit {
    /// Checks the headers that are set, each by itself: what is kept is what will be sent.
    pub(super) fn check(&self, checks: &mut Checks) {
        let named = match self {
            Self::All(headers) => headers.len(),
            Self::Some(changes) => changes.len(),
        };
        // The change runs while other writers wait.
        if named > MOST_NAMED {
            return checks.holds(
                "headers",
                false,
                &format!("names {named}; allowed are {MOST_NAMED}"),
            );
        }
        let mut check = |name: &str, value: &str| {
            checks.value(&format!("headers.{name}"), safe_header(name, value));
        };
        match self {
            Self::All(headers) => headers.iter().for_each(|(name, value)| check(name, value)),
            Self::Some(changes) => {
                let set = changes.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
                set.for_each(|(name, value)| check(name, value));
            }
        }
    }

    /// Makes the change on all of an endpoint's headers.
    pub(super) fn apply(&self, headers: &mut BTreeMap<String, String>) {
        match self {
            Self::All(all) => headers.clone_from(all),
            Self::Some(changes) => {
                let named: BTreeSet<_> = changes.keys().map(|name| comparable(name)).collect();
                headers.retain(|own, _| !named.contains(&comparable(own)));
                let set =
                    changes.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
                headers.extend(set);
            }
        }
    }
}

/// Checks what is to be sent with each attempt of an endpoint as a whole: how many headers it has,
/// and that its credentials are not among them.
pub(super) fn check_together(
    checks: &mut Checks,
    headers: &BTreeMap<String, String>,
    credentials: Option<&Credentials>,
) {
    let mut names = BTreeSet::new();
    let twice = headers.keys().find(|name| !names.insert(comparable(name)));
    let text = "has a name twice; upper and lower case count as one, and so do `-` and all but letters and digits";
    checks.holds("headers", twice.is_none(), text);
    // One that is kept from before a rule became stricter is not sent, and does not count.
    let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let sent = pairs.filter(|(name, value)| safe_header(name, value).is_ok());
    if let Err(refusal) = safe_headers(sent) {
        checks.holds("headers", false, &refusal.to_string());
    }
    let taken = headers.keys().any(|name| comparable(name) == "authorization");
    let text = "cannot be sent besides the header `authorization`; remove one of them";
    checks.holds(CREDENTIALS, credentials.is_none() || !taken, text);
}

/// Checks credentials: a header must be able to carry them, and somebody else to read them.
pub(super) fn check_credentials(checks: &mut Checks, credentials: Option<&Credentials>) {
    let size = match credentials {
        None => return,
        Some(Credentials::Bearer(token)) => {
            let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            checks.holds(CREDENTIALS, visible, "need a token of visible characters of ASCII");
            token.len()
        }
        Some(Credentials::Basic { user, password }) => {
            let named = !user.is_empty() || !password.is_empty();
            checks.holds(CREDENTIALS, named, "need a user or a password");
            checks.holds(CREDENTIALS, !user.contains(':'), "cannot have a user with a colon");
            user.len() + password.len()
        }
    };
    let text = format!("have {size} bytes; allowed are {LONGEST_CREDENTIALS}");
    checks.holds(CREDENTIALS, size <= LONGEST_CREDENTIALS, &text);
}

/// Puts headers where they are kept: the sensitive ones encrypted, the others plain.
pub(super) fn part(
    headers: BTreeMap<String, String>,
    settings: &mut EndpointSettings,
    confidential: &mut Confidential,
) {
    let (sensitive, plain) = headers.into_iter().partition(|(name, _)| is_sensitive(name));
    settings.headers = plain;
    confidential.headers = sensitive;
}

/// Returns all headers of an endpoint, the sensitive ones with their values.
pub(super) fn all(
    settings: &EndpointSettings,
    confidential: &Confidential,
) -> BTreeMap<String, String> {
    let mut headers = settings.headers.clone();
    headers.extend(confidential.headers.clone());
    headers
}

impl Shown {
    /// Shows the headers of an endpoint.
    #[must_use]
    pub fn of(endpoint: &Endpoint) -> Self {
        let Endpoint { settings, confidential, .. } = endpoint.clone();
        // A name can have come onto the list of secrets after it was saved.
        let (secret, headers): (BTreeMap<_, _>, _) =
            settings.headers.into_iter().partition(|(name, _)| is_sensitive(name));
        let sensitive = confidential.headers.into_keys().chain(secret.into_keys());
        Self { headers, sensitive: sensitive.collect() }
    }
}

impl App {
    /// Changes an endpoint's headers.
    ///
    /// # Errors
    /// If one of them cannot be set, or they do not fit together.
    pub async fn edit_headers(
        &self,
        scope: &Scope,
        endpoint: &str,
        edit: Edit,
    ) -> Result<Endpoint, Error> {
        let draft = Draft { headers: Some(edit), ..Draft::default() };
        self.update_endpoint(scope, endpoint, draft).await
    }
}
