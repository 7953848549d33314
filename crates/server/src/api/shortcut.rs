//! The short way for a new message.
//!
//! Nearly every request is one, and the router with its layers costs more than all that is done
//! about the message. So a request whose path is exactly that of a new message goes straight
//! through the same steps: edge, access, body, handler. Everything else takes the usual way, also
//! whatever looks unusual about such a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::{IntoResponse as _, Response};
use http::Method;
use tower::Service;

use super::access::{self, Rule};
use super::messages::{self, Creating};
use super::values::Answer;
use super::{Incoming, Shared, edge, extract};

/// A service with a short way past it.
#[derive(Clone)]
pub(crate) struct Shortcut<S> {
    usual: S,
    /// Missing on a node that takes in no messages.
    shared: Option<Shared>,
    rule: Rule,
}

impl<S> Shortcut<S> {
    /// Lays the short way.
    pub(super) fn new(usual: S, shared: Option<Shared>) -> Self {
        Self { usual, shared, rule: messages::creation().rule() }
    }
}

impl<S> Service<Incoming> for Shortcut<S>
where
    S: Service<Incoming, Response = Response, Error = Infallible, Future: Send + 'static>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.usual.poll_ready(context)
    }

    fn call(&mut self, request: Incoming) -> Self::Future {
        match &self.shared {
            Some(shared) if application(&request).is_some() => {
                let (shared, rule) = (shared.clone(), self.rule);
                Box::pin(async move {
                    let answer = |request| accept(&shared, rule, request);
                    Ok(edge::surround(&shared, request, answer).await)
                })
            }
            Some(_) | None => Box::pin(self.usual.call(request)),
        }
    }
}

/// Finds what the path of a new message calls its application, if it is one, and plainly written.
fn application(request: &Incoming) -> Option<&str> {
    let name = request.uri().path().strip_prefix("/api/v1/app/")?.strip_suffix("/msg")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let usual = request.method() == Method::POST && request.uri().query().is_none();
    (usual && !name.is_empty() && name.bytes().all(plain)).then_some(name)
}

async fn accept(shared: &Shared, rule: Rule, request: Incoming) -> Response {
    create(shared, rule, request).await.into_response()
}

async fn create(shared: &Shared, rule: Rule, request: Incoming) -> Answer<Response> {
    let name = application(&request).unwrap_or_default().to_owned();
    let (head, body) = request.into_parts();
    let (caller, key) = access::admitted(&shared.app, rule, &head).await?;
    let body = extract::collect(body, shared.limits.body_bytes).await?;
    let query = extract::none_asked()?;
    let creating = Creating { caller: &caller, application: &name, key, query };
    messages::create(&shared.app, creating, &body).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_a_plain_request_for_a_new_message_takes_the_short_way() {
        let table = [
            (Method::POST, "/api/v1/app/app_1.a-b/msg", Some("app_1.a-b")),
            (Method::GET, "/api/v1/app/app_1/msg", None),
            (Method::POST, "/api/v1/app/app_1/msg/", None),
            (Method::POST, "/api/v1/app/app_1/msg?with_content=false", None),
            (Method::POST, "/api/v1/app/a%20b/msg", None),
            (Method::POST, "/api/v1/app//msg", None),
            (Method::POST, "/api/v1/app/app_1/endpoint/ep_1/msg", None),
            (Method::POST, "/api/v1/app/app_1/msg/batch", None),
        ];
        for (method, uri, name) in table {
            let request = http::Request::builder().method(method).uri(uri);
            let request = request.body(Body::empty()).unwrap();
            assert_eq!(application(&request), name, "{uri}");
        }
    }
}
