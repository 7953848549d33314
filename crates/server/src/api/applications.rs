//! `/app`: applications.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::condition::Tagged;
use super::deleted::{Deleted, DeletionOut};
use super::extract::{Application as NamedApplication, Asked, By, Given, In};
use super::operation::{Operation, Routes};
use super::values::{Answer, Moment, PageOut, PageQuery, made, present};
use crate::app::applications::{Application, Draft, Made};
use crate::app::condition::Tag;
use crate::app::pages::Order;
use crate::app::{App, Error};

pub(super) fn routes(routes: Routes) -> Routes {
    let list = Operation::get("/app", "v1.application.list", "Lists applications");
    let create = Operation::post("/app", "v1.application.create", "Creates an application");
    let get = Operation::get("/app/{app_id}", "v1.application.get", "Shows an application");
    let put = Operation::put("/app/{app_id}", "v1.application.update", "Replaces or creates one");
    let patch = Operation::patch("/app/{app_id}", "v1.application.patch", "Changes one");
    let delete = Operation::delete("/app/{app_id}", "v1.application.delete", "Deletes one");
    let create = create.admin().query::<CreateQuery>().body::<ApplicationIn>().tagged();
    let put = put.admin().conditional().body::<ApplicationIn>().tagged();
    let patch = patch.admin().conditional().tagged();
    routes
        .add(
            list.admin().query::<ExcludeQuery>().query::<PageQuery>().lists::<ApplicationOut>(),
            all,
        )
        .add(create.answers::<ApplicationOut>(201).answers::<ApplicationOut>(200), new)
        .add(get.answers::<ApplicationOut>(200).tagged(), one)
        .add(put.answers::<ApplicationOut>(200).answers::<ApplicationOut>(201), replace)
        .add(patch.body::<ApplicationPatch>().answers::<ApplicationOut>(200), change)
        .add(delete.admin().conditional().empty(204).answers::<DeletionOut>(202), remove)
}

/// What an application's owner sets.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ApplicationIn {
    /// A name for people.
    #[schema(min_length = 1)]
    name: String,
    /// The sender's own id for it.
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9_.-]+$")]
    uid: Option<String>,
    /// The most attempts per second to each of its endpoints.
    #[serde(alias = "rateLimit")]
    #[schema(minimum = 1, maximum = 65535)]
    throttle_rate: Option<u32>,
    /// Whatever its owner wants to remember.
    metadata: Option<BTreeMap<String, String>>,
    /// Its policy: the name of a preset, or a document. A PUT that leaves it out keeps it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    policy: Option<Option<Value>>,
}

/// What is to be changed about an application. What is missing stays, null clears.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ApplicationPatch {
    /// A name for people.
    #[schema(min_length = 1)]
    name: Option<String>,
    /// The sender's own id for it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, min_length = 1, pattern = "^[a-zA-Z0-9_.-]+$")]
    uid: Option<Option<String>>,
    /// The most attempts per second to each of its endpoints.
    #[serde(default, deserialize_with = "present", alias = "rateLimit")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 65535)]
    throttle_rate: Option<Option<u32>>,
    /// Whatever its owner wants to remember.
    metadata: Option<BTreeMap<String, String>>,
    /// Its policy.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    policy: Option<Option<Value>>,
}

/// An application.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApplicationOut {
    /// Its id.
    id: String,
    /// The sender's own id for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// A name for people.
    name: String,
    /// The most attempts per second to each of its endpoints.
    throttle_rate: Option<u32>,
    /// The same, for older SDKs.
    rate_limit: Option<u32>,
    /// Whatever its owner wants to remember.
    metadata: BTreeMap<String, String>,
    /// Its policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Value>,
    /// When it was created.
    created_at: Moment,
    /// When it was last changed.
    updated_at: Moment,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CreateQuery {
    /// Whether one with that uid is returned instead of refused.
    #[serde(default)]
    get_if_exists: bool,
}

/// What SDKs can leave out of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ExcludeQuery {
    /// `true` is refused: the list does not know the endpoints of its applications.
    #[serde(default)]
    exclude_apps_with_no_endpoints: bool,
    /// `true` is refused, too.
    #[serde(default)]
    exclude_apps_with_disabled_endpoints: bool,
    /// Is passed over: no endpoint here is of that kind.
    #[serde(rename = "exclude_apps_with_svix_play_endpoints")]
    #[param(value_type = Option<bool>)]
    _svix_play: Option<String>,
}

impl ExcludeQuery {
    /// Passing it over would show more than was asked for.
    fn refuse(&self) -> Result<(), Error> {
        let asked = [
            ("exclude_apps_with_no_endpoints", self.exclude_apps_with_no_endpoints),
            ("exclude_apps_with_disabled_endpoints", self.exclude_apps_with_disabled_endpoints),
        ];
        let refusal = "is not possible: the list does not know the endpoints of its applications";
        match asked.into_iter().find(|(_, asked)| *asked) {
            Some((name, _)) => Err(Error::parameter(name, refusal)),
            None => Ok(()),
        }
    }
}

impl From<ApplicationIn> for Draft {
    fn from(given: ApplicationIn) -> Self {
        Self {
            name: Some(given.name),
            uid: Some(given.uid),
            rate: Some(given.throttle_rate),
            policy: given.policy,
            metadata: Some(given.metadata.unwrap_or_default()),
        }
    }
}

impl From<Application> for ApplicationOut {
    fn from(application: Application) -> Self {
        let settings = application.settings;
        Self {
            id: application.id.to_string(),
            uid: application.uid,
            name: settings.name,
            throttle_rate: settings.rate,
            rate_limit: settings.rate,
            metadata: settings.metadata,
            policy: settings.policy,
            created_at: Moment(application.created_at),
            updated_at: Moment(application.updated_at),
        }
    }
}

impl From<ApplicationPatch> for Draft {
    fn from(patch: ApplicationPatch) -> Self {
        let ApplicationPatch { name, uid, throttle_rate, metadata, policy } = patch;
        Self { name, uid, rate: throttle_rate, policy, metadata }
    }
}

fn shown(application: Application) -> Tagged<Json<ApplicationOut>> {
    Tagged(Tag::from(&application), Json(application.into()))
}

async fn all(
    State(app): State<Arc<App>>,
    Asked(query): Asked<ExcludeQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut>> {
    query.refuse()?;
    let slice = app.applications(&page.ordered(Order::Ascending)?).await?;
    PageOut::of(slice, ApplicationOut::from)
}

async fn new(
    State(app): State<Arc<App>>,
    By(caller): By,
    Asked(query): Asked<CreateQuery>,
    Given(given): Given<ApplicationIn>,
) -> Answer<Response> {
    let (application, how) = if query.get_if_exists {
        app.ensure_application(&caller, given.into()).await?
    } else {
        (app.create_application(&caller, given.into()).await?, Made::Created)
    };
    Ok(made(how, Tag::from(&application), ApplicationOut::from(application)))
}

async fn one(In(scope): In) -> Tagged<Json<ApplicationOut>> {
    shown(scope.application().clone())
}

async fn replace(
    State(app): State<Arc<App>>,
    By(caller): By,
    NamedApplication(named): NamedApplication,
    Given(given): Given<ApplicationIn>,
) -> Answer<Response> {
    let (application, how) = app.put_application(&caller, &named, given.into()).await?;
    Ok(made(how, Tag::from(&application), ApplicationOut::from(application)))
}

async fn change(
    State(app): State<Arc<App>>,
    In(scope): In,
    Given(patch): Given<ApplicationPatch>,
) -> Answer<Tagged<Json<ApplicationOut>>> {
    Ok(shown(app.update_application(&scope, patch.into()).await?))
}

async fn remove(State(app): State<Arc<App>>, In(scope): In) -> Answer<Deleted> {
    Ok(Deleted(app.delete_application(&scope).await?))
}
