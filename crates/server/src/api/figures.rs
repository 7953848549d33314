//! `/figures`: what came of deliveries in a range of time, and what waits now.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::delivery::Cause;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Asked, In, Named};
use super::operation::{Operation, Routes};
use super::values::{Answer, Moment};
use crate::app::App;
use crate::app::dead_letters::Tally;
use crate::app::figures::{AskedRange, Figures, Percentiles};

const WHOLE: &str = "/figures";
const OF_APPLICATION: &str = "/app/{app_id}/figures";
const OF_ENDPOINT: &str = "/app/{app_id}/endpoint/{endpoint_id}/figures";

pub(super) fn routes(routes: Routes) -> Routes {
    let whole = Operation::get(WHOLE, "v1.figures.get", "Shows what came of all deliveries");
    let application = Operation::get(
        OF_APPLICATION,
        "v1.application.get-figures",
        "Shows what came of an application's deliveries",
    );
    let endpoint = Operation::get(
        OF_ENDPOINT,
        "v1.endpoint.get-figures",
        "Shows what came of an endpoint's deliveries",
    );
    routes
        .add(whole.admin().query::<FiguresQuery>().answers::<FiguresOut>(200), of_all)
        .add(application.query::<FiguresQuery>().answers::<FiguresOut>(200), of_application)
        .add(endpoint.query::<FiguresQuery>().answers::<FiguresOut>(200), of_endpoint)
}

/// Which range of time is meant: at most 90 days.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FiguresQuery {
    /// Since when; a day before the end if it is missing.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Moment>,
    /// Until when; now if it is missing.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Moment>,
}

/// What came of deliveries in a range of time, and what waits now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FiguresOut {
    /// When the range begins: at a full minute, or at a full hour if that is a day ago.
    since: Moment,
    /// When it ends.
    until: Moment,
    /// Deliveries that were made with their message: one for each endpoint that it goes to.
    accepted: u64,
    /// Deliveries that ended, delivered or dead. One that was replayed ends again.
    settled: u64,
    /// Those that were delivered.
    delivered: u64,
    /// Those that were delivered by their first attempt.
    delivered_at_first_attempt: u64,
    /// Those that became dead letters.
    dead: u64,
    /// The same by cause.
    dead_by_cause: BTreeMap<&'static str, u64>,
    /// Attempts that ended.
    attempts: u64,
    /// Those that were answered 2xx.
    attempts_succeeded: u64,
    /// Those that were not the first of their delivery.
    retries: u64,
    /// `delivered` ÷ `settled`; null if nothing was settled.
    delivery_success_rate: Option<f64>,
    /// `attemptsSucceeded` ÷ `attempts`; null if there were none.
    attempt_success_rate: Option<f64>,
    /// `retries` ÷ `settled`; null if nothing was settled.
    retries_per_delivery: Option<f64>,
    /// From acceptance to delivery; null if nothing was delivered.
    delivery_latency_ms: Option<PercentilesOut>,
    /// From the beginning of an attempt to its end; null if there was none.
    attempt_latency_ms: Option<PercentilesOut>,
    /// What there is now, whatever the range.
    now: NowOut,
}

/// Percentiles, in milliseconds: never too short, and at most 19 % too long, or 1 ms.
#[derive(Debug, Serialize, ToSchema)]
struct PercentilesOut {
    /// Half of them took no longer.
    p50: f64,
    /// 95 of a hundred took no longer.
    p95: f64,
    /// 99 of a hundred took no longer.
    p99: f64,
}

/// What there is now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NowOut {
    /// Deliveries that wait.
    waiting: TallyOut,
    /// When the first of them is due, or was.
    oldest_due: Option<Moment>,
    /// Dead letters.
    dead_letters: TallyOut,
}

/// A number of deliveries, counted up to 100,000.
#[derive(Debug, Serialize, ToSchema)]
struct TallyOut {
    /// So many.
    count: u32,
    /// Whether that is all; otherwise there are more.
    complete: bool,
}

impl From<Tally> for TallyOut {
    fn from(tally: Tally) -> Self {
        Self { count: tally.number, complete: tally.complete }
    }
}

impl From<Percentiles> for PercentilesOut {
    fn from(percentiles: Percentiles) -> Self {
        let [p50, p95, p99] = [percentiles.p50, percentiles.p95, percentiles.p99]
            .map(|time| (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0);
        Self { p50, p95, p99 }
    }
}

impl From<Figures> for FiguresOut {
    fn from(figures: Figures) -> Self {
        let sums = &figures.sums;
        let by_cause = Cause::ALL.map(|cause| (cause.word(), sums.dead_of(cause)));
        let percentiles = |buckets: &[u32]| Percentiles::of(buckets).map(PercentilesOut::from);
        Self {
            since: Moment(figures.since),
            until: Moment(figures.until),
            accepted: sums.accepted,
            settled: figures.settled(),
            delivered: sums.delivered,
            delivered_at_first_attempt: sums.delivered_at_first,
            dead: sums.all_dead(),
            dead_by_cause: by_cause.into_iter().filter(|(_, dead)| *dead > 0).collect(),
            attempts: figures.attempts(),
            attempts_succeeded: sums.succeeded,
            retries: figures.retries(),
            delivery_success_rate: figures.delivery_rate(),
            attempt_success_rate: figures.attempt_rate(),
            retries_per_delivery: figures.retries_per_delivery(),
            delivery_latency_ms: percentiles(&sums.latencies),
            attempt_latency_ms: percentiles(&sums.attempt_times),
            now: NowOut {
                waiting: figures.depth.waiting.into(),
                oldest_due: figures.depth.oldest_due.map(Moment),
                dead_letters: figures.dead_letters.into(),
            },
        }
    }
}

impl FiguresQuery {
    fn range(&self) -> AskedRange {
        AskedRange { since: self.since.map(|it| it.0), until: self.until.map(|it| it.0) }
    }
}

async fn of_all(
    State(app): State<Arc<App>>,
    Asked(query): Asked<FiguresQuery>,
) -> Answer<Json<FiguresOut>> {
    Ok(Json(app.whole_figures(query.range()).await?.into()))
}

async fn of_application(
    State(app): State<Arc<App>>,
    In(scope): In,
    Asked(query): Asked<FiguresQuery>,
) -> Answer<Json<FiguresOut>> {
    Ok(Json(app.application_figures(&scope, query.range()).await?.into()))
}

async fn of_endpoint(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Asked(query): Asked<FiguresQuery>,
) -> Answer<Json<FiguresOut>> {
    Ok(Json(app.endpoint_figures(&scope, &endpoint, query.range()).await?.into()))
}
