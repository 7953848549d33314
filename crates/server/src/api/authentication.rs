//! `/auth`: tokens for applications, as the SDKs ask for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::applications::ApplicationIn;
use super::extract::{Application as NamedApplication, By, Given, In};
use super::operation::{Operation, Routes};
use super::tokens::words;
use super::values::{Answer, object};
use crate::app::portal::Draft;
use crate::app::tokens::Reach;
use crate::app::{App, Caller};

pub(super) fn routes(routes: Routes) -> Routes {
    let portal = Operation::post(
        "/auth/app-portal-access/{app_id}",
        "v1.authentication.app-portal-access",
        "Makes a token for an application",
    );
    let dashboard = Operation::post(
        "/auth/dashboard-access/{app_id}",
        "v1.authentication.dashboard-access",
        "The same, for older SDKs",
    );
    let logout =
        Operation::post("/auth/logout", "v1.authentication.logout", "Ends an application's token");
    let expire = Operation::post(
        "/auth/app/{app_id}/expire-all",
        "v1.authentication.expire-all",
        "Ends all tokens of an application",
    );
    let whoami = Operation::get("/auth/whoami", "v1.authentication.whoami", "Tells who calls");
    let portal = portal.admin().body::<AppPortalAccessIn>();
    let expire = expire.body::<ApplicationTokenExpireIn>();
    routes
        .add(portal.answers::<AppPortalAccessOut>(200), access)
        .add(dashboard.admin().answers::<AppPortalAccessOut>(200), legacy_access)
        .add(logout.reads().empty(204), log_out)
        .add(expire.admin().empty(204), expire_all)
        .add(whoami.answers::<WhoamiOut>(200), who)
}

/// What the token should be.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AppPortalAccessIn {
    /// The application to create if there is none of that name.
    #[serde(default, deserialize_with = "object")]
    application: Option<ApplicationIn>,
    /// For how many seconds it works; a week if it is missing.
    #[schema(minimum = 3600, maximum = 2419200)]
    expiry: Option<u64>,
    /// Whether it may only read.
    read_only: Option<bool>,
    /// What it is made for: `ViewBase`, `ViewEndpointSecret`, `ManageEndpointSecret`, `CreateAttempts`,
    /// `ManageEndpoint`; what the operator's setting says if it is missing. It narrows that, and never
    /// widens it.
    capabilities: Option<Vec<String>>,
    /// Which event types it sees beside those that need no flag.
    feature_flags: Option<BTreeSet<String>>,
    /// What its sender calls the session that it is made for.
    #[schema(min_length = 1, max_length = 256)]
    session_id: Option<String>,
}

/// Which tokens of an application are to end.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ApplicationTokenExpireIn {
    /// After how many seconds; at once if it is missing.
    #[schema(maximum = 2419200)]
    expiry: Option<u64>,
    /// Those of these sessions alone; all if none is named.
    session_ids: Option<Vec<String>>,
}

/// A token for an application.
#[derive(Debug, Serialize, ToSchema)]
struct AppPortalAccessOut {
    /// Where it can be used in a browser.
    url: String,
    /// The token. It is not shown again.
    token: String,
}

/// Who calls.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct WhoamiOut {
    /// The application that the token is for, if for one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    app_id: Option<String>,
    /// Whether the token may only read.
    read_only: bool,
    /// What it may do beside reading, if it is for one application.
    #[serde(skip_serializing_if = "Option::is_none")]
    may: Option<Vec<&'static str>>,
    /// Where the token comes from, in a word that the SDKs know.
    permission_source: &'static str,
}

async fn access(
    State(app): State<Arc<App>>,
    By(caller): By,
    NamedApplication(application): NamedApplication,
    Given(given): Given<AppPortalAccessIn>,
) -> Answer<Json<AppPortalAccessOut>> {
    grant(&app, &caller, &application, given).await
}

async fn legacy_access(
    State(app): State<Arc<App>>,
    By(caller): By,
    NamedApplication(application): NamedApplication,
) -> Answer<Json<AppPortalAccessOut>> {
    grant(&app, &caller, &application, AppPortalAccessIn::default()).await
}

async fn grant(
    app: &App,
    caller: &Caller,
    application: &str,
    given: AppPortalAccessIn,
) -> Answer<Json<AppPortalAccessOut>> {
    let draft = Draft {
        application: given.application.map(Into::into),
        seconds: given.expiry,
        read_only: given.read_only.unwrap_or(false),
        capabilities: given.capabilities,
        feature_flags: given.feature_flags.unwrap_or_default(),
        session: given.session_id,
    };
    let (url, token) = app.portal_access(caller, application, draft).await?;
    Ok(Json(AppPortalAccessOut { url, token }))
}

async fn log_out(State(app): State<Arc<App>>, By(caller): By) -> Answer<StatusCode> {
    app.log_out(&caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn expire_all(
    State(app): State<Arc<App>>,
    In(scope): In,
    Given(given): Given<ApplicationTokenExpireIn>,
) -> Answer<StatusCode> {
    let sessions = given.session_ids.unwrap_or_default();
    app.expire_tokens(&scope, sessions, given.expiry).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn who(By(caller): By) -> Json<WhoamiOut> {
    let (app_id, may) = match caller.reach {
        Reach::Everything => (None, None),
        Reach::Application(id) => (Some(id.to_string()), Some(words(caller.rights))),
    };
    Json(WhoamiOut { app_id, read_only: caller.read_only, may, permission_source: "Unknown" })
}
