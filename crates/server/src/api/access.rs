//! The door: whose token it is, whether the operation is for them, and whether this very request
//! was answered before.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tracing::Instrument as _;

use super::operation::{Access, Keys, Needs};
use super::progress::Progress;
use super::{Shared, bodies, condition, extract};
use crate::app::idempotency::{self, Begun, LONGEST_KEY, Promise, StoredAnswer};
use crate::app::tokens::Reach;
use crate::app::{App, Caller, Error};
use crate::http::Client;
use crate::problem::Problem;

/// The name of the header with the key.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Whom an operation lets in, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// Whom.
    pub(super) access: Access,
    /// What the token must be allowed to do.
    pub(super) needs: Needs,
    /// How idempotency keys are kept.
    pub(super) keys: Keys,
    /// Whether an application's own tokens may ask for it only so often.
    pub(super) paced: bool,
    /// Whether the request may say which version of a row it means.
    pub(super) conditional: bool,
    /// Whether the request has a body.
    pub(super) given: bool,
    /// Whether it waits for its application's turn at the store.
    pub(super) turns: bool,
}

/// A request that was let in.
pub(super) struct Admitted {
    /// Who calls.
    pub(super) caller: Caller,
    /// The hash of their idempotency key.
    pub(super) key: Option<[u8; 32]>,
    /// Lasts as long as the request does.
    pub(super) progress: Progress,
}

/// What a request is checked by before its operation sees it.
#[derive(Debug)]
pub(super) struct Door {
    /// Whom the operation lets in, and how.
    pub(super) rule: Rule,
    /// The parameters that it knows; none if it passes all of them over.
    pub(super) parameters: Option<Vec<String>>,
    /// Whether it reads a body. Otherwise one that says something is refused.
    pub(super) takes_body: bool,
}

/// Checks token and query, and answers what was answered before.
pub(super) async fn check(door: Arc<Door>, request: Request, next: Next) -> Response {
    let Some(shared) = request.extensions().get::<Shared>().cloned() else {
        let text = "a request came in past the edge".to_owned();
        return Problem::App(Error::Internal(text)).into_response();
    };
    let rule = door.rule;
    if rule.access == Access::Anyone {
        return next.run(request).await;
    }
    let (mut head, mut body) = request.into_parts();
    let client = head.extensions.remove::<Arc<Client>>();
    let admitted = admitted(&shared, rule, (&head, client.as_ref())).await;
    let checked = admitted.and_then(|admitted| match door.parameters.as_deref() {
        Some(known) => extract::check_parameters(known, head.uri.query()).map(|()| admitted),
        None => Ok(admitted),
    });
    let Admitted { caller, key, progress } = match checked {
        Ok(admitted) => admitted,
        Err(error) => return Problem::App(error).into_response(),
    };
    let key = key.map(|hash| (hash, rule.keys));
    let mut named = None;
    let answers = matches!(key, Some((_, Keys::Answer)));
    if answers {
        named = extract::application(&mut head, &shared).await;
    }
    if rule.turns && rule.given || answers || !door.takes_body {
        // Before the key and the turn are taken: a client that stalls in the middle of a body must not hold
        // them.
        let whole = bodies::collect(&shared, Some(&caller), body, shared.limits.body_bytes).await;
        let checked = whole.and_then(|whole| match door.takes_body {
            true => Ok(whole),
            false => Ok(extract::refuse_fields(&whole).map(|()| whole)?),
        });
        match checked {
            Ok(whole) => body = Body::from(whole),
            Err(problem) => return problem.into_response(),
        }
    }
    head.extensions.insert(caller);
    let mut request = Request::from_parts(head, body);
    let answer = match key {
        // A caller who hangs up must not leave something done and its answer forgotten, because the next
        // request with that key would do it again.
        Some((hash, Keys::Answer)) => whole(once(shared, (hash, named, rule), request, next)).await,
        Some((hash, Keys::Own)) => {
            request.extensions_mut().insert(KeyHash(hash));
            in_turn(&shared, rule, request, next).await
        }
        None => in_turn(&shared, rule, request, next).await,
    };
    progress.end_with(answer)
}

/// Answers a request to the end, whether its caller waits or hangs up.
async fn whole(answering: impl Future<Output = Response> + Send + 'static) -> Response {
    let answered = tokio::spawn(answering.in_current_span()).await;
    answered.unwrap_or_else(|_| {
        Problem::App(Error::Internal("a request broke off".to_owned())).into_response()
    })
}

/// Answers a request when its application has its turn at the store.
async fn in_turn(shared: &Shared, rule: Rule, request: Request, next: Next) -> Response {
    if !rule.turns {
        return next.run(request).await;
    }
    let (mut head, body) = request.into_parts();
    let named = extract::application(&mut head, shared).await.unwrap_or_default();
    let Some(caller) = head.extensions.get_mut::<Caller>() else {
        return Problem::App(Error::Unauthenticated).into_response();
    };
    match shared.app.turn(caller, &named).await {
        Ok(turn) => caller.turn = turn,
        Err(error) => return Problem::App(error).into_response(),
    }
    let turn = caller.turn.clone();
    // To the end, because a store goes on reading for a caller who hung up. The next request of that
    // application would read beside it.
    whole(async move {
        let answer = next.run(Request::from_parts(head, body)).await;
        turn.give_back();
        answer
    })
    .await
}

/// Lets a request in, or says why not.
pub(super) async fn admitted(
    shared: &Shared,
    rule: Rule,
    (head, client): (&Parts, Option<&Arc<Client>>),
) -> Result<Admitted, Error> {
    let mut caller = admit(&shared.app, rule, (bearer(head), client)).await?;
    let progress = shared.running.begin(&caller, client).await?;
    if rule.conditional {
        caller.condition = condition::read(&head.headers)?;
    }
    let key = key(rule, &caller, head)?;
    Ok(Admitted { caller, key, progress })
}

/// The hash of a request's idempotency key, for operations that keep it themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyHash(pub(super) [u8; 32]);

fn bearer(head: &Parts) -> Option<&str> {
    let text = head.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

async fn admit(
    app: &App,
    rule: Rule,
    (token, client): (Option<&str>, Option<&Arc<Client>>),
) -> Result<Caller, Error> {
    let origin = client.map(|client| client.network());
    let caller = app.authenticate_from(origin, token.ok_or(Error::Unauthenticated)?).await?;
    if rule.access == Access::Admin && caller.reach != Reach::Everything {
        return Err(Error::Forbidden("this operation needs an admin token"));
    }
    match rule.needs {
        Needs::Reading => {}
        Needs::Changing if caller.read_only => {
            return Err(Error::Forbidden("this token may only read"));
        }
        Needs::Changing => {}
        Needs::Right(right) => caller.needs(right)?,
    }
    if rule.paced {
        app.pace(&caller)?;
    }
    Ok(caller)
}

fn key(rule: Rule, caller: &Caller, head: &Parts) -> Result<Option<[u8; 32]>, Error> {
    if head.method != Method::POST || rule.needs == Needs::Reading {
        return Ok(None);
    }
    let Some(value) = head.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=LONGEST_KEY).contains(&key.len()));
    let key = key.ok_or_else(|| {
        let text = format!("the Idempotency-Key must have 1 to {LONGEST_KEY} characters of ASCII");
        Error::refused(crate::app::RefusalKind::Generic, text)
    })?;
    let uri = &head.uri;
    let address = uri.path_and_query().map_or(uri.path(), http::uri::PathAndQuery::as_str);
    Ok(Some(idempotency::hash(caller, key, address)))
}

/// Answers as before, or for the first time.
async fn once(
    shared: Shared,
    (hash, named, rule): ([u8; 32], Option<String>, Rule),
    mut request: Request,
    next: Next,
) -> Response {
    let Some(caller) = request.extensions_mut().get_mut::<Caller>() else {
        return Problem::App(Error::Unauthenticated).into_response();
    };
    let (held, promise) = match shared.app.begin(caller, hash, named.as_deref()).await {
        Ok(Begun::Before(stored)) => return restored(&stored),
        Ok(Begun::Now(held, promise)) => (held, promise),
        Err(error) => return Problem::App(error).into_response(),
    };
    caller.promise = Some(promise.clone());
    let response = in_turn(&shared, rule, request, next).await;
    if !response.status().is_success() {
        if let Err(error) = held.release(response.status().is_client_error()).await {
            tracing::warn!("a key stays in hand until its claim has run out: {error}");
        }
        return response;
    }
    match remember(&shared, &promise, response).await {
        Ok(stored) => restored(&stored),
        Err(error) => Problem::App(error).into_response(),
    }
}

async fn remember(
    shared: &Shared,
    promise: &Promise,
    response: Response,
) -> Result<StoredAnswer, Error> {
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await;
    let body = body.map_err(|error| Error::Internal(format!("an answer broke off: {error}")))?;
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let headers = kind.map(|kind| (CONTENT_TYPE.to_string(), kind.to_owned()));
    let status = parts.status.as_u16();
    let answer = StoredAnswer { status, headers: headers.into_iter().collect(), body };
    shared.app.remember_answer(promise, answer).await
}

fn restored(stored: &StoredAnswer) -> Response {
    let mut response = Response::new(Body::from(stored.body.clone()));
    *response.status_mut() = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    for (name, value) in idempotency::shown(stored) {
        let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
        if let (Ok(name), Ok(value)) = pair {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
