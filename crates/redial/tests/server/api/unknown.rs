//! Fields and parameters that no operation knows: refused everywhere, with the nearest name; and what the
//! published SDKs can send is known everywhere.

use std::process::Command;

use http::Method;
use serde_json::{Map, Value, json};

use super::specification::{self, Operation};
use super::{Answered, Running};
use crate::sdk::{python, script};

/// A name that no field and no parameter has.
const MADE_UP: &str = "zebraCrossing";
/// What SDKs describe as a map of anything.
const ANYTHING: [&str; 1] = ["transformationsParams"];

/// Tells whether an answer says that a name is not known, at the end of which place.
fn unknown(answered: &Answered) -> Option<String> {
    let body: Value = serde_json::from_str(&answered.text).ok()?;
    // A batch answers for each of its messages.
    let detail = body["results"][0].get("detail").unwrap_or(&body["detail"]);
    let faults = detail.as_array()?.iter();
    let mut faults = faults.filter(|it| it["msg"].as_str().unwrap().contains("is not known here"));
    let place = faults.next()?["loc"].as_array()?;
    Some(place.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("."))
}

fn offered(document: &Value) -> impl Iterator<Item = Operation> {
    let operations = specification::operations(document).into_iter();
    operations.filter(|operation| !operation.open && !operation.is_missing)
}

/// Fills a path in so that nothing but the application is there.
fn filled(path: &str, app: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{app_id}" => app,
        part if part.starts_with('{') => "nobody",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Returns the places of a described body where an object can stand, the body itself first.
fn places<'a>(document: &'a Value, operation: &Operation) -> Vec<(Vec<String>, &'a Value)> {
    let described = |reference: &str| {
        let name = reference.rsplit('/').next().unwrap();
        &document["components"]["schemas"][name]
    };
    let Some(body) = operation.body.as_deref().map(described) else { return Vec::new() };
    let mut found = vec![(Vec::new(), body)];
    for (name, field) in body["properties"].as_object().into_iter().flatten() {
        let text = field.to_string();
        let reference = text.split("\"$ref\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let is_object =
            |inner: &&Value| inner["properties"].is_object() || inner["oneOf"].is_array();
        let inner = reference.map(described).filter(is_object);
        found.extend(inner.map(|inner| (vec![name.clone()], inner)));
    }
    found
}

#[tokio::test]
async fn a_field_that_nobody_knows_is_refused_by_every_operation() {
    let server = Running::start().await;
    let app = server.application().await;
    let document = specification::document(&server).await;
    let mut asked = 0;
    for operation in offered(&document).filter(|it| it.method != Method::GET) {
        let Operation { method, id, .. } = &operation;
        let path = filled(&operation.path, &app);
        let mut places = places(&document, &operation);
        if places.is_empty() {
            places.push((Vec::new(), &Value::Null));
        }
        for (place, described) in places {
            if place.last().is_some_and(|last| ANYTHING.contains(&last.as_str())) {
                continue;
            }
            // One of several kinds of object is told by a field.
            let kind = &described["oneOf"][0]["properties"]["kind"]["enum"][0];
            let mut inner = json!({ MADE_UP: 1 });
            if kind.is_string() {
                inner["kind"] = kind.clone();
            }
            let body = place.iter().rev().fold(inner, |inner, name| json!({ name: inner }));
            let body = if id == "v1.message.create-batch" { json!([body]) } else { body };
            let answered = server.ask(super::ADMIN, method.clone(), &path, &body).await;
            let place = [&["body".to_owned()], &place[..], &[MADE_UP.to_owned()]].concat();
            let told = unknown(&answered);
            assert_eq!(
                told.as_deref(),
                Some(place.join(".").as_str()),
                "{id} {body}: {answered:?}"
            );
            asked += 1;
        }
    }
    assert!(asked > 40, "{asked}");
}

#[tokio::test]
async fn a_parameter_that_nobody_knows_is_refused_by_every_operation() {
    let server = Running::start().await;
    let app = server.application().await;
    let document = specification::document(&server).await;
    for operation in offered(&document) {
        let Operation { method, id, .. } = &operation;
        let path = format!("{}?{MADE_UP}=1", filled(&operation.path, &app));
        let answered = server.ask(super::ADMIN, method.clone(), &path, &Value::Null).await;
        assert_eq!(answered.status, 422, "{id}: {answered:?}");
        let place = format!("query.{MADE_UP}");
        assert_eq!(unknown(&answered).as_deref(), Some(place.as_str()), "{id}: {answered:?}");
    }
    // What watches a server may add to its URL whatever it likes.
    server.get("/health?at=1").await.expect(200);
}

#[tokio::test]
async fn the_nearest_name_is_told() {
    let server = Running::start().await;
    let app = server.application().await;
    let list = format!("/app/{app}/endpoint");
    let url = "https://receiver.example/";
    let table = [
        (json!({ "url": url, "event_types": ["a"] }), "body.event_types", "eventTypes"),
        (json!({ "url": url, "polcy": "github" }), "body.polcy", "policy"),
        (
            json!({ "url": url, "credentials": { "kind": "bearer", "tokn": "x" } }),
            "body.credentials.tokn",
            "token",
        ),
    ];
    for (body, place, meant) in table {
        let text = server.post(&list, body).await.invalid(place);
        assert!(text.ends_with(&format!("did you mean `{meant}`?")), "{text}");
    }
    let pause = format!("{list}/{}/pause", server.endpoint(&app).await);
    let body = json!({ "until": "2030-01-01T00:00:00Z" });
    server.post(&pause, body).await.invalid("body.until");
    server.post(&pause, json!(["2030-01-01T00:00:00Z"])).await.invalid("body");
    let shown = server.get(&format!("{list}?limit=1")).await.expect(200);
    assert_eq!(shown["data"][0]["state"], "active");
    let typo = server.get(&format!("/app/{app}/msg?event_type=a")).await;
    assert!(typo.invalid("query.event_type").ends_with("did you mean `event_types`?"));
    // A name as long as a body is neither compared nor shown as a whole.
    let long = "x".repeat(500_000);
    let answered = server.post(&list, json!({ "url": url, long: 1 })).await;
    assert!(answered.text.len() < 2_000 && unknown(&answered).is_some(), "{}", answered.text.len());
}

#[tokio::test]
async fn dead_letters_are_not_all_removed_by_mistake() {
    let server = Running::start().await;
    let list = format!("/app/{}/dead-letter", server.application().await);
    for query in ["", "?all=false", "?all=true&cause=expired", "?all=", "?event_types="] {
        server.delete(&format!("{list}{query}")).await.expect(422);
    }
    for query in ["?all=true", "?cause=expired", "?all=false&before=2030-01-01T00:00:00Z"] {
        server.delete(&format!("{list}{query}")).await.expect(200);
    }
}

/// Returns what one version of the SDK can send, call by call.
fn calls(major: u8) -> Vec<Value> {
    let mut command: Command = python(major);
    let output = command.arg(script("shapes.py")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn whatever_the_published_sdks_can_send_is_known() {
    let server = Running::start().await;
    let app = server.application().await;
    let operations: Map<String, Value> = offered(&specification::document(&server).await)
        .map(|it| (format!("{} {}", it.method, filled(&it.path, &app)), Value::Null))
        .collect();
    for major in [1, 2] {
        let mut asked = 0;
        for call in calls(major) {
            let text = |name: &str| call[name].as_str().unwrap().to_owned();
            let path = filled(text("path").strip_prefix("/api/v1").unwrap_or_default(), &app);
            if !operations.contains_key(&format!("{} {path}", text("method"))) {
                continue;
            }
            let method: Method = text("method").parse().unwrap();
            for name in call["query"].as_array().unwrap() {
                let path = format!("{path}?{}=", name.as_str().unwrap());
                let answered = server.ask(super::ADMIN, method.clone(), &path, &Value::Null).await;
                assert_eq!(unknown(&answered), None, "{major}: {method} {path}: {answered:?}");
                asked += 1;
            }
            for body in call["bodies"].as_array().unwrap() {
                let answered = server.ask(super::ADMIN, method.clone(), &path, body).await;
                let told = unknown(&answered);
                assert_eq!(told, None, "{major}: {method} {path} {body}: {answered:?}");
                asked += 1;
            }
        }
        assert!(asked > 150, "{asked}");
    }
}
