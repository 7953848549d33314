//! What commands use to talk to a running server: its API, like everybody else.
//!
//! It speaks plain HTTP to the operator's own server and nothing else. Deliveries go through the
//! transport, which vets addresses; this must not be used for them.

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use url::Url;

/// The most bytes of an answer.
const MOST_BYTES: usize = 16 << 20;
/// How long an answer may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// A server, and the token to use there.
#[derive(Debug)]
pub(super) struct Client {
    server: Url,
    token: Option<String>,
}

impl Client {
    /// Prepares to talk to a server.
    pub(super) fn new(server: Url, token: Option<String>) -> anyhow::Result<Self> {
        if server.scheme() != "http" {
            bail!("{server}: commands talk plain HTTP; run them beside the server");
        }
        Ok(Self { server, token })
    }

    /// Asks, and returns the answer's JSON, which is null if there is none.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let (status, answer) = self.status_of(method, path, body).await?;
        if status.is_success() {
            return Ok(answer);
        }
        let detail = &answer["detail"];
        let detail = detail.as_str().map_or_else(|| detail.to_string(), str::to_owned);
        let advice = match status {
            StatusCode::UNAUTHORIZED => {
                "; on the server's machine no token is needed: leave out --token and --server, and name \
                 the server's data directory with --data"
            }
            _ => "",
        };
        bail!("the server answered {status}: {detail}{advice}")
    }

    /// Asks, and returns status and JSON whatever they are.
    pub(super) async fn status_of(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let asked = tokio::time::timeout(PATIENCE, self.exchange(method, path, body)).await;
        asked.with_context(|| format!("{} did not answer within {PATIENCE:?}", self.server))?
    }

    /// Asks for a page that is no part of the API, and returns its text.
    pub(super) async fn page(&self, path: &str) -> anyhow::Result<String> {
        let request = Request::get(path).header(HOST, self.host()?).body(Full::default())?;
        let asked = tokio::time::timeout(PATIENCE, self.carry(request)).await;
        let (status, text) = asked
            .with_context(|| format!("{} did not answer within {PATIENCE:?}", self.server))??;
        if !status.is_success() {
            bail!("{}{path} answered {status}", self.server);
        }
        Ok(String::from_utf8(text.into())?)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let (status, body) = self.carry(self.request(method, path, body)?).await?;
        let answer = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
        Ok((status, answer))
    }

    async fn carry(&self, request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, Bytes)> {
        let host = self.host()?;
        let port = self.server.port_or_known_default().unwrap_or(80);
        let place = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((place, port)).await;
        let stream =
            stream.with_context(|| format!("cannot reach {}; is it running?", self.server))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driven = tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body =
            body.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?.to_bytes();
        driven.abort();
        Ok((status, body))
    }

    fn host(&self) -> anyhow::Result<&str> {
        self.server.host_str().context("the server's URL has no host")
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header(HOST, self.host()?)
            .header(CONTENT_TYPE, "application/json");
        let request = match &self.token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        let text = body.map(ToString::to_string).unwrap_or_default();
        Ok(request.body(Full::from(text))?)
    }
}
