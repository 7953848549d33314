//! Replays of many deliveries, the tasks that carry them out, and example messages.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use domain::replay::{Selection, States, Tried};
use domain::rights::Right;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};

use super::attempts::read_status;
use super::extract::{Asked, By, Given, In, Named};
use super::messages::MessageOut;
use super::operation::{Operation, Routes};
use super::values::{Answer, Moment, PageOut, PageQuery, unknown_number};
use crate::app::attempts::Status;
use crate::app::replays::{Example, Range, Task, TaskKind, TaskState, Wish, read_class};
use crate::app::{App, Error};

const RECOVER: &str = "/app/{app_id}/endpoint/{endpoint_id}/recover";
const MISSING: &str = "/app/{app_id}/endpoint/{endpoint_id}/replay-missing";
const BULK: &str = "/app/{app_id}/endpoint/{endpoint_id}/bulk-replay";
const EXAMPLE: &str = "/app/{app_id}/endpoint/{endpoint_id}/send-example";

pub(super) fn routes(routes: Routes) -> Routes {
    let recover = Operation::post(RECOVER, "v1.endpoint.recover", "Replays what failed");
    let missing =
        Operation::post(MISSING, "v1.endpoint.replay-missing", "Sends what was never sent");
    let bulk = Operation::post(BULK, "v1.endpoint.bulk-replay", "Replays what is described");
    let example = Operation::post(EXAMPLE, "v1.endpoint.send-example", "Sends an example message");
    let list = Operation::get("/background-task", "v1.background-task.list", "Lists tasks");
    let get =
        Operation::get("/background-task/{task_id}", "v1.background-task.get", "Shows a task");
    let (recover, missing) = (recover.needs(Right::Replay), missing.needs(Right::Replay));
    let (bulk, example) = (bulk.needs(Right::Replay), example.needs(Right::Replay));
    routes
        .add(recover.body::<ReplayIn>().answers::<ReplayOut>(202), failed)
        .add(missing.body::<ReplayIn>().answers::<ReplayOut>(202), never_sent)
        .add(bulk.body::<BulkReplayIn>().answers::<ReplayOut>(202), described)
        .add(example.accepts().body::<EventExampleIn>().answers::<MessageOut>(200), send_example)
        .add(list.query::<TaskQuery>().query::<PageQuery>().lists::<BackgroundTaskOut>(), all)
        .add(get.answers::<BackgroundTaskOut>(200), one)
}

/// Which time a replay is about: at most 14 days.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplayIn {
    /// Since when.
    since: Moment,
    /// Until when; now if it is missing.
    until: Option<Moment>,
}

/// Which deliveries a replay is about.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BulkReplayIn {
    /// Since when.
    since: Moment,
    /// Until when; now if it is missing.
    until: Option<Moment>,
    /// Only of these event types.
    event_types: Option<Vec<String>>,
    /// Only of messages on this channel.
    channel: Option<String>,
    /// 0 success, 2 fail, 4 called off; all that are settled if it is missing.
    status: Option<u8>,
    /// 0 for no answer, 100, 200, 300, 400 or 500.
    status_code_class: Option<u64>,
    /// Is refused: tags are not kept.
    tag: Option<String>,
}

/// Which example is to be sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventExampleIn {
    /// Of which event type.
    event_type: String,
    /// Which of its examples, counted from 0, if it lists several; the first if it is missing.
    example_index: Option<usize>,
    /// Another payload in place of the example. A token for one application needs the right `send`, too.
    payload: Option<Map<String, Value>>,
}

/// A replay that was started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplayOut {
    /// Its task's id.
    id: String,
    /// `running` or `finished`.
    status: &'static str,
    /// What kind of task it is.
    task: &'static str,
    /// When it last moved.
    updated_at: Moment,
}

/// A task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BackgroundTaskOut {
    #[serde(flatten)]
    replay: ReplayOut,
    /// How far it has got, what it means, and who started it.
    data: Value,
}

/// Which tasks are meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct TaskQuery {
    /// `running`, `finished` or `failed`; no task fails here.
    status: Option<String>,
    /// `endpoint.recover`, `endpoint.replay` or `endpoint.bulk-replay`; there are no others here.
    task: Option<String>,
}

const fn status_word(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Finished => "finished",
    }
}

const fn kind_word(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Recover => "endpoint.recover",
        TaskKind::ReplayMissing => "endpoint.replay",
        TaskKind::BulkReplay => "endpoint.bulk-replay",
    }
}

impl TaskQuery {
    fn means(&self, task: &Task) -> bool {
        let is = |wanted: &Option<String>, word| wanted.as_deref().is_none_or(|it| it == word);
        is(&self.status, status_word(task.state)) && is(&self.task, kind_word(task.kind))
    }
}

impl From<&Task> for ReplayOut {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id.to_string(),
            status: status_word(task.state),
            task: kind_word(task.kind),
            updated_at: Moment(task.updated_at),
        }
    }
}

impl From<Task> for BackgroundTaskOut {
    fn from(task: Task) -> Self {
        let data = json!({
            "messagesSent": task.replayed,
            "messagesSkipped": task.skipped,
            "selection": task.selection,
            "by": task.by,
            "createdAt": Moment(task.created_at),
        });
        Self { replay: ReplayOut::from(&task), data }
    }
}

impl BulkReplayIn {
    fn wish(&self) -> Result<Wish, Error> {
        let states = match self.status.map(read_status).transpose()? {
            None => States::Settled,
            Some(Status::Success) => States::Delivered,
            Some(Status::Fail) => States::Dead,
            Some(Status::Cancelled) => States::Cancelled,
            Some(Status::Pending | Status::Sending) => {
                return Err(Error::field("status", "is of what is still on its way"));
            }
        };
        let class = self.status_code_class;
        let class = class.map(|it| read_class(it).ok_or(unknown_number("statusCodeClass")));
        let status_class = class.transpose()?;
        Ok(Wish {
            selection: Selection { states, status_class, ..Selection::default() },
            event_types: self.event_types.iter().flatten().cloned().collect(),
            channel: self.channel.clone(),
        })
    }
}

fn range(endpoint: String, since: Moment, until: Option<Moment>) -> Range {
    Range { endpoint: Some(endpoint), since: since.0, until: until.map(|moment| moment.0) }
}

fn started(task: &Task) -> Response {
    (StatusCode::ACCEPTED, Json(ReplayOut::from(task))).into_response()
}

async fn failed(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(given): Given<ReplayIn>,
) -> Answer<Response> {
    let range = range(endpoint, given.since, given.until);
    let task = app.start_replay(&scope, TaskKind::Recover, range, Wish::default()).await?;
    Ok(started(&task))
}

async fn never_sent(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(given): Given<ReplayIn>,
) -> Answer<Response> {
    let range = range(endpoint, given.since, given.until);
    let (states, tried) = (States::Undelivered, Tried::Never);
    let selection = Selection { states, tried, ..Selection::default() };
    let wish = Wish { selection, ..Wish::default() };
    Ok(started(&app.start_replay(&scope, TaskKind::ReplayMissing, range, wish).await?))
}

async fn described(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(given): Given<BulkReplayIn>,
) -> Answer<Response> {
    if given.tag.is_some() {
        return Err(Error::field("tag", "is not possible: tags are not kept").into());
    }
    let range = range(endpoint, given.since, given.until);
    let task = app.start_replay(&scope, TaskKind::BulkReplay, range, given.wish()?).await?;
    Ok(started(&task))
}

async fn send_example(
    State(app): State<Arc<App>>,
    In(scope): In,
    Named([endpoint]): Named<1>,
    Given(given): Given<EventExampleIn>,
) -> Answer<Json<MessageOut>> {
    let EventExampleIn { event_type, example_index, payload } = given;
    let (index, payload) = (example_index.unwrap_or(0), payload.map(Value::Object));
    let example = Example { event_type, index, payload };
    let message = app.send_example(&scope, &endpoint, example).await?;
    Ok(Json(MessageOut::of(message, true)))
}

async fn all(
    State(app): State<Arc<App>>,
    By(caller): By,
    Asked(query): Asked<TaskQuery>,
    Asked(page): Asked<PageQuery>,
) -> Answer<Json<PageOut>> {
    let slice = app.tasks(&caller, &page.wanted()?, |task| query.means(task)).await?;
    PageOut::of(slice, BackgroundTaskOut::from)
}

async fn one(
    State(app): State<Arc<App>>,
    By(caller): By,
    Named([task]): Named<1>,
) -> Answer<Json<BackgroundTaskOut>> {
    Ok(Json(app.task(&caller, &task).await?.into()))
}
