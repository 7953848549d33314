//! The HTTP API under `/api/v1`: works with the published Svix SDKs, and has Redial's own resources
//! in the same style.
//!
//! A handler extracts, calls `app` and renders; it decides nothing. Each file has the operations of
//! one resource, with the shapes of their JSON.
//!
//! # Layout
//! - `edge`, `hosts`, `paths`, `access`, `progress`, `bodies`, `extract`: from a request to a handler;
//!   `operation`: routes with their rules; `shortcut`: the same for a new message, without the router
//! - `values`: moments, pages, patches; `condition`: versions, as ETags
//! - `openapi`, `reference`: the API described for machines and for people
//! - the others: one file per resource

mod access;
mod applications;
mod attempts;
mod authentication;
mod batch;
mod bodies;
mod condition;
mod dead_letters;
mod deleted;
mod deliveries;
mod edge;
mod endpoint_care;
mod endpoints;
mod event_types;
mod extract;
mod figures;
#[cfg(fuzzing)]
pub mod fuzzing;
mod health;
mod hosts;
mod messages;
mod not_offered;
mod openapi;
mod operation;
mod paths;
mod pauses;
mod policies;
mod progress;
mod reference;
mod replays;
mod secrets;
mod shortcut;
mod tokens;
mod values;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use http::Uri;
use tower::Layer as _;
use tower::util::{MapRequest, MapRequestLayer};

use crate::app::App;
use crate::config::{Limits, Role};
use crate::problem::Problem;
use operation::Routes;
pub(crate) use shortcut::Shortcut;

/// What every handler can reach.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Everything that can be done.
    pub(crate) app: Arc<App>,
    /// How much of everything there may be.
    pub(crate) limits: Arc<Limits>,
    /// How much may be received at a time.
    pub(crate) allowance: Arc<bodies::Allowance>,
    /// Which applications' requests are in progress.
    pub(crate) running: progress::Running,
}

/// A request as hyper hands it over, with its body as axum has it.
pub(crate) type Incoming = http::Request<axum::body::Body>;

/// The whole API as a service.
pub(crate) type Service = Shortcut<MapRequest<Router, fn(Incoming) -> Incoming>>;

/// Gathers all operations.
fn routes() -> Routes {
    let resources = [
        applications::routes,
        endpoints::routes,
        secrets::routes,
        endpoint_care::routes,
        figures::routes,
        event_types::routes,
        messages::routes,
        batch::routes,
        attempts::routes,
        replays::routes,
        deliveries::routes,
        dead_letters::routes,
        policies::routes,
        authentication::routes,
        tokens::routes,
        health::routes,
        not_offered::routes,
    ];
    resources.into_iter().fold(Routes::default(), |routes, add| add(routes))
}

/// Puts the API together. A worker has no more of it than its health.
pub(crate) fn service(app: Arc<App>, limits: Limits, role: Role) -> Service {
    let allowance = Arc::new(bodies::Allowance::new(&limits));
    let running = progress::Running::new(&limits);
    let shared = Shared { app, limits: Arc::new(limits), allowance, running };
    let routes = match role {
        Role::All | Role::Api => routes(),
        Role::Worker => health::routes(Routes::default()),
    };
    let router = routes
        .router
        .route("/api/v1/openapi.json", get(openapi::show))
        .route("/docs", get(reference::show))
        .method_not_allowed_fallback(no_such_method)
        .fallback(no_such_path)
        .layer(from_fn_with_state(shared.clone(), edge::around))
        .with_state(shared.clone());
    let trim: fn(Incoming) -> Incoming = paths::trim;
    let everything = MapRequestLayer::new(trim).layer(router);
    Shortcut::new(everything, (role != Role::Worker).then_some(shared))
}

async fn no_such_path(uri: Uri) -> Problem {
    not_offered::known_elsewhere(uri.path()).map_or(Problem::NoSuchPath, Problem::App)
}

async fn no_such_method() -> Problem {
    Problem::NoSuchMethod
}
