//! What only a server that sends can show: what arrives, and what is shown of it afterwards.

use http::Method;
use serde_json::{Value, json};

use super::Running;
use crate::sdk::receiver::{Receiver, eventually};

const OPEN: [(&str, &str); 2] = [("allow_egress", "127.0.0.1"), ("egress.plain_http", "yes")];

async fn endpoint(server: &Running, app: &str, body: Value) -> String {
    let made = server.post(&format!("/app/{app}/endpoint"), body).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

/// Waits until a message has an attempt, and returns the newest.
async fn attempt(server: &Running, app: &str, message: &str) -> Value {
    let path = format!("/app/{app}/attempt/msg/{message}");
    let newest = eventually("an attempt is shown", async || {
        let page = server.get(&path).await.expect(200);
        page["data"].as_array().unwrap().first().cloned()
    })
    .await;
    // As old SDKs ask for it.
    let endpoint = newest["endpointId"].as_str().unwrap();
    let path = format!("/app/{app}/msg/{message}/endpoint/{endpoint}/attempt");
    let page = server.get(&path).await.expect(200);
    assert!(page["data"].as_array().unwrap().iter().any(|it| it["id"] == newest["id"]));
    newest
}

#[tokio::test]
async fn replay_missing_sends_what_was_accepted_before_the_endpoint_was_there() {
    let receiver = Receiver::start().await;
    let server = Running::sending(&OPEN).await;
    let app = server.application().await;
    let since = server.get(&format!("/app/{app}")).await.expect(200)["createdAt"].clone();
    let message = |event_type: &str, channels: &[&str]| json!({ "eventType": event_type, "channels": channels, "payload": { "n": 1 } });
    let path = format!("/app/{app}/msg");
    let mut ids = Vec::new();
    let all = [("a.b", &["one"][..]), ("a.b", &["two"]), ("x.y", &["one"]), ("a.b", &["one"])];
    for (event_type, channels) in all {
        let made = server.post(&path, message(event_type, channels)).await.expect(202);
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    let gone = server.post(&path, message("a.b", &["one"])).await.expect(202);
    let gone = gone["id"].as_str().unwrap();
    server.delete(&format!("{path}/{gone}/content")).await.expect(204);
    server.post("/event-type", json!({ "name": "a.b", "description": "" })).await.expect(201);
    let filtered = json!({
        "url": receiver.url("late"), "eventTypes": ["a.b"], "channels": ["one"]
    });
    let late = endpoint(&server, &app, filtered).await;
    let replay = format!("/app/{app}/endpoint/{late}/replay-missing");
    for round in 0..2 {
        let task = server.post(&replay, json!({ "since": since })).await.expect(202);
        let task = format!("/background-task/{}", task["id"].as_str().unwrap());
        let done = eventually("the task is finished", async || {
            let found = server.get(&task).await.expect(200);
            (found["status"] == "finished").then_some(found["data"].clone())
        })
        .await;
        // What it got once is not sent again.
        let counts = (&done["messagesSent"], &done["messagesSkipped"]);
        assert_eq!(counts, (&json!(if round == 0 { 2 } else { 0 }), &json!(1)));
    }
    for id in [&ids[0], &ids[3]] {
        receiver.wait("late", id, 1).await;
        assert_eq!(attempt(&server, &app, id).await["endpointId"], late);
    }
    assert_eq!(receiver.at("late").len(), 2);
}

#[tokio::test]
async fn attempts_at_a_deleted_endpoint_still_name_it() {
    let receiver = Receiver::start().await;
    let server = Running::sending(&OPEN).await;
    let app = server.application().await;
    let id = endpoint(&server, &app, json!({ "url": receiver.url("short") })).await;
    let message = server.message(&app).await;
    receiver.wait("short", &message, 1).await;
    let before = attempt(&server, &app, &message).await;
    server.delete(&format!("/app/{app}/endpoint/{id}")).await.expect(204);
    let after = attempt(&server, &app, &message).await;
    assert_eq!((&after["endpointId"], &after), (&json!(id), &before));
    let page = server.get(&format!("/app/{app}/msg/{message}/endpoint")).await.expect(200);
    assert_eq!(page["data"][0]["id"], id);
}

#[tokio::test]
async fn an_expunged_attempt_keeps_its_status_and_loses_its_answer() {
    let receiver = Receiver::start().await;
    let server = Running::sending(&OPEN).await;
    let app = server.application().await;
    endpoint(&server, &app, json!({ "url": receiver.url("said") })).await;
    let message = server.message(&app).await;
    receiver.wait("said", &message, 1).await;
    let before = attempt(&server, &app, &message).await;
    let path = format!("/app/{app}/msg/{message}/attempt/{}", before["id"].as_str().unwrap());
    server.delete(&format!("{path}/content")).await.expect(204);
    let after = server.get(&path).await.expect(200);
    assert_eq!((&after["response"], &after["responseStatusCode"]), (&json!(""), &json!(204)));
    let unknown = format!("/app/{app}/msg/{message}/attempt/atmpt_unknown/content");
    server.delete(&unknown).await.refused(404, "not_found");
}

#[tokio::test]
async fn an_address_that_is_opened_for_one_application_is_reached_by_that_one_alone() {
    let receiver = Receiver::start().await;
    let server = Running::start().await;
    let (own, foreign) = (server.application().await, server.application().await);
    let only = format!("127.0.0.1 for {own}");
    let plain = ("egress.plain_http", "yes");
    let server = server.again(&[("allow_egress", "127.0.0.1"), plain]).await;
    for app in [&own, &foreign] {
        endpoint(&server, app, json!({ "url": receiver.url(app) })).await;
    }
    // What was saved while everybody might is vetted again when it is sent.
    let server = server.again(&[("allow_egress", &only), plain]).await;
    let message = server.message(&own).await;
    receiver.wait(&own, &message, 1).await;
    let refused = server.message(&foreign).await;
    let shown = attempt(&server, &foreign, &refused).await;
    assert_eq!(shown["responseStatusCode"], 0, "{shown}");
    // The operator learns why; the customer learns nothing about the network.
    let told =
        "destination_not_allowed: this destination is not allowed; use a public https address";
    let reason = shown["error"].as_str().unwrap().strip_prefix(told);
    assert!(
        reason.is_some_and(|reason| reason.contains("127.0.0.1 belongs to this server")),
        "{shown}"
    );
    let portal = server.token(&foreign, false).await;
    let path = format!("/app/{foreign}/msg/{refused}/attempt/{}", shown["id"].as_str().unwrap());
    let attempt = server.ask(&portal, Method::GET, &path, &Value::Null).await.expect(200);
    assert_eq!(attempt["error"], told);
    let page = server.get(&format!("/app/{foreign}/dead-letter")).await.expect(200);
    let path = format!("/app/{foreign}/delivery/{}", page["data"][0]["id"].as_str().unwrap());
    let delivery = server.ask(&portal, Method::GET, &path, &Value::Null).await.expect(200);
    assert_eq!(delivery["timeline"][0]["error"], told);
    let delivery = server.get(&path).await.expect(200);
    assert_eq!(delivery["timeline"][0]["error"], shown["error"]);
    assert!(receiver.at(&foreign).is_empty());
    let body = json!({ "url": receiver.url("new") });
    let path = format!("/app/{foreign}/endpoint");
    server.post(&path, body.clone()).await.refused(400, "destination_not_allowed");
    server.post(&format!("/app/{own}/endpoint"), body).await.expect(201);
}

#[tokio::test]
async fn a_redirect_that_is_followed_is_shown_with_where_it_led_and_without_its_path() {
    let receiver = Receiver::start().await;
    let server = Running::sending(&OPEN).await;
    let app = server.application().await;
    let policy = json!({ "policy": { "redirects": 1 } });
    endpoint(&server, &app, json!({ "url": receiver.url("start"), "policy": policy })).await;
    receiver.answer("start", &[307]);
    let there = receiver.url("end?token=s3cret");
    receiver.leads("start", &there);
    let message = server.message(&app).await;
    let arrived = receiver.wait("end", &message, 1).await;
    assert_eq!(arrived[0].body, receiver.at("start")[0].body);
    let origin = there.split("/end").next().unwrap();
    let redirects = json!([{ "status": 307, "to": origin }]);
    let shown = attempt(&server, &app, &message).await;
    assert_eq!((&shown["redirects"], &shown["responseStatusCode"]), (&redirects, &json!(204)));
    let page = server.get(&format!("/app/{app}/delivery?state=delivered")).await.expect(200);
    let path = format!("/app/{app}/delivery/{}", page["data"][0]["id"].as_str().unwrap());
    let delivery = server.get(&path).await.expect(200);
    assert_eq!(delivery["timeline"][0]["redirects"], redirects);
    assert_eq!(delivery["attempts"], 1);
}

#[tokio::test]
async fn what_made_a_dead_letter_of_a_delivery_is_told_with_its_rule() {
    let receiver = Receiver::start().await;
    let server = Running::sending(&OPEN).await;
    let app = server.application().await;
    let own = json!({ "name": "own", "policy": { "redirects": 2 } });
    let table = [
        ("moved", 302, Value::Null, "302: the policy `redial` does not follow redirects; "),
        ("closed", 401, Value::Null, "401: the policy `redial` lists `401` as permanent; "),
        (
            "lost",
            302,
            own,
            "the redirect cannot be followed: the answer has no Location; 302: the policy `own` ",
        ),
    ];
    for (name, status, policy, _) in &table {
        receiver.answer(name, &[*status]);
        let url = receiver.url(name);
        endpoint(&server, &app, json!({ "url": url, "uid": name, "policy": policy })).await;
    }
    let message = server.message(&app).await;
    for (name, status, _, told) in &table {
        receiver.wait(name, &message, 1).await;
        let path = format!("/app/{app}/attempt/msg/{message}?endpoint_id={name}");
        let shown = eventually("an attempt is shown", async || {
            let page = server.get(&path).await.expect(200);
            page["data"].as_array().unwrap().first().cloned()
        })
        .await;
        assert_eq!(shown["responseStatusCode"], *status);
        let error = shown["error"].as_str().unwrap();
        assert!(error.starts_with(told), "{error}");
    }
}

#[tokio::test]
async fn a_customers_endpoint_that_keeps_the_order_leaves_messages_of_later_to_all() {
    let receiver = Receiver::start().await;
    let server = Running::sending(&OPEN).await;
    let app = server.application().await;
    endpoint(&server, &app, json!({ "url": receiver.url("due") })).await;
    let portal = server.token(&app, false).await;
    let path = format!("/app/{app}/endpoint");
    let body = json!({ "url": receiver.url("line"), "fifo": true });
    let line = server.ask(&portal, Method::POST, &path, &body).await.expect(201)["id"].clone();
    let send = async |deliver_at: Option<String>| {
        let body = json!({ "eventType": "a", "payload": { "n": 1 }, "deliverAt": deliver_at });
        let made = server.post(&format!("/app/{app}/msg"), body).await.expect(202);
        (made["id"].as_str().unwrap().to_owned(), made["timestamp"].as_str().unwrap().to_owned())
    };
    let (first, received) = send(None).await;
    let received: jiff::Timestamp = received.parse().unwrap();
    let soon = (received + jiff::SignedDuration::from_secs(2)).to_string();
    let far = (received + jiff::SignedDuration::from_hours(2)).to_string();
    let (never, _) = send(Some(far)).await;
    let (later, _) = send(Some(soon)).await;
    let (second, _) = send(None).await;
    for name in ["due", "line"] {
        for message in [&first, &second, &later] {
            receiver.wait(name, message, 1).await;
        }
        assert_eq!(receiver.at(name).len(), 3, "at {name}");
    }
    let arrived = receiver.at("line");
    let place = |id: &str| arrived.iter().position(|one| one.header("webhook-id") == id);
    assert!(place(&first) < place(&second));
    let path = format!("/app/{app}/endpoint/{}", line.as_str().unwrap());
    server.patch(&path, json!({ "fifo": false })).await.refused(409, "conflict");
    let path = format!("/app/{app}/delivery?endpoint_id={}&state=pending", line.as_str().unwrap());
    let waiting = server.get(&path).await.expect(200)["data"].clone();
    assert_eq!((&waiting[0]["messageId"], waiting.as_array().unwrap().len()), (&json!(never), 1));
}
