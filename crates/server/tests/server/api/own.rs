//! Redial's own resources: deliveries, dead letters, policies.

use serde_json::{Value, json};

use super::Running;

#[tokio::test]
async fn a_delivery_is_shown_hurried_and_called_off() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = server.endpoint(&app).await;
    let message = server.message(&app).await;
    let list = format!("/app/{app}/endpoint/{endpoint}/delivery");
    let page = server.get(&format!("{list}?state=pending")).await.expect(200);
    let entry = &page["data"][0];
    assert_eq!((&entry["messageId"], &entry["endpointId"]), (&json!(message), &json!(endpoint)));
    assert_eq!((&entry["state"], &entry["attempts"]), (&json!("pending"), &json!(0)));
    let path = format!("/app/{app}/delivery/{}", entry["id"].as_str().unwrap());
    let shown = server.get(&path).await.expect(200);
    assert_eq!((&shown["id"], &shown["timeline"]), (&entry["id"], &json!([])));
    let hurried = server.post(&format!("{path}/retry"), Value::Null).await.expect(200);
    assert_eq!(hurried["state"], "pending");
    let cancelled = server.post(&format!("{path}/cancel"), Value::Null).await.expect(200);
    assert_eq!(cancelled["state"], "cancelled");
    assert!(cancelled["settledAt"].is_string());
    server.post(&format!("{path}/cancel"), Value::Null).await.refused(409, "conflict");
    server.post(&format!("{path}/retry"), Value::Null).await.refused(409, "conflict");
    server.post(&format!("{path}/replay"), Value::Null).await.expect(202);
    server.get(&format!("{list}?state=gone")).await.invalid("query.state");
}

#[tokio::test]
async fn what_goes_to_a_disabled_endpoint_is_a_dead_letter() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = server.endpoint(&app).await;
    let path = format!("/app/{app}/endpoint/{endpoint}");
    server.patch(&path, json!({ "disabled": true })).await.expect(200);
    for _ in 0..3 {
        server.message(&app).await;
    }
    let list = format!("/app/{app}/dead-letter");
    let count = server.get(&format!("{list}/count")).await.expect(200);
    assert_eq!(count, json!({ "count": 3, "complete": true }));
    let page = server.get(&format!("{list}?limit=2")).await.expect(200);
    assert_eq!(page["data"][0]["cause"], "endpoint_disabled");
    let iterator = page["iterator"].as_str().unwrap();
    let rest = server.get(&format!("{list}?limit=2&iterator={iterator}")).await.expect(200);
    assert_eq!(rest["data"].as_array().unwrap().len(), 1);
    let exhausted = server.get(&format!("{list}?cause=exhausted")).await.expect(200);
    assert_eq!(exhausted["data"], json!([]));
    let now = &page["data"][1]["receivedAt"];
    let purged = server.delete(&format!("{list}?cause=endpoint_disabled")).await.expect(200);
    assert_eq!(purged, json!({ "removed": 3, "done": true }));
    let count = server.get(&format!("{list}/count")).await.expect(200);
    assert_eq!(count["count"], 0);
    // Last, because a replay takes dead letters away while the test looks.
    let replay = json!({ "since": now, "causes": ["endpoint_disabled"] });
    server.post(&format!("{list}/replay"), replay).await.expect(202);
    let wrong = json!({ "since": now, "causes": ["bad luck"] });
    server.post(&format!("{list}/replay"), wrong).await.invalid("body.causes");
}

#[tokio::test]
async fn a_policy_is_shown_with_its_schedule_and_what_is_unwise() {
    let server = Running::start().await;
    let all = server.get("/policy").await.expect(200);
    assert!(all["data"].as_array().unwrap().len() >= 17);
    let github = server.get("/policy/github").await.expect(200);
    let waits: Vec<&Value> =
        github["schedule"].as_array().unwrap().iter().map(|it| &it["waitSeconds"]).collect();
    assert_eq!(waits, [0.0, 4_800.0, 4_800.0, 4_800.0]);
    assert!(github["warnings"][0].as_str().unwrap().contains("jitter"));
    server.get("/policy/nonsense").await.refused(404, "not_found");
    let preview = json!({ "policy": { "extends": "redial", "policy": { "max_attempts": 2 } } });
    let preview = server.post("/policy/preview", preview).await.expect(200);
    assert_eq!(preview["schedule"].as_array().unwrap().len(), 2);
    let wrong = json!({ "policy": { "policy": { "max_attempts": -1 } } });
    server.post("/policy/preview", wrong).await.invalid("body.policy");
}

#[tokio::test]
async fn the_nearest_policy_applies() {
    let server = Running::with(&[("policy", "svix")]).await;
    let app = server.application().await;
    let endpoint = format!("/app/{app}/endpoint/{}", server.endpoint(&app).await);
    let path = format!("{endpoint}/policy");
    let shown = async || {
        let shown = server.get(&path).await.expect(200);
        format!("{} of the {}", shown["name"].as_str().unwrap(), shown["origin"].as_str().unwrap())
    };
    assert_eq!(shown().await, "svix of the server");
    server.patch(&format!("/app/{app}"), json!({ "policy": "stripe" })).await.expect(200);
    assert_eq!(shown().await, "stripe of the application");
    server.patch(&endpoint, json!({ "policy": "github" })).await.expect(200);
    assert_eq!(shown().await, "github of the endpoint");
    server.patch(&endpoint, json!({ "policy": null })).await.expect(200);
    assert_eq!(shown().await, "stripe of the application");
}

#[tokio::test]
async fn the_order_is_switched_only_while_nothing_is_pending() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint/{}", server.endpoint(&app).await);
    assert_eq!(server.patch(&path, json!({ "fifo": true })).await.expect(200)["fifo"], true);
    server.message(&app).await;
    server.patch(&path, json!({ "fifo": false })).await.refused(409, "conflict");
}
