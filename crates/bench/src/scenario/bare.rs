//! The yardstick: a bare client and the same receivers, with nothing between them.
//!
//! The client is hyper's as it comes, with its pool. What holds a connection in its hand and never
//! has to look for one is cheaper still; nobody who sends to more than one place can do so, but it
//! says what the machine can do, and so it is measured beside it.
//!
//! Both send what the receivers get from the server, byte for byte as many: a request with the
//! headers of a delivery, which nobody has to sign here.

use std::sync::Arc;

use bytes::Bytes;
use domain::time::Timestamp;
use host::clock::Clock;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;

use super::Scenario;
use crate::body::Body;
use crate::client::{Closed, Limit, Source};
use crate::figure::{Figure, Unit};
use crate::pairs::measured_comes_first;
use crate::receiver::{Group, path};
use crate::{Bench, per_second};

/// The headers of a delivery, but for those that hyper adds.
const HEADERS: [(&str, &str); 10] = [
    ("user-agent", concat!("Redial/", env!("CARGO_PKG_VERSION"))),
    ("accept", "*/*"),
    ("accept-encoding", "identity"),
    ("content-type", "application/json"),
    ("webhook-id", "msg_2nd9qhKmQo3dSTgmMbbY3Z2kgkX"),
    ("webhook-timestamp", "1700000000"),
    ("webhook-signature", "v1,AbHNpuKlgmTF9uNY1kTP4R1Y9vKrwHcX9CszPZ2gSRk="),
    ("svix-id", "msg_2nd9qhKmQo3dSTgmMbbY3Z2kgkX"),
    ("svix-timestamp", "1700000000"),
    ("svix-signature", "v1,AbHNpuKlgmTF9uNY1kTP4R1Y9vKrwHcX9CszPZ2gSRk="),
];

/// Measures the yardstick alone, in turn with connections that are held by hand.
pub(super) async fn run(bench: &Bench<'_>, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    bench.rounds(1);
    let name = format!("bare requests, {} at a time", bench.plan.connections);
    let beside = format!("{name}, connections held by hand");
    let figure = |name: &str, rates: &[f64]| {
        Figure::median(Scenario::Bare, name, Unit::PerSecond, rates.to_vec())
    };
    let (mut pooled, mut held) = (Vec::new(), Vec::new());
    for number in 1..=bench.plan.pairs {
        bench.pair(number);
        if measured_comes_first(number) {
            pooled.push(rate(bench).await?);
            held.push(rate_held(bench).await?);
        } else {
            held.push(rate_held(bench).await?);
            pooled.push(rate(bench).await?);
        }
        *figures = vec![figure(&name, &pooled), figure(&beside, &held)];
    }
    Ok(())
}

/// Returns how many requests a bare client makes to a bare receiver in a second.
pub(super) async fn rate(bench: &Bench<'_>) -> anyhow::Result<f64> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let load = Load {
        client: Client::builder(TokioExecutor::new()).build(connector),
        uri: bench.receiver.url(Group::Steady, 0).parse()?,
        headers: headers().collect(),
        body: Body::bare(),
        clock: Arc::clone(&bench.clock),
    };
    let load = Arc::new(load);
    // Connecting is not what is measured: first everybody sends one request, all at the same time.
    load.send_from(bench.plan.connections, bench.clock.now()).await?;
    let began = bench.clock.now();
    let sent = load.send_from(bench.plan.connections, began.after(bench.plan.run)).await?;
    Ok(per_second(sent, bench.clock.now().since(began)))
}

/// What all of its senders share.
struct Load {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
    clock: Arc<dyn Clock>,
}

impl Load {
    /// Sends from so many senders at a time until the time is over, and returns how many requests.
    async fn send_from(self: &Arc<Self>, senders: usize, end: Timestamp) -> anyhow::Result<u64> {
        let mut workers = JoinSet::new();
        for _ in 0..senders {
            workers.spawn(Arc::clone(self).send_until(end));
        }
        let mut sent = 0;
        while let Some(worked) = workers.join_next().await {
            sent += worked??;
        }
        Ok(sent)
    }

    /// Sends one request after the other, at least one, and returns how many.
    async fn send_until(self: Arc<Self>, end: Timestamp) -> anyhow::Result<u64> {
        let mut sent = 0;
        loop {
            let now = self.clock.now();
            let mut request = Request::new(Full::new(self.body.stamped(now)));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = self.uri.clone();
            request.headers_mut().clone_from(&self.headers);
            let answer = self.client.request(request).await?;
            anyhow::ensure!(answer.status().is_success(), "{}", answer.status());
            answer.into_body().collect().await?;
            sent += 1;
            if now >= end {
                return Ok(sent);
            }
        }
    }
}

fn headers() -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let header = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
    HEADERS.into_iter().map(header)
}

/// Returns how many requests come from connections that are held by hand.
pub(super) async fn rate_held(bench: &Bench<'_>) -> anyhow::Result<f64> {
    let source = Source::new(Method::POST, &path(Group::Steady, 0), vec![Body::bare()])?;
    let source = headers().fold(source, |source, (name, value)| source.with_header(name, value));
    let load = Closed {
        port: bench.receiver.port(),
        connections: bench.plan.connections,
        source: Arc::new(source),
        limit: Limit::Time(bench.plan.run),
    };
    Ok(load.run(&bench.clock).await?.per_second())
}
