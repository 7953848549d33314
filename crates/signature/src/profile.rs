//! The forms in which a request can be signed, and the headers each of them consists of.
//!
//! A profile has a text, which configuration and storage keep: a word, or a form and the names of its
//! headers. Nothing but names can be said there. What is hashed, and how it is spelled, is one of the
//! few forms that receivers in the field check; a new one is code here, with its verifier.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, SetupFault, shown};
use crate::header_name::HeaderName;
use crate::limits::MAX_BRAND_BYTES;

const WEBHOOK_SIGNATURE: &str = "X-Webhook-Signature";
const WEBHOOK_ID: &str = "X-Webhook-ID";
const WEBHOOK_EVENT: &str = "X-Webhook-Event";
const WEBHOOK_TIMESTAMP: &str = "X-Webhook-Timestamp";
const EVENT_ID: &str = "X-Event-Id";
/// The headers of a brand that is not known yet. No header can have such a name.
const UNKNOWN_BRAND: [&str; 2] = ["X-<Brand>-Signature", "X-<Brand>-Delivery"];

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

/// A set of headers that an attempt carries: a signature with what belongs to it, or a companion.
///
/// An endpoint can have several at once, for instance while its owner moves from one to another.
/// `Display` and `FromStr` use the texts given with each variant, for configuration and storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// `standard-webhooks`: `webhook-id`, `webhook-timestamp` and `webhook-signature`, over
    /// `id.timestamp.body`: `v1` (HMAC-SHA256) for shared secrets, `v1a` (ed25519) for private keys.
    StandardWebhooks,
    /// `svix`: the same under the names `svix-id`, `svix-timestamp` and `svix-signature`.
    Svix,
    /// `timestamped:<Header>`: `<Header>: t=<unix>,v1=<hex>`, HMAC-SHA256 over `timestamp.body`, with
    /// one `v1` per secret, as Stripe's `Stripe-Signature`.
    Timestamped(HeaderName),
    /// `branded:<Brand>`: the same as `X-<Brand>-Signature`, and `X-<Brand>-Delivery` with the
    /// delivery's id.
    ///
    /// `branded` alone leaves the brand to the sender's configuration: [`Profile::with_brand`] puts it
    /// in, and nothing is signed without it.
    Branded(Option<Brand>),
    /// `v0:<Header>:<Timestamp-Header>`: `<Header>: v0=<hex>`, HMAC-SHA256 over `v0:timestamp:body`,
    /// and the timestamp in a header of its own, as Slack's `X-Slack-Signature` and
    /// `X-Slack-Request-Timestamp`.
    V0 {
        /// The header with the signature.
        signature: HeaderName,
        /// The header with the timestamp.
        timestamp: HeaderName,
    },
    /// `digest:<Header>`, `digest-hex:<Header>`, `digest-base64:<Header>`: HMAC-SHA256 over the body
    /// alone, such as GitHub's `X-Hub-Signature-256` and Shopify's `X-Shopify-Hmac-Sha256`.
    ///
    /// Only the body is signed: this form does not protect against replays.
    Digest(DigestForm, HeaderName),
    /// `webhook-digest`: `digest:X-Webhook-Signature` with `X-Webhook-ID` (the delivery's id),
    /// `X-Webhook-Event` and `X-Webhook-Timestamp`.
    WebhookDigest,
    /// `delivery-id:<Header>`, `message-id:<Header>`, `event-type:<Header>`, `timestamp:<Header>`: a
    /// header that tells one thing about the attempt. It signs nothing and goes with another profile.
    Companion(Companion, HeaderName),
    /// `event-id`: `X-Event-Id` with the message's id.
    EventId,
}

/// How a digest of the body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestForm {
    /// `sha256=<hex>`.
    PrefixedHex,
    /// Hexadecimal digits in lower case.
    Hex,
    /// Base64.
    Base64,
}

/// What a companion tells about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Companion {
    /// The delivery's id: the same on every attempt, another one for each endpoint.
    DeliveryId,
    /// The message's id: the same on every attempt and for every endpoint.
    MessageId,
    /// The message's event type.
    EventType,
    /// When the attempt is made, as unix time in seconds.
    Timestamp,
}

/// What stands in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// What a companion tells.
    Told(Companion),
    /// `v1,<base64> v1a,<base64> …` over `id.timestamp.body`.
    Standard,
    /// `t=<unix>,v1=<hex>,v1=<hex> …` over `timestamp.body`.
    Stamped,
    /// `v0=<hex>` over `v0:timestamp:body`.
    V0,
    /// The body's digest.
    Digest(DigestForm),
}

impl Profile {
    /// How the texts of profiles look, for documentation and for messages about a text that is none.
    pub const FORMS: [&str; 15] = [
        "standard-webhooks",
        "svix",
        "branded",
        "branded:<Brand>",
        "timestamped:<Header>",
        "v0:<Header>:<Timestamp-Header>",
        "digest:<Header>",
        "digest-hex:<Header>",
        "digest-base64:<Header>",
        "webhook-digest",
        "event-id",
        "delivery-id:<Header>",
        "message-id:<Header>",
        "event-type:<Header>",
        "timestamp:<Header>",
    ];

    /// Returns the names of all headers that this profile writes. Nothing else may set them.
    pub fn header_names(&self) -> Vec<&str> {
        self.parts().into_iter().map(|(name, _)| name).collect()
    }

    /// Tells whether it carries a signature.
    pub fn signs(&self) -> bool {
        self.parts().iter().any(|(_, content)| !matches!(content, Content::Told(_)))
    }

    /// Returns the same profile, with this brand where it leaves the brand open.
    #[must_use]
    pub fn with_brand(self, brand: &Brand) -> Self {
        if self == Self::Branded(None) { Self::Branded(Some(brand.clone())) } else { self }
    }

    /// Returns its headers, each with what stands in it.
    pub(crate) fn parts(&self) -> Vec<(&str, Content)> {
        let delivery_id = Content::Told(Companion::DeliveryId);
        let timestamp = Content::Told(Companion::Timestamp);
        match self {
            Self::StandardWebhooks => STANDARD.parts().to_vec(),
            Self::Svix => SVIX.parts().to_vec(),
            Self::Timestamped(header) => vec![(header.as_str(), Content::Stamped)],
            Self::Branded(brand) => {
                let names = brand.as_ref().map_or(UNKNOWN_BRAND, Brand::header_names);
                vec![(names[0], Content::Stamped), (names[1], delivery_id)]
            }
            Self::V0 { signature, timestamp: header } => {
                vec![(signature.as_str(), Content::V0), (header.as_str(), timestamp)]
            }
            Self::Digest(form, header) => {
                vec![(header.as_str(), Content::Digest(*form))]
            }
            Self::WebhookDigest => vec![
                (WEBHOOK_SIGNATURE, Content::Digest(DigestForm::PrefixedHex)),
                (WEBHOOK_ID, delivery_id),
                (WEBHOOK_EVENT, Content::Told(Companion::EventType)),
                (WEBHOOK_TIMESTAMP, timestamp),
            ],
            Self::Companion(companion, header) => {
                vec![(header.as_str(), Content::Told(*companion))]
            }
            Self::EventId => vec![(EVENT_ID, Content::Told(Companion::MessageId))],
        }
    }
}

impl StandardHeaders {
    fn parts(&self) -> [(&'static str, Content); 3] {
        [
            (self.id, Content::Told(Companion::MessageId)),
            (self.timestamp, Content::Told(Companion::Timestamp)),
            (self.signature, Content::Standard),
        ]
    }
}

impl DigestForm {
    const fn word(self) -> &'static str {
        match self {
            Self::PrefixedHex => "digest",
            Self::Hex => "digest-hex",
            Self::Base64 => "digest-base64",
        }
    }
}

impl Companion {
    const fn word(self) -> &'static str {
        match self {
            Self::DeliveryId => "delivery-id",
            Self::MessageId => "message-id",
            Self::EventType => "event-type",
            Self::Timestamp => "timestamp",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardWebhooks => formatter.write_str("standard-webhooks"),
            Self::Svix => formatter.write_str("svix"),
            Self::Timestamped(header) => write!(formatter, "timestamped:{header}"),
            Self::Branded(None) => formatter.write_str("branded"),
            Self::Branded(Some(brand)) => write!(formatter, "branded:{}", brand.as_str()),
            Self::V0 { signature, timestamp } => write!(formatter, "v0:{signature}:{timestamp}"),
            Self::Digest(form, header) => write!(formatter, "{}:{header}", form.word()),
            Self::WebhookDigest => formatter.write_str("webhook-digest"),
            Self::Companion(companion, header) => {
                write!(formatter, "{}:{header}", companion.word())
            }
            Self::EventId => formatter.write_str("event-id"),
        }
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::Setup(SetupFault::UnknownProfile(shown(text)));
        let Some((form, names)) = text.split_once(':') else {
            return match text {
                "standard-webhooks" => Ok(Self::StandardWebhooks),
                "svix" => Ok(Self::Svix),
                "branded" => Ok(Self::Branded(None)),
                "webhook-digest" => Ok(Self::WebhookDigest),
                "event-id" => Ok(Self::EventId),
                _ => Err(unknown()),
            };
        };
        let companion = |companion| Ok(Self::Companion(companion, names.parse()?));
        let digest = |form| Ok(Self::Digest(form, names.parse()?));
        match form {
            "branded" => Ok(Self::Branded(Some(names.parse()?))),
            "timestamped" => Ok(Self::Timestamped(names.parse()?)),
            "v0" => {
                let (signature, timestamp) = names.split_once(':').ok_or_else(unknown)?;
                Ok(Self::V0 { signature: signature.parse()?, timestamp: timestamp.parse()? })
            }
            "digest" => digest(DigestForm::PrefixedHex),
            "digest-hex" => digest(DigestForm::Hex),
            "digest-base64" => digest(DigestForm::Base64),
            "delivery-id" => companion(Companion::DeliveryId),
            "message-id" => companion(Companion::MessageId),
            "event-type" => companion(Companion::EventType),
            "timestamp" => companion(Companion::Timestamp),
            _ => Err(unknown()),
        }
    }
}

/// The name of a sender, as it stands in `X-<Brand>-Signature`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brand {
    name: String,
    signature_header: HeaderName,
    delivery_header: HeaderName,
}

impl Brand {
    /// Returns the brand itself.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns `X-<Brand>-Signature` and `X-<Brand>-Delivery`.
    fn header_names(&self) -> [&str; 2] {
        [self.signature_header.as_str(), self.delivery_header.as_str()]
    }
}

impl FromStr for Brand {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
        if text.len() > MAX_BRAND_BYTES || !text.split('-').all(is_word) {
            return Err(Error::Setup(SetupFault::BadBrand(shown(text))));
        }
        Ok(Self {
            name: text.to_owned(),
            signature_header: ["X-", text, "-Signature"].concat().parse()?,
            delivery_header: ["X-", text, "-Delivery"].concat().parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of each form, in the order of [`Profile::FORMS`].
    const TEXTS: [&str; 15] = [
        "standard-webhooks",
        "svix",
        "branded",
        "branded:Acme-Pay",
        "timestamped:Stripe-Signature",
        "v0:X-Slack-Signature:X-Slack-Request-Timestamp",
        "digest:X-Hub-Signature-256",
        "digest-hex:Linear-Signature",
        "digest-base64:X-Shopify-Hmac-Sha256",
        "webhook-digest",
        "event-id",
        "delivery-id:X-GitHub-Delivery",
        "message-id:X-Event-Id",
        "event-type:X-GitHub-Event",
        "timestamp:X-Sent-At",
    ];

    #[test]
    fn a_profile_is_read_as_it_is_written() {
        for (text, form) in TEXTS.into_iter().zip(Profile::FORMS) {
            assert_eq!(text.parse::<Profile>().unwrap().to_string(), text);
            let named = |text: &str| text.split(':').next().unwrap().to_owned();
            assert_eq!(named(text), named(form), "each form has its text here");
            assert_eq!(text.split(':').count(), form.split(':').count(), "{form}");
        }
    }

    #[test]
    fn a_text_that_is_no_profile_or_names_no_header_is_refused() {
        for text in [
            "",
            "svix:",
            "digest",
            "stripe",
            "branded:",
            "branded:Acme:X",
            "digest:Host",
            "digest:X-A:X-B",
            "timestamped",
            "timestamped:",
            "v0:X-A",
            "v0:X-A:",
            "v0:X-A:Host",
            "v0:X-A:X-B:X-C",
            "timestamp:Content-Type",
            "event-id:X-A",
            "Digest:X-A",
        ] {
            assert!(text.parse::<Profile>().is_err(), "{text:?} became a profile");
        }
    }

    #[test]
    fn a_brand_is_a_word_that_makes_no_reserved_name() {
        for text in
            ["", "-", "Acme-", "-Acme", "Ac me", "Acme:", "Acme\r\nX", "Äcme", &"a".repeat(33)]
        {
            assert!(text.parse::<Brand>().is_err(), "{text:?} became a brand");
        }
        for text in ["Forwarded", "Amzn", "forwarded-For"] {
            let refusal = text.parse::<Brand>().unwrap_err();
            let name = format!("X-{text}-Signature");
            assert_eq!(refusal, Error::Setup(SetupFault::ReservedHeaderName(name)));
        }
    }

    #[test]
    fn a_brand_is_put_in_where_it_was_left_open() {
        let acme: Brand = "Acme".parse().unwrap();
        let open: Profile = "branded".parse().unwrap();
        assert_eq!(open.header_names(), ["X-<Brand>-Signature", "X-<Brand>-Delivery"]);
        let known = open.with_brand(&acme);
        assert_eq!(known.to_string(), "branded:Acme");
        assert_eq!(known.header_names(), ["X-Acme-Signature", "X-Acme-Delivery"]);
        let other: Profile = "branded:Other".parse().unwrap();
        assert_eq!(other.clone().with_brand(&acme), other);
    }
}
