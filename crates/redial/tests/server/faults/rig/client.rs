//! The API as somebody uses it whose server may be killed at any moment: every call either has an
//! answer or has none, and both are told.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;
use testkit::connection::Connection;

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
    connection: Option<Connection>,
}

impl Client {
    /// Makes a client of the server at a port of this machine.
    pub(crate) fn of(port: u16) -> Self {
        Self { port, connection: None }
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
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.port).await?,
        };
        let exchanged = tokio::time::timeout(PATIENCE, connection.exchange(request)).await;
        let (head, body) = exchanged.context("the server does not answer")??.into_parts();
        self.connection = Some(connection);
        let says_when = head.headers.contains_key(header::RETRY_AFTER);
        Ok(Answer { status: head.status, says_when, body })
    }
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
