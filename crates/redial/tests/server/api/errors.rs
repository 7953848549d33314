//! What a database says is for the operator: no answer has a word of it, whatever was asked.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::{ADMIN, Answered, Running};
use crate::sdk::database::Database;

/// Words that only a database says.
const THEIRS: [&str; 17] = [
    "duplicate key",
    "constraint",
    "violates",
    "relation",
    "syntax",
    "sqlstate",
    "sqlite",
    "postgres",
    "select ",
    "insert into",
    "update set",
    "unique",
    "byte sequence",
    "0x00",
    "db error",
    "_pkey",
    "null value",
];

#[track_caller]
fn silent(answer: &Answered, asked: &str) {
    let text = answer.text.to_lowercase();
    for word in THEIRS {
        assert!(!text.contains(word), "{asked} was answered with {word}: {}", answer.text);
    }
    assert!(answer.status.as_u16() < 500, "{asked}: {} {}", answer.status, answer.text);
    if !answer.status.is_success() {
        assert!(answer.json()["detail"] != Value::Null, "{asked}: {}", answer.text);
    }
}

/// Bodies with what some databases cannot hold.
fn bodies(app: &str) -> Vec<(Method, String, Value)> {
    let nul = "a\0b";
    let url = "https://receiver.example/a%00b?c=%00";
    let most = u32::MAX;
    let post = |path: String, body: Value| (Method::POST, path, body);
    vec![
        post("/app".into(), json!({ "name": nul, "metadata": { nul: nul } })),
        post("/app".into(), json!({ "name": "x", "throttleRate": most })),
        post("/token".into(), json!({ "name": nul, "expiry": u64::MAX })),
        post("/event-type".into(), json!({ "name": "n.u.l", "description": nul })),
        post("/event-type".into(), json!({ "name": nul, "description": "x" })),
        post("/event-type".into(), json!({ "name": "f", "description": "", "featureFlag": nul })),
        post(
            "/event-type".into(),
            json!({ "name": "s", "description": "", "schemas": { "1": { "x": nul } } }),
        ),
        post(format!("/app/{app}/endpoint"), json!({ "url": url, "description": nul })),
        post(format!("/app/{app}/endpoint"), json!({ "url": url, "metadata": { "a": nul } })),
        post(format!("/app/{app}/endpoint"), json!({ "url": url, "headers": { "x-a": nul } })),
        post(format!("/app/{app}/msg"), json!({ "eventType": "a", "payload": { nul: nul } })),
        post(
            format!("/app/{app}/msg"),
            json!({
                "eventType": "a",
                "payload": {},
                "transformationsParams": { "rawPayload": nul, "headers": { "content-type": "a/b" } },
            }),
        ),
        post(format!("/app/{app}/msg"), json!({ "eventType": "a", "payload": {}, "eventId": nul })),
        post(
            format!("/app/{app}/msg"),
            json!({ "eventType": "a", "payload": {}, "deliverAt": "-009999-01-01T00:00:00Z" }),
        ),
        (Method::PUT, format!("/app/{app}"), json!({ "name": nul })),
        (Method::PUT, "/app/an%00other".into(), json!({ "name": "x" })),
        (Method::PUT, "/event-type/a%00b".into(), json!({ "description": "x" })),
        (Method::PATCH, format!("/app/{app}"), json!({ "metadata": { "a": nul } })),
    ]
}

/// Paths and queries that no row can have.
fn paths(app: &str) -> Vec<String> {
    let names = ["%00", "a%00b", "%ff", "%27%3B--", "msg_", "ep_", "app_", "dlv_", "-"];
    let named = names.iter().flat_map(|name| {
        [
            format!("/app/{name}"),
            format!("/app/{app}/endpoint/{name}"),
            format!("/app/{app}/msg/{name}"),
            format!("/app/{app}/delivery/{name}"),
            format!("/app/{app}/dead-letter?endpoint_id={name}"),
            format!("/app/{app}/delivery?iterator={name}"),
            format!("/app/{app}/msg?channel={name}"),
            format!("/app/{app}/msg?event_types={name}"),
            format!("/app/{app}/msg?iterator={name}"),
            format!("/event-type/{name}"),
            format!("/event-type?iterator={name}"),
            format!("/token?iterator={name}"),
            format!("/background-task/{name}"),
        ]
    });
    let times = ["-009999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"];
    let timed = times.iter().flat_map(|time| {
        [format!("/app/{app}/msg?before={time}"), format!("/app/{app}/delivery?after={time}")]
    });
    named.chain(timed).collect()
}

async fn no_word_of_a_database(server: Running) {
    let app = server.application().await;
    for (method, path, body) in bodies(&app) {
        let answer = server.ask(ADMIN, method.clone(), &path, &body).await;
        silent(&answer, &format!("{method} {path} {body}"));
    }
    for path in paths(&app) {
        silent(&server.get(&path).await, &path);
    }
    // The same name from several at once: the index decides, and we say so in our own words.
    let server = Arc::new(server);
    for (path, body) in [
        ("/app".to_owned(), json!({ "name": "x", "uid": "same" })),
        (format!("/app/{app}/endpoint"), json!({ "url": "https://a.example/", "uid": "same" })),
        ("/event-type".to_owned(), json!({ "name": "same", "description": "" })),
    ] {
        let mut asked = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (server, path, body) = (Arc::clone(&server), path.clone(), body.clone());
            asked.spawn(async move { server.post(&path, body).await });
        }
        let answers = asked.join_all().await;
        answers.iter().for_each(|answer| silent(answer, &path));
        let made = answers.iter().filter(|answer| answer.status == 201).count();
        // An event type is replaced by whoever comes last; of the others there is one.
        assert!(made == 1 || path == "/event-type" && made > 1, "{path}: {answers:?}");
    }
}

#[tokio::test]
async fn no_answer_has_a_word_of_sqlite() {
    no_word_of_a_database(Running::start().await).await;
}

#[tokio::test]
async fn no_answer_has_a_word_of_postgresql() {
    let database = Database::create("words").await;
    no_word_of_a_database(Running::with(&database.settings()).await).await;
}
