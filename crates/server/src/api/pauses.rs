//! Why an endpoint waits that its receiver asked to be left alone, and how that is ended.

use domain::retry_after::RetryAfter;
use domain::span;
use serde::Serialize;
use utoipa::ToSchema;

use super::values::Moment;
use crate::app::attempts::AttemptRecord;
use crate::app::pauses::{Cause, Pause, asked_by};

/// What ends a pause early.
const END: &str = "resume or enable the endpoint, give it another URL, reset its breaker, or retry one of \
                   its deliveries now";

/// What a receiver asked for by Retry-After.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RetryAfterOut {
    /// So many seconds from the answer on.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
    /// Not before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Moment>,
    /// The seconds that count, if that is less: the policy caps what is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_to_seconds: Option<u64>,
}

/// Why an endpoint pauses.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PausedBecause {
    /// Which attempt brought it.
    attempt_id: String,
    /// The status of its answer.
    status: u16,
    /// When the answer came.
    timestamp: Moment,
    /// What it asked for.
    retry_after: RetryAfterOut,
}

/// A pause of an endpoint, because its receiver asked for it by Retry-After.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PauseOut {
    /// Until when nothing is sent.
    until: Moment,
    /// Which answer asked for it; missing if its attempt is not recorded any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<PausedBecause>,
    /// The same in words, with what ends it early.
    text: String,
}

impl RetryAfterOut {
    fn new(asked: RetryAfter, kept: Option<std::time::Duration>) -> Self {
        let (seconds, at) = match asked {
            RetryAfter::Seconds(seconds) => (Some(seconds), None),
            RetryAfter::At(moment) => (None, Some(Moment(moment))),
        };
        Self { seconds, at, kept_to_seconds: kept.map(|kept| kept.as_secs()) }
    }

    /// Returns what an attempt's answer asked for, if it did.
    pub(super) fn of(record: &AttemptRecord) -> Option<Self> {
        asked_by(record).map(|asked| Self::new(asked, record.retry_after_kept))
    }
}

impl From<Pause> for PauseOut {
    fn from(pause: Pause) -> Self {
        let until = Moment(pause.until);
        let why = pause.cause.map_or_else(|| "its receiver asked for it".to_owned(), words);
        let text = format!("nothing is sent until {until}: {why}; to send earlier, {END}");
        let because = |cause: Cause| PausedBecause {
            attempt_id: cause.attempt.to_string(),
            status: cause.status,
            timestamp: Moment(cause.at),
            retry_after: RetryAfterOut::new(cause.asked, cause.kept),
        };
        Self { until, because: pause.cause.map(because), text }
    }
}

fn words(cause: Cause) -> String {
    let asked = match cause.asked {
        RetryAfter::Seconds(seconds) => format!("{seconds} s"),
        RetryAfter::At(moment) => format!("until {}", Moment(moment)),
    };
    let kept = cause.kept.map_or_else(String::new, |kept| {
        format!(", of which the policy allows {}", span::format(kept))
    });
    let Cause { attempt, status, at, .. } = cause;
    let at = Moment(at);
    format!("attempt {attempt} was answered {status} at {at} with Retry-After {asked}{kept}")
}
