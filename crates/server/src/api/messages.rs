//! `/app/{app_id}/msg`: messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use domain::rights::Right;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::applications::ApplicationIn;
use super::extract::{
    self, Application as NamedApplication, Asked, By, Given, In, Key, Named, Raw,
};
use super::operation::{Operation, Routes};
use super::values::{Answer, Moment, PageOut, PageQuery, Unused, commas, object};
use crate::app::messages::{Draft, Message, MessageFilter, Payload};
use crate::app::{App, Caller, Error, nesting};

const LIST: &str = "/app/{app_id}/msg";
const ONE: &str = "/app/{app_id}/msg/{msg_id}";
const CONTENT: &str = "/app/{app_id}/msg/{msg_id}/content";
/// The most bytes that a payload's content type may have.
const LONGEST_CONTENT_TYPE: usize = 256;
const PRECHECK: &str = "/app/{app_id}/msg/precheck/active";

pub(super) fn routes(routes: Routes) -> Routes {
    let list = Operation::get(LIST, "v1.message.list", "Lists an application's messages");
    let create = creation();
    let get = Operation::get(ONE, "v1.message.get", "Shows a message");
    let expunged = "Removes a message's payload, and cancels what is pending";
    let expunge = Operation::delete(CONTENT, "v1.message.expunge-content", expunged);
    let precheck =
        Operation::post(PRECHECK, "v1.message.precheck", "Tells whether anybody would get one");
    let list = list.query::<ListQuery>().query::<PageQuery>().lists::<MessageOut>();
    let create = create.accepts().query::<ContentQuery>().body::<MessageIn>();
    let precheck = precheck.reads().body::<MessagePrecheckIn>();
    routes
        .add(list, all)
        .add(create.answers::<MessageOut>(202), new)
        .add(get.query::<ContentQuery>().answers::<MessageOut>(200), one)
        .add(expunge.needs(Right::Purge).empty(204), forget)
        .add(precheck.answers::<MessagePrecheckOut>(200), asked)
}

/// The operation that everything else is there for.
pub(super) fn creation() -> Operation {
    let create = Operation::post(LIST, "v1.message.create", "Accepts a message");
    create.needs(Right::Send).own_keys().unpaced()
}

/// A message as its sender hands it over.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct MessageIn<'a> {
    /// What kind of message it is; the event type need not exist.
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9_.-]+$")]
    event_type: String,
    /// What is sent: an object, whose bytes are kept as they are.
    #[serde(borrow, alias = "data")]
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    /// The sender's own id for it, unique in the application.
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9_.-]+$")]
    event_id: Option<String>,
    /// The channels it goes out on, 1 to 10.
    #[schema(min_items = 1, max_items = 10)]
    channels: Option<BTreeSet<String>>,
    /// For how many days its payload is kept, 5 to 90.
    #[schema(minimum = 5, maximum = 90)]
    payload_retention_period: Option<u64>,
    /// The same in hours, as newer SDKs write it.
    #[schema(minimum = 120, maximum = 2160)]
    payload_retention_hours: Option<u64>,
    /// When it is to be delivered, if not at once.
    deliver_at: Option<Moment>,
    /// A policy for this message alone.
    policy: Option<Value>,
    /// The application to create if there is none of that name.
    #[serde(default, deserialize_with = "object")]
    application: Option<ApplicationIn>,
    /// Another body to be sent in place of the payload.
    #[serde(default, deserialize_with = "object")]
    transformations_params: Option<TransformationsParams>,
    /// Are accepted and not kept.
    #[serde(default, rename = "tags")]
    #[schema(value_type = Option<Vec<String>>)]
    _tags: Unused,
}

/// Another body to be sent in place of the payload. To SDKs it is a map of whatever their users want to
/// hand to a transformation, so that other fields are passed over.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TransformationsParams {
    /// The body, as a text.
    raw_payload: Option<String>,
    /// Only `content-type` counts.
    headers: Option<BTreeMap<String, String>>,
}

/// A message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageOut {
    /// Its id.
    pub(super) id: String,
    /// The sender's own id for it.
    event_id: Option<String>,
    /// What kind of message it is.
    event_type: String,
    /// What is sent; empty if it was not asked for.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
    /// The channels it goes out on.
    channels: Option<Vec<String>>,
    /// Always null; tags are not kept.
    tags: Option<Vec<String>>,
    /// When it is to be delivered, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_at: Option<Moment>,
    /// When it was received.
    timestamp: Moment,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ContentQuery {
    /// Whether the payload is shown.
    #[serde(default = "yes")]
    pub(super) with_content: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those on this channel.
    channel: Option<String>,
    /// Only those received before this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    before: Option<Moment>,
    /// Only those received after this moment.
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Moment>,
    /// Whether payloads are shown.
    #[serde(default = "yes")]
    with_content: bool,
    /// Only of these event types.
    #[serde(default, deserialize_with = "commas")]
    event_types: Vec<String>,
    /// Is refused: tags are not kept.
    tag: Option<String>,
}

/// A message that somebody thinks of.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MessagePrecheckIn {
    /// What kind of message it would be.
    event_type: String,
    /// The channels it would go out on.
    channels: Option<Vec<String>>,
}

/// Whether anybody would get it.
#[derive(Debug, Serialize, ToSchema)]
struct MessagePrecheckOut {
    /// Whether an endpoint that is not disabled would.
    active: bool,
}

/// Refuses to choose by tag. Passing it over would show, or send, more than was asked for.
pub(super) fn refuse_tag(tag: Option<&str>) -> Result<(), Error> {
    let refusal = "is not possible: tags are not kept; messages can be chosen by `channel`";
    tag.map_or(Ok(()), |_| Err(Error::parameter("tag", refusal)))
}

pub(super) const fn yes() -> bool {
    true
}

impl MessageIn<'_> {
    /// Takes the payload as a part of the body it came in, without copying it, unless that would
    /// keep more of other things in memory than of payload.
    pub(super) fn draft(self, body: &Bytes) -> Result<Draft, Error> {
        if !self.payload.get().starts_with('{') {
            return Err(Error::field("payload", "must be a JSON object"));
        }
        let raw =
            self.transformations_params.and_then(|given| Some((given.raw_payload?, given.headers)));
        let (payload, content_type) = match raw {
            Some((text, headers)) => {
                (Bytes::from(text), content_type(headers.unwrap_or_default())?)
            }
            None => (part_of(body, self.payload.get()), None),
        };
        let hours = self.payload_retention_hours.map(|hours| hours.div_ceil(24).max(5));
        Ok(Draft {
            event_type: self.event_type,
            event_id: self.event_id,
            channels: self.channels.map(|channels| channels.into_iter().collect()),
            payload,
            content_type,
            policy: self.policy,
            deliver_at: self.deliver_at.map(|moment| moment.0),
            retention_days: self.payload_retention_period.or(hours),
            application: self.application.map(Into::into),
            idempotency: None,
            only: None,
        })
    }
}

fn part_of(body: &Bytes, payload: &str) -> Bytes {
    if payload.len() * 2 < body.len() {
        Bytes::copy_from_slice(payload.as_bytes())
    } else {
        body.slice_ref(payload.as_bytes())
    }
}

fn content_type(headers: BTreeMap<String, String>) -> Result<Option<String>, Error> {
    let mut headers = headers.into_iter();
    let found = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let Some((_, value)) = found else { return Ok(None) };
    let length = (1..=LONGEST_CONTENT_TYPE).contains(&value.len());
    if length && http::HeaderValue::from_str(&value).is_ok() {
        return Ok(Some(value));
    }
    let text = format!("must be a header's value of 1 to {LONGEST_CONTENT_TYPE} bytes");
    Err(Error::field("transformationsParams.headers.content-type", text))
}

impl MessageOut {
    pub(super) fn of(message: Message, with_content: bool) -> Self {
        let channels = (!message.channels.is_empty()).then_some(message.channels);
        Self {
            id: message.id.to_string(),
            event_id: message.event_id,
            event_type: message.event_type,
            payload: shown(&message.payload, with_content),
            channels,
            tags: None,
            deliver_at: message.deliver_at.map(Moment),
            timestamp: Moment(message.received_at),
        }
    }
}

/// Shows a payload. What is no JSON object was sent as a text of its own.
fn shown(payload: &Payload, with_content: bool) -> Box<RawValue> {
    let json = match payload {
        Payload::Kept(_) | Payload::Omitted if !with_content => "{}".to_owned(),
        Payload::Omitted => "{}".to_owned(),
        Payload::Gone => r#"{"expired":true}"#.to_owned(),
        Payload::Kept(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            // What is nested so deeply that it would break its reader is shown as a text.
            if text.trim_start().starts_with('{')
                && !nesting::is_too_deep(bytes)
                && let Ok(object) = RawValue::from_string(text.to_string())
            {
                return object;
            }
            serde_json::json!({ "rawPayload": text }).to_string()
        }
    };
    RawValue::from_string(json).unwrap_or_default()
}

async fn new(
    State(app): State<Arc<App>>,
    By(caller): By,
    NamedApplication(application): NamedApplication,
    (Asked(query), Key(key)): (Asked<ContentQuery>, Key),
    Raw(body): Raw,
) -> Answer<Response> {
    let creating = Creating { caller: &caller, application: &application, key, query };
    create(&app, creating, &body).await
}

/// What a new message comes with.
pub(super) struct Creating<'a> {
    /// Who sends it.
    pub(super) caller: &'a Caller,
    /// What they call its application.
    pub(super) application: &'a str,
    /// The hash of its idempotency key.
    pub(super) key: Option<[u8; 32]>,
    /// What is to be answered.
    pub(super) query: ContentQuery,
}

/// Accepts a message.
pub(super) async fn create(app: &App, with: Creating<'_>, body: &Bytes) -> Answer<Response> {
    let mut draft = extract::read_object::<MessageIn<'_>>(body)?.draft(body)?;
    draft.idempotency = with.key;
    let message = app.accept(with.caller, with.application, draft).await?;
    let out = MessageOut::of(message, with.query.with_content);
    Ok((StatusCode::ACCEPTED, Json(out)).into_response())
}

async fn all(
    State(app): State<Arc<App>>,
    In(scope): In,
    Asked(query): Asked<ListQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut>> {
    refuse_tag(query.tag.as_deref())?;
    let filter = MessageFilter {
        event_types: query.event_types,
        channel: query.channel,
        since: query.after.map(|moment| moment.0),
        until: query.before.map(|moment| moment.0),
        with_payload: query.with_content,
    };
    let slice = app.messages(&scope, filter, page.wanted()?).await?;
    PageOut::of(slice, |message| MessageOut::of(message, query.with_content))
}

async fn one(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([message]): Named<1>,
    Asked(query): Asked<ContentQuery>,
) -> Answer<Json<MessageOut>> {
    let message = app.message(&scope, &message).await?;
    Ok(Json(MessageOut::of(message, query.with_content)))
}

async fn forget(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([message]): Named<1>,
) -> Answer<StatusCode> {
    app.expunge(&scope, &message).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn asked(
    State(app): State<Arc<App>>,
    In(scope): In,
    Given(given): Given<MessagePrecheckIn>,
) -> Answer<Json<MessagePrecheckOut>> {
    let channels = given.channels.as_deref();
    let active = app.precheck(&scope, &given.event_type, channels).await?;
    Ok(Json(MessagePrecheckOut { active }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(body: &Bytes) -> Draft {
        extract::read_object::<MessageIn<'_>>(body).unwrap().draft(body).unwrap()
    }

    #[test]
    fn a_payload_does_not_keep_what_was_around_it_in_memory() {
        let blanks = " ".repeat(1_000);
        let padded = Bytes::from(format!(r#"{{"eventType":"a",{blanks}"payload":{{}}}}"#));
        let within = |part: &Bytes, whole: &Bytes| whole.as_ptr_range().contains(&part.as_ptr());
        assert!(!within(&draft(&padded).payload, &padded));
        let full = format!(r#"{{"eventType":"a","payload":{{"text":"{}"}}}}"#, "x".repeat(1_000));
        let full = Bytes::from(full);
        assert!(within(&draft(&full).payload, &full));
    }
}
