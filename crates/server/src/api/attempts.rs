//! Attempts: of an endpoint, of a message, one; what went to whom; and sending again.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::endpoints::EndpointOut;
use super::extract::{Asked, In, Named};
use super::messages::{MessageOut, refuse_tag, yes};
use super::operation::{Operation, Routes};
use super::pauses::RetryAfterOut;
use super::values::{Answer, Moment, PageOut, PageQuery, commas, unknown_number};
use crate::app::attempts::{
    Attempt, AttemptFilter, DeliveryEntry, DeliveryFilter, Hop, MessagesWish, Status, Trigger, Wish,
};
use crate::app::replays::read_class;
use crate::app::{App, Error};

const OF_ENDPOINT: &str = "/app/{app_id}/attempt/endpoint/{endpoint_id}";
const OF_MESSAGE: &str = "/app/{app_id}/attempt/msg/{msg_id}";
const MESSAGES: &str = "/app/{app_id}/endpoint/{endpoint_id}/msg";
const OF_BOTH: &str = "/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/attempt";
const ENDPOINTS: &str = "/app/{app_id}/msg/{msg_id}/endpoint";
const ONE: &str = "/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}";
const CONTENT: &str = "/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}/content";
const RESEND: &str = "/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend";

pub(super) fn routes(routes: Routes) -> Routes {
    let of_endpoint =
        Operation::get(OF_ENDPOINT, "v1.message-attempt.list-by-endpoint", "Lists attempts of one");
    let of_message =
        Operation::get(OF_MESSAGE, "v1.message-attempt.list-by-msg", "Lists attempts of one");
    let of_both = Operation::get(
        OF_BOTH,
        "v1.message-attempt.list-by-endpoint-deprecated",
        "Lists attempts of a message for one endpoint",
    );
    let messages = Operation::get(
        MESSAGES,
        "v1.message-attempt.list-attempted-messages",
        "Lists what goes to an endpoint",
    );
    let endpoints = Operation::get(
        ENDPOINTS,
        "v1.message-attempt.list-attempted-destinations",
        "Lists where a message goes",
    );
    let get = Operation::get(ONE, "v1.message-attempt.get", "Shows an attempt");
    let expunge = Operation::delete(
        CONTENT,
        "v1.message-attempt.expunge-content",
        "Removes what was sent and came back",
    );
    let resend = Operation::post(RESEND, "v1.message-attempt.resend", "Sends a message again");
    routes
        .add(
            of_endpoint.query::<ListQuery>().query::<PageQuery>().lists::<AttemptOut>(),
            by_endpoint,
        )
        .add(of_message.query::<ListQuery>().query::<PageQuery>().lists::<AttemptOut>(), by_message)
        .add(of_both.query::<ListQuery>().query::<PageQuery>().lists::<AttemptOut>(), by_both)
        .add(messages.query::<ListQuery>().query::<PageQuery>().lists::<EndpointMessageOut>(), sent)
        .add(endpoints.query::<PageQuery>().lists::<MessageEndpointOut>(), receivers)
        .add(get.answers::<AttemptOut>(200), one)
        .add(expunge.empty(204), expunge_content)
        .add(resend.answers::<EmptyResponse>(202), again)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// 0 success, 1 pending, 2 fail, 3 sending, 4 called off.
    status: Option<u8>,
    /// 0 for no answer, 100, 200, 300, 400 or 500.
    status_code_class: Option<u64>,
    /// Only of messages on this channel.
    channel: Option<String>,
    /// Only of this endpoint.
    endpoint_id: Option<String>,
    /// Only what began before this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    before: Option<Moment>,
    /// Only what began after this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Moment>,
    /// Whether responses and payloads are shown.
    #[serde(default = "yes")]
    with_content: bool,
    /// Whether each attempt comes with its message.
    #[serde(default, rename = "with_msg")]
    with_message: bool,
    /// Whether a delivery that was called off is told apart from one that failed.
    #[serde(default)]
    expanded_statuses: bool,
    /// Only of these event types.
    #[serde(default, deserialize_with = "commas")]
    event_types: Vec<String>,
    /// Is refused: tags are not kept.
    tag: Option<String>,
}

/// An attempt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageAttemptOut)]
pub(super) struct AttemptOut {
    /// Its id.
    id: String,
    /// Where it went.
    url: String,
    /// Its message's id.
    #[serde(rename = "msgId")]
    message_id: String,
    /// Its endpoint's id.
    endpoint_id: String,
    /// The beginning of what came back.
    response: String,
    /// The status that came back; 0 if nothing did.
    response_status_code: u16,
    /// How long it took.
    response_duration_ms: u64,
    /// 0 success, 2 fail.
    status: u8,
    /// The same as a word.
    status_text: &'static str,
    /// 0 by schedule, 1 by hand.
    trigger_type: u8,
    /// When it began.
    timestamp: Moment,
    /// What went wrong, or by which rule of which policy the answer was final.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The redirects that were followed. The response is the last one's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    redirects: Vec<RedirectOut>,
    /// When the next one was due after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt: Option<Moment>,
    /// What its answer asked for by Retry-After.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<RetryAfterOut>,
    /// Its message, if it was asked for.
    #[serde(rename = "msg", skip_serializing_if = "Option::is_none")]
    message: Option<MessageOut>,
}

/// A redirect that was followed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RedirectOut {
    /// The status of the answer that led there.
    status: u16,
    /// Where it led: scheme, host and port. Paths are secrets.
    to: String,
}

impl From<Hop> for RedirectOut {
    fn from(Hop { status, to }: Hop) -> Self {
        Self { status, to }
    }
}

/// A message that goes to an endpoint.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndpointMessageOut {
    #[serde(flatten)]
    message: MessageOut,
    #[serde(flatten)]
    standing: Standing,
}

/// An endpoint that a message goes to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MessageEndpointOut {
    #[serde(flatten)]
    endpoint: EndpointOut,
    #[serde(flatten)]
    standing: Standing,
}

/// How a delivery stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Standing {
    /// 0 success, 1 pending, 2 fail, 3 sending, 4 called off.
    status: u8,
    /// The same as a word.
    status_text: &'static str,
    /// When it is sent next, if it is.
    next_attempt: Option<Moment>,
}

/// Nothing.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EmptyResponse {}

/// Returns the number and the word that the SDKs have for a status.
fn numbered(status: Status, expanded: bool) -> (u8, &'static str) {
    match status {
        Status::Success => (0, "success"),
        Status::Pending => (1, "pending"),
        Status::Fail => (2, "fail"),
        Status::Sending => (3, "sending"),
        Status::Cancelled if expanded => (4, "canceled"),
        Status::Cancelled => (2, "fail"),
    }
}

pub(super) fn read_status(number: u8) -> Result<Status, Error> {
    match number {
        0 => Ok(Status::Success),
        1 => Ok(Status::Pending),
        2 => Ok(Status::Fail),
        3 => Ok(Status::Sending),
        4 => Ok(Status::Cancelled),
        _ => Err(unknown_number("status")),
    }
}

impl Standing {
    fn of(delivery: &DeliveryEntry, expanded: bool) -> Self {
        let (status, status_text) = numbered(Status::of(delivery), expanded);
        let next_attempt = match delivery.state {
            domain::delivery::Delivery::Pending(pending) => Some(Moment(pending.due)),
            domain::delivery::Delivery::Delivered
            | domain::delivery::Delivery::Dead(_)
            | domain::delivery::Delivery::Cancelled => None,
        };
        Self { status, status_text, next_attempt }
    }
}

impl AttemptOut {
    fn of(attempt: Attempt, with_content: bool) -> Self {
        let Attempt { entry, endpoint, url, message } = attempt;
        let record = entry.record;
        let (status, status_text) = numbered(Status::of_attempt(&record), true);
        let elapsed = record.ended_at.since(record.began_at).as_millis();
        let response = String::from_utf8_lossy(&record.response_body).into_owned();
        Self {
            id: record.id.to_string(),
            url,
            message_id: entry.message.to_string(),
            endpoint_id: endpoint.to_string(),
            response: if with_content { response } else { "{}".to_owned() },
            response_status_code: record.outcome.status().unwrap_or(0),
            response_duration_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            status,
            status_text,
            trigger_type: match record.trigger {
                Trigger::Scheduled => 0,
                Trigger::Manual => 1,
            },
            timestamp: Moment(record.began_at),
            retry_after: RetryAfterOut::of(&record),
            error: record.error,
            redirects: record.hops.into_iter().map(RedirectOut::from).collect(),
            next_attempt: entry.next_due.map(Moment),
            message: message.map(|message| MessageOut::of(message, with_content)),
        }
    }
}

impl ListQuery {
    fn wish(&self) -> Result<Wish, Error> {
        refuse_tag(self.tag.as_deref())?;
        let class = self.status_code_class;
        let class = class.map(|it| read_class(it).ok_or(unknown_number("status_code_class")));
        Ok(Wish {
            filter: AttemptFilter {
                succeeded: None,
                status_class: class.transpose()?,
                event_types: self.event_types.clone(),
                since: self.after.map(|moment| moment.0),
                until: self.before.map(|moment| moment.0),
            },
            status: self.status.map(read_status).transpose()?,
            channel: self.channel.clone(),
            endpoint: self.endpoint_id.clone(),
            with_message: self.with_message,
            with_content: self.with_content,
        })
    }

    fn messages_wish(&self) -> Result<MessagesWish, Error> {
        let Wish { filter, status, channel, with_content, .. } = self.wish()?;
        let AttemptFilter { status_class, event_types, since, until, .. } = filter;
        let filter =
            DeliveryFilter { status_class, event_types, since, until, ..DeliveryFilter::default() };
        Ok(MessagesWish { filter, status, channel, with_content })
    }
}

async fn by_endpoint(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Asked(query): Asked<ListQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut<AttemptOut>>> {
    let wanted = page.wanted()?;
    let slice = app.attempts_of_endpoint(&scope, &endpoint, query.wish()?, wanted).await?;
    Ok(PageOut::of(slice, |attempt| AttemptOut::of(attempt, query.with_content)))
}

async fn by_message(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([message]): Named<1>,
    Asked(query): Asked<ListQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut<AttemptOut>>> {
    let wanted = page.wanted()?;
    let slice = app.attempts_of_message(&scope, &message, query.wish()?, wanted).await?;
    Ok(PageOut::of(slice, |attempt| AttemptOut::of(attempt, query.with_content)))
}

/// What old SDKs ask for; newer ones name the endpoint in the query.
async fn by_both(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([message, endpoint]): Named<2>,
    Asked(query): Asked<ListQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut<AttemptOut>>> {
    let wish = Wish { endpoint: Some(endpoint), ..query.wish()? };
    let slice = app.attempts_of_message(&scope, &message, wish, page.wanted()?).await?;
    Ok(PageOut::of(slice, |attempt| AttemptOut::of(attempt, query.with_content)))
}

async fn sent(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Asked(query): Asked<ListQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut<EndpointMessageOut>>> {
    let (wish, wanted) = (query.messages_wish()?, page.wanted()?);
    let slice = app.attempted_messages(&scope, &endpoint, wish, &wanted).await?;
    Ok(PageOut::of(slice, |(message, delivery)| EndpointMessageOut {
        message: MessageOut::of(message, query.with_content),
        standing: Standing::of(&delivery, query.expanded_statuses),
    }))
}

async fn receivers(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([message]): Named<1>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut<MessageEndpointOut>>> {
    let slice = app.attempted_endpoints(&scope, &message, &page.wanted()?).await?;
    Ok(PageOut::of(slice, |(endpoint, delivery)| MessageEndpointOut {
        endpoint: endpoint.into(),
        standing: Standing::of(&delivery, false),
    }))
}

async fn one(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([message, attempt]): Named<2>,
) -> Answer<Json<AttemptOut>> {
    Ok(Json(AttemptOut::of(app.attempt(&scope, &message, &attempt).await?, true)))
}

async fn expunge_content(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([message, attempt]): Named<2>,
) -> Answer<StatusCode> {
    app.expunge_attempt(&scope, &message, &attempt).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn again(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([message, endpoint]): Named<2>,
) -> Answer<Response> {
    app.resend(&scope, &message, &endpoint).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({}))).into_response())
}
