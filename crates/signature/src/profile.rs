//! The forms in which a request can be signed, and the headers each of them consists of.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, SetupFault};
use crate::limits::{MAX_BRAND_BYTES, MAX_HEADER_NAME_BYTES};

pub(crate) const WEBHOOK_SIGNATURE: &str = "X-Webhook-Signature";
pub(crate) const WEBHOOK_ID: &str = "X-Webhook-ID";
pub(crate) const WEBHOOK_EVENT: &str = "X-Webhook-Event";
pub(crate) const WEBHOOK_TIMESTAMP: &str = "X-Webhook-Timestamp";
pub(crate) const EVENT_ID: &str = "X-Event-Id";

/// The three headers of a Standard Webhooks signature.
#[derive(Debug)]
pub(crate) struct StandardHeaders {
    pub(crate) id: &'static str,
    pub(crate) timestamp: &'static str,
    pub(crate) signature: &'static str,
}

pub(crate) const STANDARD: StandardHeaders = StandardHeaders {
    id: "webhook-id",
    timestamp: "webhook-timestamp",
    signature: "webhook-signature",
};

pub(crate) const SVIX: StandardHeaders =
    StandardHeaders { id: "svix-id", timestamp: "svix-timestamp", signature: "svix-signature" };

/// A set of headers that an attempt carries.
///
/// An endpoint can have several at once, for instance while its owner moves from one to another.
/// `Display` and `FromStr` use the names given with each variant, for configuration and storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// `standard-webhooks`: `webhook-id`, `webhook-timestamp` and `webhook-signature`, over
    /// `id.timestamp.body`: `v1` (HMAC-SHA256) for shared secrets, `v1a` (ed25519) for private keys.
    StandardWebhooks,
    /// `svix`: the same under the names `svix-id`, `svix-timestamp` and `svix-signature`.
    Svix,
    /// `branded:<Brand>`: `X-<Brand>-Signature: t=<unix>,v1=<hex>`, HMAC-SHA256 over
    /// `timestamp.body`, with one `v1` per secret, and `X-<Brand>-Delivery` with the delivery's id.
    Branded(Brand),
    /// `webhook-digest`: `X-Webhook-Signature: sha256=<hex>`, HMAC-SHA256 over the body, with
    /// `X-Webhook-ID` (the delivery's id), `X-Webhook-Event` and `X-Webhook-Timestamp`.
    ///
    /// Only the body is signed: this form does not protect against replays.
    WebhookDigest,
    /// `digest:<Header>`: the same signature alone, under a header of choice, such as
    /// `X-Hub-Signature-256` for receivers made for GitHub.
    Digest(HeaderName),
    /// `event-id`: `X-Event-Id` with the message's id. It signs nothing and goes with another profile.
    EventId,
}

impl Profile {
    /// Returns the names of all headers that this profile writes. Nothing else may set them.
    pub fn header_names(&self) -> Vec<&str> {
        match self {
            Self::StandardWebhooks => vec![STANDARD.id, STANDARD.timestamp, STANDARD.signature],
            Self::Svix => vec![SVIX.id, SVIX.timestamp, SVIX.signature],
            Self::Branded(brand) => vec![brand.signature_header(), brand.delivery_header()],
            Self::WebhookDigest => {
                vec![WEBHOOK_SIGNATURE, WEBHOOK_ID, WEBHOOK_EVENT, WEBHOOK_TIMESTAMP]
            }
            Self::Digest(header) => vec![header.as_str()],
            Self::EventId => vec![EVENT_ID],
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardWebhooks => formatter.write_str("standard-webhooks"),
            Self::Svix => formatter.write_str("svix"),
            Self::Branded(brand) => write!(formatter, "branded:{}", brand.as_str()),
            Self::WebhookDigest => formatter.write_str("webhook-digest"),
            Self::Digest(header) => write!(formatter, "digest:{}", header.as_str()),
            Self::EventId => formatter.write_str("event-id"),
        }
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once(':') {
            None if text == "standard-webhooks" => Ok(Self::StandardWebhooks),
            None if text == "svix" => Ok(Self::Svix),
            None if text == "webhook-digest" => Ok(Self::WebhookDigest),
            None if text == "event-id" => Ok(Self::EventId),
            Some(("branded", brand)) => brand.parse().map(Self::Branded),
            Some(("digest", header)) => header.parse().map(Self::Digest),
            None | Some(_) => Err(Error::Setup(SetupFault::UnknownProfile(text.to_owned()))),
        }
    }
}

/// The name of a sender, as it stands in `X-<Brand>-Signature`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brand {
    name: String,
    signature_header: String,
    delivery_header: String,
}

impl Brand {
    /// Returns the brand itself.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns `X-<Brand>-Signature`.
    pub fn signature_header(&self) -> &str {
        &self.signature_header
    }

    /// Returns `X-<Brand>-Delivery`.
    pub fn delivery_header(&self) -> &str {
        &self.delivery_header
    }
}

impl FromStr for Brand {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_BRAND_BYTES || !is_hyphenated_word(text) {
            return Err(Error::Setup(SetupFault::BadBrand(text.to_owned())));
        }
        Ok(Self {
            name: text.to_owned(),
            signature_header: ["X-", text, "-Signature"].concat(),
            delivery_header: ["X-", text, "-Delivery"].concat(),
        })
    }
}

/// The name of the header that carries a digest.
///
/// It has to start with `X-`: no header that frames or routes a request does, so that an endpoint's
/// owner cannot damage the request by choosing the name.
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
        let rest = text.strip_prefix("X-").or_else(|| text.strip_prefix("x-"));
        if text.len() <= MAX_HEADER_NAME_BYTES && rest.is_some_and(is_hyphenated_word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::Setup(SetupFault::BadHeaderName(text.to_owned())))
        }
    }
}

fn is_hyphenated_word(text: &str) -> bool {
    text.split('-').all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_is_written() {
        for text in [
            "standard-webhooks",
            "svix",
            "branded:Acme-Pay",
            "webhook-digest",
            "digest:X-Hub-Signature-256",
            "event-id",
        ] {
            assert_eq!(text.parse::<Profile>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn names_that_would_break_a_request_are_refused() {
        for text in
            ["", "-", "Acme-", "-Acme", "Ac me", "Acme:", "Acme\r\nX", "Äcme", &"a".repeat(33)]
        {
            assert!(text.parse::<Brand>().is_err(), "{text:?} became a brand");
        }
        for text in ["X-", "Host", "Content-Length", "X--Y", "X-Y\n", "X-Y Z"] {
            assert!(text.parse::<HeaderName>().is_err(), "{text:?} became a header name");
        }
        for text in ["", "svix:", "branded", "digest", "stripe", "branded:", "digest:Host"] {
            assert!(text.parse::<Profile>().is_err(), "{text:?} became a profile");
        }
    }
}
