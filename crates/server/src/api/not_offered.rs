//! Operations that the SDKs know and Redial does not offer: they say so, in JSON.

use super::operation::{Operation, Routes};
use super::values::Answer;
use crate::app::Error;

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
        Operation::get("/stream", "v1.stream.list", summary),
        Operation::get("/ingest/api/v1/source", "v1.ingest.source.list", summary),
    ];
    operations
        .into_iter()
        .fold(routes, |routes, operation| routes.add(operation.own_keys().empty(501), not_offered))
}

async fn not_offered() -> Answer<()> {
    Err(Error::NotOffered("this server does not offer this operation").into())
}
