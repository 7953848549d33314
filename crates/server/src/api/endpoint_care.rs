//! How an endpoint is doing, and what can be done about it: statistics, breaker, pause, resume.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::breaker::Breaker;
use domain::rights::Right;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::condition::Tagged;
use super::endpoints::{EndpointOut, shown};
use super::extract::{Asked, In, Named};
use super::operation::{Operation, Routes};
use super::pauses::PauseOut;
use super::values::{Answer, Moment};
use crate::app::App;
use crate::app::endpoints::Running;

const STATS: &str = "/app/{app_id}/endpoint/{endpoint_id}/stats";
const ATTEMPT_STATS: &str = "/app/{app_id}/endpoint/{endpoint_id}/attempt-stats";
const HEALTH: &str = "/app/{app_id}/endpoint/{endpoint_id}/health";
const RESET: &str = "/app/{app_id}/endpoint/{endpoint_id}/breaker/reset";
const PAUSE: &str = "/app/{app_id}/endpoint/{endpoint_id}/pause";
const RESUME: &str = "/app/{app_id}/endpoint/{endpoint_id}/resume";

pub(super) fn routes(routes: Routes) -> Routes {
    let stats = Operation::get(STATS, "v1.endpoint.get-stats", "Counts deliveries by state");
    let attempts =
        Operation::get(ATTEMPT_STATS, "v1.endpoint.get-attempt-stats", "Counts attempts");
    let health = Operation::get(HEALTH, "v1.endpoint.get-health", "Shows breaker and failures");
    let reset =
        Operation::post(RESET, "v1.endpoint.reset-breaker", "Closes the breaker, ends a pause");
    let pause = Operation::post(PAUSE, "v1.endpoint.pause", "Holds an endpoint's deliveries");
    let resume = Operation::post(RESUME, "v1.endpoint.resume", "Lets them go again");
    let right = Right::Endpoints;
    routes
        .add(stats.query::<RangeQuery>().answers::<EndpointStats>(200), statistics)
        .add(
            attempts.query::<RangeQuery>().answers::<EndpointAttemptStats>(200),
            attempt_statistics,
        )
        .add(health.answers::<EndpointHealthOut>(200), condition)
        .add(reset.needs(right).empty(204), close)
        .add(pause.needs(right).conditional().answers::<EndpointOut>(200).tagged(), hold)
        .add(resume.needs(right).conditional().answers::<EndpointOut>(200).tagged(), release)
}

/// Which range of time is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RangeQuery {
    /// Since when; 28 days before the end if it is missing.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Moment>,
    /// Until when; now if it is missing.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Moment>,
}

/// How many deliveries stand where.
#[derive(Debug, Serialize, ToSchema)]
struct EndpointStats {
    /// Delivered.
    success: u32,
    /// Waiting, whether tried before or not.
    pending: u32,
    /// On their way; they are counted as pending.
    sending: u32,
    /// Dead letters.
    fail: u32,
    /// Called off.
    #[serde(rename = "canceled")]
    cancelled: u32,
    /// Whether all were counted; otherwise the newest.
    complete: bool,
}

/// How many attempts ended how.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndpointAttemptStats {
    /// Answered with success.
    success: u64,
    /// Failed.
    fail: u64,
    /// Always 0: an attempt that was called off is not counted.
    #[serde(rename = "canceled")]
    cancelled: u64,
}

/// How an endpoint is doing, as its owner last wrote it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndpointHealthOut {
    /// `active`, `paused` or `disabled`.
    state: &'static str,
    /// Its breaker.
    breaker: BreakerOut,
    /// Permanent failures since the last success.
    permanent_streak: u32,
    /// The first failure since the last success.
    failing_since: Option<Moment>,
    /// No attempt before this moment: the receiver asked for it.
    paused_until: Option<Moment>,
    /// Which answer asked for that, and what ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<PauseOut>,
}

/// A breaker.
#[derive(Debug, Serialize, ToSchema)]
struct BreakerOut {
    /// `closed`, `open` or `half-open`.
    state: &'static str,
    /// Failed attempts in a row, while it is closed.
    failures: Option<u32>,
    /// When the probe may go, while it is open.
    until: Option<Moment>,
}

impl From<Breaker> for BreakerOut {
    fn from(breaker: Breaker) -> Self {
        let (failures, until) = match breaker {
            Breaker::Closed { failures } => (Some(failures), None),
            Breaker::Open { until, .. } => (None, Some(Moment(until))),
            Breaker::HalfOpen { .. } => (None, None),
        };
        Self { state: breaker.word(), failures, until }
    }
}

async fn statistics(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Asked(range): Asked<RangeQuery>,
) -> Answer<Json<EndpointStats>> {
    let (since, until) = (range.since.map(|it| it.0), range.until.map(|it| it.0));
    let counts = app.endpoint_statistics(&scope, &endpoint, since, until).await?;
    Ok(Json(EndpointStats {
        success: counts.delivered,
        pending: counts.pending,
        sending: 0,
        fail: counts.dead,
        cancelled: counts.cancelled,
        complete: counts.complete,
    }))
}

async fn attempt_statistics(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Asked(range): Asked<RangeQuery>,
) -> Answer<Json<EndpointAttemptStats>> {
    let (since, until) = (range.since.map(|it| it.0), range.until.map(|it| it.0));
    let (success, fail) = app.attempt_statistics(&scope, &endpoint, since, until).await?;
    Ok(Json(EndpointAttemptStats { success, fail, cancelled: 0 }))
}

async fn condition(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<Json<EndpointHealthOut>> {
    let (endpoint, running) = app.running(&scope, &endpoint).await?;
    let pause = app.pause_of((endpoint.application, endpoint.key)).await?;
    let Running { breaker, health, paused_until, .. } = running;
    Ok(Json(EndpointHealthOut {
        state: endpoint.state.word(),
        breaker: breaker.into(),
        permanent_streak: health.permanent_streak,
        failing_since: health.failing_since.map(Moment),
        paused_until: paused_until.map(Moment),
        pause: pause.map(PauseOut::from),
    }))
}

async fn close(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<StatusCode> {
    app.reset_breaker(&scope, &endpoint).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn hold(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<Tagged<Json<EndpointOut>>> {
    Ok(shown(app.pause_endpoint(&scope, &endpoint, true).await?))
}

async fn release(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<Tagged<Json<EndpointOut>>> {
    Ok(shown(app.pause_endpoint(&scope, &endpoint, false).await?))
}
