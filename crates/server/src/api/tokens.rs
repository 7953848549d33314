//! `/token`: API tokens, for operators.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use domain::rights::{Grant, Right, Rights};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Asked, By, Given, Named};
use super::operation::{Operation, Routes};
use super::values::{Answer, Moment, PageOut, PageQuery};
use crate::app::tokens::{Described, Granted, Reach, Wish};
use crate::app::{App, Error};

pub(super) fn routes(routes: Routes) -> Routes {
    let list = Operation::get("/token", "v1.token.list", "Lists tokens");
    let create = Operation::post("/token", "v1.token.create", "Makes a token");
    let revoke = Operation::delete("/token/{token_id}", "v1.token.revoke", "Revokes a token");
    let create = create.admin().names().body::<TokenIn>().answers::<NewTokenOut>(201);
    routes
        .add(list.admin().query::<PageQuery>().lists::<TokenOut>(), all)
        .add(create, new)
        .add(revoke.admin().empty(204), revoke_one)
}

/// What a token should be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenIn {
    /// A name for people: printable, and not only blanks.
    #[schema(min_length = 1, max_length = 256)]
    name: String,
    /// The application it is for; all if it is missing.
    #[serde(rename = "appId")]
    application: Option<String>,
    /// Whether it may only read.
    #[serde(default)]
    read_only: bool,
    /// What a token for one application may do beside reading, whatever the setting `portal.may` says:
    /// `endpoints`, `policies`, `view-secrets`, `secrets`, `replay`, `send`, `purge`. What the setting says
    /// if it is missing.
    may: Option<Vec<String>>,
    /// Which event types a token for one application sees beside those that need no flag.
    feature_flags: Option<BTreeSet<String>>,
    /// What its sender calls the session that it is made for.
    #[schema(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    /// For how many seconds it works; for ever if it is missing.
    #[schema(minimum = 1, maximum = 3153600000i64)]
    expiry: Option<u64>,
}

/// A token, without what makes it work.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TokenOut {
    /// Its public part.
    id: String,
    /// A name for people.
    name: String,
    /// The application it is for; all if it is null.
    #[serde(rename = "appId")]
    application: Option<String>,
    /// Whether it may only read.
    read_only: bool,
    /// What it may do beside reading, if it is for one application.
    may: Option<Vec<&'static str>>,
    /// Which event types it sees beside those that need no flag.
    feature_flags: BTreeSet<String>,
    /// What its sender calls the session that it was made for.
    session_id: Option<String>,
    /// When it was created.
    created_at: Moment,
    /// When it stops working.
    expires_at: Option<Moment>,
    /// When it was revoked.
    revoked_at: Option<Moment>,
}

/// A token that was made.
#[derive(Debug, Serialize, ToSchema)]
struct NewTokenOut {
    #[serde(flatten)]
    described: TokenOut,
    /// The token. It is not shown again.
    token: String,
}

impl From<Described> for TokenOut {
    fn from(described: Described) -> Self {
        let application = match described.reach {
            Reach::Everything => None,
            Reach::Application(id) => Some(id.to_string()),
        };
        Self {
            id: described.id,
            name: described.name,
            application,
            read_only: described.read_only,
            may: described.rights.map(words),
            feature_flags: described.feature_flags,
            session_id: described.session,
            created_at: Moment(described.created_at),
            expires_at: described.expires_at.map(Moment),
            revoked_at: described.revoked_at.map(Moment),
        }
    }
}

/// Lists rights by their words.
pub(super) fn words(rights: Rights) -> Vec<&'static str> {
    rights.each().map(Right::word).collect()
}

fn granted(given: &TokenIn) -> Result<Granted, Error> {
    let read = given.may.as_ref().map(|words| {
        let rights = words.iter().map(|word| word.parse::<Right>());
        rights.collect::<Result<Rights, _>>()
    });
    let rights = read.transpose().map_err(|error| Error::field("may", error.to_string()))?;
    Ok(Granted {
        rights: rights.map_or(Grant::Usual, Grant::Exactly),
        feature_flags: given.feature_flags.clone().unwrap_or_default(),
    })
}

async fn all(State(app): State<Arc<App>>, Asked(page): Asked<PageQuery>) -> Answer<Json<PageOut>> {
    PageOut::of(app.tokens(&page.wanted()?).await?, TokenOut::from)
}

async fn new(
    State(app): State<Arc<App>>,
    By(caller): By,
    Given(given): Given<TokenIn>,
) -> Answer<Response> {
    let reach = match &given.application {
        Some(named) => Reach::Application(app.enter(&caller, named).await?.application().id),
        None => Reach::Everything,
    };
    let wish = Wish {
        granted: granted(&given)?,
        name: given.name,
        reach,
        read_only: given.read_only,
        session: given.session_id,
        lasts: given.expiry.map(Duration::from_secs),
    };
    let (token, described) = app.create_token(caller.promise.as_ref(), wish).await?;
    let out = NewTokenOut { described: described.into(), token };
    Ok((StatusCode::CREATED, Json(out)).into_response())
}

async fn revoke_one(State(app): State<Arc<App>>, Named([token]): Named<1>) -> Answer<StatusCode> {
    app.revoke_token(&token).await?;
    Ok(StatusCode::NO_CONTENT)
}
