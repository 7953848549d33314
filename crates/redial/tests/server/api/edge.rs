//! What every request and every answer has in common.

use http::Method;
use http_body_util::Full;
use serde_json::{Value, json};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{ADMIN, Running};

/// How long a test waits for what must happen soon.
const SOON: std::time::Duration = std::time::Duration::from_secs(20);

#[tokio::test]
async fn every_refusal_is_json_and_every_answer_has_an_id() {
    let server = Running::start().await;
    let table = [
        (Method::GET, "/nowhere", 404, "not_found"),
        (Method::GET, "/api/v1/nowhere", 404, "not_found"),
        (Method::DELETE, "/api/v1/app", 405, "method_not_allowed"),
        (Method::PUT, "/api/v1/health", 405, "method_not_allowed"),
        (Method::GET, "/api/v1/app/%ff", 404, "not_found"),
        (Method::GET, "/api/v1/stream", 501, "not_implemented"),
    ];
    for (method, path, status, code) in table {
        let request = server.request(method, path).body(Full::default()).unwrap();
        let answered = server.send(request).await;
        assert_eq!(answered.headers["content-type"], "application/json", "{path}");
        assert_eq!(answered.headers["x-request-id"].len(), 24, "{path}");
        answered.refused(status, code);
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_or_too_large_is_refused_in_json() {
    let server = Running::with(&[("limits.body_bytes", "1KiB")]).await;
    let post = async |body: Vec<u8>| {
        let request = server.request(Method::POST, "/api/v1/app");
        server.send(request.body(Full::from(body)).unwrap()).await
    };
    for body in [&b"{"[..], b"nonsense", b"{\"name\":\"\xff\"}", b"{} {}", b"[1]"] {
        let refused = post(body.to_vec()).await.expect(422);
        assert_eq!(refused["detail"][0]["type"], "value_error.jsondecode", "{refused}");
    }
    post(vec![b' '; 1_025]).await.refused(413, "payload_too_large");
    let padded = format!("{{\"name\":\"{}\"}}", "x".repeat(1_000));
    post(padded.into_bytes()).await.expect(201);
}

#[tokio::test]
async fn slashes_at_the_end_and_unknown_headers_do_not_matter() {
    let server = Running::start().await;
    let request = server.request(Method::GET, "/api/v1/app/?limit=5");
    let request = request.header("svix-req-id", "1").header("svix-retry-count", "2");
    server.send(request.body(Full::default()).unwrap()).await.expect(200);
}

#[tokio::test]
async fn a_browser_may_ask_from_anywhere() {
    let server = Running::start().await;
    let request = server
        .request(Method::OPTIONS, "/api/v1/app")
        .header("origin", "https://elsewhere.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,svix-req-id");
    let answered = server.send(request.body(Full::default()).unwrap()).await;
    assert_eq!(answered.status, 204);
    assert_eq!(answered.headers["access-control-allow-origin"], "*");
    assert_eq!(answered.headers["access-control-allow-headers"], "authorization,svix-req-id");
    assert_eq!(answered.headers["access-control-max-age"], "600");
    let answered = server.get("/app").await;
    assert_eq!(answered.headers["access-control-allow-origin"], "*");
}

#[tokio::test]
async fn the_same_key_gets_the_same_answer_and_does_nothing_twice() {
    let server = Running::start().await;
    let app = server.application().await;
    let post = async |path: &str, key: &str, body: Value| {
        let request = server.request(Method::POST, &format!("/api/v1{path}"));
        let request = request.header("idempotency-key", key);
        server.send(request.body(Full::from(body.to_string())).unwrap()).await
    };
    let endpoint = json!({ "url": "https://receiver.example/" });
    let path = format!("/app/{app}/endpoint");
    let first = post(&path, "k", endpoint.clone()).await;
    let again = post(&path, "k", endpoint.clone()).await;
    assert_eq!((first.status, &first.text), (again.status, &again.text));
    assert_eq!(again.headers["content-type"], "application/json");
    let other = post(&path, "l", endpoint).await;
    assert_ne!(first.text, other.text);
    let page = server.get(&path).await.expect(200);
    assert_eq!(page["data"].as_array().unwrap().len(), 2);
    // What failed may be tried again.
    let bad = json!({ "url": "nonsense" });
    post(&path, "m", bad).await.expect(422);
    post(&path, "m", json!({ "url": "https://receiver.example/" })).await.expect(201);
    post(&path, &"x".repeat(256), json!({})).await.refused(400, "generic_error");
}

#[tokio::test]
async fn concurrent_requests_with_the_same_key_do_it_once() {
    let server = std::sync::Arc::new(Running::start().await);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let server = std::sync::Arc::clone(&server);
        asked.spawn(async move {
            let request = server.request(Method::POST, "/api/v1/app");
            let request = request.header("idempotency-key", "same");
            let body = Full::from(json!({ "name": "x" }).to_string());
            server.send(request.body(body).unwrap()).await.expect(201)
        });
    }
    let answers = asked.join_all().await;
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let page = server.get("/app").await.expect(200);
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn health_needs_no_token() {
    let server = Running::start().await;
    let health = server.ask("", Method::GET, "/health", &Value::Null).await.expect(200);
    let ok = json!({ "status": "ok" });
    assert_eq!(health, json!({ "database": ok, "queue": ok, "cache": ok }));
    server.ask("", Method::GET, "/health/ping", &Value::Null).await.expect(204);
    let head = server.ask("", Method::HEAD, "/health", &Value::Null).await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
}

/// Writes bytes to the server and reads until it closes the connection.
pub(super) async fn exchange(server: &Running, bytes: &str) -> String {
    let place = server.address().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(place).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn whoever_does_not_send_its_request_is_not_waited_for() {
    let head = format!("POST /api/v1/app HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n");
    let stops = format!("{head}content-length: 9\r\n\r\n{{");
    let server = Running::with(&[("limits.request_timeout", "50ms")]).await;
    let answer = exchange(&server, &stops).await;
    assert!(answer.starts_with("HTTP/1.1 504") && answer.contains("\"timeout\""), "{answer}");
    let server = Running::with(&[("limits.header_timeout", "50ms")]).await;
    let answer = exchange(&server, &stops).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"timeout\""), "{answer}");
    let answer = exchange(&server, &head).await;
    assert!(!answer.contains("HTTP/1.1 2"), "{answer}");
}

/// Sends a whole request with a large body before it reads anything, as simple clients do; returns
/// what comes back until the server closes the connection.
async fn send_much(server: &Running, token: &str, size: usize) -> std::io::Result<String> {
    let place = server.address().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(place).await?;
    let head = format!(
        "POST /api/v1/app HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-length: {size}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![b' '; size]).await?;
    let next = "GET /api/v1/health/ping HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(next.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn whoever_sends_too_much_or_without_a_token_hears_why() {
    let server = Running::with(&[("limits.body_bytes", "256KiB")]).await;
    for (token, status) in [(ADMIN, "413"), ("nobody", "401")] {
        let answer = send_much(&server, token, 4_000_000).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        // The rest was read, so that the connection can go on being used.
        assert!(answer.contains("HTTP/1.1 204"), "{answer}");
    }
    // There is an end to it.
    let ended = tokio::time::timeout(SOON, send_much(&server, "nobody", 100_000_000)).await;
    assert!(!ended.unwrap().is_ok_and(|answer| answer.contains("HTTP/1.1 204")));
}

#[tokio::test]
async fn a_stopping_server_says_so_and_answers_for_a_while() {
    let mut server = Running::with(&[("limits.notice", "2s")]).await;
    let app = server.application().await;
    server.begin_to_stop();
    let mut health = server.get("/health").await;
    for _ in 0..100 {
        if health.status != 200 {
            break;
        }
        health = server.get("/health").await;
    }
    assert_eq!(health.status, 503, "{}", health.text);
    server.message(&app).await;
    // On a connection of its own, too.
    let ask = "GET /api/v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = exchange(&server, ask).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_worker_has_its_health_and_nothing_else() {
    let server = Running::worker().await;
    server.get("/app").await.refused(404, "not_found");
    assert_eq!(server.get("/health/ping").await.status, 204);
}

#[tokio::test]
async fn a_stopped_server_has_answered_and_can_be_started_again() {
    let mut server = Running::start().await;
    server.application().await;
    server.stop().await;
}
