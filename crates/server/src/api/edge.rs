//! What happens to every request and every answer, whatever the operation: an id, a time limit,
//! the headers that browsers need, and one line in the log.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS,
};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use tracing::Instrument as _;

use super::Shared;
use crate::dice;
use crate::problem::Problem;

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
    surround(&shared, request, |request| next.run(request)).await
}

/// Surrounds whatever answers a request.
pub(super) async fn surround<Answering: Future<Output = Response>>(
    shared: &Shared,
    request: Request,
    answer: impl FnOnce(Request) -> Answering,
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
    let span = tracing::info_span!("request", request.id = %id);
    let mut response = if asks {
        preflight(headers)
    } else {
        let answer = tokio::time::timeout(limit, answer(request)).instrument(span.clone());
        answer.await.unwrap_or_else(|_| Problem::TimedOut.into_response())
    };
    if let Some((method, path)) = logged {
        let status = response.status().as_u16();
        let elapsed_ms = shared.app.clock.now().since(began).as_millis();
        span.in_scope(|| tracing::debug!(%method, path, status, elapsed_ms, "answered a request"));
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

/// Takes slashes off the end of a path: older SDKs and documents write them.
pub(super) fn trim<B>(mut request: http::Request<B>) -> http::Request<B> {
    let uri = request.uri();
    let path = uri.path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() {
        return request;
    }
    let whole = match uri.query() {
        Some(query) => format!("{trimmed}?{query}"),
        None => trimmed.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    if let Ok(whole) = PathAndQuery::try_from(whole) {
        parts.path_and_query = Some(whole);
    }
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end_of_a_path_do_not_count() {
        let table = [
            ("/api/v1/app/", "/api/v1/app"),
            ("/api/v1/app//?limit=5", "/api/v1/app?limit=5"),
            ("/api/v1/app?x=/", "/api/v1/app?x=/"),
            ("/", "/"),
        ];
        for (given, meant) in table {
            let request = http::Request::builder().uri(given).body(()).unwrap();
            assert_eq!(trim(request).uri(), meant, "{given}");
        }
    }
}
