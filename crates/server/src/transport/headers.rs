//! Headers that an endpoint's owner may add to its attempts, and which of them are secrets.
//!
//! A header can do harm beyond the receiver. The crate `signature` has the names that nobody may choose,
//! and compares names. Such a name is refused when it is saved, by this same rule, and left out when it
//! is sent, should it have got into the store some other way.

use domain::names::is_dot_segment;
use http::{HeaderName, HeaderValue};
use signature::comparable;

/// How many headers an endpoint may add.
pub const MOST_HEADERS: usize = 32;
/// How long the name and the value of one header may be together.
pub const HEADER_BYTES: usize = 4 * 1024;
/// How long all of them may be together.
pub const ALL_HEADERS_BYTES: usize = 16 * 1024;

/// What a secret value is shown as.
pub const MASK: &str = "***";

/// Names that an endpoint may not add besides those that are reserved: they belong to signatures.
const OURS: [&str; 1] = ["x-event-id"];
const OUR_FAMILIES: [&str; 5] = ["webhook-", "svix-", "x-svix-", "x-webhook-", "x-redial-"];

/// Names that may be set, and whose other spellings would stand beside the sender's own header.
const OVERRIDABLE: [&str; 1] = ["content-type"];

/// Names whose values are secrets, wherever they are kept.
const SENSITIVE: [&str; 4] = ["authorization", "x-auth-token", "x-api-key", "api-key"];
const SENSITIVE_FAMILIES: [&str; 2] = ["www-auth", "proxy-auth"];

/// Why a header may not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No header can have this name.
    #[error("{0:?} cannot be the name of a header; use letters, digits and hyphens")]
    Name(String),
    /// No header can have this value.
    #[error("the value of {0} has a line break or another character that no header may have")]
    Value(String),
    /// The name is not for endpoints to set.
    #[error("{0} is set by the sender or reserved; choose another name")]
    Reserved(String),
    /// The header is too long.
    #[error("{0} is longer than {HEADER_BYTES} bytes")]
    TooLong(String),
    /// There are too many headers.
    #[error("there are more than {MOST_HEADERS} headers")]
    TooMany,
    /// The headers are too long together.
    #[error("the headers are longer than {ALL_HEADERS_BYTES} bytes together")]
    TooLongTogether,
}

/// Reads a header that an endpoint wants to add.
///
/// # Errors
/// If it is no header, too long, or not for endpoints to set.
pub fn safe_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Refusal> {
    if name.len() + value.len() > HEADER_BYTES {
        let shown = name.chars().take(64).collect();
        return Err(Refusal::TooLong(shown));
    }
    let read = HeaderName::try_from(name).map_err(|_| Refusal::Name(name.to_owned()))?;
    if is_dot_segment(name) {
        return Err(Refusal::Name(name.to_owned()));
    }
    let plain = comparable(name);
    let denied = signature::is_reserved(&plain)
        || OURS.contains(&plain.as_str())
        || OUR_FAMILIES.iter().any(|family| plain.starts_with(family))
        || OVERRIDABLE.contains(&plain.as_str()) && read.as_str() != plain;
    if denied {
        return Err(Refusal::Reserved(name.to_owned()));
    }
    let value = HeaderValue::try_from(value).map_err(|_| Refusal::Value(name.to_owned()))?;
    Ok((read, value))
}

/// Reads all headers that an endpoint wants to add.
///
/// # Errors
/// If one of them is refused, or if they are too many or too long together.
pub fn safe_headers<'a>(
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<(HeaderName, HeaderValue)>, Refusal> {
    let mut allowance = Allowance::default();
    let read = |(name, value)| {
        let header = safe_header(name, value)?;
        allowance.spend(name, value)?;
        Ok(header)
    };
    headers.into_iter().map(read).collect()
}

/// Tells whether the value of a header is a secret by its name.
#[must_use]
pub fn is_sensitive(name: &str) -> bool {
    let name = comparable(name);
    SENSITIVE.contains(&name.as_str())
        || SENSITIVE_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// What is left of the limits on all headers together.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    headers: usize,
    bytes: usize,
}

impl Allowance {
    /// Counts a header in.
    pub(super) fn spend(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        if self.headers == MOST_HEADERS {
            return Err(Refusal::TooMany);
        }
        if self.bytes + name.len() + value.len() > ALL_HEADERS_BYTES {
            return Err(Refusal::TooLongTogether);
        }
        self.headers += 1;
        self.bytes += name.len() + value.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_do_harm_beyond_the_receiver_is_refused() {
        let denied = [
            "Host",
            "content-length",
            "Transfer-Encoding",
            "connection",
            "TE",
            "expect",
            "cookie",
            "proxy-authorization",
            "X-Forwarded-For",
            "x-forwarded-host",
            "forwarded",
            "Metadata",
            "metadata-flavor",
            "X-aws-ec2-metadata-token",
            "webhook-signature",
            "svix-id",
            "X-Webhook-Signature",
            "accept-encoding",
            "x-http-method-override",
            "User-Agent",
            "X-Event-Id",
            "X-Redial-Signature",
            "Proxy",
            "Via",
            "True-Client-IP",
            "CF-Connecting-IP",
            "X-Client-IP",
            "X-Original-URL",
            "X-HTTP-Method",
            "X-Amzn-Trace-Id",
            "X-Svix-Id",
        ];
        for name in denied {
            for name in [name.to_owned(), name.replace('-', "_"), name.replace('-', ".")] {
                let refusal = safe_header(&name, "1").unwrap_err();
                assert_eq!(refusal, Refusal::Reserved(name));
            }
        }
    }

    #[test]
    fn a_name_that_reaches_a_program_as_the_content_type_is_refused() {
        let refusal = safe_header("Content_Type", "text/plain").unwrap_err();
        assert_eq!(refusal, Refusal::Reserved("Content_Type".to_owned()));
    }

    #[test]
    fn what_would_split_a_request_is_no_header() {
        for value in ["a\r\nHost: b", "a\nb", "a\0", "\u{7f}"] {
            assert_eq!(safe_header("X-A", value), Err(Refusal::Value("X-A".to_owned())));
        }
        for name in ["", "a b", "a:", "a\r\n", "ä", ".", ".."] {
            assert_eq!(safe_header(name, "1"), Err(Refusal::Name(name.to_owned())), "{name:?}");
        }
    }

    #[test]
    fn other_headers_are_taken_as_they_are() {
        let (name, value) = safe_header("Authorization", "Bearer abc").unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("authorization", &b"Bearer abc"[..]));
        for name in ["X-Team", "x_team", "content-type", "Content-Type", "svixen_id"] {
            assert!(safe_header(name, "billing, ops").is_ok(), "{name}");
        }
    }

    #[test]
    fn headers_are_limited_singly_and_together() {
        let long = "a".repeat(HEADER_BYTES - 1);
        assert!(safe_header("x", &long).is_ok());
        assert!(matches!(safe_header("xx", &long), Err(Refusal::TooLong(_))));
        let names: Vec<String> = (0..=MOST_HEADERS).map(|each| format!("x-{each}")).collect();
        let all = |count: usize| names.iter().take(count).map(|name| (name.as_str(), "1"));
        assert_eq!(safe_headers(all(MOST_HEADERS)).unwrap().len(), MOST_HEADERS);
        assert_eq!(safe_headers(all(MOST_HEADERS + 1)), Err(Refusal::TooMany));
        let four = ["a", "b", "c", "d"].map(|name| (name, long.as_str()));
        assert!(safe_headers(four).is_ok());
        let five = four.into_iter().chain([("e", "1")]);
        assert_eq!(safe_headers(five), Err(Refusal::TooLongTogether));
    }

    #[test]
    fn credentials_are_secrets_by_their_names() {
        for name in
            ["Authorization", "X-API-Key", "x_api_key", "X-auth_token", "Proxy_Authenticate"]
        {
            assert!(is_sensitive(name), "{name}");
        }
        assert!(!is_sensitive("x-team"));
    }
}
