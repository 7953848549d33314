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
