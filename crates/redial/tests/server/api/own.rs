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
async fn dead_letters_are_chosen_by_their_endpoint() {
    let server = Running::start().await;
    let app = server.application().await;
    let mut endpoints = Vec::new();
    for uid in ["one", "two"] {
        let body = json!({ "url": "https://receiver.example/", "uid": uid, "disabled": true });
        let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
        endpoints.push(made["id"].as_str().unwrap().to_owned());
    }
    for _ in 0..3 {
        server.message(&app).await;
    }
    let list = format!("/app/{app}/dead-letter");
    let to = &endpoints[1];
    let page = server.get(&format!("{list}?endpoint_id={to}")).await.expect(200);
    let page = page["data"].as_array().unwrap();
    assert_eq!(page.len(), 3);
    assert!(page.iter().all(|entry| entry["endpointId"] == json!(to)), "{page:?}");
    let count = async |query: &str| {
        let count = server.get(&format!("{list}/count{query}")).await.expect(200);
        assert_eq!(count["complete"], true);
        count["count"].as_u64().unwrap()
    };
    assert_eq!((count("").await, count("?endpoint_id=two").await), (6, 3));
    let purged = server.delete(&format!("{list}?endpoint_id=two")).await.expect(200);
    assert_eq!(purged, json!({ "removed": 3, "done": true }));
    assert_eq!((count("").await, count(&format!("?endpoint_id={to}")).await), (3, 0));
    // By its id it is also found after it was deleted; its uid is free then.
    let one = &endpoints[0];
    server.delete(&format!("/app/{app}/endpoint/{one}")).await.expect(204);
    assert_eq!(count(&format!("?endpoint_id={one}")).await, 3);
    let page = server.get(&format!("{list}?endpoint_id={one}")).await.expect(200);
    assert_eq!(page["data"].as_array().unwrap().len(), 3);
    server.get(&format!("{list}?endpoint_id=one")).await.refused(404, "not_found");
    let purged = server.delete(&format!("{list}?endpoint_id={one}")).await.expect(200);
    assert_eq!(purged, json!({ "removed": 3, "done": true }));
    let nobody = format!("{list}?endpoint_id=nobody");
    server.get(&nobody).await.refused(404, "not_found");
    server.delete(&nobody).await.refused(404, "not_found");
    server.get(&format!("{list}/count?endpoint_id=nobody")).await.refused(404, "not_found");
}

/// Walks through a list page by page, and returns what identifies each delivery.
async fn walked(server: &Running, path: &str, limit: u32, from: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut iterator = from.to_owned();
    let back = from.starts_with('-');
    for _ in 0..50 {
        let page = server.get(&format!("{path}&limit={limit}&iterator={iterator}")).await;
        let page = page.expect(200);
        let ids = page["data"].as_array().unwrap().iter();
        let ids: Vec<String> = ids.map(|it| it["id"].as_str().unwrap().to_owned()).collect();
        let at = if back { 0 } else { seen.len() };
        seen.splice(at..at, ids);
        if page["done"] == true {
            return seen;
        }
        let next = if back { "prevIterator" } else { "iterator" };
        iterator = page[next].as_str().unwrap().to_owned();
    }
    panic!("{path} does not end");
}

#[tokio::test]
async fn an_applications_deliveries_are_listed_by_state_cause_endpoint_and_time() {
    let server = Running::start().await;
    let app = server.application().await;
    for (uid, disabled) in [("one", false), ("two", true), ("three", false)] {
        let body = json!({ "url": "https://receiver.example/", "uid": uid, "disabled": disabled });
        server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    }
    let mut received = Vec::new();
    for _ in 0..4 {
        let id = server.message(&app).await;
        let message = server.get(&format!("/app/{app}/msg/{id}")).await.expect(200);
        received.push(message["timestamp"].as_str().unwrap().to_owned());
        // Ids sort to the millisecond; inside of one, chance decides.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let other = server.application().await;
    let path = format!("/app/{app}/delivery");
    let all = walked(&server, &format!("{path}?"), 250, "").await;
    assert_eq!(all.len(), 12);
    for limit in 1..=5 {
        assert_eq!(walked(&server, &format!("{path}?"), limit, "").await, all, "{limit}");
    }
    // Newest message first.
    let page = server.get(&path).await.expect(200);
    let entries = page["data"].as_array().unwrap();
    assert_eq!(entries[0]["receivedAt"], json!(received[3]));
    assert_eq!(entries[11]["receivedAt"], json!(received[0]));
    // Backwards from the end: all but the entry at which it begins.
    let last = server.get(&format!("{path}?limit=250")).await.expect(200);
    let end = last["iterator"].as_str().unwrap();
    let back = walked(&server, &format!("{path}?"), 5, &format!("-{end}")).await;
    assert_eq!(back, all[..11]);
    let count = async |query: &str| walked(&server, &format!("{path}?{query}"), 3, "").await.len();
    assert_eq!(count("state=pending").await, 8);
    assert_eq!(count("state=dead").await, 4);
    assert_eq!(count("cause=endpoint_disabled").await, 4);
    assert_eq!(count("cause=exhausted").await, 0);
    assert_eq!(count("endpoint_id=one").await, 4);
    assert_eq!(count("endpoint_id=one&state=dead").await, 0);
    assert_eq!(count(&format!("after={}", received[2])).await, 6);
    assert_eq!(count(&format!("before={}&state=pending", received[1])).await, 2);
    assert_eq!(count("event_types=other").await, 0);
    server.get(&format!("{path}?endpoint_id=nobody")).await.refused(404, "not_found");
    server.get(&format!("{path}?iterator=nonsense")).await.invalid("query.iterator");
    let nothing = server.get(&format!("/app/{other}/delivery")).await.expect(200);
    assert_eq!((&nothing["data"], &nothing["done"]), (&json!([]), &json!(true)));
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
