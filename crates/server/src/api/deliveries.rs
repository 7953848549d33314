//! `/app/{app_id}/delivery`: one message for one endpoint, with its whole history.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use domain::delivery::{Cause, Delivery};
use domain::outcome::{NetworkFailure, Outcome};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::attempts::{EmptyResponse, RedirectOut};
use super::extract::{Asked, In, Named};
use super::operation::{Operation, Routes};
use super::pauses::{PauseOut, RetryAfterOut};
use super::values::{Answer, Moment, PageOut, PageQuery, commas, unknown_number};
use crate::app::attempts::{AttemptRecord, Phases, Trigger};
use crate::app::deliveries::{AttemptEntry, DeliveryFilter, Shown};
use crate::app::replays::read_class;
use crate::app::{App, Error};

const ALL: &str = "/app/{app_id}/delivery";
const LIST: &str = "/app/{app_id}/endpoint/{endpoint_id}/delivery";
const ONE: &str = "/app/{app_id}/delivery/{delivery_id}";
const CANCEL: &str = "/app/{app_id}/delivery/{delivery_id}/cancel";
const RETRY: &str = "/app/{app_id}/delivery/{delivery_id}/retry";
const REPLAY: &str = "/app/{app_id}/delivery/{delivery_id}/replay";

pub(super) fn routes(routes: Routes) -> Routes {
    let whole =
        Operation::get(ALL, "v1.delivery.list-by-application", "Lists an application's deliveries");
    let whole = whole.query::<FilterQuery>().query::<EndpointQuery>().query::<PageQuery>();
    let list = Operation::get(LIST, "v1.delivery.list", "Lists an endpoint's deliveries");
    let get = Operation::get(ONE, "v1.delivery.get", "Shows a delivery with its attempts");
    let cancel = Operation::post(CANCEL, "v1.delivery.cancel", "Calls a pending delivery off");
    let retry = Operation::post(RETRY, "v1.delivery.retry", "Sends a pending delivery now");
    let replay = Operation::post(REPLAY, "v1.delivery.replay", "Sends a delivery again");
    routes
        .add(whole.lists::<DeliveryOut>(), whole_list)
        .add(list.query::<FilterQuery>().query::<PageQuery>().lists::<DeliveryOut>(), all)
        .add(get.answers::<DeliveryDetailOut>(200), one)
        .add(cancel.answers::<DeliveryOut>(200), call_off)
        .add(retry.answers::<DeliveryOut>(200), hurry)
        .add(replay.answers::<EmptyResponse>(202), again)
}

/// Which deliveries are meant.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FilterQuery {
    /// `pending`, `delivered`, `dead` or `cancelled`.
    state: Option<String>,
    /// Why they are dead.
    cause: Option<String>,
    /// Of the last attempt: 0 for no answer, 100, 200, 300, 400 or 500.
    status_code_class: Option<u64>,
    /// Only of these event types.
    #[serde(default, deserialize_with = "commas")]
    event_types: Vec<String>,
    /// Only whose message was received before this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    before: Option<Moment>,
    /// Only whose message was received at this moment or later.
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Moment>,
}

/// To which endpoint.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EndpointQuery {
    /// Only to this endpoint, by its id or uid.
    pub(super) endpoint_id: Option<String>,
}

impl FilterQuery {
    pub(super) fn filter(&self) -> Result<DeliveryFilter, Error> {
        let states = ["pending", "delivered", "dead", "cancelled"];
        let state = self.state.as_deref().map(|text| {
            let known = states.into_iter().find(|state| *state == text);
            known.ok_or_else(|| Error::parameter("state", format!("must be one of {states:?}")))
        });
        let cause = self.cause.as_deref().map(read_cause).transpose()?;
        let class = self.status_code_class;
        let class = class.map(|it| read_class(it).ok_or(unknown_number("status_code_class")));
        Ok(DeliveryFilter {
            endpoint: None,
            state: state.transpose()?,
            cause,
            status_class: class.transpose()?,
            event_types: self.event_types.clone(),
            since: self.after.map(|moment| moment.0),
            until: self.before.map(|moment| moment.0),
        })
    }
}

fn read_cause(word: &str) -> Result<Cause, Error> {
    Cause::from_word(word).ok_or_else(|| {
        let words = Cause::ALL.map(Cause::word).join(", ");
        Error::parameter("cause", format!("must be one of {words}"))
    })
}

/// A delivery.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeliveryOut {
    /// Its id.
    id: String,
    /// Its message's id.
    message_id: String,
    /// Its endpoint's id, also of one that is deleted.
    endpoint_id: Option<String>,
    /// Its message's event type.
    event_type: String,
    /// `pending`, `delivered`, `dead` or `cancelled`.
    state: &'static str,
    /// Why it is dead.
    cause: Option<&'static str>,
    /// When it is due, while it is pending.
    due: Option<Moment>,
    /// When it is given up, while it is pending.
    expires_at: Option<Moment>,
    /// Attempts that were made, over all replays.
    attempts: u32,
    /// The status of the last answer.
    last_status: Option<u16>,
    /// When its message was received.
    received_at: Moment,
    /// When it was settled.
    settled_at: Option<Moment>,
    /// Why it waits longer, while its endpoint pauses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<PauseOut>,
}

/// A delivery with its attempts.
#[derive(Debug, Serialize, ToSchema)]
struct DeliveryDetailOut {
    #[serde(flatten)]
    delivery: DeliveryOut,
    /// Its attempts, oldest first.
    timeline: Vec<TimelineOut>,
}

/// An attempt in a delivery's history.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TimelineOut {
    /// Its id.
    id: String,
    /// Which one it was, counted from 1.
    number: u32,
    /// `schedule` or `manual`.
    trigger: &'static str,
    /// `answered`, or what kept the receiver from answering.
    outcome: &'static str,
    /// The status that came back.
    status: Option<u16>,
    /// What went wrong, or by which rule of which policy the answer was final.
    error: Option<String>,
    /// The redirects that were followed. The response is the last one's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    redirects: Vec<RedirectOut>,
    /// When it began.
    began_at: Moment,
    /// When it ended.
    ended_at: Moment,
    /// When the next one was due after it.
    next_attempt: Option<Moment>,
    /// What its answer asked for by Retry-After.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<RetryAfterOut>,
    /// Where the time went.
    phases: PhasesOut,
    /// The request's headers, secrets masked.
    request_headers: Vec<(String, String)>,
    /// The response's headers, as far as they are kept.
    response_headers: Vec<(String, String)>,
    /// The beginning of the response.
    response: String,
}

/// How long the parts of an attempt took, in milliseconds, also the one that failed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PhasesOut {
    /// Name look-up.
    dns_ms: Option<f64>,
    /// TCP connect.
    connect_ms: Option<f64>,
    /// TLS handshake.
    tls_ms: Option<f64>,
    /// From the request to the first byte of the answer.
    first_byte_ms: Option<f64>,
    /// Whether the connection had been used before; null if there was none, or it is not known.
    reused: Option<bool>,
}

impl From<Shown> for DeliveryOut {
    fn from(shown: Shown) -> Self {
        let Shown { entry, endpoint, pause } = shown;
        let (cause, pending) = match entry.state {
            Delivery::Pending(pending) => (None, Some(pending)),
            Delivery::Dead(cause) => (Some(cause.word()), None),
            Delivery::Delivered | Delivery::Cancelled => (None, None),
        };
        Self {
            id: entry.id.to_string(),
            message_id: entry.message.to_string(),
            endpoint_id: endpoint.map(|id| id.to_string()),
            event_type: entry.event_type,
            state: entry.state.word(),
            cause,
            due: pending.map(|pending| Moment(pending.due)),
            expires_at: pending.and_then(|pending| pending.budget.expires_at).map(Moment),
            attempts: entry.recorded,
            last_status: entry.last_status,
            received_at: Moment(entry.received_at),
            settled_at: entry.settled_at.map(Moment),
            pause: pause.map(PauseOut::from),
        }
    }
}

impl From<AttemptEntry> for TimelineOut {
    fn from(entry: AttemptEntry) -> Self {
        let status = entry.record.outcome.status();
        let retry_after = RetryAfterOut::of(&entry.record);
        let AttemptRecord { outcome, phases, trigger, .. } = entry.record;
        Self {
            id: entry.record.id.to_string(),
            number: entry.number,
            trigger: match trigger {
                Trigger::Scheduled => "schedule",
                Trigger::Manual => "manual",
            },
            outcome: outcome_word(outcome),
            status,
            error: entry.record.error,
            redirects: entry.record.hops.into_iter().map(RedirectOut::from).collect(),
            began_at: Moment(entry.record.began_at),
            ended_at: Moment(entry.record.ended_at),
            next_attempt: entry.next_due.map(Moment),
            retry_after,
            phases: phases.into(),
            request_headers: entry.record.request_headers.pairs(),
            response_headers: entry.record.response_headers.pairs(),
            response: String::from_utf8_lossy(&entry.record.response_body).into_owned(),
        }
    }
}

impl From<Phases> for PhasesOut {
    fn from(phases: Phases) -> Self {
        let millis = |span: std::time::Duration| span.as_secs_f64() * 1_000.0;
        Self {
            dns_ms: phases.dns.map(millis),
            connect_ms: phases.connect.map(millis),
            tls_ms: phases.tls.map(millis),
            first_byte_ms: phases.first_byte.map(millis),
            reused: phases.reused,
        }
    }
}

fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answered { .. } => "answered",
        Outcome::TimedOut => NetworkFailure::Timeout.word(),
        Outcome::Unreachable(kind) => NetworkFailure::from(kind).word(),
        Outcome::TlsFailed => NetworkFailure::Tls.word(),
        Outcome::BrokenAnswer => NetworkFailure::Broken.word(),
        Outcome::Blocked => "blocked",
        Outcome::Interrupted => "interrupted",
    }
}

async fn whole_list(
    State(app): State<Arc<App>>,
    In(scope): In,
    (Asked(query), Asked(to)): (Asked<FilterQuery>, Asked<EndpointQuery>),
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut<DeliveryOut>>> {
    let (filter, wanted) = (query.filter()?, page.wanted()?);
    let slice = app.all_deliveries(&scope, to.endpoint_id.as_deref(), filter, &wanted).await?;
    Ok(PageOut::of(slice, DeliveryOut::from))
}

async fn all(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Asked(query): Asked<FilterQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut<DeliveryOut>>> {
    let wanted = page.wanted()?;
    let slice = app.deliveries(&scope, &endpoint, query.filter()?, &wanted).await?;
    Ok(PageOut::of(slice, DeliveryOut::from))
}

async fn one(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([delivery]): Named<1>,
) -> Answer<Json<DeliveryDetailOut>> {
    let (shown, attempts) = app.delivery(&scope, &delivery).await?;
    let timeline = attempts.into_iter().rev().map(TimelineOut::from).collect();
    Ok(Json(DeliveryDetailOut { delivery: shown.into(), timeline }))
}

async fn call_off(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([delivery]): Named<1>,
) -> Answer<Json<DeliveryOut>> {
    Ok(Json(app.cancel(&scope, &delivery).await?.into()))
}

async fn hurry(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([delivery]): Named<1>,
) -> Answer<Json<DeliveryOut>> {
    Ok(Json(app.retry_now(&scope, &delivery).await?.into()))
}

async fn again(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([delivery]): Named<1>,
) -> Answer<Response> {
    app.replay_one(&scope, &delivery).await?;
    Ok((StatusCode::ACCEPTED, Json(EmptyResponse {})).into_response())
}
