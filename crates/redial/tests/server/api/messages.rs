//! `/app/{app_id}/msg`

use http::Method;
use http_body_util::Full;
use serde_json::{Value, json};

use super::Running;

fn paid() -> Value {
    json!({ "eventType": "invoice.paid", "payload": { "amount": 1 } })
}

#[tokio::test]
async fn an_accepted_message_has_all_that_the_sdks_read() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/msg");
    let mut body = paid();
    body["eventId"] = json!("e-1");
    body["channels"] = json!(["b", "a"]);
    let made = server.post(&path, body).await.expect(202);
    for (field, value) in [
        ("eventId", json!("e-1")),
        ("eventType", json!("invoice.paid")),
        ("payload", json!({ "amount": 1 })),
        ("channels", json!(["a", "b"])),
        ("tags", Value::Null),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("msg_"));
    assert_eq!(server.get(&format!("{path}/{id}")).await.expect(200), made);
    assert_eq!(server.get(&format!("{path}/e-1")).await.expect(200), made);
}

#[tokio::test]
async fn a_payload_keeps_its_bytes() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/api/v1/app/{app}/msg");
    let payload = r#"{ "b":1.50,  "a":"\u00e9","big":12345678901234567890123, "b" : 2 }"#;
    let body = format!(r#"{{"eventType":"a","payload":{payload}}}"#);
    let request = server.request(Method::POST, &path).body(Full::from(body)).unwrap();
    let answered = server.send(request).await;
    assert!(answered.text.contains(payload), "{}", answered.text);
    let id = answered.expect(202)["id"].as_str().unwrap().to_owned();
    assert!(server.get(&format!("/app/{app}/msg/{id}")).await.text.contains(payload));
}

#[tokio::test]
async fn content_is_left_out_when_it_is_not_wanted() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/msg");
    let made = server.post(&format!("{path}?with_content=false"), paid()).await.expect(202);
    assert_eq!(made["payload"], json!({}));
    let page = server.get(&format!("{path}?with_content=false")).await.expect(200);
    assert_eq!(page["data"][0]["payload"], json!({}));
    let page = server.get(&path).await.expect(200);
    assert_eq!(page["data"][0]["payload"], json!({ "amount": 1 }));
}

#[tokio::test]
async fn the_same_key_is_the_same_message() {
    let server = Running::start().await;
    let app = server.application().await;
    let send = async |key: &str| {
        let request = server.request(Method::POST, &format!("/api/v1/app/{app}/msg"));
        let request = request.header("idempotency-key", key);
        let body = Full::from(paid().to_string());
        server.send(request.body(body).unwrap()).await.expect(202)
    };
    let (first, again, other) = (send("k1").await, send("k1").await, send("k2").await);
    assert_eq!(first, again);
    assert_ne!(first["id"], other["id"]);
    let page = server.get(&format!("/app/{app}/msg")).await.expect(200);
    assert_eq!(page["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_event_id_is_taken_once() {
    let server = Running::start().await;
    let app = server.application().await;
    let mut body = paid();
    body["eventId"] = json!("e");
    server.post(&format!("/app/{app}/msg"), body.clone()).await.expect(202);
    server.post(&format!("/app/{app}/msg"), body).await.refused(409, "conflict");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_its_field() {
    let server = Running::start().await;
    let app = server.application().await;
    let table = [
        (json!({ "payload": [] }), "body.payload"),
        (json!({ "payload": "text" }), "body.payload"),
        (json!({ "eventType": "a b" }), "body.eventType"),
        (json!({ "eventId": "msg_1" }), "body.eventId"),
        (json!({ "channels": [] }), "body.channels"),
        (json!({ "channels": [1] }), "body.channels.0"),
        (json!({ "payloadRetentionPeriod": 4 }), "body.payloadRetentionPeriod"),
        (json!({ "payloadRetentionPeriod": 91 }), "body.payloadRetentionPeriod"),
        (json!({ "deliverAt": "soon" }), "body.deliverAt"),
        (json!({ "deliverAt": "2150-01-01T00:00:00Z" }), "body.deliverAt"),
        (json!({ "policy": "nonsense" }), "body.policy"),
    ];
    for (fields, name) in table {
        let mut body = paid();
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        server.post(&format!("/app/{app}/msg"), body).await.invalid(name);
    }
    server
        .post(&format!("/app/{app}/msg"), json!({ "eventType": "a" }))
        .await
        .invalid("body.payload");
    server.post("/app/nobody/msg", paid()).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_time_far_away_is_a_time_and_too_far_ahead() {
    let server = Running::start().await;
    let app = server.application().await;
    let send = async |time: &str| {
        let mut body = paid();
        body["deliverAt"] = json!(time);
        server.post(&format!("/app/{app}/msg"), body).await
    };
    for time in [
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59.999999999-23:00",
        "10000-01-01T00:00:00+02:00",
        "999999999-01-01T00:00:00Z",
    ] {
        let told = send(time).await.invalid("body.deliverAt");
        assert_eq!(told, "is more than 30 days ahead", "{time}");
    }
    // What is over is due at once.
    for time in ["0000-01-01T00:00:00Z", "-009999-01-01T00:00:00+12:00", "-10000-01-01T00:00:00Z"] {
        assert_eq!(send(time).await.expect(202).get("deliverAt"), None, "{time}");
    }
    for time in ["10000-13-01T00:00:00Z", "99999", "9999-12-31"] {
        let told = send(time).await.invalid("body.deliverAt");
        assert!(told.contains("must be a time"), "{told}");
    }
}

/// JSON of lists within each other.
fn lists(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[tokio::test]
async fn a_payload_that_is_nested_too_deeply_is_refused_and_breaks_no_list() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/api/v1/app/{app}/msg");
    let post = async |path: &str, body: String| {
        let request = server.request(Method::POST, path);
        server.send(request.body(Full::from(body)).unwrap()).await
    };
    // The object around the lists is a level, too.
    let message =
        |levels: usize| format!(r#"{{"eventType":"a","payload":{{"deep":{}}}}}"#, lists(levels));
    let raw = |text: &str| {
        let params = json!({ "rawPayload": text, "headers": { "content-type": "text/plain" } });
        json!({ "eventType": "a", "payload": {}, "transformationsParams": params }).to_string()
    };
    for body in [message(256), message(60_000), raw(&lists(257)), raw(&lists(60_000))] {
        let told = post(&path, body).await.invalid("body.payload");
        assert_eq!(told, "is nested more than 256 levels deep");
    }
    post(&path, message(255)).await.expect_text(202);
    post(&path, raw(&lists(256))).await.expect(202);
    // Brackets are no levels where there is no JSON.
    post(&path, raw(&"[".repeat(1_000))).await.expect(202);
    let batch = format!("[{},{}]", message(1), message(256));
    let told = post(&format!("{path}/batch"), batch).await.expect(202);
    assert_eq!((&told["accepted"], &told["refused"]), (&json!(1), &json!(1)));
    server.get(&format!("/app/{app}/msg")).await.expect_text(200);
}

#[tokio::test]
async fn data_may_stand_for_payload() {
    let server = Running::start().await;
    let app = server.application().await;
    let body = json!({ "eventType": "a", "data": { "x": 1 } });
    let made = server.post(&format!("/app/{app}/msg"), body).await.expect(202);
    assert_eq!(made["payload"], json!({ "x": 1 }));
}

#[tokio::test]
async fn an_application_is_made_on_the_way_if_the_uid_is_the_paths() {
    let server = Running::start().await;
    let mut body = paid();
    body["application"] = json!({ "name": "new", "uid": "fresh" });
    server.post("/app/fresh/msg", body.clone()).await.expect(202);
    server.post("/app/fresh/msg", body.clone()).await.expect(202);
    assert_eq!(server.get("/app/fresh").await.expect(200)["name"], "new");
    let refused = server.post("/app/other/msg", body.clone()).await.expect(422);
    assert_eq!(refused["detail"][0]["type"], "application_uid_mismatch");
    body["application"] = json!({ "name": "new" });
    let refused = server.post("/app/other/msg", body).await.expect(422);
    assert_eq!(refused["detail"][0]["type"], "application_uid_missing");
}

#[tokio::test]
async fn a_raw_payload_takes_the_place_of_the_object() {
    let server = Running::start().await;
    let app = server.application().await;
    let body = json!({
        "eventType": "a", "payload": {},
        "transformationsParams": { "rawPayload": "<a/>", "headers": { "content-type": "text/xml" } },
    });
    let made = server.post(&format!("/app/{app}/msg"), body).await.expect(202);
    assert_eq!(made["payload"], json!({ "rawPayload": "<a/>" }));
}

#[tokio::test]
async fn an_expunged_payload_says_so_and_cannot_be_sent_again() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = server.endpoint(&app).await;
    let message = server.message(&app).await;
    let path = format!("/app/{app}/msg/{message}");
    server.delete(&format!("{path}/content")).await.expect(204);
    assert_eq!(server.get(&path).await.expect(200)["payload"], json!({ "expired": true }));
    let resend = format!("{path}/endpoint/{endpoint}/resend");
    server.post(&resend, Value::Null).await.refused(400, "missing_payload");
}

#[tokio::test]
async fn what_is_pending_of_an_expunged_payload_is_cancelled_and_counted_so() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = server.endpoint(&app).await;
    let (gone, kept) = (server.message(&app).await, server.message(&app).await);
    server.delete(&format!("/app/{app}/msg/{gone}/content")).await.expect(204);
    let deliveries = async |state: &str| {
        let path = format!("/app/{app}/delivery?endpoint_id={endpoint}&state={state}");
        server.get(&path).await.expect(200)["data"].as_array().unwrap().clone()
    };
    let [cancelled] = &deliveries("cancelled").await[..] else { panic!("one is cancelled") };
    assert_eq!((&cancelled["messageId"], &cancelled["attempts"]), (&json!(gone), &json!(0)));
    assert!(cancelled["settledAt"].is_string(), "{cancelled}");
    let [pending] = &deliveries("pending").await[..] else { panic!("one is pending") };
    assert_eq!(pending["messageId"], kept);
    assert!(deliveries("dead").await.is_empty());
    let id = cancelled["id"].as_str().unwrap();
    let path = format!("/app/{app}/delivery/{id}");
    let shown = server.get(&path).await.expect(200);
    assert_eq!((&shown["state"], &shown["cause"]), (&json!("cancelled"), &Value::Null));
    server.post(&format!("{path}/replay"), Value::Null).await.refused(400, "missing_payload");
    let stats = server.get(&format!("/app/{app}/endpoint/{endpoint}/stats")).await.expect(200);
    let counts = ["pending", "fail", "canceled"].map(|name| stats[name].as_u64());
    assert_eq!(counts, [Some(1), Some(0), Some(1)], "{stats}");
}

#[tokio::test]
async fn a_list_is_newest_first_and_filtered_by_type_channel_and_time() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/msg");
    let (mut times, mut made) = (Vec::new(), Vec::new());
    for (event_type, channel) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let body = json!({ "eventType": event_type, "payload": {}, "channels": [channel] });
        let message = server.post(&path, body).await.expect(202);
        times.push(message["timestamp"].as_str().unwrap().to_owned());
        made.push((message["id"].as_str().unwrap().to_owned(), event_type));
    }
    let types = async |query: &str| -> String {
        let page = server.get(&format!("{path}?{query}")).await.expect(200);
        let data = page["data"].as_array().unwrap();
        data.iter().map(|it| it["eventType"].as_str().unwrap()).collect()
    };
    // Ids of the same millisecond are in no order that a test could know.
    made.sort_unstable_by(|one, other| other.cmp(one));
    let without = |left_out: &str| -> String {
        let types = made.iter().map(|(_, event_type)| *event_type);
        types.filter(|event_type| *event_type != left_out).collect()
    };
    assert_eq!(types("").await, without(""));
    assert_eq!(types("event_types=a,c").await, without("b"));
    assert_eq!(types("event_types[]=a&event_types[]=b").await, without("c"));
    assert_eq!(types("event_types%5B0%5D=b").await, "b");
    assert_eq!(types("channel=x").await, without("b"));
    assert_eq!(types(&format!("before={}", times[2])).await, without("c"));
    assert_eq!(types(&format!("after={}&limit=1", times[0])).await.len(), 1);
    assert_eq!(types("limit=2").await, without("")[..2]);
}

#[tokio::test]
async fn a_precheck_tells_whether_anybody_would_get_it() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/msg/precheck/active");
    let body = json!({ "eventType": "a", "channels": ["x"] });
    let active = async |body: &Value| server.post(&path, body.clone()).await.expect(200);
    assert_eq!(active(&body).await, json!({ "active": false }));
    let endpoint = json!({ "url": "https://receiver.example/", "channels": ["x"] });
    server.post(&format!("/app/{app}/endpoint"), endpoint).await.expect(201);
    assert_eq!(active(&body).await, json!({ "active": true }));
    assert_eq!(active(&json!({ "eventType": "a" })).await, json!({ "active": false }));
}

#[tokio::test]
async fn what_goes_where_is_listed_from_both_sides() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = server.endpoint(&app).await;
    let message = server.message(&app).await;
    let page = server.get(&format!("/app/{app}/endpoint/{endpoint}/msg")).await.expect(200);
    let entry = &page["data"][0];
    assert_eq!((&entry["id"], &entry["status"]), (&json!(message), &json!(1)));
    assert_eq!(
        (&entry["statusText"], &entry["eventType"]),
        (&json!("pending"), &json!("invoice.paid"))
    );
    assert!(entry["nextAttempt"].is_string());
    let page = server.get(&format!("/app/{app}/msg/{message}/endpoint")).await.expect(200);
    let entry = &page["data"][0];
    assert_eq!((&entry["id"], &entry["status"]), (&json!(endpoint), &json!(1)));
    for field in ["url", "description", "createdAt", "updatedAt", "metadata", "version"] {
        assert!(!entry[field].is_null(), "{field}");
    }
    let paths = [
        format!("attempt/endpoint/{endpoint}"),
        format!("attempt/msg/{message}"),
        format!("msg/{message}/endpoint/{endpoint}/attempt"),
    ];
    for path in paths {
        let path = format!("/app/{app}/{path}?with_content=false&expanded_statuses=true");
        assert_eq!(server.get(&path).await.expect(200)["data"], json!([]));
    }
    let status = format!("/app/{app}/endpoint/{endpoint}/msg?status=2");
    assert_eq!(server.get(&status).await.expect(200)["data"], json!([]));
}
