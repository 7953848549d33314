//! The API through its real listener: one file per resource.
//!
//! Each test starts a server of its own on a free port, with a store in a directory that is removed
//! afterwards.

mod access;
mod applications;
mod batch;
mod caps;
mod changes;
mod commands;
mod doctor;
mod edge;
mod endpoints;
mod errors;
mod event_types;
mod fleet;
mod flipping;
mod in_force;
mod limits;
mod listeners;
mod messages;
mod own;
mod pauses;
mod promises;
mod races;
mod renaming;
mod replays;
mod sending;
mod signatures;
mod specification;
mod waiting;
mod wire;

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use redial::cli::serve::Server;
use redial::config::{Configuration, Role, Sources};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub(crate) const ADMIN: &str = "admin-token-of-the-tests";

/// A server that runs, and a client of it.
pub(crate) struct Running {
    address: String,
    client: Client<HttpConnector, Full<Bytes>>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
    others: (Option<SocketAddr>, Option<SocketAddr>),
    directory: TempDir,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Makes sure of the status, and returns the body.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// Makes sure of the status of an answer that is too deep for the reader of JSON here.
    #[track_caller]
    pub(crate) fn expect_text(self, status: u16) {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
    }

    /// Makes sure of the status and the code of an error.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) {
        let body = self.expect(status);
        assert_eq!(body["code"], code, "{body}");
        assert!(body["detail"].is_string(), "{body}");
    }

    /// Makes sure that a field of the body was refused.
    #[track_caller]
    pub(crate) fn invalid(self, field: &str) -> String {
        let body = self.expect(422);
        let faults = body["detail"].as_array().unwrap();
        let named = |fault: &&Value| {
            let place = fault["loc"].as_array().unwrap();
            place.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(".") == field
        };
        let fault = faults.iter().find(named).unwrap_or_else(|| panic!("no {field} in {body}"));
        assert!(fault["type"].is_string(), "{fault}");
        fault["msg"].as_str().unwrap().to_owned()
    }
}

/// Opens a server. One that has just been stopped in this process may still let go of its data.
async fn opened(configuration: Configuration) -> Server {
    for _ in 0..200 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        match Server::open(configuration.clone(), listener).await {
            Err(error) if error.to_string().contains("is in use") => {
                tokio::time::sleep(std::time::Duration::from_millis(25)).await;
            }
            server => return server.unwrap(),
        }
    }
    panic!("the data directory stays in use");
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server that only sends.
    pub(crate) async fn worker() -> Self {
        Self::configured(&[], |configuration| configuration.role = Role::Worker).await
    }

    /// Starts a server that sends nothing, so that what a test accepts stays as it was accepted.
    pub(crate) async fn with(options: &[(&str, &str)]) -> Self {
        Self::configured(options, |configuration| configuration.role = Role::Api).await
    }

    /// A store in a file has one role only, so that another one is set behind the configuration's
    /// back.
    async fn configured(options: &[(&str, &str)], change: impl FnOnce(&mut Configuration)) -> Self {
        Self::on(TempDir::new().unwrap(), options, change).await
    }

    /// Starts a server that also sends, on this machine.
    pub(crate) async fn sending(options: &[(&str, &str)]) -> Self {
        Self::on(TempDir::new().unwrap(), options, |_| {}).await
    }

    /// Stops the server and starts another one with the same data, which also sends.
    pub(crate) async fn again(mut self, options: &[(&str, &str)]) -> Self {
        self.stop().await;
        Self::on(self.directory, options, |_| {}).await
    }

    async fn on(
        directory: TempDir,
        options: &[(&str, &str)],
        change: impl FnOnce(&mut Configuration),
    ) -> Self {
        let data = directory.path().join("data").display().to_string();
        // Nobody spreads requests over the servers of most tests.
        let given = [("data", data.as_str()), ("admin_token", ADMIN), ("limits.notice", "1ms")];
        let options = given.iter().chain(options);
        let options = options.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let sources = Sources { options: options.collect(), ..Sources::default() };
        let mut configuration = Configuration::read(sources).unwrap();
        change(&mut configuration);
        let server = opened(configuration).await;
        let address = format!("http://{}", server.address().unwrap());
        let others = server.other_addresses();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(async move {
            server.run(async { drop(stopped.await) }).await.unwrap();
        });
        let (stop, served) = (Some(stop), Some(served));
        Self { stop, served, others, ..Self::at(address, directory) }
    }

    /// Makes a client of a server that somebody else started.
    pub(crate) fn at(address: String, directory: TempDir) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let others = (None, None);
        Self { address, client, stop: None, served: None, others, directory }
    }

    /// Returns where the server is.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns where its data is.
    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.directory.path().join("data")
    }

    /// Returns where it listens for TLS, and where its metrics are.
    pub(crate) fn others(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        self.others
    }

    /// Tells the server to stop, and does not wait.
    pub(crate) fn begin_to_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Stops the server and waits until it has.
    pub(crate) async fn stop(&mut self) {
        self.begin_to_stop();
        if let Some(served) = self.served.take() {
            served.await.unwrap();
        }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answered {
        let response = self.client.request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Answered { status: parts.status, headers: parts.headers, text }
    }

    /// Makes a request to be sent, with the admin token.
    pub(crate) fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let builder = Request::builder().method(method).uri(format!("{}{path}", self.address));
        builder.header("authorization", format!("Bearer {ADMIN}"))
    }

    /// Sends a request with any token, and with a body unless it is null.
    pub(crate) async fn ask(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Answered {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/api/v1{path}", self.address))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        self.send(request.body(Full::from(text)).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        self.ask(ADMIN, Method::GET, path, &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answered {
        self.ask(ADMIN, Method::POST, path, &body).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answered {
        self.ask(ADMIN, Method::PUT, path, &body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answered {
        self.ask(ADMIN, Method::PATCH, path, &body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answered {
        self.ask(ADMIN, Method::DELETE, path, &Value::Null).await
    }

    /// Creates an application and returns its id.
    pub(crate) async fn application(&self) -> String {
        let made = self.post("/app", json!({ "name": "a customer" })).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Creates an endpoint and returns its id.
    pub(crate) async fn endpoint(&self, application: &str) -> String {
        let body = json!({ "url": "https://receiver.example/hook?token=1" });
        let made = self.post(&format!("/app/{application}/endpoint"), body).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Accepts a message and returns its id.
    pub(crate) async fn message(&self, application: &str) -> String {
        let body = json!({ "eventType": "invoice.paid", "payload": { "amount": 1 } });
        let made = self.post(&format!("/app/{application}/msg"), body).await.expect(202);
        made["id"].as_str().unwrap().to_owned()
    }

    /// Makes a token for an application and returns it.
    pub(crate) async fn token(&self, application: &str, read_only: bool) -> String {
        let body = json!({ "readOnly": read_only });
        let path = format!("/auth/app-portal-access/{application}");
        let made = self.post(&path, body).await.expect(200);
        made["token"].as_str().unwrap().to_owned()
    }
}
