//! Requests that name far more than anything has: each is refused before it costs what others need.

use http::Method;
use serde_json::{Map, Value, json};

use super::Running;

/// More than a request may name of anything, and little enough for its body.
const MANY: usize = 20_000;

fn names() -> Vec<String> {
    (0..MANY).map(|number| format!("n{number}")).collect()
}

#[tokio::test]
async fn a_change_of_headers_names_few_of_them() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}/headers", server.endpoint(&app).await);
    let text = "names 20000; allowed are 64";
    let removed = json!({ "deleteHeaders": names() });
    let nulls: Map<_, _> = names().into_iter().map(|name| (name, Value::Null)).collect();
    let set: Map<_, _> = names().into_iter().map(|name| (name, json!("x"))).collect();
    for (method, body) in [
        (Method::PATCH, removed),
        (Method::PATCH, json!({ "headers": nulls })),
        (Method::PUT, json!({ "headers": set })),
    ] {
        let answer = server.ask(super::ADMIN, method, &path, &body).await;
        let refused = answer.expect(422);
        assert_eq!(refused["detail"].as_array().unwrap().len(), 1);
        assert!(refused.to_string().contains(text), "{refused}");
    }
}

#[tokio::test]
async fn a_replay_names_few_event_types_and_a_channel_that_can_be_one() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = server.endpoint(&app).await;
    let since = "2026-01-01T00:00:00Z";
    let bodies = [
        (json!({ "eventTypes": names() }), "at most 250 entries"),
        (json!({ "eventTypes": ["in valid"] }), "eventTypes"),
    ];
    let paths = [
        format!("/app/{app}/dead-letter/replay"),
        format!("/app/{app}/endpoint/{endpoint}/bulk-replay"),
    ];
    for path in &paths {
        for (body, text) in &bodies {
            let mut body = body.clone();
            body["since"] = json!(since);
            let refused = server.post(path, body).await.expect(422);
            assert!(refused.to_string().contains(text), "{path}: {refused}");
        }
    }
    let long = json!({ "since": since, "channel": "c".repeat(MANY) });
    server.post(&paths[1], long).await.expect(422);
}

#[tokio::test]
async fn an_endpoint_that_names_too_many_event_types_is_refused_before_they_are_looked_up() {
    let server = Running::with(&[("limits.patterns_per_endpoint", "3")]).await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint");
    let new =
        |types: Vec<String>| json!({ "url": "https://receiver.example/", "eventTypes": types });
    // None of them exists, which only a look-up tells.
    server.post(&path, new(names())).await.refused(400, "limit_reached");
    server.post(&path, new(names()[..3].to_vec())).await.expect(422);
    let one = format!("{path}/{}", server.endpoint(&app).await);
    server.patch(&one, json!({ "eventTypes": names() })).await.refused(400, "limit_reached");
}

#[tokio::test]
async fn a_request_with_thousands_of_faults_hears_the_first_of_them() {
    let server = Running::start().await;
    let app = server.application().await;
    let types: Vec<String> =
        names().into_iter().map(|name| format!("{name} with blanks")).collect();
    let new = json!({ "url": "https://receiver.example/", "eventTypes": types });
    let refused = server.post(&format!("/app/{app}/endpoint"), new).await.expect(422);
    assert_eq!(refused["detail"].as_array().unwrap().len(), 32);
    let list = format!("/app/{app}/msg?event_types={}", names()[..300].join(","));
    let refused = server.get(&list).await.expect(400);
    assert!(refused.to_string().contains("at most 250"), "{refused}");
}
