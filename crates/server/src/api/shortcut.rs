//! The short way for a new message.
//!
//! Nearly every request is one, and the router with its layers costs more than all that is done
//! about the message. So a request whose path is exactly that of a new message goes straight
//! through the same steps: edge, access, body, handler. The one query that it can have is read when
//! it is plainly written. Everything else takes the usual way, also whatever looks unusual about
//! such a request.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use domain::names::is_dot_segment;
use http::Method;
use tower::{Service, ServiceExt as _};

use super::access::{self, Admitted, Rule};
use super::messages::{self, ContentQuery, Creating};
use super::values::Answer;
use super::{Incoming, Shared, bodies, edge};
use crate::http::Client;
use crate::problem::Problem;

/// A service with a short way past it.
#[derive(Clone)]
pub(crate) struct Shortcut<S> {
    usual: S,
    /// Missing on a node that takes in no messages.
    shared: Option<Shared>,
    rule: Rule,
    /// Whose connection it serves, once that is known.
    client: Option<Arc<Client>>,
}

impl<S> Shortcut<S> {
    /// Lays the short way.
    pub(super) fn new(usual: S, shared: Option<Shared>) -> Self {
        Self { usual, shared, rule: messages::creation().rule(), client: None }
    }
}

impl<S: Clone> Shortcut<S> {
    /// Makes one for a client's connection.
    pub(crate) fn serving(&self, client: Arc<Client>) -> Self {
        Self { client: Some(client), ..self.clone() }
    }
}

/// What is on its way to be an answer.
type Answering = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl<S> hyper::service::Service<Incoming> for Shortcut<S>
where
    S: Service<Incoming, Response = Response, Error = Infallible, Future: Send>,
    S: Clone + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    /// Answers a request. What the usual way needs is copied only for who takes it.
    fn call(&self, mut request: Incoming) -> Answering {
        let client = self.client.clone();
        match &self.shared {
            Some(shared) if Plain::of(&request).is_some() => {
                let (shared, rule) = (shared.clone(), self.rule);
                Box::pin(async move {
                    // It logs nothing of its own, so that it needs no span.
                    let answer = |request, _: &str| accept(&shared, (rule, client), request);
                    Ok(edge::surround(&shared, request, answer).await)
                })
            }
            Some(_) | None => {
                if let Some(client) = client {
                    request.extensions_mut().insert(client);
                }
                Box::pin(self.usual.clone().oneshot(request))
            }
        }
    }
}

/// What a plainly written request for a new message says before its body.
#[derive(Debug, PartialEq, Eq)]
struct Plain<'a> {
    /// What it calls its application.
    application: &'a str,
    /// Whether it wants to see the payload again.
    with_content: bool,
}

impl<'a> Plain<'a> {
    fn of(request: &'a Incoming) -> Option<Self> {
        if request.method() != Method::POST {
            return None;
        }
        let path = request.uri().path();
        let application = path.strip_prefix("/api/v1/app/")?.strip_suffix("/msg")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if application.is_empty() || !application.bytes().all(plain) || is_dot_segment(application)
        {
            return None;
        }
        let with_content = match request.uri().query() {
            None | Some("with_content=true") => true,
            Some("with_content=false") => false,
            Some(_) => return None,
        };
        Some(Self { application, with_content })
    }
}

async fn accept(
    shared: &Shared,
    (rule, client): (Rule, Option<Arc<Client>>),
    request: Incoming,
) -> Response {
    create(shared, (rule, client.as_ref()), request).await.into_response()
}

async fn create(
    shared: &Shared,
    (rule, client): (Rule, Option<&Arc<Client>>),
    request: Incoming,
) -> Answer<Response> {
    let Some(Plain { application, with_content }) = Plain::of(&request) else {
        return Err(Problem::NoSuchPath);
    };
    let application = application.to_owned();
    let (head, body) = request.into_parts();
    let Admitted { caller, key, progress: _progress } =
        access::admitted(shared, rule, (&head, client)).await?;
    let body = bodies::collect(shared, Some(&caller), body, shared.limits.body_bytes).await?;
    let query = ContentQuery { with_content };
    let creating = Creating { caller: &caller, application: &application, key, query };
    messages::create(&shared.app, creating, &body).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_a_plain_request_for_a_new_message_takes_the_short_way() {
        let table = [
            (Method::POST, "/api/v1/app/app_1.a-b/msg", Some(("app_1.a-b", true))),
            (Method::POST, "/api/v1/app/app_1/msg?with_content=true", Some(("app_1", true))),
            (Method::POST, "/api/v1/app/app_1/msg?with_content=false", Some(("app_1", false))),
            (Method::POST, "/api/v1/app/app_1/msg?with_content=no", None),
            (Method::POST, "/api/v1/app/app_1/msg?", None),
            (Method::GET, "/api/v1/app/app_1/msg", None),
            (Method::POST, "/api/v1/app/app_1/msg/", None),
            (Method::POST, "/api/v1/app/a%20b/msg", None),
            (Method::POST, "/api/v1/app//msg", None),
            (Method::POST, "/api/v1/app/../msg", None),
            (Method::POST, "/api/v1/app/./msg", None),
            (Method::POST, "/api/v1/app/%2e%2e/msg", None),
            (Method::POST, "/api/v1/app/app_1/endpoint/ep_1/msg", None),
            (Method::POST, "/api/v1/app/app_1/msg/batch", None),
        ];
        for (method, uri, expected) in table {
            let request = http::Request::builder().method(method).uri(uri);
            let request = request.body(Body::empty()).unwrap();
            let plain = Plain::of(&request).map(|plain| (plain.application, plain.with_content));
            assert_eq!(plain, expected, "{uri}");
        }
    }
}
