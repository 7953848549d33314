//! `/metrics`, on a listener of its own: figures are for the operator, not for whoever has a token.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use domain::partition::Partition;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use store::{Ledger, Queue};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::problem::Problem;
use crate::telemetry::{Metrics, Waiting};

/// The form that is written.
const FORM: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long the store may take to say how much waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest a client may take to send its headers, or nothing.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// The most connections.
const CONNECTIONS: usize = 16;

/// Whoever shows the figures.
#[derive(Clone)]
pub(super) struct Scraping {
    /// What was counted.
    pub(super) metrics: Arc<Metrics>,
    /// Where to ask how much waits.
    pub(super) queue: Arc<dyn Queue>,
    /// Where to ask what is damaged.
    pub(super) ledger: Arc<dyn Ledger>,
    /// The time of the rows.
    pub(super) clock: Arc<dyn Clock>,
}

/// Begins to listen.
pub(super) async fn listen(address: std::net::SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("metrics.listen: cannot listen on {address}"))
}

impl Scraping {
    /// Shows the figures to whoever asks, until it is dropped.
    pub(super) async fn serve(self, listener: TcpListener) {
        let router = Router::new()
            .route("/metrics", get(show))
            .method_not_allowed_fallback(async || Problem::NoSuchMethod)
            .fallback(async || Problem::NoMetrics)
            .with_state(self);
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let service = TowerToHyperService::new(router.clone());
            let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            tokio::spawn(async move {
                let _ = connection.await;
                drop(slot);
            });
        }
    }

    /// Asks the store how much waits, on all nodes.
    async fn waiting(&self) -> Option<Waiting> {
        let asked = self.queue.backlog(Partition::all().collect());
        let backlog = tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?;
        let now = self.clock.now();
        let oldest_due = backlog.oldest_due.map(|due| now.since(due)).unwrap_or_default();
        Some(Waiting { endpoints: backlog.endpoints, oldest_due })
    }
}

async fn show(State(scraping): State<Scraping>) -> Response {
    let waiting = scraping.waiting().await;
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(FORM))];
    let damaged = scraping.ledger.damage().len();
    (headers, scraping.metrics.page(waiting, damaged)).into_response()
}
