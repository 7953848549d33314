//! A preset: a policy by name, and the endpoint settings that its source goes with it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::Policy;
use crate::breaker;
use crate::health;
use crate::outcome::Outcome;
use crate::rate::Rate;

/// A named policy with endpoint defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// One line about it.
    pub summary: String,
    /// The policy, which has the name.
    pub policy: Policy,
    /// What its endpoints start with.
    pub endpoint: EndpointDefaults,
}

/// What an endpoint starts with when its owner sets nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointDefaults {
    /// The most attempts in flight at once.
    pub in_flight: NonZeroU32,
    /// The most attempts per second.
    pub rate: Rate,
    /// The breaker, if it has one.
    pub breaker: Option<breaker::Settings>,
    /// When a failing endpoint is disabled.
    pub health: health::Rule,
    /// Which headers attempts carry.
    pub signatures: Vec<Profile>,
    /// What is kept of a response.
    pub response_kept: ResponseKept,
}

/// A set of headers that an attempt carries: its signature in one form, and what goes with it. The
/// crate `signature` writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    StandardWebhooks,
    /// The same under `svix-` names.
    Svix,
    /// `X-<Brand>-Signature: t=…,v1=…` and `X-<Brand>-Delivery`.
    Branded,
    /// `X-Webhook-Signature: sha256=…`, `X-Webhook-ID`, `X-Webhook-Event`, `X-Webhook-Timestamp`.
    WebhookDigest,
    /// `X-Event-Id`, beside a signature.
    EventId,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 5] =
        [Self::StandardWebhooks, Self::Svix, Self::Branded, Self::WebhookDigest, Self::EventId];

    /// Returns the word a preset uses for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::StandardWebhooks => "standard-webhooks",
            Self::Svix => "svix",
            Self::Branded => "branded",
            Self::WebhookDigest => "webhook-digest",
            Self::EventId => "event-id",
        }
    }
}

/// What is kept of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseKept {
    /// Which parts.
    pub parts: BTreeSet<Part>,
    /// How much of the body, if it is kept at all.
    pub body_limit: BodyLimit,
}

impl ResponseKept {
    /// Returns the most bytes that are read of an answer's body to be kept.
    #[must_use]
    pub fn most(&self, outcome: Outcome) -> usize {
        if !self.parts.contains(&Part::Body) {
            return 0;
        }
        let asked = match self.body_limit {
            BodyLimit::Bytes(bytes) => bytes,
            // A character has four bytes at most.
            BodyLimit::Characters(most) => most.saturating_mul(4),
        };
        usize::try_from(asked).unwrap_or(usize::MAX).min(outcome.most_kept())
    }
}

/// A part of an attempt's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The status.
    Status,
    /// How long it took.
    Latency,
    /// The response's headers.
    Headers,
    /// The beginning of its body.
    Body,
    /// The error, if there was no answer.
    Error,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 5] =
        [Self::Status, Self::Latency, Self::Headers, Self::Body, Self::Error];

    /// Returns the word a preset uses for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Latency => "latency",
            Self::Headers => "headers",
            Self::Body => "body",
            Self::Error => "error",
        }
    }
}

/// How much of a response body is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLimit {
    /// So many bytes.
    Bytes(u32),
    /// So many characters.
    Characters(u32),
}

impl BodyLimit {
    /// Returns the beginning of a body that this limit keeps. A character that the limit would cut
    /// in two is left out; bytes that are no text count as a character each.
    #[must_use]
    pub fn keep(self, body: &[u8]) -> &[u8] {
        let end = match self {
            Self::Bytes(most) => usize::try_from(most).unwrap_or(usize::MAX),
            Self::Characters(most) => {
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let continues = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
                let mut starts = (0..body.len()).filter(|at| !continues(body[*at]));
                starts.nth(most).unwrap_or(body.len())
            }
        };
        &body[..end.min(body.len())]
    }

    /// Tells whether the beginning of a body holds all that this limit would keep of the whole.
    #[must_use]
    pub fn is_met_by(self, beginning: &[u8]) -> bool {
        match self {
            Self::Bytes(most) => u32::try_from(beginning.len()).is_ok_and(|length| length >= most),
            Self::Characters(most) => {
                let follows = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
                let starts = beginning.len() - beginning.iter().filter(follows).count();
                let last = beginning.iter().rev().take_while(follows).count();
                let first = beginning.iter().rev().nth(last).copied();
                let is_whole = first.is_none_or(|first| {
                    // As many ones at the front as the character has bytes; none if it is one alone.
                    first.leading_ones().saturating_sub(1) as usize <= last
                });
                match u32::try_from(starts).unwrap_or(u32::MAX).cmp(&most) {
                    Ordering::Less => false,
                    Ordering::Equal => is_whole,
                    Ordering::Greater => true,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_kept_up_to_its_limit_in_bytes_or_characters() {
        let body = "äöü".as_bytes();
        assert_eq!(BodyLimit::Bytes(100).keep(body), body);
        assert_eq!(BodyLimit::Bytes(2).keep(body), "ä".as_bytes());
        assert_eq!(BodyLimit::Characters(2).keep(body), "äö".as_bytes());
        assert_eq!(BodyLimit::Characters(3).keep(body), body);
        assert_eq!(BodyLimit::Characters(9).keep(body), body);
        assert_eq!(BodyLimit::Characters(0).keep(body), b"");
        assert_eq!(BodyLimit::Characters(2).keep(&[0xff, 0xfe, 0xfd]), &[0xff, 0xfe]);
    }

    #[test]
    fn a_limit_is_met_when_more_would_change_nothing() {
        let body = "aäöü€ and more".as_bytes();
        for most in 0..12 {
            for limit in [BodyLimit::Bytes(most), BodyLimit::Characters(most)] {
                for end in 0..=body.len() {
                    let met = end >= limit.keep(body).len();
                    assert_eq!(limit.is_met_by(&body[..end]), met, "{limit:?} of {end} bytes");
                }
            }
        }
    }
}
