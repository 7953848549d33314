//! How much one application may have: what is refused, in which words, and what goes on working.

use http::Method;
use serde_json::{Value, json};

use super::{Answered, Running};
use crate::sdk::database::Database;

fn body(more: &Value) -> Value {
    let mut body = json!({ "url": "https://receiver.example/" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Asserts that a cap refused a request, and returns its words.
fn capped(answered: Answered, setting: &str) -> String {
    assert_eq!(answered.status, 400, "{answered:?}");
    let body = answered.json();
    assert_eq!(body["code"], "limit_reached", "{body}");
    let text = body["detail"].as_str().unwrap().to_owned();
    assert!(text.ends_with(setting), "{text}");
    text
}

#[tokio::test]
async fn an_application_has_so_many_endpoints_however_they_are_made() {
    let setting = "limits.endpoints_per_application";
    let server = Running::with(&[(setting, "2")]).await;
    let (app, other) = (server.application().await, server.application().await);
    let list = format!("/app/{app}/endpoint");
    let path = format!("{list}/{}", server.endpoint(&app).await);
    server.put(&format!("{list}/second"), body(&json!({}))).await.expect(201);
    let text = capped(server.post(&list, body(&json!({}))).await, setting);
    assert!(text.contains("may have 2 endpoints; it has 2,"), "{text}");
    capped(server.put(&format!("{list}/third"), body(&json!({}))).await, setting);
    let token = server.token(&app, false).await;
    capped(server.ask(&token, Method::POST, &list, &body(&json!({}))).await, setting);
    // What is there can be changed, and another application has its own.
    server.put(&format!("{list}/second"), body(&json!({ "disabled": true }))).await.expect(200);
    server.patch(&path, json!({ "description": "x" })).await.expect(200);
    server.endpoint(&other).await;
    // One that is deleted leaves room.
    server.delete(&path).await.expect(204);
    server.endpoint(&app).await;
    capped(server.post(&list, body(&json!({}))).await, setting);
}

#[tokio::test]
async fn patterns_are_capped_for_each_endpoint_and_for_all_of_them() {
    let (each, all) = ("limits.patterns_per_endpoint", "limits.patterns_per_application");
    let server = Running::with(&[(each, "3"), (all, "5")]).await;
    let app = server.application().await;
    let list = format!("/app/{app}/endpoint");
    let three = json!({ "eventTypes": ["a.*", "b.*"], "channels": ["c"] });
    let four = json!({ "eventTypes": ["a.*", "b.*"], "channels": ["c", "d"] });
    capped(server.post(&list, body(&four)).await, each);
    let made = server.post(&list, body(&three)).await.expect(201);
    let path = format!("{list}/{}", made["id"].as_str().unwrap());
    // The whole row counts, not what the request names.
    capped(server.patch(&path, json!({ "channels": ["c", "d"] })).await, each);
    capped(server.put(&path, body(&four)).await, each);
    let text = capped(server.post(&list, body(&three)).await, all);
    assert!(text.contains("it has 3, and this would make it 6"), "{text}");
    let two = json!({ "eventTypes": ["a.*", "b.*"] });
    let second = server.post(&list, body(&two)).await.expect(201);
    let second = format!("{list}/{}", second["id"].as_str().unwrap());
    capped(server.patch(&second, json!({ "channels": ["c"] })).await, all);
    server.patch(&path, json!({ "channels": null })).await.expect(200);
    server.patch(&second, json!({ "channels": ["c"] })).await.expect(200);
}

#[tokio::test]
async fn bytes_are_capped_in_whatever_way_they_are_added() {
    let (each, all) = ("limits.bytes_per_endpoint", "limits.bytes_per_application");
    let server = Running::with(&[(each, "4KiB"), (all, "5KiB")]).await;
    let app = server.application().await;
    let list = format!("/app/{app}/endpoint");
    let path = format!("{list}/{}", server.endpoint(&app).await);
    let half = "x".repeat(1_900);
    server.patch(&path, json!({ "metadata": { "k": half } })).await.expect(200);
    let header = json!({ "headers": { "x-one": half } });
    capped(server.patch(&path, json!({ "description": "x".repeat(3_000) })).await, each);
    let headers = format!("{path}/headers");
    server.patch(&headers, header).await.expect(204);
    for (name, method) in [("x-two", Method::PATCH), ("authorization", Method::PATCH)] {
        let more = json!({ "headers": { name: half } });
        capped(server.ask(super::ADMIN, method, &headers, &more).await, each);
    }
    let both = json!({ "headers": { "x-one": half, "x-two": half } });
    capped(server.put(&headers, both).await, each);
    let more = json!({ "metadata": { "k": half } });
    capped(server.post(&list, body(&more)).await, all);
    capped(server.put(&format!("{list}/new"), body(&more)).await, all);
    let small = server.endpoint(&app).await;
    let secret = json!({ "headers": { "authorization": half } });
    capped(server.patch(&format!("{list}/{small}/headers"), secret).await, all);
}

#[tokio::test]
async fn a_cap_that_is_lowered_takes_nothing_away() {
    let setting = "limits.endpoints_per_application";
    let server = Running::start().await;
    let app = server.application().await;
    let list = format!("/app/{app}/endpoint");
    let mut last = String::new();
    for _ in 0..3 {
        last = server.endpoint(&app).await;
    }
    let path = format!("{list}/{last}");
    let many = json!({ "channels": ["a", "b", "c"] });
    server.patch(&path, many).await.expect(200);
    let options = [(setting, "1"), ("limits.patterns_per_endpoint", "1")];
    let server = server.again(&options).await;
    server.patch(&path, json!({ "description": "x" })).await.expect(200);
    server.post(&format!("{path}/pause"), json!({})).await.expect(200);
    server.patch(&path, json!({ "channels": ["a", "b"] })).await.expect(200);
    server.message(&app).await;
    capped(server.post(&list, body(&json!({}))).await, setting);
    server.delete(&path).await.expect(204);
    capped(server.post(&list, body(&json!({}))).await, setting);
}

#[tokio::test]
async fn of_ten_endpoints_at_once_on_two_nodes_as_many_are_made_as_may_be() {
    let setting = "limits.endpoints_per_application";
    let database = Database::create("caps").await;
    let [url, key] = database.settings();
    let options = [url, key, (setting, "4")];
    let nodes = [Running::with(&options).await, Running::with(&options).await];
    let app = nodes[0].application().await;
    let list = format!("/app/{app}/endpoint");
    let asked = (0..10).map(|number| nodes[number % 2].post(&list, body(&json!({}))));
    let answers = futures_util::future::join_all(asked).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 4, "{answers:?}");
    for refused in answers.into_iter().filter(|answer| answer.status != 201) {
        capped(refused, setting);
    }
}
