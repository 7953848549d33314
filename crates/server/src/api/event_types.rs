//! `/event-type`: event types.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::condition::Tagged;
use super::extract::{Asked, By, Given, Named};
use super::operation::{Operation, Routes};
use super::values::{Answer, Moment, PageOut, PageQuery, made, present};
use crate::app::App;
use crate::app::applications::Made;
use crate::app::condition::Tag;
use crate::app::event_types::{Archived, Draft, EventType, Schemas};
use crate::app::pages::Order;

const LIST: &str = "/event-type";
const ONE: &str = "/event-type/{event_type_name}";

pub(super) fn routes(routes: Routes) -> Routes {
    let list = Operation::get(LIST, "v1.event-type.list", "Lists event types");
    let create = Operation::post(LIST, "v1.event-type.create", "Creates an event type");
    let get = Operation::get(ONE, "v1.event-type.get", "Shows an event type");
    let put = Operation::put(ONE, "v1.event-type.update", "Replaces or creates an event type");
    let patch = Operation::patch(ONE, "v1.event-type.patch", "Changes an event type");
    let delete = Operation::delete(ONE, "v1.event-type.delete", "Archives or removes one");
    let list = list.query::<ListQuery>().query::<PageQuery>().lists::<EventTypeOut>();
    let create = create.body::<EventTypeIn>().answers::<EventTypeOut>(201).tagged();
    let put = put.body::<EventTypeUpdate>().answers::<EventTypeOut>(200).conditional().tagged();
    let patch = patch.body::<EventTypePatch>().answers::<EventTypeOut>(200).conditional();
    let delete = delete.conditional().query::<DeleteQuery>();
    routes
        .add(list, all)
        .add(create.admin(), new)
        .add(get.answers::<EventTypeOut>(200).tagged(), one)
        .add(put.admin().answers::<EventTypeOut>(201), replace)
        .add(patch.admin().tagged(), change)
        .add(delete.admin().empty(204), remove)
}

/// A new event type.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventTypeIn {
    /// Its name.
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9_.-]+$")]
    name: String,
    /// A text for people.
    #[serde(default)]
    description: String,
    /// Whether it is hidden from lists.
    archived: Option<bool>,
    /// Whether it is not to be used any more.
    deprecated: Option<bool>,
    /// JSON schemas by version.
    schemas: Option<Value>,
    /// Shown only to tokens with this flag.
    feature_flag: Option<String>,
    /// The same, as newer SDKs write it: one of these flags is enough.
    feature_flags: Option<Vec<String>>,
    /// The group it is listed in.
    group_name: Option<String>,
    /// A policy for its messages.
    policy: Option<Value>,
}

/// What is set about an event type.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventTypeUpdate {
    /// A text for people.
    #[serde(default)]
    description: String,
    /// Whether it is hidden from lists.
    archived: Option<bool>,
    /// Whether it is not to be used any more.
    deprecated: Option<bool>,
    /// JSON schemas by version.
    schemas: Option<Value>,
    /// Shown only to tokens with this flag.
    feature_flag: Option<String>,
    /// The same, as newer SDKs write it: one of these flags is enough.
    feature_flags: Option<Vec<String>>,
    /// The group it is listed in.
    group_name: Option<String>,
    /// A policy for its messages. A PUT that leaves it out keeps it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    policy: Option<Option<Value>>,
}

/// What is to be changed about an event type. What is missing stays, null clears.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventTypePatch {
    /// A text for people.
    description: Option<String>,
    /// Whether it is hidden from lists.
    archived: Option<bool>,
    /// Whether it is not to be used any more.
    deprecated: Option<bool>,
    /// JSON schemas by version.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    schemas: Option<Option<Value>>,
    /// Shown only to tokens with this flag.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    feature_flag: Option<Option<String>>,
    /// The same, as newer SDKs write it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Vec<String>>)]
    feature_flags: Option<Option<Vec<String>>>,
    /// The group it is listed in.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    group_name: Option<Option<String>>,
    /// A policy for its messages.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    policy: Option<Option<Value>>,
}

/// An event type.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct EventTypeOut {
    /// Its name.
    name: String,
    /// A text for people.
    description: String,
    /// Whether it is hidden from lists.
    archived: bool,
    /// Whether it is not to be used any more.
    deprecated: bool,
    /// JSON schemas by version.
    schemas: Option<Value>,
    /// Shown only to tokens with this flag.
    feature_flag: Option<String>,
    /// The same, as newer SDKs read it.
    feature_flags: Option<Vec<String>>,
    /// The group it is listed in.
    group_name: Option<String>,
    /// A policy for its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Value>,
    /// When it was created.
    created_at: Moment,
    /// When it was last changed.
    updated_at: Moment,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Whether archived ones are listed, too.
    #[serde(default)]
    include_archived: bool,
    /// Whether each comes with its schemas.
    #[serde(default)]
    with_content: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DeleteQuery {
    /// Whether it is removed for good instead of archived.
    #[serde(default)]
    expunge: bool,
}

impl EventTypeIn {
    /// Takes the name off what is set.
    fn parted(self) -> (String, EventTypeUpdate) {
        let Self { name, description, archived, deprecated, schemas, .. } = self;
        let Self { feature_flag, feature_flags, group_name, policy, .. } = self;
        let policy = Some(policy);
        let rest = EventTypeUpdate {
            description,
            archived,
            deprecated,
            schemas,
            feature_flag,
            feature_flags,
            group_name,
            policy,
        };
        (name, rest)
    }
}

impl From<EventTypeUpdate> for Draft {
    fn from(given: EventTypeUpdate) -> Self {
        Self {
            description: Some(given.description),
            archived: Some(given.archived.unwrap_or(false)),
            deprecated: Some(given.deprecated.unwrap_or(false)),
            schemas: Some(given.schemas),
            flags: Some(flags(given.feature_flag, given.feature_flags)),
            group: Some(given.group_name),
            policy: given.policy,
        }
    }
}

impl From<EventTypePatch> for Draft {
    fn from(patch: EventTypePatch) -> Self {
        Self {
            description: patch.description,
            archived: patch.archived,
            deprecated: patch.deprecated,
            schemas: patch.schemas,
            flags: (patch.feature_flag.is_some() || patch.feature_flags.is_some())
                .then(|| flags(patch.feature_flag.flatten(), patch.feature_flags.flatten())),
            group: patch.group_name,
            policy: patch.policy,
        }
    }
}

/// Puts together what older and newer SDKs write.
fn flags(one: Option<String>, all: Option<Vec<String>>) -> Vec<String> {
    let mut flags: Vec<String> = Vec::new();
    for flag in one.into_iter().chain(all.into_iter().flatten()) {
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    flags
}

fn shown(event_type: EventType) -> Tagged<Json<EventTypeOut>> {
    Tagged(Tag::from(&event_type), Json(event_type.into()))
}

impl From<EventType> for EventTypeOut {
    fn from(event_type: EventType) -> Self {
        let settings = event_type.settings;
        let flags: Vec<String> = settings.flags().cloned().collect();
        Self {
            name: event_type.name,
            description: settings.description,
            archived: settings.archived,
            deprecated: settings.deprecated,
            schemas: settings.schemas,
            feature_flags: (!flags.is_empty()).then_some(flags),
            feature_flag: settings.feature_flag,
            group_name: settings.group,
            policy: settings.policy,
            created_at: Moment(event_type.created_at),
            updated_at: Moment(event_type.updated_at),
        }
    }
}

async fn all(
    State(app): State<Arc<App>>,
    By(caller): By,
    Asked(query): Asked<ListQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut>> {
    let archived = if query.include_archived { Archived::Included } else { Archived::Left };
    let schemas = if query.with_content { Schemas::Shown } else { Schemas::Omitted };
    let page = page.ordered(Order::Ascending)?;
    let slice = app.event_types(&caller, &page, archived, schemas).await?;
    PageOut::of(slice, EventTypeOut::from)
}

async fn new(
    State(app): State<Arc<App>>,
    By(caller): By,
    Given(given): Given<EventTypeIn>,
) -> Answer<Response> {
    let (name, rest) = given.parted();
    let created = app.create_event_type(&caller, name, rest.into()).await?;
    Ok(made(Made::Created, Tag::from(&created), EventTypeOut::from(created)))
}

async fn one(
    State(app): State<Arc<App>>,
    By(caller): By,
    Named([name]): Named<1>,
) -> Answer<Tagged<Json<EventTypeOut>>> {
    Ok(shown(app.event_type(&caller, &name).await?))
}

async fn replace(
    State(app): State<Arc<App>>,
    By(caller): By,
    Named([name]): Named<1>,
    Given(given): Given<EventTypeUpdate>,
) -> Answer<Response> {
    let (event_type, how) = app.put_event_type(&caller, &name, given.into()).await?;
    Ok(made(how, Tag::from(&event_type), EventTypeOut::from(event_type)))
}

async fn change(
    State(app): State<Arc<App>>,
    By(caller): By,
    Named([name]): Named<1>,
    Given(patch): Given<EventTypePatch>,
) -> Answer<Tagged<Json<EventTypeOut>>> {
    Ok(shown(app.update_event_type(&caller, &name, patch.into()).await?))
}

async fn remove(
    State(app): State<Arc<App>>,
    By(caller): By,
    Named([name]): Named<1>,
    Asked(query): Asked<DeleteQuery>,
) -> Answer<StatusCode> {
    app.delete_event_type(&caller, &name, query.expunge).await?;
    Ok(StatusCode::NO_CONTENT)
}
