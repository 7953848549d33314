//! `/policy`: policies, with the schedule that follows from them and what is unwise about them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::extract::{Given, In, Named};
use super::operation::{Operation, Routes};
use super::values::Answer;
use crate::app::App;
use crate::app::policies::Shown;

const OF_ENDPOINT: &str = "/app/{app_id}/endpoint/{endpoint_id}/policy";

pub(super) fn routes(routes: Routes) -> Routes {
    let list = Operation::get("/policy", "v1.policy.list", "Lists the presets");
    let get = Operation::get("/policy/{policy_name}", "v1.policy.get", "Shows a preset");
    let preview = Operation::post("/policy/preview", "v1.policy.preview", "Shows what one means");
    let own = Operation::get(OF_ENDPOINT, "v1.policy.of-endpoint", "Shows the policy that applies");
    routes
        .add(list.answers::<PoliciesOut>(200), all)
        .add(get.answers::<PolicyOut>(200), one)
        .add(preview.reads().body::<PolicyPreviewIn>().answers::<PolicyOut>(200), shown)
        .add(own.answers::<PolicyOut>(200), applicable)
}

/// A policy that somebody thinks of.
#[derive(Debug, Deserialize, ToSchema)]
struct PolicyPreviewIn {
    /// The name of a preset, or a document.
    policy: Value,
}

/// Policies.
#[derive(Debug, Serialize, ToSchema)]
struct PoliciesOut {
    /// All of them, by name.
    data: Vec<PolicyOut>,
}

/// A policy with what follows from it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PolicyOut {
    /// Its name.
    name: String,
    /// Where it was set: `endpoint`, `application`, `server`, `preset`, or `preview`.
    origin: &'static str,
    /// Its document, endpoint defaults included.
    document: Value,
    /// When attempts follow, if every one of them fails.
    schedule: Vec<TurnOut>,
    /// How long that takes in all.
    span_seconds: f64,
    /// What is unwise about it.
    warnings: Vec<String>,
}

/// One attempt of a schedule.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TurnOut {
    /// Which attempt, counted from 1.
    attempt: u32,
    /// The wait before it, without chance.
    wait_seconds: f64,
    /// The shortest wait that chance allows.
    shortest_seconds: f64,
    /// The longest.
    longest_seconds: f64,
    /// The time since the first attempt, without chance.
    after_seconds: f64,
}

impl From<Shown> for PolicyOut {
    fn from(shown: Shown) -> Self {
        let turns = shown.timetable.turns.iter().map(|turn| TurnOut {
            attempt: turn.attempt,
            wait_seconds: turn.nominal.as_secs_f64(),
            shortest_seconds: turn.shortest.as_secs_f64(),
            longest_seconds: turn.longest.as_secs_f64(),
            after_seconds: turn.cumulative.as_secs_f64(),
        });
        Self {
            schedule: turns.collect(),
            span_seconds: shown.preset.policy.span().as_secs_f64(),
            warnings: shown.warnings.iter().map(ToString::to_string).collect(),
            document: policy::write_value(&shown.preset),
            name: shown.preset.policy.name,
            origin: shown.origin,
        }
    }
}

async fn all(State(app): State<Arc<App>>) -> Json<PoliciesOut> {
    Json(PoliciesOut { data: app.presets().into_iter().map(PolicyOut::from).collect() })
}

async fn one(State(app): State<Arc<App>>, Named([name]): Named<1>) -> Answer<Json<PolicyOut>> {
    Ok(Json(app.preset(&name)?.into()))
}

async fn shown(
    State(app): State<Arc<App>>,
    Given(given): Given<PolicyPreviewIn>,
) -> Answer<Json<PolicyOut>> {
    Ok(Json(app.preview(&given.policy)?.into()))
}

async fn applicable(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<Json<PolicyOut>> {
    Ok(Json(app.endpoint_policy(&scope, &endpoint).await?.into()))
}
