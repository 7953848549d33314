//! Replays, their tasks, and example messages.

use serde_json::{Value, json};

use super::Running;

#[tokio::test]
async fn a_replay_is_a_task_that_is_found_again() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = server.endpoint(&app).await;
    let base = format!("/app/{app}/endpoint/{endpoint}");
    let now = server.get(&format!("/app/{app}")).await.expect(200)["createdAt"].clone();
    let table = [
        ("recover", "endpoint.recover", json!({ "since": now })),
        ("replay-missing", "endpoint.replay", json!({ "since": now })),
        ("bulk-replay", "endpoint.bulk-replay", json!({ "since": now, "status": 2 })),
    ];
    for (path, task, body) in table {
        let made = server.post(&format!("{base}/{path}"), body).await.expect(202);
        assert!(made["id"].as_str().unwrap().starts_with("qtask_"), "{made}");
        assert_eq!((&made["task"], &made["status"]), (&json!(task), &json!("running")));
        assert!(made["updatedAt"].is_string());
        let id = made["id"].as_str().unwrap();
        let found = server.get(&format!("/background-task/{id}")).await.expect(200);
        assert_eq!((&found["task"], &found["data"]["messagesSent"]), (&json!(task), &json!(0)));
    }
    let all = server.get("/background-task").await.expect(200);
    assert_eq!(all["data"].as_array().unwrap().len(), 3);
    let app_token = server.token(&app, false).await;
    let other = server.application().await;
    let other_token = server.token(&other, false).await;
    for (token, number) in [(app_token, 3), (other_token, 0)] {
        let page = server.ask(&token, http::Method::GET, "/background-task", &Value::Null).await;
        assert_eq!(page.expect(200)["data"].as_array().unwrap().len(), number);
    }
}

#[tokio::test]
async fn a_bulk_replay_means_the_status_and_the_filters_that_it_names() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}/bulk-replay", server.endpoint(&app).await);
    let now = server.get(&format!("/app/{app}")).await.expect(200)["createdAt"].clone();
    let table = [
        (json!({}), json!({ "states": "settled" })),
        (json!({ "status": 0 }), json!({ "states": "delivered" })),
        (json!({ "status": 2 }), json!({ "states": "dead" })),
        (json!({ "status": 4 }), json!({ "states": "cancelled" })),
        (json!({ "eventTypes": ["a.b", "c"] }), json!({ "event_types": ["a.b", "c"] })),
        (json!({ "channel": "quiet" }), json!({ "channel": "quiet" })),
        (json!({ "statusCodeClass": 500 }), json!({ "status_class": 500 })),
    ];
    for (mut body, means) in table {
        body["since"] = now.clone();
        let made = server.post(&path, body.clone()).await.expect(202);
        let task = format!("/background-task/{}", made["id"].as_str().unwrap());
        let selection = server.get(&task).await.expect(200)["data"]["selection"].clone();
        for (name, value) in means.as_object().unwrap() {
            assert_eq!(&selection[name], value, "{body}");
        }
    }
    // What is still on its way is not replayed.
    for status in [1, 3] {
        let body = json!({ "since": now, "status": status });
        server.post(&path, body).await.invalid("body.status");
    }
    let unknown = json!({ "since": now, "status": 5 });
    server.post(&path, unknown).await.refused(400, "generic_error");
}

#[tokio::test]
async fn a_range_that_is_too_long_is_refused() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}/recover", server.endpoint(&app).await);
    let body = json!({ "since": "2026-01-01T00:00:00Z", "until": "2026-02-01T00:00:00Z" });
    server.post(&path, body).await.invalid("body.since");
    server.post(&path, json!({})).await.invalid("body.since");
}

#[tokio::test]
async fn a_message_is_sent_again_unless_its_endpoint_is_disabled_or_never_got_it() {
    let server = Running::start().await;
    let app = server.application().await;
    let message = server.message(&app).await;
    let endpoint = server.endpoint(&app).await;
    let resend = |message: &str| format!("/app/{app}/msg/{message}/endpoint/{endpoint}/resend");
    server.post(&resend(&message), Value::Null).await.refused(404, "not_found");
    let later = server.message(&app).await;
    assert_eq!(server.post(&resend(&later), Value::Null).await.expect(202), json!({}));
    let path = format!("/app/{app}/endpoint/{endpoint}");
    server.patch(&path, json!({ "disabled": true })).await.expect(200);
    server.post(&resend(&later), Value::Null).await.refused(400, "generic_error");
}

#[tokio::test]
async fn an_example_goes_to_one_endpoint_whatever_its_filter() {
    let server = Running::start().await;
    let app = server.application().await;
    server.endpoint(&app).await;
    let quiet = json!({ "url": "https://receiver.example/", "channels": ["quiet"] });
    let quiet = server.post(&format!("/app/{app}/endpoint"), quiet).await.expect(201);
    let quiet = quiet["id"].as_str().unwrap();
    let path = format!("/app/{app}/endpoint/{quiet}/send-example");
    let made = server.post(&path, json!({ "eventType": "svix.ping" })).await.expect(200);
    assert_eq!(made["payload"], json!({ "success": true }));
    let id = made["id"].as_str().unwrap();
    let page = server.get(&format!("/app/{app}/msg/{id}/endpoint")).await.expect(200);
    let ids: Vec<&str> =
        page["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [quiet]);
    let schemas = json!({ "1": {}, "2": { "examples": [{ "x": 1 }] } });
    let body = json!({ "name": "with", "description": "", "schemas": schemas });
    server.post("/event-type", body).await.expect(201);
    let made = server.post(&path, json!({ "eventType": "with" })).await.expect(200);
    assert_eq!(made["payload"], json!({ "x": 1 }));
    let body = json!({ "name": "without", "description": "" });
    server.post("/event-type", body).await.expect(201);
    server.post(&path, json!({ "eventType": "without" })).await.refused(400, "invalid_scheme");
}
