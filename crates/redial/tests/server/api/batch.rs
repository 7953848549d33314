//! `/app/{app_id}/msg/batch`

use http::Method;
use http_body_util::Full;
use serde_json::{Value, json};

use super::Running;

fn message(number: usize) -> Value {
    json!({ "eventType": "a", "payload": { "number": number } })
}

async fn send(server: &Running, app: &str, body: String, key: &str) -> Value {
    let request = server.request(Method::POST, &format!("/api/v1/app/{app}/msg/batch"));
    let request = request.header("idempotency-key", key).body(Full::from(body)).unwrap();
    server.send(request).await.expect(202)
}

#[tokio::test]
async fn each_message_of_a_batch_has_its_own_result_in_order() {
    let server = Running::start().await;
    let app = server.application().await;
    let body = json!([message(0), { "eventType": "a b", "payload": {} }, message(2), 5]);
    let answer = server.post(&format!("/app/{app}/msg/batch"), body).await.expect(202);
    assert_eq!((&answer["accepted"], &answer["refused"]), (&json!(2), &json!(2)));
    let statuses: Vec<&Value> =
        answer["results"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, [202, 422, 202, 422]);
    let id = answer["results"][2]["id"].as_str().unwrap();
    let shown = server.get(&format!("/app/{app}/msg/{id}")).await.expect(200);
    assert_eq!(shown["payload"], json!({ "number": 2 }));
}

#[tokio::test]
async fn lines_are_a_batch_and_the_same_key_changes_nothing() {
    let server = Running::start().await;
    let app = server.application().await;
    let lines = format!("{}\n{}\n", message(0), message(1));
    let first = send(&server, &app, lines.clone(), "k").await;
    assert_eq!(first["accepted"], 2);
    assert_eq!(send(&server, &app, lines, "k").await, first);
    let page = server.get(&format!("/app/{app}/msg")).await.expect(200);
    assert_eq!(page["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_batch_makes_its_application_if_a_message_says_how() {
    let server = Running::start().await;
    let made = |number: usize, uid: &str, name: &str| {
        let mut message = message(number);
        message["application"] = json!({ "uid": uid, "name": name });
        message
    };
    let path = "/app/acme/msg/batch";
    // One that makes no sense, one that means another, one that fits, one that says nothing.
    let body =
        json!([made(0, "acme", ""), made(1, "other", "x"), made(2, "acme", "x"), message(3)]);
    let answer = server.post(path, body).await.expect(202);
    let statuses: Vec<&Value> =
        answer["results"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    // By the time of the first one the application is there.
    assert_eq!(statuses, [202, 422, 202, 202], "{answer}");
    let faults = &answer["results"][1]["detail"][0];
    assert_eq!(faults["type"], "application_uid_mismatch", "{answer}");
    assert_eq!(server.get("/app/acme").await.expect(200)["name"], "x");
    let nobody = json!([made(0, "nobody", "")]);
    let answer = server.post("/app/nobody/msg/batch", nobody).await.expect(202);
    assert_eq!(answer["results"][0]["status"], 422, "{answer}");
    let own = server.token("acme", false).await;
    let body = json!([made(0, "third", "x")]);
    let foreign = server.ask(&own, Method::POST, "/app/third/msg/batch", &body).await;
    foreign.refused(404, "not_found");
}

#[tokio::test]
async fn a_batch_is_limited() {
    let server = Running::with(&[("limits.batch_messages", "10")]).await;
    let app = server.application().await;
    let ten: Vec<Value> = (0..10).map(message).collect();
    let path = format!("/app/{app}/msg/batch");
    assert_eq!(server.post(&path, json!(ten)).await.expect(202)["accepted"], 10);
    let eleven: Vec<Value> = (0..11).map(message).collect();
    server.post(&path, json!(eleven)).await.refused(400, "limit_reached");
    server.post("/app/nobody/msg/batch", json!([])).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_batch_of_a_million_messages_is_refused_before_they_are_read() {
    let server = Running::start().await;
    let app = server.application().await;
    let lines = "{}\n".repeat(1_000_000);
    let array = format!("[{}1]", "1,".repeat(1_000_000));
    for body in [lines, array] {
        let request = server.request(Method::POST, &format!("/api/v1/app/{app}/msg/batch"));
        let answer = server.send(request.body(Full::from(body)).unwrap()).await;
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(detail, "a batch has at most 1000 messages; this one has more");
        answer.refused(400, "limit_reached");
    }
}
