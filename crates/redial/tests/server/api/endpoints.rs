//! `/app/{app_id}/endpoint`

use http::Method;
use serde_json::{Value, json};

use super::Running;

#[tokio::test]
async fn an_endpoint_has_all_that_the_sdks_of_both_generations_read() {
    let server = Running::start().await;
    let app = server.application().await;
    server.post("/event-type", json!({ "name": "a.b", "description": "x" })).await.expect(201);
    let body = json!({
        "url": "https://receiver.example/hook?token=1", "uid": "mine", "rateLimit": 3,
        "filterTypes": ["a.b"], "channels": ["c:1"], "version": 7, "metadata": { "k": "v" },
    });
    let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    let expected = json!({
        "url": "https://receiver.example/hook?token=1", "uid": "mine", "description": "",
        "version": 1, "disabled": false, "state": "active", "eventTypes": ["a.b"],
        "filterTypes": ["a.b"], "channels": ["c:1"], "throttleRate": 3, "rateLimit": 3,
        "inFlight": null, "metadata": { "k": "v" }, "fifo": false,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    assert!(made["id"].as_str().unwrap().starts_with("ep_"));
    assert!(made.get("secret").is_none());
    assert_eq!(server.get(&format!("/app/{app}/endpoint/mine")).await.expect(200), made);
}

#[tokio::test]
async fn event_types_that_an_endpoint_lists_must_exist() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint");
    let body = json!({ "url": "https://receiver.example/", "eventTypes": ["x", "y"] });
    let text = server.post(&path, body).await.invalid("body.eventTypes");
    assert_eq!(text, "The following event types don't exist: x, y");
    let below = json!({ "url": "https://receiver.example/", "eventTypes": ["x.*"] });
    server.post(&path, below).await.expect(201);
}

#[tokio::test]
async fn a_url_must_be_one_that_deliveries_may_go_to() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint");
    for url in
        ["nonsense", "ftp://receiver.example/", "https://a b/", "https://u:p@receiver.example/"]
    {
        server.post(&path, json!({ "url": url })).await.invalid("body.url");
    }
    for url in [
        "https://127.0.0.1/",
        "https://localhost/",
        "http://receiver.example/",
        "https://10.0.0.1/",
    ] {
        server.post(&path, json!({ "url": url })).await.refused(400, "destination_not_allowed");
    }
}

#[tokio::test]
async fn an_operator_learns_why_a_url_is_refused_and_a_customer_does_not() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint");
    let portal = server.token(&app, false).await;
    let table = [
        ("https://127.0.0.1/", "127.0.0.1 is in 127.0.0.0/8 loopback"),
        ("http://receiver.example/", "http is refused unless"),
        ("https://receiver.example:22/", "port 22 belongs to another protocol"),
    ];
    let told = "this destination is not allowed; use a public https address";
    for (url, why) in table {
        let body = json!({ "url": url });
        let to_customer = server.ask(&portal, Method::POST, &path, &body).await.json();
        assert_eq!(to_customer, json!({ "code": "destination_not_allowed", "detail": told }));
        let to_operator = server.post(&path, body).await.json();
        assert_eq!(to_operator["code"], "destination_not_allowed");
        assert!(to_operator["detail"].as_str().unwrap().contains(why), "{to_operator}");
    }
}

#[tokio::test]
async fn an_operator_may_open_a_range() {
    let server = Running::with(&[("allow_egress", "127.0.0.0/8")]).await;
    let app = server.application().await;
    let body = json!({ "url": "http://127.0.0.1:9999/hook" });
    server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_its_field() {
    let server = Running::start().await;
    let app = server.application().await;
    let many_headers = |count: usize| -> serde_json::Map<_, _> {
        (0..count).map(|number| (format!("x-{number}"), json!("1"))).collect()
    };
    let bearer = json!({ "kind": "bearer", "token": "x" });
    let table = [
        (json!({ "eventTypes": [] }), "body.eventTypes"),
        (json!({ "channels": [] }), "body.channels"),
        (json!({ "channels": ["a b"] }), "body.channels"),
        (json!({ "uid": "ep_1" }), "body.uid"),
        (json!({ "rateLimit": 0 }), "body.throttleRate"),
        (json!({ "throttleRate": 70_000 }), "body.throttleRate"),
        (json!({ "secret": "whsec_short" }), "body.secret"),
        (json!({ "headers": { "host": "x" } }), "body.headers.host"),
        (json!({ "headers": { "webhook-id": "x" } }), "body.headers.webhook-id"),
        (json!({ "headers": { "Cookie": "x" } }), "body.headers.Cookie"),
        (json!({ "headers": { "Metadata-Flavor": "x" } }), "body.headers.Metadata-Flavor"),
        (json!({ "headers": { "x-real-ip": "1" } }), "body.headers.x-real-ip"),
        (json!({ "headers": { "User-Agent": "x" } }), "body.headers.User-Agent"),
        (json!({ "headers": { "x-a": "1", "X-A": "2" } }), "body.headers"),
        (json!({ "headers": { "x-a": "1", "x_A": "2" } }), "body.headers"),
        (json!({ "headers": { "webhook_signature": "x" } }), "body.headers.webhook_signature"),
        (json!({ "headers": { "Svix_Id": "x" } }), "body.headers.Svix_Id"),
        (json!({ "headers": { "X_Forwarded_For": "1" } }), "body.headers.X_Forwarded_For"),
        (json!({ "headers": { "content_length": "1" } }), "body.headers.content_length"),
        (json!({ "headers": { "content_type": "a" } }), "body.headers.content_type"),
        (json!({ "headers": { "..": "1" } }), "body.headers..."),
        (json!({ "uid": ".." }), "body.uid"),
        (json!({ "uid": "." }), "body.uid"),
        (json!({ "headers": many_headers(33) }), "body.headers"),
        (json!({ "headers": { "Authorization": "x" }, "credentials": bearer }), "body.credentials"),
        (json!({ "headers": { "a": "b\r\nc: d" } }), "body.headers.a"),
        (json!({ "signatures": ["rot13"] }), "body.signatures"),
        (json!({ "signatures": ["event-id"] }), "body.signatures"),
        (json!({ "inFlight": 0 }), "body.inFlight"),
        (json!({ "policy": { "policy": { "max_attempts": 0 } } }), "body.policy"),
    ];
    for (mut body, field) in table {
        body["url"] = json!("https://receiver.example/");
        server.post(&format!("/app/{app}/endpoint"), body).await.invalid(field);
    }
}

#[tokio::test]
async fn a_patch_changes_what_it_names_and_null_clears() {
    let server = Running::start().await;
    let app = server.application().await;
    let body =
        json!({ "url": "https://receiver.example/a", "channels": ["c"], "description": "d" });
    let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    let path = format!("/app/{app}/endpoint/{}", made["id"].as_str().unwrap());
    let patch = json!({ "channels": null, "url": "https://receiver.example/b", "disabled": true });
    let changed = server.patch(&path, patch).await.expect(200);
    assert_eq!(changed["channels"], Value::Null);
    assert_eq!(changed["url"], "https://receiver.example/b");
    assert_eq!((&changed["disabled"], &changed["state"]), (&json!(true), &json!("disabled")));
    assert_eq!(changed["description"], "d");
    let enabled = server.patch(&path, json!({ "disabled": false })).await.expect(200);
    assert_eq!(enabled["state"], "active");
}

#[tokio::test]
async fn replacing_creates_what_is_not_there_and_keeps_headers_that_it_does_not_name() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/mine");
    let body = json!({ "url": "https://receiver.example/", "headers": { "x-a": "1" } });
    let made = server.put(&path, body).await.expect(201);
    assert_eq!(made["uid"], "mine");
    let body = json!({ "url": "https://receiver.example/other", "uid": "mine" });
    let replaced = server.put(&path, body).await.expect(200);
    assert_eq!(replaced["id"], made["id"]);
    let headers = server.get(&format!("{path}/headers")).await.expect(200);
    assert_eq!(headers, json!({ "headers": { "x-a": "1" }, "sensitive": [] }));
}

#[tokio::test]
async fn endpoints_are_listed_newest_first_and_deleted_ones_are_gone() {
    let server = Running::start().await;
    let app = server.application().await;
    let mut made = [server.endpoint(&app).await, server.endpoint(&app).await];
    // Ids of the same millisecond are in no order that a test could know.
    made.sort_unstable();
    let [first, second] = made;
    let path = format!("/app/{app}/endpoint");
    let ids = |page: Value| -> Vec<String> {
        let data = page["data"].as_array().unwrap().clone();
        data.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(server.get(&path).await.expect(200)), [second.clone(), first.clone()]);
    server.delete(&format!("{path}/{second}")).await.expect(204);
    server.get(&format!("{path}/{second}")).await.refused(404, "not_found");
    assert_eq!(ids(server.get(&path).await.expect(200)), [first]);
}

#[tokio::test]
async fn a_rotated_secret_is_answered_and_shown() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}/secret", server.endpoint(&app).await);
    let before = server.get(&path).await.expect(200);
    assert!(before["key"].as_str().unwrap().starts_with("whsec_"));
    let rotated = server.post(&format!("{path}/rotate"), json!({})).await.expect(200);
    assert_ne!(before, rotated);
    assert_eq!(server.get(&path).await.expect(200), rotated);
    let key = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let given = server.post(&format!("{path}/rotate"), json!({ "key": key })).await.expect(200);
    assert_eq!(given["key"], key);
    let long = json!({ "gracePeriodSeconds": 700_000 });
    server.post(&format!("{path}/rotate"), long).await.invalid("body.gracePeriodSeconds");
    for _ in 0..20 {
        let answered = server.post(&format!("{path}/rotate"), json!({})).await;
        if answered.status != 200 {
            return answered.refused(400, "limit_reached");
        }
    }
    panic!("secrets can be rotated without end");
}

#[tokio::test]
async fn headers_that_may_hold_a_credential_are_never_shown() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}/headers", server.endpoint(&app).await);
    let body = json!({ "headers": { "Authorization": "Bearer 1", "X-A": "a", "X-B": "b" } });
    server.put(&path, body).await.expect(204);
    let patch = json!({ "headers": { "x-a": "c", "X-Api-Key": "k" }, "deleteHeaders": ["x-b"] });
    server.patch(&path, patch).await.expect(204);
    let shown = server.get(&path).await.expect(200);
    let sensitive = json!(["Authorization", "X-Api-Key"]);
    assert_eq!(shown, json!({ "headers": { "x-a": "c" }, "sensitive": sensitive }));
    server.patch(&path, json!({ "headers": { "AUTHORIZATION": null } })).await.expect(204);
    assert_eq!(server.get(&path).await.expect(200)["sensitive"], json!(["X-Api-Key"]));
    // A name in another spelling is the same name.
    let patch = json!({ "headers": { "x_a": "d" }, "deleteHeaders": ["x_api_key"] });
    server.patch(&path, patch).await.expect(204);
    let shown = server.get(&path).await.expect(200);
    assert_eq!(shown, json!({ "headers": { "x_a": "d" }, "sensitive": [] }));
    server.patch(&path, json!({ "headers": { "X_Api_Key": "k" } })).await.expect(204);
    let shown = server.get(&path).await.expect(200);
    assert_eq!(shown["sensitive"], json!(["X_Api_Key"]));
}

#[tokio::test]
async fn a_paused_endpoint_is_resumed_and_a_disabled_one_is_not_paused() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}", server.endpoint(&app).await);
    let pause = format!("{path}/pause");
    assert_eq!(server.post(&pause, Value::Null).await.expect(200)["state"], "paused");
    let resumed = server.post(&format!("{path}/resume"), Value::Null).await.expect(200);
    assert_eq!(resumed["state"], "active");
    server.patch(&path, json!({ "disabled": true })).await.expect(200);
    server.post(&pause, Value::Null).await.refused(409, "conflict");
    let health = server.get(&format!("{path}/health")).await.expect(200);
    let closed = json!({ "state": "closed", "failures": 0, "until": null });
    assert_eq!((&health["breaker"], &health["state"]), (&closed, &json!("disabled")));
    server.post(&format!("{path}/breaker/reset"), Value::Null).await.expect(204);
}

#[tokio::test]
async fn statistics_count_a_range_that_is_not_too_long() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}/stats", server.endpoint(&app).await);
    server.message(&app).await;
    let counts = server.get(&path).await.expect(200);
    for (field, number) in
        [("success", 0), ("pending", 1), ("sending", 0), ("fail", 0), ("canceled", 0)]
    {
        assert_eq!(counts[field], number, "{field}");
    }
    let long = format!("{path}?since=2026-01-01T00:00:00Z&until=2026-03-01T00:00:00Z");
    server.get(&long).await.refused(400, "invalid_range");
    let attempts = path.replace("/stats", "/attempt-stats");
    let sums = server.get(&attempts).await.expect(200);
    assert_eq!(sums, json!({ "success": 0, "fail": 0, "canceled": 0 }));
}
