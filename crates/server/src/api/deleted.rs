//! What a deletion answers: 204 once no node begins an attempt any more for what is deleted, or 202 if a
//! node has not said so in time.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::Rollout;

/// The answer to a deletion.
pub(super) struct Deleted(pub(super) Rollout);

/// A deletion that some node may not have heard of.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeletionOut {
    /// `pending`: it is deleted, and attempts may still begin for two seconds at the most.
    status: &'static str,
}

impl IntoResponse for Deleted {
    fn into_response(self) -> Response {
        match self.0 {
            Rollout::Complete => StatusCode::NO_CONTENT.into_response(),
            Rollout::Pending => {
                (StatusCode::ACCEPTED, Json(DeletionOut { status: "pending" })).into_response()
            }
        }
    }
}
