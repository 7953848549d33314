//! Errors as they go over the wire: `{code, detail}`, and for faults of a request the form that the
//! SDKs know from 422 answers.
//!
//! Every answer that is not a success is JSON and comes from here. Whatever only the operator may
//! know is logged with the request's id, and the id is all that the caller sees of it.

use std::borrow::Cow;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::app::{Error, Fault, FaultKind, RefusalKind};

/// How long whoever is too fast, or finds us unavailable, is asked to wait.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The most bytes of a text of an answer, and of a name in it. Both may repeat what was sent.
const LONGEST_TEXT: usize = 2_048;
const LONGEST_NAME: usize = 256;

/// An answer that is not a success.
#[derive(Debug)]
pub(crate) enum Problem {
    /// What `app` says.
    App(Error),
    /// No operation has this path.
    NoSuchPath,
    /// The listener of the figures has nothing else.
    NoMetrics,
    /// The path exists, the method does not.
    NoSuchMethod,
    /// The request cannot be read, or could be read in two ways.
    BadRequest(String),
    /// The request took too long.
    TimedOut,
    /// The client sent its body more slowly than it may.
    TooSlow,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::App(error)
    }
}

impl Problem {
    /// Returns the stable word for what happened. Each has its section in docs/errors.md.
    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchPath | Self::NoMetrics => "not_found",
            Self::NoSuchMethod => "method_not_allowed",
            Self::BadRequest(_) => "generic_error",
            Self::TimedOut | Self::TooSlow => "timeout",
            Self::App(error) => match error {
                Error::Unauthenticated => "authentication_failed",
                // With a blank, as the SDKs' servers have always written it.
                Error::Forbidden(_) | Error::NotGranted(_) => "insufficient access",
                Error::Missing(_) => "not_found",
                Error::Conflict(_) => "conflict",
                Error::EventTypeExists(_) => "event_type_exists",
                Error::Outdated { .. } => "precondition_failed",
                Error::Invalid(_) => "validation_error",
                Error::TooLarge(_) => "payload_too_large",
                Error::TooFast | Error::TooManyChanges | Error::TooManyReads => "too_many_requests",
                Error::NotOffered(_) => "not_implemented",
                Error::Overloaded | Error::Busy | Error::Unavailable(_) => "unavailable",
                Error::Internal(_) => "internal_error",
                Error::Refused { refusal, .. } => match refusal {
                    RefusalKind::Generic => "generic_error",
                    RefusalKind::UrlNotAllowed => "destination_not_allowed",
                    RefusalKind::LimitReached => "limit_reached",
                    RefusalKind::InvalidRange => "invalid_range",
                    RefusalKind::MissingPayload => "missing_payload",
                    RefusalKind::InvalidScheme => "invalid_scheme",
                },
            },
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchPath | Self::NoMetrics => StatusCode::NOT_FOUND,
            Self::NoSuchMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::App(error) => match error {
                Error::Unauthenticated => StatusCode::UNAUTHORIZED,
                Error::Forbidden(_) | Error::NotGranted(_) => StatusCode::FORBIDDEN,
                Error::Missing(_) => StatusCode::NOT_FOUND,
                Error::Conflict(_) | Error::EventTypeExists(_) => StatusCode::CONFLICT,
                Error::Outdated { .. } => StatusCode::PRECONDITION_FAILED,
                Error::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
                Error::Refused { .. } => StatusCode::BAD_REQUEST,
                Error::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
                Error::TooFast | Error::TooManyChanges | Error::TooManyReads => {
                    StatusCode::TOO_MANY_REQUESTS
                }
                Error::NotOffered(_) => StatusCode::NOT_IMPLEMENTED,
                Error::Overloaded | Error::Busy | Error::Unavailable(_) => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
                Error::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }

    /// Says what happened and what to do next, for whoever called.
    fn detail(&self) -> Value {
        match self {
            Self::NoSuchPath => json!("there is no such path; /docs lists all operations"),
            Self::NoMetrics => json!("there is no such path; figures are at /metrics"),
            Self::NoSuchMethod => json!("this path does not take this method"),
            Self::BadRequest(text) => json!(cut(text, LONGEST_TEXT)),
            Self::TimedOut => json!("the request took too long; try again"),
            Self::TooSlow => json!("the body came too slowly, or stopped; send all of it at once"),
            Self::App(error) => match error {
                Error::Invalid(faults) => faults.iter().map(fault).collect(),
                Error::Unavailable(_) => {
                    json!("the server cannot do this right now; try again soon")
                }
                Error::Internal(_) => {
                    json!("something is wrong with the server; its log has the request's id")
                }
                Error::Unauthenticated
                | Error::Forbidden(_)
                | Error::NotGranted(_)
                | Error::Missing(_)
                | Error::Conflict(_)
                | Error::EventTypeExists(_)
                | Error::Outdated { .. }
                | Error::Refused { .. }
                | Error::TooLarge(_)
                | Error::TooFast
                | Error::Overloaded
                | Error::TooManyChanges
                | Error::TooManyReads
                | Error::Busy
                | Error::NotOffered(_) => json!(cut(&error.to_string(), LONGEST_TEXT)),
            },
        }
    }

    /// Returns status, code and detail, for one message among many.
    pub(crate) fn told(&self) -> (u16, &'static str, Value) {
        (self.status().as_u16(), self.code(), self.detail())
    }

    /// Returns what only operators may read.
    fn secret(&self) -> Option<&str> {
        match self {
            Self::App(Error::Unavailable(text) | Error::Internal(text)) => Some(text),
            Self::App(_)
            | Self::NoSuchPath
            | Self::NoMetrics
            | Self::NoSuchMethod
            | Self::BadRequest(_)
            | Self::TimedOut
            | Self::TooSlow => None,
        }
    }
}

fn fault(fault: &Fault) -> Value {
    let kind = match fault.kind {
        FaultKind::Value => "value_error",
        // Not a code: the dot belongs to the SDKs' words.
        FaultKind::Json => "value_error.jsondecode",
        FaultKind::ApplicationUidMismatch => "application_uid_mismatch",
        FaultKind::ApplicationUidMissing => "application_uid_missing",
    };
    let place: Vec<_> = fault.place.iter().map(|name| cut(name, LONGEST_NAME)).collect();
    json!({ "loc": place, "msg": cut(&fault.text, LONGEST_TEXT), "type": kind })
}

/// Ends a text early that is too long.
fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(longest)]))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        // The request's id is added where it is known, by whoever gave it.
        let body = json!({ "code": self.code(), "detail": self.detail() });
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, RETRY_SECONDS);
            }
            _ => {}
        }
        if let Self::App(Error::Outdated { current: Some(tag) }) = &self
            && let Ok(tag) = HeaderValue::from_str(tag.text())
        {
            headers.insert(ETAG, tag);
        }
        if let Some(text) = self.secret() {
            response.extensions_mut().insert(ForOperators(text.into()));
        }
        response
    }
}

/// Why a request failed, on its way to the log: whoever gave the request its id takes it out of the
/// answer.
#[derive(Debug, Clone)]
pub(crate) struct ForOperators(pub(crate) Arc<str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::fields::Checks;

    #[tokio::test]
    async fn an_answer_is_short_whatever_was_sent() {
        let long = "ü\0".repeat(1 << 20);
        let faults = || {
            let mut checks = Checks::default();
            for _ in 0..1_000 {
                checks.holds(&format!("headers.{}.{long}", ".".repeat(1_000)), false, &long);
            }
            checks.finish().unwrap_err()
        };
        let problems = [
            Problem::App(faults()),
            Problem::App(Error::Conflict(long.clone())),
            Problem::App(Error::parameter(&long, long.as_str())),
            Problem::BadRequest(long.clone()),
        ];
        for problem in problems {
            let body = problem.into_response().into_body();
            axum::body::to_bytes(body, 1 << 20).await.unwrap();
        }
    }

    #[tokio::test]
    async fn what_only_operators_may_read_goes_beside_the_answer_and_not_into_it() {
        let secret = "no such column";
        let response = Problem::App(Error::Internal(secret.to_owned())).into_response();
        let beside = response.extensions().get::<ForOperators>().map(|it| it.0.to_string());
        assert_eq!(beside.as_deref(), Some(secret));
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        assert!(!String::from_utf8_lossy(&body).contains(secret));
        let response = Problem::NoSuchPath.into_response();
        assert!(response.extensions().get::<ForOperators>().is_none());
    }
}
