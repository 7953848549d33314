//! The headers that an endpoint's owner has added to its attempts.
//!
//! What may hold a credential is kept encrypted and shown to nobody, not even to whoever wrote it.
//! Headers that the protocol, the signature or the guard depend on cannot be set.

use std::collections::BTreeMap;

use store::catalog::{Confidential, Credentials, Endpoint, EndpointSettings};

use super::fields::Checks;
use super::{App, Error, Scope};

/// The most headers of an endpoint.
const MOST_HEADERS: usize = 50;
/// The most bytes of a header's value.
const LONGEST_VALUE: usize = 4_096;
/// The most bytes of credentials. Written in Base64 they are longer by a third.
const LONGEST_CREDENTIALS: usize = 2_048;
/// Headers that are ours to set, or that change what a request is.
const RESERVED: [&str; 14] = [
    "host",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "user-agent",
    "proxy-connection",
    "x-forwarded-for",
    "forwarded",
];
/// Beginnings of headers that belong to signatures.
const SIGNATURE_HEADERS: [&str; 3] = ["webhook-", "svix-", "x-webhook-"];
const SENSITIVE: [&str; 4] = ["authorization", "x-auth-token", "x-api-key", "cookie"];
const SENSITIVE_BEGINNINGS: [&str; 2] = ["www-auth", "proxy-auth"];

/// An endpoint's headers as they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Those that may be seen.
    pub headers: BTreeMap<String, String>,
    /// The names of the others.
    pub sensitive: Vec<String>,
}

/// Tells whether a header may hold a credential.
#[must_use]
pub fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SENSITIVE.contains(&name.as_str())
        || SENSITIVE_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Checks headers as somebody wants to set them.
pub(super) fn check(checks: &mut Checks, headers: &BTreeMap<String, String>) {
    checks.holds("headers", headers.len() <= MOST_HEADERS, "has more than 50 entries");
    for (name, value) in headers {
        let field = format!("headers.{name}");
        let lower = name.to_ascii_lowercase();
        let reserved = RESERVED.contains(&lower.as_str())
            || SIGNATURE_HEADERS.iter().any(|beginning| lower.starts_with(beginning));
        checks.holds(&field, !reserved, "is set by the server and cannot be set here");
        let readable = http::HeaderName::from_bytes(name.as_bytes()).is_ok();
        checks.holds(&field, readable, "is no header name");
        let sendable = value.len() <= LONGEST_VALUE && http::HeaderValue::from_str(value).is_ok();
        checks.holds(&field, sendable, "has a value that no header can have");
    }
}

/// Checks credentials: a header must be able to carry them, and somebody else to read them.
pub(super) fn check_credentials(checks: &mut Checks, credentials: Option<&Credentials>) {
    const FIELD: &str = "credentials";
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
        let sensitive = endpoint.confidential.headers.into_keys().collect();
        Ok(Shown { headers: endpoint.settings.headers, sensitive })
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

    /// Sets and removes single headers of an endpoint. Names count whatever their case.
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
                headers.retain(|own, _| !own.eq_ignore_ascii_case(name));
            }
            headers.extend(changes.into_iter().filter_map(|(name, value)| Some((name, value?))));
        };
        self.update_endpoint(scope, endpoint, |draft| patch(&mut draft.headers)).await.map(|_| ())
    }
}
