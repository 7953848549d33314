//! `/auth`: tokens for applications, as the SDKs ask for them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::applications::ApplicationIn;
use super::extract::{Application as NamedApplication, By, Given, In};
use super::operation::{Operation, Routes};
use super::values::{Answer, object};
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
    routes
        .add(portal.answers::<AppPortalAccessOut>(200), access)
        .add(dashboard.admin().answers::<AppPortalAccessOut>(200), legacy_access)
        .add(logout.reads().empty(204), log_out)
        .add(expire.admin().empty(204), expire_all)
        .add(whoami.answers::<WhoamiOut>(200), who)
}

/// What the token should be.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct AppPortalAccessIn {
    /// The application to create if there is none of that name.
    #[serde(default, deserialize_with = "object")]
    application: Option<ApplicationIn>,
    /// For how many seconds it works; a week if it is missing.
    #[schema(minimum = 3600, maximum = 2419200)]
    expiry: Option<u64>,
    /// Whether it may only read.
    read_only: Option<bool>,
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
    let draft = given.application.map(Into::into);
    let read_only = given.read_only.unwrap_or(false);
    let lasts = (given.expiry, read_only);
    let (url, token) = app.portal_access(caller, application, draft, lasts).await?;
    Ok(Json(AppPortalAccessOut { url, token }))
}

async fn log_out(State(app): State<Arc<App>>, By(caller): By) -> Answer<StatusCode> {
    app.log_out(&caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn expire_all(State(app): State<Arc<App>>, In(scope): In) -> Answer<StatusCode> {
    app.expire_tokens(scope.application().id).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn who(By(caller): By) -> Json<WhoamiOut> {
    let app_id = match caller.reach {
        Reach::Everything => None,
        Reach::Application(id) => Some(id.to_string()),
    };
    Json(WhoamiOut { app_id, read_only: caller.read_only, permission_source: "Unknown" })
}
