//! The other listeners: TLS with HTTP/2 or HTTP/1.1, and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{ADMIN, Running};

/// What a client says first over HTTP/2, with settings that change nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const GOAWAY: u8 = 7;
const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 0xb];

/// A server with a certificate that only the test trusts.
struct Secured {
    server: Running,
    address: SocketAddr,
    root: CertificateDer<'static>,
    _files: TempDir,
}

impl Secured {
    async fn start(options: &[(&str, &str)]) -> Self {
        let files = TempDir::new().unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (certificate_path, key_path) = (files.path().join("cert"), files.path().join("key"));
        std::fs::write(&certificate_path, certificate.pem()).unwrap();
        std::fs::write(&key_path, key.serialize_pem()).unwrap();
        let (certificate_path, key_path) =
            (certificate_path.display().to_string(), key_path.display().to_string());
        let own = [
            ("tls.listen", "127.0.0.1:0"),
            ("tls.certificate", certificate_path.as_str()),
            ("tls.key", key_path.as_str()),
        ];
        let server = Running::with(&[&own, options].concat()).await;
        let address = server.others().0.unwrap();
        Self { server, address, root: certificate.der().clone(), _files: files }
    }

    async fn connect(&self, protocol: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        stream
    }
}

fn create(uri: &str) -> Request<Full<Bytes>> {
    Request::post(uri)
        .header("authorization", format!("Bearer {ADMIN}"))
        .header("host", "localhost")
        .body(Full::from(json!({ "name": "a customer" }).to_string()))
        .unwrap()
}

#[tokio::test]
async fn http_2_is_spoken_over_tls_many_requests_at_a_time() {
    let secured = Secured::start(&[]).await;
    let stream = TokioIo::new(secured.connect("h2").await);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let mut sender = sender.clone();
        asked.spawn(async move {
            let answer =
                sender.send_request(create("https://localhost/api/v1/app/")).await.unwrap();
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            assert!(body.starts_with(b"{\"id\":\"app_"), "{body:?}");
            (parts.status.as_u16(), parts.version)
        });
    }
    for answer in asked.join_all().await {
        assert_eq!(answer, (201, Version::HTTP_2));
    }
    let listed = secured.server.get("/app").await.expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 20);
}

#[tokio::test]
async fn http_1_is_spoken_over_tls_with_whoever_wants_that() {
    let secured = Secured::start(&[]).await;
    let stream = TokioIo::new(secured.connect("http/1.1").await);
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let answer = sender.send_request(create("/api/v1/app")).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (201, Version::HTTP_11));
}

#[tokio::test]
async fn http_2_is_not_spoken_without_tls() {
    let server = Running::start().await;
    let place = server.address().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(place).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
}

#[tokio::test]
async fn whoever_says_nothing_over_tls_is_not_waited_for() {
    let secured = Secured::start(&[("limits.header_timeout", "100ms")]).await;
    let mut bytes = Vec::new();
    // Before the handshake, before the first frame, and before the first request.
    let mut silent = TcpStream::connect(secured.address).await.unwrap();
    silent.read_to_end(&mut bytes).await.unwrap();
    for first in [&b""[..], PREFACE] {
        let mut stream = secured.connect("h2").await;
        stream.write_all(first).await.unwrap();
        // However it ends, it ends.
        let read = stream.read_to_end(&mut bytes);
        let _ = tokio::time::timeout(Duration::from_secs(20), read).await.unwrap();
    }
}

/// Asks for something large over HTTP/2, and reads nothing of it yet.
async fn ask_for_much(
    secured: &Secured,
) -> (hyper::body::Incoming, tokio::task::JoinHandle<hyper::Result<()>>) {
    let stream = TokioIo::new(secured.connect("h2").await);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(8 << 10).initial_connection_window_size(64 << 10);
    let (mut sender, connection) = builder.handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get("https://localhost/api/v1/openapi.json");
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let body = sender.send_request(request).await.unwrap().into_body();
    // Without a sender the client would hang up itself once it is done.
    std::mem::forget(sender);
    (body, connection)
}

#[tokio::test]
async fn an_answer_that_is_read_slowly_over_http_2_comes_whole() {
    let secured = Secured::start(&[("limits.header_timeout", "100ms")]).await;
    let (mut body, _connection) = ask_for_much(&secured).await;
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        whole.extend(frame.unwrap().into_data().unwrap());
        // The slowness is what is tested.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(whole.len() > 100_000, "{}", whole.len());
    serde_json::from_slice::<serde_json::Value>(&whole).unwrap();
}

#[tokio::test]
async fn whoever_does_not_read_over_http_2_is_not_waited_for() {
    let limits = [("limits.header_timeout", "100ms"), ("limits.request_timeout", "300ms")];
    let secured = Secured::start(&limits).await;
    let (_body, connection) = ask_for_much(&secured).await;
    // However it ends, it ends.
    let _ = tokio::time::timeout(Duration::from_secs(20), connection).await.unwrap();
}

#[tokio::test]
async fn a_flood_of_requests_that_are_called_off_ends_the_connection() {
    let secured = Secured::start(&[]).await;
    let mut stream = secured.connect("h2").await;
    let mut flood = PREFACE.to_vec();
    for stream in (1_u32..2_000).step_by(2) {
        let id = stream.to_be_bytes();
        // GET https://… /, whole, and at once called off.
        flood.extend([0, 0, 3, 1, 5]);
        flood.extend(id);
        flood.extend([0x82, 0x87, 0x84]);
        flood.extend([0, 0, 4, 3, 0]);
        flood.extend(id);
        flood.extend([0, 0, 0, 8]);
    }
    // The server may hang up before it has read everything.
    let _ = stream.write_all(&flood).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer));
    let _ = read.await.unwrap();
    assert_eq!(frames(&answer, GOAWAY), Some(ENHANCE_YOUR_CALM.to_vec()));
    assert_eq!(secured.server.get("/health/ping").await.status, 204);
}

/// Finds the error code in the first frame of a kind.
fn frames(mut bytes: &[u8], kind: u8) -> Option<Vec<u8>> {
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (body, rest) = rest.split_at_checked(length)?;
        if head[3] == kind {
            return body.get(4..8).map(<[u8]>::to_vec);
        }
        bytes = rest;
    }
    None
}

/// Asks the listener of the figures.
async fn ask_for_figures(
    server: &Running,
    method: http::Method,
    path: &str,
) -> http::Response<hyper::body::Incoming> {
    let address = server.others().1.unwrap();
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "x");
    sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn what_else_is_asked_of_the_listener_of_figures_is_refused_in_json() {
    let server = Running::with(&[("metrics.listen", "127.0.0.1:0")]).await;
    let table = [
        (http::Method::GET, "/", 404, "not_found"),
        (http::Method::GET, "/api/v1/app", 404, "not_found"),
        (http::Method::POST, "/metrics", 405, "method_not_allowed"),
    ];
    for (method, path, status, code) in table {
        let answer = ask_for_figures(&server, method, path).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.headers()["content-type"], "application/json");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["code"], code, "{path}");
        assert!(body["detail"].is_string(), "{body}");
    }
}

async fn metrics(server: &Running) -> String {
    let answer = ask_for_figures(server, http::Method::GET, "/metrics").await;
    assert_eq!(answer.status(), 200);
    assert!(answer.headers()["content-type"].to_str().unwrap().contains("openmetrics-text"));
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn metrics_are_counted_and_shown_on_a_listener_of_their_own() {
    let server = Running::with(&[("metrics.listen", "127.0.0.1:0")]).await;
    let application = server.application().await;
    server.endpoint(&application).await;
    for _ in 0..3 {
        server.message(&application).await;
    }
    let text = metrics(&server).await;
    let has = |line: &str| assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
    has("redial_messages_accepted_total 3");
    has("redial_deliveries_total 3");
    has("redial_deliveries_delivered_total 0");
    has("redial_attempts_in_flight 0");
    has("redial_endpoints_waiting 1");
    has("redial_commit_errors_total 0");
    assert!(text.contains("redial_commit_seconds_count"), "{text}");
    let offset = text.lines().find_map(|it| it.strip_prefix("redial_clock_offset_seconds "));
    assert!(offset.unwrap().parse::<f64>().unwrap().abs() < 5.0, "{text}");
    assert!(!text.contains(&application) && text.ends_with("# EOF\n"), "{text}");
    let request = server.request(http::Method::GET, "/metrics");
    server.send(request.body(Full::default()).unwrap()).await.refused(404, "not_found");
}
