//! `/health`: whether this server can be sent requests.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::operation::{Operation, Routes};
use crate::app::{App, Error, Health};

pub(super) fn routes(routes: Routes) -> Routes {
    let get = Operation::get("/health", "v1.health.get", "Tells whether the server is well");
    let ping =
        Operation::get("/health/ping", "v1.health.ping", "Tells whether the server is there");
    let get = get.answers::<HealthOut>(200).answers::<HealthOut>(503);
    routes.add(get.anyone(), health).add(ping.anyone().empty(204), there)
}

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
struct HealthOut {
    /// Whether the store can be read.
    database: StatusOut,
    /// Whether messages can be taken in: written to the store.
    queue: StatusOut,
    /// There is no cache that could fail.
    cache: StatusOut,
}

/// How one part is.
#[derive(Debug, Serialize, ToSchema)]
struct StatusOut {
    /// `ok` or `error`.
    status: &'static str,
}

async fn health(State(app): State<Arc<App>>) -> Response {
    let Health { reads, writes } = app.health().await;
    let well = reads.is_ok() && writes.is_ok();
    let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let part =
        |state: Result<(), Error>| StatusOut { status: if state.is_ok() { "ok" } else { "error" } };
    let (database, queue) = (part(reads), part(writes));
    let out = HealthOut { database, queue, cache: StatusOut { status: "ok" } };
    (status, Json(out)).into_response()
}

async fn there() -> StatusCode {
    StatusCode::NO_CONTENT
}
