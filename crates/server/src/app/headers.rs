//! The headers that an endpoint's owner has added to its attempts.
//!
//! What may hold a credential is kept encrypted and shown to nobody, not even to whoever wrote it.
//! What can be set is what the transport sends: it has the rule, and both ask it.

use std::collections::{BTreeMap, BTreeSet};

use store::catalog::{Confidential, Credentials, Endpoint, EndpointSettings};

use super::fields::Checks;
use super::{App, Error, Scope};
use crate::transport::headers::{Refusal, comparable, is_sensitive, safe_header, safe_headers};

/// The most bytes of credentials. Written in Base64 they are longer by a third.
const LONGEST_CREDENTIALS: usize = 2_048;
/// An endpoint's headers as they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Those that may be seen.
    pub headers: BTreeMap<String, String>,
    /// The names of the others.
    pub sensitive: Vec<String>,
}

/// Checks headers as somebody wants to set them: what is kept is what will be sent.
pub(super) fn check(checks: &mut Checks, headers: &BTreeMap<String, String>) {
    for (name, value) in headers {
        let field = format!("headers.{name}");
        checks.value(&field, safe_header(name, value));
    }
    let mut names = BTreeSet::new();
    let twice = headers.keys().find(|name| !names.insert(comparable(name)));
    let text = "has a name twice; upper and lower case count as one, and so do `_` and `-`";
    checks.holds("headers", twice.is_none(), text);
    let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    match safe_headers(pairs) {
        Ok(_) => {}
        Err(refusal @ (Refusal::TooMany | Refusal::TooLongTogether)) => {
            checks.holds("headers", false, &refusal.to_string());
        }
        // These are said of the header itself.
        Err(Refusal::Name(_) | Refusal::Value(_) | Refusal::Reserved(_) | Refusal::TooLong(_)) => {}
    }
}

/// Checks credentials: a header must be able to carry them, and somebody else to read them. It must
/// not be there already.
pub(super) fn check_credentials(
    checks: &mut Checks,
    credentials: Option<&Credentials>,
    headers: &BTreeMap<String, String>,
) {
    const FIELD: &str = "credentials";
    let taken = headers.keys().any(|name| comparable(name) == "authorization");
    let text = "cannot be sent besides the header `authorization`; remove one of them";
    checks.holds(FIELD, credentials.is_none() || !taken, text);
    let size = match credentials {
        None => return,
        Some(Credentials::Bearer(token)) => {
            let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            checks.holds(FIELD, visible, "need a token of visible characters of ASCII");
            token.len()
        }
        Some(Credentials::Basic { user, password }) => {
            let named = !user.is_empty() || !password.is_empty();
            checks.holds(FIELD, named, "need a user or a password");
            checks.holds(FIELD, !user.contains(':'), "cannot have a user with a colon");
            user.len() + password.len()
        }
    };
    let text = format!("have {size} bytes; allowed are {LONGEST_CREDENTIALS}");
    checks.holds(FIELD, size <= LONGEST_CREDENTIALS, &text);
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
pub(super) fn all(endpoint: &Endpoint) -> BTreeMap<String, String> {
    let mut headers = endpoint.settings.headers.clone();
    headers.extend(endpoint.confidential.headers.clone());
    headers
}

impl App {
    /// Shows an endpoint's headers.
    ///
    /// # Errors
    /// If there is no such endpoint.
    pub async fn headers(&self, scope: &Scope, endpoint: &str) -> Result<Shown, Error> {
        let endpoint = self.endpoint(scope, endpoint).await?;
        // A name can have come onto the list of secrets after it was saved.
        let (secret, headers): (BTreeMap<_, _>, _) =
            endpoint.settings.headers.into_iter().partition(|(name, _)| is_sensitive(name));
        let sensitive = endpoint.confidential.headers.into_keys().chain(secret.into_keys());
        Ok(Shown { headers, sensitive: sensitive.collect() })
    }

    /// Replaces an endpoint's headers.
    ///
    /// # Errors
    /// If one of them cannot be set.
    pub async fn put_headers(
        &self,
        scope: &Scope,
        endpoint: &str,
        headers: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        self.update_endpoint(scope, endpoint, |draft| draft.headers = headers).await.map(|_| ())
    }

    /// Sets and removes single headers of an endpoint. Names count whatever their case,
    /// and `_` as `-`.
    ///
    /// # Errors
    /// If one of them cannot be set.
    pub async fn patch_headers(
        &self,
        scope: &Scope,
        endpoint: &str,
        changes: BTreeMap<String, Option<String>>,
        removed: Vec<String>,
    ) -> Result<(), Error> {
        let patch = |headers: &mut BTreeMap<String, String>| {
            for name in changes.keys().chain(&removed) {
                headers.retain(|own, _| comparable(own) != comparable(name));
            }
            headers.extend(changes.into_iter().filter_map(|(name, value)| Some((name, value?))));
        };
        self.update_endpoint(scope, endpoint, |draft| patch(&mut draft.headers)).await.map(|_| ())
    }
}
