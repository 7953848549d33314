//! What happens to every request and every answer, whatever the operation: an id, a time limit,
//! the headers that browsers need, and one line in the log.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tracing::Instrument as _;

use super::{Shared, hosts, paths};
use crate::app::Error;
use crate::dice;
use crate::problem::{ForOperators, Problem};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE, HEAD");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// Surrounds every request.
pub(super) async fn around(
    State(shared): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    request.extensions_mut().insert(shared.clone());
    let answer = |request, id: &str| {
        let span = tracing::info_span!("request", request.id = id);
        let answering = async {
            match paths::check(&request) {
                Ok(()) => next.run(request).await,
                Err(problem) => problem.into_response(),
            }
        };
        answering.instrument(span)
    };
    surround(&shared, request, answer).await
}

/// Surrounds whatever answers a request; it gets the request's id for what it logs itself.
pub(super) async fn surround<Answering: Future<Output = Response>>(
    shared: &Shared,
    request: Request,
    answer: impl FnOnce(Request, &str) -> Answering,
) -> Response {
    let id = request_id();
    let headers = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let asks = request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    // The path is for the log alone.
    let logged = tracing::enabled!(tracing::Level::DEBUG)
        .then(|| (request.method().clone(), request.uri().path().to_owned()));
    let limit = shared.limits.request_timeout;
    let began = shared.app.clock.now();
    let mut response = if let Err(problem) = hosts::check(&request) {
        problem.into_response()
    } else if asks {
        preflight(headers)
    } else {
        let answer = tokio::time::timeout(limit, caught(answer(request, &id)));
        answer.await.unwrap_or_else(|_| Problem::TimedOut.into_response())
    };
    let status = response.status().as_u16();
    if let Some(ForOperators(text)) = response.extensions_mut().remove() {
        tracing::error!(request.id = id, http.status = status, "a request failed: {text}");
    }
    if let Some((method, path)) = logged {
        let elapsed_ms = shared.app.clock.now().since(began).as_millis();
        tracing::debug!(request.id = id, %method, path, status, elapsed_ms, "answered a request");
    }
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-request-id"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::try_from(id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// Answers 500 if a handler panics, so that its caller hears of it and the connection lives on.
///
/// What was half done stays in memory only: everything durable goes through a store, which does a
/// thing whole or not at all.
async fn caught(handling: impl Future<Output = Response>) -> Response {
    let mut handling = std::pin::pin!(handling);
    let outcome = std::future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(context)));
        polled.map_or_else(|_| Poll::Ready(None), |polled| polled.map(Some))
    });
    let broke = || Problem::App(Error::Internal("a handler panicked".to_owned())).into_response();
    outcome.await.unwrap_or_else(broke)
}

/// Answers a browser that asks what it may send.
fn preflight(headers: Option<HeaderValue>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers.unwrap_or(ANY));
    response
}

fn request_id() -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let random: [u8; 12] = dice::for_id();
    let digit = |half: u8| DIGITS[usize::from(half & 0xf)];
    random.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_panic_in_a_handler_is_answered_in_json_and_the_next_request_works() {
        async fn panics() {
            panic!("on purpose")
        }
        let router = Router::new()
            .route("/bad", get(panics))
            .route("/good", get(async || "fine"))
            .layer(from_fn(async |request, next: Next| caught(next.run(request)).await));
        for _ in 0..2 {
            let ask = |path| http::Request::builder().uri(path).body(Body::empty()).unwrap();
            let bad = router.clone().oneshot(ask("/bad")).await.unwrap();
            assert_eq!(bad.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let body = axum::body::to_bytes(bad.into_body(), 1_000).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["code"], "internal_error");
            assert!(!body["detail"].as_str().unwrap().contains("purpose"));
            let good = router.clone().oneshot(ask("/good")).await.unwrap();
            assert_eq!(good.status(), StatusCode::OK);
        }
    }
}
