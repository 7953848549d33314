//! A customer: sets up applications and endpoints through the API, and makes what is sent to them.

use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use http_body_util::Full;
use serde_json::Value;
use testkit::connection::Connection;

use super::body::Body;
use super::client::{Source, quoted};
use super::process::TOKEN;
use super::shapes;

/// How messages are handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ingest {
    /// One in each request.
    Single,
    /// One in each request, with an idempotency key as the SDKs send it.
    Keyed,
    /// So many in each request.
    Batch(usize),
    /// So many in each request, with an idempotency key from which each gets one of its own.
    KeyedBatch(usize),
}

/// Somebody who uses the API.
#[derive(Debug)]
pub(super) struct Customer {
    connection: Connection,
}

impl Customer {
    /// Connects to a server.
    pub(super) async fn of(port: u16) -> anyhow::Result<Self> {
        Ok(Self { connection: Connection::open(port).await? })
    }

    /// Makes an application and returns its id.
    pub(super) async fn application(&mut self, name: &str) -> anyhow::Result<String> {
        self.create(shapes::APPLICATIONS, &shapes::application(name)).await
    }

    /// Makes an endpoint and returns its id.
    pub(super) async fn endpoint(
        &mut self,
        application: &str,
        url: &str,
        channels: &[&str],
    ) -> anyhow::Result<String> {
        let endpoint = shapes::endpoint(url, channels);
        self.create(&shapes::endpoints(application), &endpoint).await
    }

    /// Holds an endpoint's deliveries back.
    pub(super) async fn pause(&mut self, application: &str, endpoint: &str) -> anyhow::Result<()> {
        self.post(&shapes::pause(application, endpoint), &Value::Null).await.map(drop)
    }

    /// Lets them go.
    pub(super) async fn resume(&mut self, application: &str, endpoint: &str) -> anyhow::Result<()> {
        self.post(&shapes::resume(application, endpoint), &Value::Null).await.map(drop)
    }

    async fn create(&mut self, path: &str, what: &Value) -> anyhow::Result<String> {
        let made = self.post(path, what).await?;
        let id = made["id"].as_str().context("what was made has no id")?;
        Ok(id.to_owned())
    }

    async fn post(&mut self, path: &str, what: &Value) -> anyhow::Result<Value> {
        let body = if what.is_null() { String::new() } else { what.to_string() };
        let request = Request::builder().method(Method::POST).uri(path);
        let request = request.header(header::HOST, "localhost");
        let request = request.header(header::AUTHORIZATION, bearer()?);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(Bytes::from(body)))?;
        let answer = self.connection.exchange(request).await?;
        let what = format!("POST {path}");
        anyhow::ensure!(answer.status().is_success(), "{}", quoted(&what, &answer));
        Ok(serde_json::from_slice(answer.body()).unwrap_or(Value::Null))
    }
}

/// No channel: a message for every endpoint.
pub(super) const EVERYBODY: [&str; 0] = [];

/// Returns what is sent over and over to an application, to the endpoints of one channel after the
/// other if channels are named.
pub(super) fn messages(
    application: &str,
    ingest: Ingest,
    channels: &[impl AsRef<str>],
) -> anyhow::Result<Arc<Source>> {
    let body = |channel: Option<&str>| match ingest {
        Ingest::Single | Ingest::Keyed => Body::message(channel),
        Ingest::Batch(messages) | Ingest::KeyedBatch(messages) => Body::batch(messages, channel),
    };
    let mut bodies: Vec<Body> =
        channels.iter().map(|channel| body(Some(channel.as_ref()))).collect();
    if bodies.is_empty() {
        bodies.push(body(None));
    }
    let path = match ingest {
        Ingest::Single | Ingest::Keyed => shapes::messages(application),
        Ingest::Batch(_) | Ingest::KeyedBatch(_) => shapes::batches(application),
    };
    let source = Source::new(Method::POST, &path, bodies)?;
    let source = source.with_header(header::AUTHORIZATION, bearer()?);
    let json = HeaderValue::from_static("application/json");
    let source = source.with_header(header::CONTENT_TYPE, json);
    let source = match ingest {
        // One application may get both, and a key that comes again is not done again.
        Ingest::Keyed => source.with_keys(&format!("{application}-single")),
        Ingest::KeyedBatch(_) => source.with_keys(&format!("{application}-batch")),
        Ingest::Single | Ingest::Batch(_) => source,
    };
    Ok(Arc::new(source))
}

fn bearer() -> anyhow::Result<HeaderValue> {
    Ok(HeaderValue::from_str(&format!("Bearer {TOKEN}"))?)
}
