//! The yardstick: the same client and the same receivers with nothing between them.

use std::sync::Arc;

use http::{HeaderValue, Method, header};

use super::Scenario;
use crate::bench::Bench;
use crate::bench::body::Body;
use crate::bench::client::{Closed, Limit, Source};
use crate::bench::figure::{Figure, Unit};
use crate::bench::receiver::{Group, path};

/// Measures the yardstick alone.
pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let mut rates = Vec::new();
    for _ in 0..bench.plan.pairs {
        rates.push(rate(bench).await?);
    }
    let name = format!("bare requests, {} connections", bench.plan.connections);
    Ok(vec![Figure::median(Scenario::Bare, &name, Unit::PerSecond, rates)])
}

/// Returns how many requests a bare client makes to a bare receiver in a second.
pub(super) async fn rate(bench: &Bench<'_>) -> anyhow::Result<f64> {
    let source = Source::new(Method::POST, &path(Group::Steady, 0), vec![Body::bare()])?;
    let json = HeaderValue::from_static("application/json");
    let load = Closed {
        port: bench.receiver.port(),
        connections: bench.plan.connections,
        source: Arc::new(source.with_header(header::CONTENT_TYPE, json)),
        limit: Limit::Time(bench.plan.run),
    };
    Ok(load.run(&bench.clock).await?.per_second())
}
