//! Rows for every list, most of them large, written to a store before its server starts; and what each list
//! shows of them.

use bytes::Bytes;
use domain::delivery::Cause;
use domain::ids::{AttemptId, DeliveryId, MessageId};
use domain::outcome::KEPT_OF_FAILURE;
use serde_json::json;
use store::catalog::{
    ApplicationSettings, Endpoint, EventType, EventTypeSettings, NewApplication, Scope, Token,
};
use store::conformance::{NOW, Scene, later};
use store::keys::{DeliveryKey, MessageKey};
use store::ledger::{NewTask, TaskKind};
use store::limits::PAGE_BYTES;
use store::queue::{Accept, AttemptRecord, FirstState, NextState, Order, Settle};

/// How many large rows each list has: three pages of them.
const MANY: usize = 12;
/// How many attempts the first message has: each is shown with about a hundred kilobytes.
const ATTEMPTS: u32 = 110;

/// A list, and what identifies its entries in their order.
pub(super) struct List {
    pub(super) operation: &'static str,
    pub(super) path: String,
    pub(super) entries: Vec<String>,
    /// By which field an entry is identified.
    pub(super) by: &'static str,
    /// Whether its entries are too large for one page.
    pub(super) large: bool,
    /// Whether it can be had in both orders.
    pub(super) ordered: bool,
}

/// What was written.
pub(super) struct Rows {
    pub(super) lists: Vec<List>,
    /// The attempts of one delivery, newest first.
    pub(super) attempts: Vec<String>,
    /// What a path can name.
    pub(super) names: Vec<(&'static str, String)>,
}

/// Returns a text of which four fit on a page.
fn large() -> String {
    "x".repeat(PAGE_BYTES * 2 / 9)
}

/// A message that was accepted.
struct Sent {
    id: MessageId,
    key: MessageKey,
}

impl Sent {
    async fn write(scene: &Scene, accept: Accept) -> Self {
        Self { id: accept.message.id, key: scene.accept_new(accept).await }
    }

    fn delivery(&self, endpoint: &Endpoint) -> String {
        DeliveryId::derive(&self.id, endpoint.key.0.cast_unsigned()).to_string()
    }
}

/// Everything that lists are about.
struct Written {
    /// Gets every message but the last, the first with many attempts.
    busy: Endpoint,
    /// Gets the first message, with a few attempts.
    quiet: Endpoint,
    /// Get the last message, as dead letters.
    large: Vec<Endpoint>,
    messages: Vec<Sent>,
    last: Sent,
    of_busy: Vec<AttemptId>,
    of_both: Vec<AttemptId>,
}

impl Rows {
    /// Writes rows to an empty store.
    pub(super) async fn write(scene: &Scene) -> Self {
        let written = Written::write(scene).await;
        let (applications, event_types, tokens, tasks) = (
            applications(scene).await,
            event_types(scene).await,
            tokens(scene).await,
            tasks(scene).await,
        );
        let app = scene.application.id.to_string();
        let [first, ..] = &written.messages[..] else { panic!("there are messages") };
        let names = vec![
            ("app_id", app.clone()),
            ("endpoint_id", written.busy.id.to_string()),
            ("msg_id", first.id.to_string()),
            ("attempt_id", written.of_busy[0].to_string()),
            ("delivery_id", first.delivery(&written.busy)),
            ("task_id", tasks[0].clone()),
            ("event_type_name", event_types[0].clone()),
            ("policy_name", "redial".to_owned()),
            ("token_id", tokens[0].clone()),
            ("sink_id", "any".to_owned()),
        ];
        let whole = |operation, path: &str, entries: Vec<String>, by| {
            let path = path.to_owned();
            List { operation, path, entries, by, large: true, ordered: true }
        };
        let plain = |list: List| List { ordered: false, ..list };
        let mut lists = vec![
            whole("v1.application.list", "/app?", applications, "id"),
            whole(
                "v1.event-type.list",
                "/event-type?with_content=true",
                event_types.clone(),
                "name",
            ),
            List {
                large: false,
                ..whole("v1.event-type.list", "/event-type?", event_types, "name")
            },
            plain(whole("v1.token.list", "/token?", tokens, "id")),
            plain(whole("v1.background-task.list", "/background-task?", tasks, "id")),
        ];
        lists.extend(written.lists(&app));
        Self { lists, attempts: texts(written.of_busy.iter().rev()), names }
    }
}

fn texts<T: ToString>(ids: impl Iterator<Item = T>) -> Vec<String> {
    ids.map(|id| id.to_string()).collect()
}

impl Written {
    async fn write(scene: &Scene) -> Self {
        let mut new = scene.new_endpoint(Order::Due);
        // The secret of a scene is none that could sign.
        new.secret.text = format!("whsec_{}", "A".repeat(32));
        let (busy, quiet) = (scene.create(new).await, scene.endpoint().await);
        let mut accept = scene.message(&[&busy, &quiet]).await;
        accept.message.payload = Bytes::from(json!({ "x": "x".repeat(100_000) }).to_string());
        let mut messages = vec![Sent::write(scene, accept).await];
        let (mut of_busy, mut of_both) = (Vec::new(), Vec::new());
        for recorded in 0..ATTEMPTS {
            let id = attempt(scene, scene.key(&busy, messages[0].key), recorded).await;
            of_busy.push(id);
            of_both.push(id);
            if recorded % 40 == 0 {
                let key = scene.key(&quiet, messages[0].key);
                of_both.push(attempt(scene, key, recorded / 40).await);
            }
        }
        let mut large_ones = Vec::new();
        for number in 0..MANY {
            let mut new = scene.new_endpoint(Order::Due);
            // Shown under two names.
            let patterns = (0..PAGE_BYTES / 9 / 200).map(|it| format!("a{number}.{it:0190}"));
            new.settings.event_types = patterns.collect();
            large_ones.push(scene.create(new).await);
        }
        for _ in 0..MANY {
            let mut accept = scene.message(&[&busy]).await;
            accept.message.payload = Bytes::from(json!({ "x": large() }).to_string());
            messages.push(Sent::write(scene, accept).await);
        }
        let mut accept = scene.message(&large_ones.iter().collect::<Vec<_>>()).await;
        for delivery in &mut accept.deliveries {
            delivery.state = FirstState::Dead(Cause::EndpointDisabled);
        }
        let last = Sent::write(scene, accept).await;
        Self { busy, quiet, large: large_ones, messages, last, of_busy, of_both }
    }

    fn lists(&self, app: &str) -> Vec<List> {
        let Self { busy, quiet, large, messages, last, of_busy, of_both } = self;
        let (busy_id, first) = (busy.id, &messages[0]);
        let whole = |operation, path: String, entries: Vec<String>| {
            let path = format!("/app/{app}{path}");
            List { operation, path, entries, by: "id", large: true, ordered: false }
        };
        let small = |list: List| List { large: false, ..list };
        let newest = || messages.iter().rev();
        let endpoints = large.iter().rev().chain([quiet, busy]).map(|endpoint| endpoint.id);
        let endpoints = whole("v1.endpoint.list", "/endpoint?".to_owned(), texts(endpoints));
        let all = texts([last].into_iter().chain(newest()).map(|message| message.id));
        let sent = texts(newest().map(|message| message.id));
        let of_busy = texts(of_busy.iter().rev());
        let of_both = texts(of_both.iter().rev());
        let to_busy: Vec<_> = newest().map(|message| message.delivery(busy)).collect();
        let dead: Vec<_> = large.iter().rev().map(|endpoint| last.delivery(endpoint)).collect();
        // Endpoints of one message are listed upwards, and its dead letters downwards.
        let deliveries = dead.iter().rev().chain(&to_busy).cloned();
        let deliveries = deliveries.chain([first.delivery(quiet)]).collect();
        let attempts = |path: &str| format!("/attempt/{path}");
        let by_endpoint = "v1.message-attempt.list-by-endpoint";
        let by_message = "v1.message-attempt.list-by-msg";
        let (to_endpoint, of_message) =
            (format!("endpoint/{busy_id}?"), format!("msg/{}?", first.id));
        vec![
            List { ordered: true, ..endpoints },
            whole("v1.message.list", "/msg?".to_owned(), all.clone()),
            small(whole("v1.message.list", "/msg?with_content=false".to_owned(), all)),
            whole(by_endpoint, attempts(&to_endpoint), of_busy.clone()),
            whole(by_endpoint, attempts(&(to_endpoint + "&with_msg=true")), of_busy.clone()),
            whole(by_message, attempts(&of_message), of_both.clone()),
            whole(by_message, attempts(&format!("{of_message}&with_msg=true")), of_both),
            whole(
                by_message,
                attempts(&format!("{of_message}&endpoint_id={busy_id}")),
                of_busy.clone(),
            ),
            whole(
                "v1.message-attempt.list-by-endpoint-deprecated",
                format!("/msg/{}/endpoint/{busy_id}/attempt?", first.id),
                of_busy,
            ),
            whole(
                "v1.message-attempt.list-attempted-messages",
                format!("/endpoint/{busy_id}/msg?"),
                sent,
            ),
            whole(
                "v1.message-attempt.list-attempted-destinations",
                format!("/msg/{}/endpoint?", last.id),
                texts(large.iter().map(|endpoint| endpoint.id)),
            ),
            small(whole("v1.delivery.list-by-application", "/delivery?".to_owned(), deliveries)),
            small(whole(
                "v1.delivery.list-by-application",
                "/delivery?state=dead".to_owned(),
                dead.clone(),
            )),
            small(whole(
                "v1.delivery.list-by-application",
                format!("/delivery?endpoint_id={busy_id}"),
                to_busy.clone(),
            )),
            small(whole("v1.delivery.list", format!("/endpoint/{busy_id}/delivery?"), to_busy)),
            small(whole("v1.dead-letter.list", "/dead-letter?".to_owned(), dead)),
        ]
    }
}

/// Records an attempt whose response is six times as long as JSON.
async fn attempt(scene: &Scene, key: DeliveryKey, recorded: u32) -> AttemptId {
    let settle = scene.settling(key, recorded, NextState::Pending { due: later(60) }).await;
    let response_body = Bytes::from(vec![1; KEPT_OF_FAILURE]);
    let attempt = AttemptRecord { response_body, ..settle.attempt };
    let id = attempt.id;
    scene.settle_one(Settle { attempt, ..settle }).await;
    id
}

async fn applications(scene: &Scene) -> Vec<String> {
    let mut ids = vec![scene.application.id];
    for _ in 0..MANY {
        let settings = ApplicationSettings { name: large(), ..Default::default() };
        let new = NewApplication { id: scene.id(), uid: None, settings, at: NOW };
        ids.push(scene.store().catalog.create_application(new).await.unwrap().id);
    }
    ids.sort_unstable();
    texts(ids.iter())
}

async fn event_types(scene: &Scene) -> Vec<String> {
    let mut names = Vec::new();
    for number in 0..MANY {
        let name = format!("type.{number:02}");
        let schemas = Some(json!({ "1": { "title": large() } }));
        let settings = EventTypeSettings { schemas, ..Default::default() };
        names.push(name.clone());
        let new = EventType { name, settings, created_at: NOW, updated_at: NOW };
        scene.store().catalog.create_event_type(new).await.unwrap();
    }
    names
}

async fn tokens(scene: &Scene) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..MANY {
        let id = format!("{number:016x}");
        ids.push(id.clone());
        let token = Token {
            id,
            hash: [1; 32],
            name: large(),
            scope: Scope::Admin,
            read_only: false,
            granted: store::catalog::Granted::default(),
            session: None,
            created_at: NOW,
            expires_at: None,
            revoked_at: None,
        };
        scene.store().catalog.create_token(token).await.unwrap();
    }
    ids
}

async fn tasks(scene: &Scene) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..MANY {
        let task = NewTask {
            id: scene.id(),
            application: scene.application.key,
            endpoint: None,
            kind: TaskKind::BulkReplay,
            selection: json!({ "event_types": [large()] }),
            by: String::new(),
            at: NOW,
        };
        ids.push(scene.store().ledger.start_task(task).await.unwrap().id);
    }
    ids.reverse();
    texts(ids.iter())
}
