//! `/app/{app_id}/endpoint`: endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use domain::endpoint::State as Stands;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::condition::Tagged;
use super::deleted::{Deleted, DeletionOut};
use super::extract::{Asked, Given, In, Named};
use super::operation::{Operation, Routes};
use super::pauses::PauseOut;
use super::values::{Answer, Moment, PageOut, PageQuery, made, present, present_object};
use crate::app::App;
use crate::app::applications::Made;
use crate::app::condition::Tag;
use crate::app::endpoints::{self, Credentials, Draft, Endpoint, Order};
use crate::app::headers::Edit;

const LIST: &str = "/app/{app_id}/endpoint";
const ONE: &str = "/app/{app_id}/endpoint/{endpoint_id}";

pub(super) fn routes(routes: Routes) -> Routes {
    let list = Operation::get(LIST, "v1.endpoint.list", "Lists an application's endpoints");
    let create = Operation::post(LIST, "v1.endpoint.create", "Creates an endpoint");
    let get = Operation::get(ONE, "v1.endpoint.get", "Shows an endpoint");
    let put = Operation::put(ONE, "v1.endpoint.update", "Replaces or creates an endpoint");
    let patch = Operation::patch(ONE, "v1.endpoint.patch", "Changes an endpoint");
    let delete = Operation::delete(ONE, "v1.endpoint.delete", "Deletes an endpoint");
    let put = put.body::<EndpointIn>().answers::<EndpointOut>(200).answers::<EndpointOut>(201);
    let patch = patch.body::<EndpointPatch>().answers::<EndpointOut>(200);
    routes
        .add(list.query::<PageQuery>().lists::<EndpointOut>(), all)
        .add(create.body::<EndpointIn>().answers::<EndpointOut>(201).tagged(), new)
        .add(get.answers::<EndpointOut>(200).tagged(), one)
        .add(put.conditional().tagged(), replace)
        .add(patch.conditional().tagged(), change)
        .add(delete.conditional().empty(204).answers::<DeletionOut>(202), remove)
}

/// What an endpoint's owner sets. A PUT keeps `disabled` if it leaves it out, and what it leaves out from
/// `inFlight` on, as the published SDKs do not know these fields; what else it leaves out is cleared.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndpointIn {
    /// Where its messages go.
    url: String,
    /// A text for people.
    description: Option<String>,
    /// The owner's own id for it.
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9_.-]+$")]
    uid: Option<String>,
    /// Whether it gets nothing. A PUT that leaves it out leaves that as it is.
    disabled: Option<bool>,
    /// The event types it gets; all if it is missing. `invoice.*` means all below `invoice`.
    #[serde(alias = "filterTypes")]
    event_types: Option<BTreeSet<String>>,
    /// The channels it listens on, 1 to 10.
    #[schema(min_items = 1, max_items = 10)]
    channels: Option<BTreeSet<String>>,
    /// The most attempts per second.
    #[serde(alias = "rateLimit")]
    #[schema(minimum = 1, maximum = 65535)]
    throttle_rate: Option<u32>,
    /// Whatever its owner wants to remember.
    metadata: Option<BTreeMap<String, String>>,
    /// The most attempts in flight.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>)]
    in_flight: Option<Option<u32>>,
    /// Its signing secret: `whsec_…`, `whsk_…`, or `plain:` and the text of one that receivers have
    /// already. One is made for a new endpoint if it is missing. In a PUT, another one than the current
    /// one replaces that, which goes on signing for a day.
    secret: Option<String>,
    /// Headers added to its attempts.
    headers: Option<BTreeMap<String, String>>,
    /// Its policy: the name of a preset, or a document.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    policy: Option<Option<Value>>,
    /// Its signature profiles, such as `standard-webhooks` or `timestamped:Acme-Signature`; empty for
    /// those of its policy, or else the server's.
    #[schema(max_items = 16)]
    signatures: Option<Vec<String>>,
    /// How attempts authenticate themselves. It is never shown again.
    #[serde(default, deserialize_with = "present_object")]
    #[schema(value_type = Option<CredentialsIn>)]
    credentials: Option<Option<CredentialsIn>>,
    /// Whether its messages arrive in the order in which they were accepted; one with `deliverAt`
    /// takes its place when it is due.
    fifo: Option<bool>,
}

/// How attempts authenticate themselves.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum CredentialsIn {
    /// A bearer token.
    Bearer {
        /// The token.
        token: String,
    },
    /// A user and a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
}

/// What is to be changed about an endpoint. What is missing stays, null clears.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EndpointPatch {
    /// Where its messages go.
    url: Option<String>,
    /// A text for people.
    description: Option<String>,
    /// The owner's own id for it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, min_length = 1, pattern = "^[a-zA-Z0-9_.-]+$")]
    uid: Option<Option<String>>,
    /// Whether it gets nothing.
    disabled: Option<bool>,
    /// The event types it gets.
    #[serde(default, deserialize_with = "present", alias = "filterTypes")]
    #[schema(value_type = Option<Vec<String>>)]
    event_types: Option<Option<BTreeSet<String>>>,
    /// The channels it listens on.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Vec<String>>)]
    channels: Option<Option<BTreeSet<String>>>,
    /// The most attempts per second.
    #[serde(default, deserialize_with = "present", alias = "rateLimit")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 65535)]
    throttle_rate: Option<Option<u32>>,
    /// The most attempts in flight.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>)]
    in_flight: Option<Option<u32>>,
    /// Whatever its owner wants to remember.
    metadata: Option<BTreeMap<String, String>>,
    /// Headers added to its attempts; all of them are replaced.
    headers: Option<BTreeMap<String, String>>,
    /// Its policy.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    policy: Option<Option<Value>>,
    /// Its signature profiles, such as `standard-webhooks` or `timestamped:Acme-Signature`; empty for
    /// those of its policy, or else the server's.
    #[schema(max_items = 16)]
    signatures: Option<Vec<String>>,
    /// How attempts authenticate themselves.
    #[serde(default, deserialize_with = "present_object")]
    #[schema(value_type = Option<CredentialsIn>)]
    credentials: Option<Option<CredentialsIn>>,
    /// Whether its messages arrive in the order in which they were accepted; one with `deliverAt`
    /// takes its place when it is due.
    fifo: Option<bool>,
}

/// An endpoint. Its secret is shown by an operation of its own.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndpointOut {
    /// Its id.
    id: String,
    /// The owner's own id for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// Where its messages go.
    url: String,
    /// A text for people.
    description: String,
    /// Always 1; older SDKs want it.
    version: u32,
    /// Whether it gets nothing.
    disabled: bool,
    /// `active`, `paused` or `disabled`.
    state: &'static str,
    /// Why it is disabled, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_reason: Option<&'static str>,
    /// The event types it gets; all if null.
    event_types: Option<Vec<String>>,
    /// The same, for older SDKs.
    filter_types: Option<Vec<String>>,
    /// The channels it listens on.
    channels: Option<Vec<String>>,
    /// The most attempts per second.
    throttle_rate: Option<u32>,
    /// The same, for older SDKs.
    rate_limit: Option<u32>,
    /// The most attempts in flight.
    in_flight: Option<u32>,
    /// Whatever its owner wants to remember.
    metadata: BTreeMap<String, String>,
    /// Its policy, if it has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Value>,
    /// Its signature profiles, if it has its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<String>,
    /// Whether its messages arrive in the order in which they were accepted; one with `deliverAt`
    /// takes its place when it is due.
    fifo: bool,
    /// Its pause, while its receiver asks for one by Retry-After. Lists do not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<PauseOut>,
    /// When it was created.
    created_at: Moment,
    /// When it was last changed.
    updated_at: Moment,
}

impl From<EndpointIn> for Draft {
    fn from(given: EndpointIn) -> Self {
        Self {
            url: Some(given.url),
            description: Some(given.description.unwrap_or_default()),
            uid: Some(given.uid),
            disabled: given.disabled,
            event_types: Some(given.event_types.map(listed)),
            channels: Some(given.channels.map(listed)),
            rate: Some(given.throttle_rate),
            in_flight: given.in_flight,
            policy: given.policy,
            signatures: given.signatures,
            headers: given.headers.map(Edit::All),
            credentials: given.credentials.map(|it| it.map(Credentials::from)),
            fifo: given.fifo,
            metadata: Some(given.metadata.unwrap_or_default()),
            secret: given.secret,
        }
    }
}

impl From<EndpointPatch> for Draft {
    fn from(patch: EndpointPatch) -> Self {
        Self {
            url: patch.url,
            description: patch.description,
            uid: patch.uid,
            disabled: patch.disabled,
            event_types: patch.event_types.map(|set| set.map(listed)),
            channels: patch.channels.map(|set| set.map(listed)),
            rate: patch.throttle_rate,
            in_flight: patch.in_flight,
            policy: patch.policy,
            signatures: patch.signatures,
            headers: patch.headers.map(Edit::All),
            credentials: patch.credentials.map(|it| it.map(Credentials::from)),
            fifo: patch.fifo,
            metadata: patch.metadata,
            secret: None,
        }
    }
}

fn listed(set: BTreeSet<String>) -> Vec<String> {
    set.into_iter().collect()
}

/// Shows an endpoint with its version.
pub(super) fn shown(endpoint: Endpoint) -> Tagged<Json<EndpointOut>> {
    Tagged(Tag::from(&endpoint), Json(endpoint.into()))
}

impl From<CredentialsIn> for Credentials {
    fn from(given: CredentialsIn) -> Self {
        match given {
            CredentialsIn::Bearer { token } => Self::Bearer(token),
            CredentialsIn::Basic { user, password } => Self::Basic { user, password },
        }
    }
}

impl From<Endpoint> for EndpointOut {
    fn from(endpoint: Endpoint) -> Self {
        let url = endpoints::url(&endpoint);
        let settings = endpoint.settings;
        let listed = |list: Vec<String>| (!list.is_empty()).then_some(list);
        let event_types = listed(settings.event_types);
        Self {
            id: endpoint.id.to_string(),
            uid: endpoint.uid,
            url,
            description: settings.description,
            version: 1,
            disabled: matches!(endpoint.state, Stands::Disabled(_)),
            state: endpoint.state.word(),
            disabled_reason: match endpoint.state {
                Stands::Disabled(reason) => Some(reason.word()),
                Stands::Active | Stands::Paused | Stands::Deleted => None,
            },
            event_types: event_types.clone(),
            filter_types: event_types,
            channels: listed(settings.channels),
            throttle_rate: settings.rate,
            rate_limit: settings.rate,
            in_flight: settings.in_flight,
            metadata: settings.metadata,
            policy: settings.policy,
            signatures: settings.signatures,
            fifo: endpoint.order == Order::Fifo,
            pause: None,
            created_at: Moment(endpoint.created_at),
            updated_at: Moment(endpoint.updated_at),
        }
    }
}

async fn all(
    State(app): State<Arc<App>>,
    In(scope): In,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut<EndpointOut>>> {
    let slice = app.endpoints(&scope, &page.ordered("descending")?).await?;
    Ok(PageOut::of(slice, EndpointOut::from))
}

async fn new(
    State(app): State<Arc<App>>,
    In(scope): In,
    Given(given): Given<EndpointIn>,
) -> Answer<Response> {
    let endpoint = app.create_endpoint(&scope, given.into()).await?;
    Ok(made(Made::Created, Tag::from(&endpoint), EndpointOut::from(endpoint)))
}

async fn one(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<Tagged<Json<EndpointOut>>> {
    let endpoint = app.endpoint(&scope, &endpoint).await?;
    let pause = app.pause_of((endpoint.application, endpoint.key)).await?;
    let Tagged(tag, Json(endpoint)) = shown(endpoint);
    Ok(Tagged(tag, Json(EndpointOut { pause: pause.map(PauseOut::from), ..endpoint })))
}

async fn replace(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(given): Given<EndpointIn>,
) -> Answer<Response> {
    let (endpoint, how) = app.put_endpoint(&scope, &endpoint, given.into()).await?;
    Ok(made(how, Tag::from(&endpoint), EndpointOut::from(endpoint)))
}

async fn change(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(patch): Given<EndpointPatch>,
) -> Answer<Tagged<Json<EndpointOut>>> {
    Ok(shown(app.update_endpoint(&scope, &endpoint, patch.into()).await?))
}

async fn remove(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
) -> Answer<Deleted> {
    Ok(Deleted(app.delete_endpoint(&scope, &endpoint).await?))
}
