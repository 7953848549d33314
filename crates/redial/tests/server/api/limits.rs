//! What is refused because of its size or its form, and who is not waited for.
//!
//! Each of these once held memory, a connection or a key for longer than its caller deserved, or
//! was taken for something else than it was.

use std::time::Duration;

use http::Method;
use http_body_util::Full;
use serde_json::{Value, json};
use store::limits::PAGE_BYTES;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use super::{ADMIN, Answered, Running};

/// How long a test waits for what must happen soon.
const SOON: Duration = Duration::from_secs(15);

fn place(server: &Running) -> std::net::SocketAddr {
    server.address().strip_prefix("http://").unwrap().parse().unwrap()
}

async fn post_text(server: &Running, path: &str, body: &str) -> Answered {
    let request = server.request(Method::POST, &format!("/api/v1{path}"));
    server.send(request.body(Full::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_message_of_a_batch_may_be_as_large_as_one_alone() {
    let server = Running::with(&[("limits.body_bytes", "2KiB")]).await;
    let app = server.application().await;
    let large = json!({ "eventType": "a", "payload": { "text": "x".repeat(2_048) } });
    let small = json!({ "eventType": "a", "payload": {} });
    server.post(&format!("/app/{app}/msg"), large.clone()).await.refused(413, "payload_too_large");
    let path = format!("/app/{app}/msg/batch");
    let answer = server.post(&path, json!([large, small])).await.expect(202);
    assert_eq!(answer["results"][0]["status"], 413, "{answer}");
    assert_eq!(answer["results"][0]["code"], "payload_too_large");
    assert_eq!(answer["results"][1]["status"], 202);
}

#[tokio::test]
async fn a_page_of_large_payloads_ends_early_and_misses_none() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/msg");
    let mut sent = Vec::new();
    for number in 0..40 {
        let payload = json!({ "number": number, "text": "x".repeat(900_000) });
        let body = json!({ "eventType": "a", "payload": payload });
        let made = server.post(&path, body).await.expect(202);
        sent.push(made["id"].as_str().unwrap().to_owned());
    }
    // Newest first; ids of the same millisecond are in no order that a test could know.
    sent.sort_unstable_by(|one, other| other.cmp(one));
    let first = server.get(&format!("{path}?limit=50")).await;
    assert!(first.text.len() <= PAGE_BYTES, "{} bytes", first.text.len());
    let first = first.expect(200);
    assert_eq!(first["done"], false);
    let ids = |page: &Value| -> Vec<String> {
        let entries = page["data"].as_array().unwrap().iter();
        entries.map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    };
    let (mut seen, mut page) = (ids(&first), first);
    while page["done"] == false {
        let iterator = page["iterator"].as_str().unwrap();
        page = server.get(&format!("{path}?limit=50&iterator={iterator}")).await.expect(200);
        seen.extend(ids(&page));
    }
    assert_eq!(seen, sent);
    // The other way, too, and what has no content is not counted.
    let oldest = sent.last().unwrap();
    let back = server.get(&format!("{path}?limit=50&iterator=-{oldest}")).await.expect(200);
    let back = ids(&back);
    assert!(back.len() < 39, "{}", back.len());
    assert_eq!(back, sent[39 - back.len()..39]);
    let bare = server.get(&format!("{path}?limit=50&with_content=false")).await.expect(200);
    assert_eq!(ids(&bare), sent);
}

#[tokio::test]
async fn a_page_of_what_went_to_an_endpoint_ends_early_and_misses_none() {
    let server = Running::start().await;
    let app = server.application().await;
    let endpoint = server.endpoint(&app).await;
    let mut sent = Vec::new();
    for number in 0..12 {
        let payload = json!({ "number": number, "text": "x".repeat(900_000) });
        let body = json!({ "eventType": "a", "payload": payload });
        let made = server.post(&format!("/app/{app}/msg"), body).await.expect(202);
        sent.push(made["id"].as_str().unwrap().to_owned());
    }
    sent.reverse();
    let ids = |page: &Value| -> Vec<String> {
        let entries = page["data"].as_array().unwrap().iter();
        entries.map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    };
    let path = format!("/app/{app}/endpoint/{endpoint}/msg?limit=50");
    // Four of them fit on a page.
    let first = server.get(&path).await.expect(200);
    assert_eq!((ids(&first), &first["done"]), (sent[..4].to_vec(), &json!(false)));
    let iterator = first["iterator"].as_str().unwrap();
    let second = server.get(&format!("{path}&iterator={iterator}")).await.expect(200);
    assert_eq!((ids(&second), &second["done"]), (sent[4..8].to_vec(), &json!(false)));
    // The other way, too: the page before the last message of the second one ends just there.
    let last = second["iterator"].as_str().unwrap();
    let back = server.get(&format!("{path}&iterator=-{last}")).await.expect(200);
    assert_eq!((ids(&back), &back["done"]), (sent[3..7].to_vec(), &json!(false)));
    let rest = back["prevIterator"].as_str().unwrap();
    let rest = server.get(&format!("{path}&iterator={rest}")).await.expect(200);
    assert_eq!((ids(&rest), &rest["done"]), (sent[..3].to_vec(), &json!(true)));
    // What has no content is not counted.
    let bare = server.get(&format!("{path}&with_content=false")).await.expect(200);
    assert_eq!((ids(&bare), &bare["done"]), (sent, &json!(true)));
    assert_eq!(bare["data"][0]["payload"], json!({}));
}

#[tokio::test]
async fn texts_have_a_limit() {
    let server = Running::start().await;
    let app = server.application().await;
    let long = "x".repeat(5_000);
    server.post("/app", json!({ "name": long })).await.invalid("body.name");
    let endpoint = json!({ "url": "https://receiver.example/", "description": long });
    server.post(&format!("/app/{app}/endpoint"), endpoint).await.invalid("body.description");
    let kind = json!({ "name": "a", "description": long });
    server.post("/event-type", kind).await.invalid("body.description");
    let schemas = json!({ "1": { "description": "x".repeat(300_000) } });
    let kind = json!({ "name": "a", "description": "", "schemas": schemas });
    server.post("/event-type", kind).await.invalid("body.schemas");
}

#[tokio::test]
async fn credentials_that_no_header_can_carry_are_refused() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/endpoint");
    let bearer = |token: &str| json!({ "kind": "bearer", "token": token });
    let basic =
        |user: &str, password: &str| json!({ "kind": "basic", "user": user, "password": password });
    let long = "x".repeat(200_000);
    let refused = [
        bearer("a\nb"),
        bearer(""),
        bearer(&long),
        basic("", ""),
        basic("a:b", "c"),
        basic("a", &long),
    ];
    let url = "https://receiver.example/";
    for credentials in refused {
        let body = json!({ "url": url, "credentials": credentials });
        server.post(&path, body).await.invalid("body.credentials");
    }
    for credentials in [bearer("abc.def"), basic("user", ""), basic("user", "päss")] {
        let body = json!({ "url": url, "credentials": credentials });
        server.post(&path, body).await.expect(201);
    }
}

#[tokio::test]
async fn a_content_type_that_no_header_can_carry_is_refused() {
    let server = Running::start().await;
    let app = server.application().await;
    for kind in ["a\nb".to_owned(), String::new(), "x".repeat(100_000)] {
        let raw = json!({ "rawPayload": "a,b", "headers": { "Content-Type": kind } });
        let body = json!({ "eventType": "a", "payload": {}, "transformationsParams": raw });
        let refused = server.post(&format!("/app/{app}/msg"), body).await;
        refused.invalid("body.transformationsParams.headers.content-type");
    }
}

#[tokio::test]
async fn a_list_is_not_taken_for_an_object() {
    let server = Running::start().await;
    let app = server.application().await;
    for (path, body) in [
        ("/app".to_owned(), r#"["a customer"]"#),
        (format!("/app/{app}/msg"), r#"["a",{}]"#),
        ("/app".to_owned(), "5"),
    ] {
        let answer = post_text(&server, &path, body).await.expect(422);
        assert_eq!(answer["detail"][0]["msg"], "must be a JSON object", "{answer}");
    }
    let within = [
        (
            format!("/app/{app}/msg"),
            r#"{"eventType":"a","payload":{},"transformationsParams":["x",null]}"#,
            "transformationsParams",
        ),
        (
            "/app/acme/msg".to_owned(),
            r#"{"eventType":"a","payload":{},"application":["x","acme",null,null,null]}"#,
            "application",
        ),
        (
            "/auth/app-portal-access/acme".to_owned(),
            r#"{"application":["x","acme",null,null,null]}"#,
            "application",
        ),
        (
            format!("/app/{app}/endpoint"),
            r#"{"url":"https://receiver.example/","credentials":["bearer","x"]}"#,
            "credentials",
        ),
    ];
    for (path, body, field) in within {
        let text = post_text(&server, &path, body).await.invalid(&format!("body.{field}"));
        assert!(text.contains("expected an object"), "{text}");
    }
    // What is wrong inside of an object is still said with the whole way to it.
    let body = json!({ "eventType": "a", "payload": {}, "application": { "name": 5 } });
    server.post(&format!("/app/{app}/msg"), body).await.invalid("body.application.name");
    let batch = post_text(&server, &format!("/app/{app}/msg/batch"), r#"[["a",{}]]"#).await;
    assert_eq!(batch.expect(202)["results"][0]["status"], 422);
    let body = json!({ "eventType": "a", "payload": {}, "application": 5 });
    let answer = server.post(&format!("/app/{app}/msg"), body).await.expect(422).to_string();
    assert!(!answer.contains("ApplicationIn") && answer.contains("object"), "{answer}");
}

#[tokio::test]
async fn a_purge_with_a_filter_that_is_none_removes_nothing() {
    let server = Running::start().await;
    let app = server.application().await;
    let path = format!("/app/{app}/dead-letter");
    for query in ["endpointId=ep_1", "statusCodeClass=500", "cause=", "event_types[]="] {
        let name = query.split(['=', '[']).next().unwrap();
        let text =
            server.delete(&format!("{path}?{query}")).await.invalid(&format!("query.{name}"));
        assert!(!text.is_empty());
    }
    server.delete(&format!("{path}?event_types[]=a&status_code_class=500")).await.expect(200);
    server.delete(&format!("{path}?all=true")).await.expect(200);
}

#[tokio::test]
async fn whoever_sends_faster_than_can_be_stored_is_asked_to_wait() {
    let options = [("limits.lane_rows", "4"), ("limits.waiting_messages", "4")];
    let server = std::sync::Arc::new(Running::with(&options).await);
    let app = server.application().await;
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (server, path) = (std::sync::Arc::clone(&server), format!("/app/{app}/msg"));
        let body = json!({ "eventType": "a", "payload": {} });
        asked.spawn(async move { server.post(&path, body).await });
    }
    let answers = asked.join_all().await;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status != 202).collect();
    assert!(!refused.is_empty() && refused.len() < answers.len(), "{}", refused.len());
    for answer in refused {
        let code = answer.json()["code"].as_str().unwrap().to_owned();
        let known = [(429, "too_many_requests"), (503, "unavailable")];
        assert!(known.contains(&(answer.status.as_u16(), code.as_str())), "{answer:?}");
        assert_eq!(answer.headers["retry-after"], "1", "{answer:?}");
    }
    // What was refused left nothing behind.
    let page = server.get(&format!("/app/{app}/msg?limit=250&with_content=false")).await;
    let stored = page.expect(200)["data"].as_array().unwrap().len();
    assert_eq!(stored, answers.iter().filter(|answer| answer.status == 202).count());
}

#[tokio::test]
async fn whoever_stalls_in_a_body_does_not_hold_its_key() {
    let server = Running::start().await;
    let mut stalled = TcpStream::connect(place(&server)).await.unwrap();
    let head = format!(
        "POST /api/v1/app HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\
         idempotency-key: k\r\ncontent-length: 100\r\n\r\n{{"
    );
    stalled.write_all(head.as_bytes()).await.unwrap();
    // The stalled request is at work by the time that others were answered.
    for _ in 0..20 {
        server.get("/app").await.expect(200);
    }
    let request = server.request(Method::POST, "/api/v1/app").header("idempotency-key", "k");
    let request = request.body(Full::from(r#"{"name":"x"}"#)).unwrap();
    tokio::time::timeout(SOON, server.send(request)).await.unwrap().expect(201);
}

#[tokio::test]
async fn whoever_stalls_in_large_bodies_keeps_no_small_ones_out() {
    let server = Running::with(&[("limits.body_bytes", "2KiB")]).await;
    let app = server.application().await;
    let path = format!("/app/{app}/msg");
    let head = format!(
        "POST /api/v1{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\
         content-length: 2048\r\n\r\n"
    );
    let mut stalled = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(place(&server)).await.unwrap();
        let begun = format!("{head}{}", "x".repeat(2_000));
        stream.write_all(begun.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    let large = json!({ "eventType": "a", "payload": { "text": "x".repeat(1_500) } });
    let answered = async |status: u16| loop {
        let answer = server.post(&path, large.clone()).await;
        if answer.status == status {
            return answer;
        }
    };
    let refused = tokio::time::timeout(SOON, answered(503)).await.unwrap();
    assert_eq!(refused.headers["retry-after"], "1");
    refused.refused(503, "unavailable");
    server.message(&app).await;
    drop(stalled);
    tokio::time::timeout(SOON, answered(202)).await.unwrap();
}

#[tokio::test]
async fn whoever_does_not_read_is_not_waited_for() {
    let server = Running::with(&[("limits.header_timeout", "300ms")]).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(place(&server)).await.unwrap();
    let ask = async {
        loop {
            stream.write_all(b"GET /docs HTTP/1.1\r\nhost: x\r\n\r\n").await?;
        }
    };
    let ended: std::io::Result<()> = tokio::time::timeout(SOON, ask).await.unwrap();
    ended.unwrap_err();
}
