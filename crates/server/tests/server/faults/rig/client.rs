//! The API as somebody uses it whose server may be killed at any moment: every call either has an
//! answer or has none, and both are told.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::process::TOKEN;

/// How long an answer may take: longer than the server itself allows a request.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a question is asked again before it is given up, and the wait in between.
const MOST_QUESTIONS: u32 = 600;
const BREATH: Duration = Duration::from_millis(50);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Whether it says when to come again.
    pub(crate) says_when: bool,
    pub(crate) body: Bytes,
}

/// Somebody who uses one server, over one connection as long as it lasts.
#[derive(Debug)]
pub(crate) struct Client {
    port: u16,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    /// Makes a client of the server at a port of this machine.
    pub(crate) fn of(port: u16) -> Self {
        Self { port, connection: None }
    }

    /// Tells whether the server can be used.
    pub(crate) async fn is_healthy(&mut self) -> bool {
        let asked = self.call(Method::GET, "/health", Bytes::new(), None).await;
        asked.is_ok_and(|answer| answer.status.is_success())
    }

    /// Sends a message under an idempotency key.
    ///
    /// # Errors
    /// If there was no answer. The message may have been accepted all the same.
    pub(crate) async fn send(
        &mut self,
        application: &str,
        message: Bytes,
        key: &str,
    ) -> anyhow::Result<Answer> {
        let path = format!("/app/{application}/msg?with_content=false");
        self.call(Method::POST, &path, message, Some(key)).await
    }

    /// Makes something and returns its id.
    pub(crate) async fn create(&mut self, path: &str, what: &Value) -> anyhow::Result<String> {
        let body = Bytes::from(what.to_string());
        let answer = self.call(Method::POST, path, body, None).await?;
        let made = read(path, &answer)?;
        Ok(made["id"].as_str().context("what was made has no id")?.to_owned())
    }

    /// Asks until there is an answer: the server may be starting, or its database.
    pub(crate) async fn ask(&mut self, path: &str) -> anyhow::Result<Value> {
        let mut last = String::new();
        for _ in 0..MOST_QUESTIONS {
            match self.call(Method::GET, path, Bytes::new(), None).await {
                Ok(answer) if answer.status.is_server_error() => {
                    last = format!("{path} was answered with {}", answer.status);
                }
                Ok(answer) => return read(path, &answer),
                Err(error) => last = format!("{error:#}"),
            }
            tokio::time::sleep(BREATH).await;
        }
        anyhow::bail!("nobody answers: {last}")
    }

    async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        key: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = request.header(header::HOST, "localhost");
        let request = request.header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let request = request.body(Full::new(body))?;
        // A connection on which something went wrong is not used again.
        let mut sender = match self.connection.take() {
            Some(sender) if !sender.is_closed() => sender,
            Some(_) | None => connect(self.port).await?,
        };
        let exchanged = tokio::time::timeout(PATIENCE, exchange(&mut sender, request)).await;
        let answer = exchanged.context("the server does not answer")??;
        self.connection = Some(sender);
        Ok(answer)
    }
}

async fn connect(port: u16) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.set_nodelay(true)?;
    let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
    // A broken connection is told to whoever sends on it next.
    tokio::spawn(async { drop(driver.await) });
    Ok(sender)
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    sender.ready().await?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    let says_when = head.headers.contains_key(header::RETRY_AFTER);
    Ok(Answer { status: head.status, says_when, body })
}

fn read(path: &str, answer: &Answer) -> anyhow::Result<Value> {
    let text = String::from_utf8_lossy(&answer.body);
    anyhow::ensure!(
        answer.status.is_success(),
        "{path} was answered with {}: {text}",
        answer.status
    );
    Ok(serde_json::from_slice(&answer.body)?)
}
