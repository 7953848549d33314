//! What an endpoint's attempts carry: its secret and its headers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::condition::Tagged;
use super::extract::{Given, In, Named};
use super::operation::{Operation, Routes};
use super::values::Answer;
use crate::app::condition::Tag;
use crate::app::headers::{Edit, Shown};
use crate::app::secrets::{Key, Rotated};
use crate::app::{App, Rollout};

const SECRET: &str = "/app/{app_id}/endpoint/{endpoint_id}/secret";
const ROTATE: &str = "/app/{app_id}/endpoint/{endpoint_id}/secret/rotate";
const HEADERS: &str = "/app/{app_id}/endpoint/{endpoint_id}/headers";

pub(super) fn routes(routes: Routes) -> Routes {
    let get = Operation::get(SECRET, "v1.endpoint.get-secret", "Shows what receivers verify with");
    let rotate = Operation::post(ROTATE, "v1.endpoint.rotate-secret", "Makes another secret");
    let headers = Operation::get(HEADERS, "v1.endpoint.get-headers", "Shows added headers");
    let put = Operation::put(HEADERS, "v1.endpoint.update-headers", "Replaces added headers");
    let patch = Operation::patch(HEADERS, "v1.endpoint.patch-headers", "Changes added headers");
    routes
        .add(get.confidential().answers::<EndpointSecretOut>(200), secret)
        .add(rotate.body::<EndpointSecretRotateIn>().answers::<EndpointSecretOut>(200), another)
        .add(headers.answers::<EndpointHeadersOut>(200).tagged(), shown)
        .add(put.conditional().body::<EndpointHeadersIn>().empty(204).tagged(), replace)
        .add(patch.conditional().body::<EndpointHeadersPatchIn>().empty(204).tagged(), change)
}

/// What a receiver verifies with.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndpointSecretOut {
    /// `whsec_…`, `plain:…`, or `whpk_…` for a public key.
    key: String,
    /// Of a `plain:…`: the same bytes as `whsec_…`, as libraries of Standard Webhooks take them.
    #[serde(skip_serializing_if = "Option::is_none")]
    standard_webhooks_key: Option<String>,
    /// Whether some node may still sign with an old key that has no time of grace, for two seconds at
    /// the most. Left out if none does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pending: bool,
}

impl EndpointSecretOut {
    fn of(key: Key, rollout: Rollout) -> Self {
        let Key { text, standard_webhooks } = key;
        let pending = rollout == Rollout::Pending;
        Self { key: text, standard_webhooks_key: standard_webhooks, pending }
    }
}

/// How a secret is to be replaced.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndpointSecretRotateIn {
    /// The new secret: `whsec_…`, `whsk_…`, or `plain:` and the text of one that receivers have already.
    /// One is made if it is missing.
    key: Option<String>,
    /// For how many seconds the old one goes on signing; a day if it is missing.
    grace_period_seconds: Option<u64>,
}

/// Headers added to an endpoint's attempts.
#[derive(Debug, Serialize, ToSchema)]
struct EndpointHeadersOut {
    /// Those that may be seen.
    headers: BTreeMap<String, String>,
    /// The names of those that may hold a credential.
    sensitive: BTreeSet<String>,
}

/// Headers to be added to an endpoint's attempts.
#[derive(Debug, Deserialize, ToSchema)]
struct EndpointHeadersIn {
    /// All of them.
    headers: BTreeMap<String, String>,
}

/// Changes to an endpoint's headers.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndpointHeadersPatchIn {
    /// Headers to set; null removes one.
    #[serde(default)]
    headers: BTreeMap<String, Option<String>>,
    /// Headers to remove.
    delete_headers: Option<Vec<String>>,
}

async fn secret(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<Json<EndpointSecretOut>> {
    Ok(Json(EndpointSecretOut::of(app.secret(&scope, &endpoint).await?, Rollout::Complete)))
}

async fn another(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(given): Given<EndpointSecretRotateIn>,
) -> Answer<Json<EndpointSecretOut>> {
    let (key, grace) = (given.key.as_deref(), given.grace_period_seconds);
    let Rotated { key, rollout } = app.rotate_secret(&scope, &endpoint, key, grace).await?;
    Ok(Json(EndpointSecretOut::of(key, rollout)))
}

async fn shown(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<Tagged<Json<EndpointHeadersOut>>> {
    let endpoint = app.endpoint(&scope, &endpoint).await?;
    let Shown { headers, sensitive } = Shown::of(&endpoint);
    let sensitive = sensitive.into_iter().collect();
    Ok(Tagged(Tag::from(&endpoint), Json(EndpointHeadersOut { headers, sensitive })))
}

async fn replace(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(given): Given<EndpointHeadersIn>,
) -> Answer<Tagged<StatusCode>> {
    let endpoint = app.edit_headers(&scope, &endpoint, Edit::All(given.headers)).await?;
    Ok(Tagged(Tag::from(&endpoint), StatusCode::NO_CONTENT))
}

async fn change(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(given): Given<EndpointHeadersPatchIn>,
) -> Answer<Tagged<StatusCode>> {
    let removed = given.delete_headers.unwrap_or_default().into_iter().map(|name| (name, None));
    // A header that is both removed and set is set.
    let mut changes: BTreeMap<_, _> = removed.collect();
    changes.extend(given.headers);
    let endpoint = app.edit_headers(&scope, &endpoint, Edit::Some(changes)).await?;
    Ok(Tagged(Tag::from(&endpoint), StatusCode::NO_CONTENT))
}
