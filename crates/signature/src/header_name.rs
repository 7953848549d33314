//! The names that a profile may give to its headers.
//!
//! A header can do harm beyond the receiver: it can frame a request differently, pose as a proxy's
//! word about the client, or open a cloud's metadata service. An endpoint's owner chooses names, so
//! such a name is refused when it is read.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, SetupFault, shown};
use crate::limits::MAX_HEADER_NAME_BYTES;

/// Names that a request's frame, its route, or a word about its client has. `HTTP_PROXY`, as CGI calls
/// `Proxy`, is taken for the program's own proxy by many programs.
const RESERVED: [&str; 29] = [
    "host",
    "user-agent",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "via",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "metadata",
    "metadata-flavor",
    "accept-encoding",
    "content-encoding",
    "cookie",
    "proxy",
    "http2-settings",
];
/// How such names begin that come in families.
const RESERVED_FAMILIES: [&str; 4] = ["proxy-", "x-forwarded-", "x-aws-ec2-metadata-", "x-amzn-"];

/// Names that a sender may set for other purposes: credentials, a description of the body, and what
/// caches, browsers and servers read. A signature there would be taken for something else.
const TAKEN: [&str; 9] = [
    "accept",
    "authorization",
    "cache-control",
    "date",
    "origin",
    "pragma",
    "range",
    "referer",
    "set-cookie",
];
/// How such names begin that come in families.
const TAKEN_FAMILIES: [&str; 6] =
    ["accept-", "access-control-", "content-", "if-", "sec-", "www-auth"];

/// Returns a header's name as it is compared with others: in lower case, with hyphens for all but
/// letters and digits.
///
/// WSGI and CGI hand a receiver's program `X-Id` and `x_id` under one name, and some of them `x.id`,
/// too.
#[must_use]
pub fn comparable(name: &str) -> String {
    name.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

/// Tells whether nobody may choose this name for a header of a request: it means something to what
/// carries or routes the request, or to what stands in front of the receiver.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    is_listed(name, &RESERVED, &RESERVED_FAMILIES)
}

fn is_listed(name: &str, names: &[&str], families: &[&str]) -> bool {
    let plain = comparable(name);
    names.contains(&plain.as_str()) || families.iter().any(|family| plain.starts_with(family))
}

/// The name of a header that a profile writes: words of letters and digits, with a hyphen, an
/// underscore or a full stop between two of them. It is none that has a meaning of its own, such as
/// `Host`, `Content-Type`, `Cookie`, `Authorization` or `X-Forwarded-For`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderName(String);

impl HeaderName {
    /// Returns the name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HeaderName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
        if text.len() > MAX_HEADER_NAME_BYTES || !text.split(['-', '_', '.']).all(is_word) {
            return Err(Error::Setup(SetupFault::BadHeaderName(shown(text))));
        }
        if is_reserved(text) || is_listed(text, &TAKEN, &TAKEN_FAMILIES) {
            return Err(Error::Setup(SetupFault::ReservedHeaderName(text.to_owned())));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_well_known_senders_are_taken_as_they_are() {
        for text in [
            "X-Hub-Signature-256",
            "Stripe-Signature",
            "X-Shopify-Hmac-Sha256",
            "X-Slack-Request-Timestamp",
            "x-zm-signature",
            "Signature",
            "Webhook-Signature",
            "X-CC-Webhook-Signature",
            "X_Signature",
            "X.Signature",
            "X-Redial-Signature",
        ] {
            assert_eq!(text.parse::<HeaderName>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_text_that_would_break_a_request_is_no_name() {
        let long = format!("X-{}", "a".repeat(63));
        for text in ["", "X-", "-X", "X--Y", "X-Y\n", "X-Y Z", "X:Y", "Ä", ".", "..", &long] {
            let refusal = text.parse::<HeaderName>().unwrap_err();
            assert_eq!(refusal, Error::Setup(SetupFault::BadHeaderName(shown(text))), "{text:?}");
        }
        assert!(long[..64].parse::<HeaderName>().is_ok());
    }

    #[test]
    fn a_name_with_a_meaning_of_its_own_is_refused_in_every_spelling() {
        for text in [
            "Host",
            "Content-Length",
            "Content-Type",
            "Content-MD5",
            "Transfer-Encoding",
            "Connection",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Upgrade",
            "Expect",
            "Forwarded",
            "Via",
            "X-Forwarded-For",
            "X-Real-IP",
            "X-Original-URL",
            "X-HTTP-Method-Override",
            "X-Amzn-Trace-Id",
            "X-aws-ec2-metadata-token",
            "Metadata-Flavor",
            "Cookie",
            "Set-Cookie",
            "Authorization",
            "Proxy-Authorization",
            "WWW-Authenticate",
            "Accept",
            "Accept-Encoding",
            "User-Agent",
            "Date",
            "If-None-Match",
        ] {
            for text in [text.to_owned(), text.replace('-', "_"), text.replace('-', ".")] {
                let refusal = text.parse::<HeaderName>().unwrap_err();
                assert_eq!(refusal, Error::Setup(SetupFault::ReservedHeaderName(text)));
            }
        }
    }
}
