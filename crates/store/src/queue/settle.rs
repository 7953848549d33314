//! Settling: the verdict on an attempt, its record, and what changed about the endpoint.

use std::time::Duration;

use bytes::Bytes;
use domain::breaker::Breaker;
use domain::delivery::Budget;
use domain::health::Health;
use domain::ids::AttemptId;
use domain::outcome::Outcome;
use domain::time::Timestamp;
use domain::verdict::NextState;
use serde::{Deserialize, Serialize};

use crate::Headers;
use crate::keys::{DeliveryKey, Lease};

/// What is written after an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle {
    /// The right to do so.
    pub lease: Lease,
    /// Which delivery.
    pub key: DeliveryKey,
    /// How many attempts were recorded when it was loaded. If there are more by now, or it is no
    /// longer pending, the attempt is recorded and the state left alone.
    pub recorded: u32,
    /// When it had ended before it was replayed, as it was loaded. If that has changed, it ended and
    /// was replayed since, with no attempt recorded in between: the state is left alone, too.
    pub ended_before: Option<Timestamp>,
    /// Where it goes from here.
    pub next: NextState,
    /// Its budget after the attempt.
    pub budget: Budget,
    /// The attempt.
    pub attempt: AttemptRecord,
    /// The endpoint's running state, if the attempt changed it.
    pub running: Option<Running>,
}

/// An attempt as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    /// Its id; also what makes repeating a settle harmless.
    pub id: AttemptId,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What made it happen.
    pub trigger: Trigger,
    /// How it ended.
    pub outcome: Outcome,
    /// How long its Retry-After counts, if that is less than it asked for.
    pub retry_after_kept: Option<Duration>,
    /// Where the time went.
    pub phases: Phases,
    /// The request's headers as sent, secrets masked.
    pub request_headers: Headers,
    /// The response's headers, as far as they are kept.
    pub response_headers: Headers,
    /// The beginning of the response's body, as far as it is kept.
    pub response_body: Bytes,
    /// What went wrong, in words, or why the answer was final.
    pub error: Option<String>,
    /// Why the address guard refused, in words that only the operator may read.
    pub refusal: Option<String>,
    /// The redirects that were followed.
    pub hops: Vec<Hop>,
}

/// A redirect that an attempt has followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The status of the answer that led there.
    pub status: u16,
    /// Where it led: scheme, host and port. Path and query are secrets.
    pub to: String,
}

impl AttemptRecord {
    /// Returns as much of the response's body as is kept.
    pub(crate) fn kept_body(&self) -> &[u8] {
        let body = &self.response_body;
        &body[..body.len().min(self.outcome.most_kept())]
    }
}

/// What makes an attempt happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The schedule.
    Scheduled,
    /// A person or an API call.
    Manual,
}

/// How long the parts of an attempt took, also the one that failed. What did not happen is missing: a
/// connection that was used again has neither name look-up nor handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// Name look-up.
    pub dns: Option<Duration>,
    /// TCP connect.
    pub connect: Option<Duration>,
    /// TLS handshake.
    pub tls: Option<Duration>,
    /// From the request to the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// Whether the connection had been used before. None if there was no connection, or nobody knows.
    pub reused: Option<bool>,
}

/// What an endpoint's owner keeps about it while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Running {
    /// The breaker.
    pub breaker: Breaker,
    /// The health.
    pub health: Health,
    /// No attempt before this moment, by Retry-After.
    pub paused_until: Option<Timestamp>,
}

/// What became of a settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// State and attempt are written.
    Applied {
        /// The turn of a delivery that is still pending.
        turn: Option<i64>,
    },
    /// The attempt is recorded, the state was left alone: somebody cancelled, replayed or settled it.
    LeftAlone,
    /// The lease is not current: nothing is written.
    Fenced,
    /// The delivery's row is gone.
    Missing,
    /// The database refused it, whatever was left out of the attempt's record: nothing is written.
    /// The others are unharmed.
    Refused,
}
