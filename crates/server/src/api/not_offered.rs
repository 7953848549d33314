//! Operations that the SDKs know and Redial does not offer: they say so, in JSON.
//!
//! Single ones are described like any other operation. Whole families, of which the SDKs call
//! dozens, are told by how their paths begin.

use super::operation::{Operation, Routes};
use super::values::Answer;
use crate::app::Error;

/// How paths begin that lead to nothing here.
const FAMILIES: [&str; 5] = [
    "/ingest/api/v1/",
    "/api/v1/auth/stream",
    "/api/v1/connector",
    "/api/v1/operational-webhook/",
    "/api/v1/stream",
];
/// What leads to nothing below an application.
const BELOW_APPLICATIONS: [&str; 5] =
    ["autoconfig", "destination", "events", "integration", "poller"];

const TRANSFORMATION: &str = "/app/{app_id}/endpoint/{endpoint_id}/transformation";

pub(super) fn routes(routes: Routes) -> Routes {
    let summary = "Is not offered";
    let operations = [
        Operation::get(TRANSFORMATION, "v1.endpoint.transformation-get", summary),
        Operation::patch(TRANSFORMATION, "v1.endpoint.transformation-partial-update", summary),
        Operation::post("/app/{app_id}/msg/bulk-expunge", "v1.message.bulk-expunge", summary),
        Operation::post(
            "/app/{app_id}/msg/expunge-all-contents",
            "v1.message.expunge-all",
            summary,
        ),
        Operation::get("/app/{app_id}/poller/{sink_id}", "v1.message.poller.poll", summary),
        Operation::post("/environment/export", "v1.environment.export", summary),
        Operation::post("/environment/import", "v1.environment.import", summary),
        Operation::post("/event-type/import/openapi", "v1.event-type.import-openapi", summary),
        Operation::put("/stats/usage/event-types", "v1.statistics.event-types", summary),
        Operation::post("/stats/usage/app", "v1.statistics.app", summary),
        Operation::get("/app/{app_id}/integration", "v1.integration.list", summary),
        Operation::post("/app/{app_id}/integration", "v1.integration.create", summary),
        Operation::get("/operational-webhook/endpoint", "v1.operational-webhook.list", summary),
        Operation::post("/operational-webhook/endpoint", "v1.operational-webhook.create", summary),
        Operation::get("/connector", "v1.connector.list", summary),
        Operation::post("/connector", "v1.connector.create", summary),
        Operation::get("/stream", "v1.stream.list", summary),
        Operation::post("/stream", "v1.stream.create", summary),
    ];
    operations
        .into_iter()
        .fold(routes, |routes, operation| routes.add(operation.reads().empty(501), not_offered))
}

async fn not_offered() -> Answer<()> {
    Err(refusal().into())
}

fn refusal() -> Error {
    Error::NotOffered("this server does not offer this operation")
}

/// Refuses a path that has no operation, if the SDKs know one there.
pub(super) fn known_elsewhere(path: &str) -> Option<Error> {
    let below = path.strip_prefix("/api/v1/app/").and_then(|rest| rest.split('/').nth(1));
    let known = FAMILIES.iter().any(|family| path.starts_with(family))
        || below.is_some_and(|resource| BELOW_APPLICATIONS.contains(&resource));
    known.then(refusal)
}
