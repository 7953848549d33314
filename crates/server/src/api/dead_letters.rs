//! `/app/{app_id}/dead-letter`: what was not delivered, and is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use domain::delivery::Cause;
use domain::replay::Selection;
use domain::rights::Right;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::deliveries::{DeliveryOut, EndpointQuery, FilterQuery};
use super::extract::{self, Asked, Given, In};
use super::operation::{Operation, Routes};
use super::replays::ReplayOut;
use super::values::{Answer, Moment, PageOut, PageQuery, unknown_number};
use crate::app::deliveries::DeliveryFilter;
use crate::app::replays::{Range, TaskKind, Wish, read_class};
use crate::app::{App, Error};

const LIST: &str = "/app/{app_id}/dead-letter";
const COUNT: &str = "/app/{app_id}/dead-letter/count";
const REPLAY: &str = "/app/{app_id}/dead-letter/replay";

pub(super) fn routes(routes: Routes) -> Routes {
    let list = Operation::get(LIST, "v1.dead-letter.list", "Lists dead letters");
    let count = Operation::get(COUNT, "v1.dead-letter.count", "Counts dead letters");
    let replay = Operation::post(REPLAY, "v1.dead-letter.replay", "Replays dead letters");
    let purge = Operation::delete(LIST, "v1.dead-letter.purge", "Removes dead letters for good");
    let list = list.query::<FilterQuery>().query::<EndpointQuery>().query::<PageQuery>();
    let purge = purge.needs(Right::Purge).query::<FilterQuery>().query::<EndpointQuery>();
    let purge = purge.query::<PurgeQuery>();
    let replay = replay.needs(Right::Replay);
    let redrive = Operation::post(
        "/admin/redrive-dlq",
        "v1.admin.redrive",
        "Does nothing: nothing falls out of a queue here",
    );
    routes
        .add(redrive.admin().empty(204), nothing)
        .add(list.lists::<DeliveryOut>(), all)
        .add(count.query::<EndpointQuery>().answers::<CountOut>(200), number)
        .add(replay.body::<DeadLetterReplayIn>().answers::<ReplayOut>(202), again)
        .add(purge.answers::<PurgeOut>(200), remove)
}

async fn nothing() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// How many dead letters there are.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetterCountOut)]
struct CountOut {
    /// So many.
    count: u32,
    /// Whether that is all; otherwise there are more.
    complete: bool,
}

/// Which dead letters are to be replayed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeadLetterReplayIn {
    /// Since when their messages were received; at most 14 days before the end.
    since: Moment,
    /// Until when; now if it is missing.
    until: Option<Moment>,
    /// Only of this endpoint.
    endpoint_id: Option<String>,
    /// Only those that are dead for one of these causes.
    causes: Option<Vec<String>>,
    /// Only of these event types.
    event_types: Option<Vec<String>>,
    /// Of the last attempt: 0 for no answer, 100, 200, 300, 400 or 500.
    status_code_class: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct PurgeQuery {
    /// Whether all of them are meant; needed if nothing else says which.
    #[serde(default)]
    all: bool,
}

/// What a purge did.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetterPurgeOut)]
struct PurgeOut {
    /// How many were removed.
    removed: u64,
    /// Whether none is left that was meant; otherwise ask again.
    done: bool,
}

impl DeadLetterReplayIn {
    fn wish(&self) -> Result<Wish, Error> {
        let mut causes = BTreeSet::new();
        for word in self.causes.iter().flatten() {
            let words = Cause::ALL.map(Cause::word).join(", ");
            let wrong = || Error::field("causes", format!("must be of {words}"));
            causes.insert(Cause::from_word(word).ok_or_else(wrong)?);
        }
        let class = self.status_code_class;
        let class = class.map(|it| read_class(it).ok_or(unknown_number("statusCodeClass")));
        let status_class = class.transpose()?;
        let selection = Selection { causes, status_class, ..Selection::default() };
        let event_types = self.event_types.iter().flatten().cloned().collect();
        Ok(Wish { selection, event_types, channel: None })
    }
}

async fn all(
    State(app): State<Arc<App>>,
    In(scope): In,
    (Asked(query), Asked(to)): (Asked<FilterQuery>, Asked<EndpointQuery>),
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut>> {
    let filter = app.to_endpoint(&scope, to.endpoint_id.as_deref(), query.filter()?).await?;
    let slice = app.dead_letters(&scope, filter, &page.wanted()?).await?;
    PageOut::of(slice, DeliveryOut::from)
}

async fn number(
    State(app): State<Arc<App>>,
    In(scope): In,
    RawQuery(text): RawQuery,
    Asked(to): Asked<EndpointQuery>,
) -> Answer<Json<CountOut>> {
    extract::refuse_empty(text.as_deref())?;
    let tally = app.dead_letter_count(&scope, to.endpoint_id.as_deref()).await?;
    Ok(Json(CountOut { count: tally.number, complete: tally.complete }))
}

async fn again(
    State(app): State<Arc<App>>,
    In(scope): In,
    Given(given): Given<DeadLetterReplayIn>,
) -> Answer<Response> {
    let wish = given.wish()?;
    let (since, until) = (given.since.0, given.until.map(|moment| moment.0));
    let range = Range { endpoint: given.endpoint_id, since, until };
    let task = app.start_replay(&scope, TaskKind::BulkReplay, range, wish).await?;
    Ok((StatusCode::ACCEPTED, Json(ReplayOut::from(&task))).into_response())
}

async fn remove(
    State(app): State<Arc<App>>,
    In(scope): In,
    RawQuery(text): RawQuery,
    (Asked(query), Asked(to)): (Asked<FilterQuery>, Asked<EndpointQuery>),
    Asked(PurgeQuery { all }): Asked<PurgeQuery>,
) -> Answer<Json<PurgeOut>> {
    extract::refuse_empty(text.as_deref())?;
    let filter = query.filter()?;
    if (filter == DeliveryFilter::default() && to.endpoint_id.is_none()) != all {
        let text = "must be `true` to remove all dead letters, and left out to remove some: by `endpoint_id`, \
                    `cause`, `status_code_class`, `event_types`, `before`, `after`";
        return Err(Error::parameter("all", text).into());
    }
    let filter = app.to_endpoint(&scope, to.endpoint_id.as_deref(), filter).await?;
    let purged = app.purge_dead_letters(&scope, filter).await?;
    Ok(Json(PurgeOut { removed: purged.removed, done: purged.done }))
}
