//! Requests as they are on the wire: paths that can be read in two ways, hosts, announced bodies.

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::edge::exchange;
use super::{ADMIN, Running};

/// Asks for exactly these bytes as the path.
async fn ask(server: &Running, method: &str, path: &str) -> (u16, Value) {
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\
         connection: close\r\ncontent-length: 0\r\n\r\n"
    );
    told(&exchange(server, &request).await)
}

/// Reads status and body of an answer.
fn told(answer: &str) -> (u16, Value) {
    let status = answer.split(' ').nth(1).unwrap_or_default().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// An application of this uid with one endpoint; returns the endpoint's id.
async fn customer(server: &Running, uid: &str) -> String {
    server.post("/app", json!({ "name": "a", "uid": uid })).await.expect(201);
    server.endpoint(uid).await
}

#[tokio::test]
async fn a_path_that_can_be_read_in_two_ways_is_refused_and_nothing_is_done() {
    let server = Running::start().await;
    let endpoint = customer(&server, "a").await;
    let refused = [
        "/app/a/endpoint/..",
        "/app/a/endpoint/../",
        "/app/a/endpoint/%2e%2e",
        "/app/a/endpoint/%2E%2e/",
        "/app/a/endpoint/.%2E",
        "/app/a/endpoint/%2e./",
        "/app/a/.",
        "/app/a/%2E",
        "/app/./a",
        "/app//a",
        "/app/a//",
        "/app/a/",
        "/app/x/../a",
        "/app/x%2f..%2fa",
        "/app/a%2F",
        "/app/x\\..\\a",
        "/app/a%5c",
    ];
    for path in refused {
        for method in ["DELETE", "GET", "PATCH"] {
            let (status, body) = ask(&server, method, path).await;
            assert_eq!((status, &body["code"]), (400, &json!("generic_error")), "{method} {path}");
            assert!(body["detail"].as_str().unwrap().starts_with("the path "), "{body}");
        }
    }
    for path in ["/app/../msg", "/app/%2e%2e/msg", "/app/a/../a/msg", "/app//msg"] {
        assert_eq!(ask(&server, "POST", path).await.0, 400, "{path}");
    }
    server.get(&format!("/app/a/endpoint/{endpoint}")).await.expect(200);
    // An endpoint by its path with a slash would be the one that is meant, or another.
    let path = format!("/app/a/endpoint/{endpoint}/");
    assert_eq!(ask(&server, "DELETE", &path).await.0, 400);
    // A list is a list.
    assert_eq!(ask(&server, "GET", "/app/a/endpoint/").await.0, 200);
    assert_eq!(ask(&server, "GET", "/app/?limit=1").await.0, 200);
}

#[tokio::test]
async fn a_name_that_means_something_else_in_a_path_is_refused_where_it_is_given() {
    let server = Running::start().await;
    let endpoint = customer(&server, "a").await;
    for name in [".", ".."] {
        let told = server.post("/app", json!({ "name": "a", "uid": name })).await;
        assert!(told.invalid("body.uid").contains("clients take out of a path"));
        let body = json!({ "url": "https://receiver.example/", "uid": name });
        server.post("/app/a/endpoint", body.clone()).await.invalid("body.uid");
        let path = format!("/app/a/endpoint/{endpoint}");
        server.patch(&path, json!({ "uid": name })).await.invalid("body.uid");
        server.put(&path, body).await.invalid("body.uid");
        server.patch("/app/a", json!({ "uid": name })).await.invalid("body.uid");
        let body = json!({ "name": name, "description": "d" });
        server.post("/event-type", body).await.invalid("body.name");
        let body = json!({ "eventType": name, "payload": {} });
        server.post("/app/a/msg", body).await.invalid("body.eventType");
        let body = json!({ "eventType": "x", "payload": {}, "channels": [name] });
        server.post("/app/a/msg", body).await.invalid("body.channels");
    }
    for name in [".", "..", "batch", "bulk-expunge", "expunge-all-contents"] {
        let body = json!({ "eventType": "x", "payload": {}, "eventId": name });
        server.post("/app/a/msg", body.clone()).await.invalid("body.eventId");
        let told = server.post("/app/a/msg/batch", json!([body])).await.expect(202);
        assert!(told["results"][0].to_string().contains("eventId"), "{told}");
    }
    // What stands beside no path may be a name.
    server.post("/app", json!({ "name": "a", "uid": "batch" })).await.expect(201);
    server.post("/event-type", json!({ "name": "import", "description": "d" })).await.expect(201);
    server.get("/event-type/import").await.expect(200);
}

#[tokio::test]
async fn a_request_names_its_host_once() {
    let server = Running::start().await;
    let ask = async |version: &str, hosts: &str| {
        let request =
            format!("GET /api/v1/health/ping {version}\r\n{hosts}connection: close\r\n\r\n");
        told(&exchange(&server, &request).await)
    };
    for hosts in ["", "host: a\r\nhost: a\r\n", "Host: a\r\nHOST: b\r\n"] {
        let (status, body) = ask("HTTP/1.1", hosts).await;
        assert_eq!((status, &body["code"]), (400, &json!("generic_error")), "{hosts:?}");
        assert!(body["detail"].as_str().unwrap().contains("`Host`"), "{body}");
    }
    for odd in ["a b", "user@a", "a:80:81", "a:port", "a/path", "http://a", "::1", "[::1"] {
        for version in ["HTTP/1.1", "HTTP/1.0"] {
            let (status, body) = ask(version, &format!("host: {odd}\r\n")).await;
            assert_eq!((status, &body["code"]), (400, &json!("generic_error")), "{odd}");
            assert!(body["detail"].as_str().unwrap().contains("`Host`"), "{body}");
        }
    }
    for good in ["a", "a.example:8071", "10.0.0.1", "[::1]:80"] {
        assert_eq!(ask("HTTP/1.1", &format!("host: {good}\r\n")).await.0, 204, "{good}");
    }
    assert_eq!(ask("HTTP/1.1", "host:\r\n").await.0, 204, "it may be empty");
    assert_eq!(ask("HTTP/1.0", "").await.0, 204);
    assert_eq!(ask("HTTP/1.0", "host: a\r\nhost: b\r\n").await.0, 400);
    // On the short way of a message, too.
    let message = format!(
        "POST /api/v1/app/a/msg HTTP/1.1\r\nauthorization: Bearer {ADMIN}\r\n\
         connection: close\r\ncontent-length: 0\r\n\r\n"
    );
    assert_eq!(told(&exchange(&server, &message).await).0, 400);
    let odd = message.replacen("\r\n", "\r\nhost: user@a\r\n", 1);
    assert_eq!(told(&exchange(&server, &odd).await).0, 400);
}

/// Sends a head, and returns all that comes until the server closes the connection.
async fn announced(server: &Running, path: &str, headers: &str) -> String {
    let head = format!(
        "POST /api/v1{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n{headers}\r\n"
    );
    exchange(server, &head).await
}

#[tokio::test]
async fn a_body_that_is_announced_and_too_large_is_refused_before_it_is_asked_for() {
    let server = Running::with(&[("limits.body_bytes", "64KiB")]).await;
    customer(&server, "a").await;
    for (path, size) in [("/app/a/msg", 65_537), ("/app", 65_537), ("/app/a/msg/batch", 1_048_577)]
    {
        let headers = format!("expect: 100-continue\r\ncontent-length: {size}\r\n");
        let answer = announced(&server, path, &headers).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
        assert!(answer.contains("payload_too_large") && !answer.contains("100 Continue"), "{path}");
    }
    // With a key, too, whose body is read before anything else.
    let headers = "idempotency-key: k\r\nexpect: 100-continue\r\ncontent-length: 99999999\r\n";
    let answer = announced(&server, "/app", headers).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn a_body_that_is_announced_and_fits_is_asked_for() {
    let server = Running::start().await;
    customer(&server, "a").await;
    let body = json!({ "eventType": "x", "payload": {} }).to_string();
    let place = server.address().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(place).await.unwrap();
    let head = format!(
        "POST /api/v1/app/a/msg HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\n\
         connection: close\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[tokio::test]
async fn a_body_whose_length_is_not_told_is_cut_at_the_limit() {
    let server = Running::with(&[("limits.body_bytes", "64KiB")]).await;
    customer(&server, "a").await;
    let chunk = format!("8000\r\n{}\r\n", " ".repeat(0x8000));
    let body = chunk.repeat(3);
    for path in ["/app/a/msg", "/app"] {
        let headers = "connection: close\r\ntransfer-encoding: chunked\r\n\r\n";
        // The server ends the connection without having seen the end of the body.
        let answer = announced(&server, path, &format!("{headers}{body}0\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{path}: {answer}");
    }
    server.ask(ADMIN, Method::GET, "/app", &Value::Null).await.expect(200);
}
