//! `/metrics`, on a listener of its own: figures are for the operator, not for whoever has a token.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
use store::ledger::Within;
use store::{Ledger, Queue};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::disk::room;
use crate::problem::Problem;
use crate::telemetry::{Look, Metrics, Waiting};

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
pub(crate) struct Scraping {
    /// What was counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Where to ask how much waits.
    pub(crate) queue: Arc<dyn Queue>,
    /// Where to ask what is damaged.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The time of the rows.
    pub(crate) clock: Arc<dyn Clock>,
    /// The directory of the store's files, if it has any.
    pub(crate) data: Option<PathBuf>,
}

impl Scraping {
    /// Shows the figures to whoever asks, until it is dropped.
    pub(crate) async fn serve(self, listener: TcpListener) {
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
        let asked = async {
            let backlog = self.queue.backlog(Partition::all().collect()).await?;
            let depth = self.ledger.depth(Within::Whole).await?;
            Ok::<_, store::Error>((
                backlog,
                depth,
                self.ledger.dead_letter_count(Within::Whole).await?,
            ))
        };
        let answer = tokio::time::timeout(PATIENCE, asked).await.ok()?;
        let (backlog, depth, dead_letters) = answer.ok()?;
        let now = self.clock.now();
        Some(Waiting {
            endpoints: backlog.endpoints,
            deliveries: depth.waiting.number,
            dead_letters: dead_letters.number,
            oldest_due: backlog.oldest_due.map(|due| now.since(due)).unwrap_or_default(),
        })
    }

    /// Looks how much room is left for the store's files. A file system may take its time.
    async fn free(&self) -> Option<u64> {
        let data = self.data.clone()?;
        let looked = tokio::task::spawn_blocking(move || room(&data));
        Some(tokio::time::timeout(PATIENCE, looked).await.ok()?.ok()?.ok()?.free)
    }
}

async fn show(State(scraping): State<Scraping>) -> Response {
    let look = Look {
        waiting: scraping.waiting().await,
        syncs: scraping.queue.syncs(),
        free: scraping.free().await,
        damaged: scraping.ledger.damage().len(),
        clock_offset: clock_offset(&*scraping.clock),
    };
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(FORM))];
    (headers, scraping.metrics.page(look)).into_response()
}

/// Returns by how many seconds the time of the rows is ahead of the wall clock. In a fleet that is
/// the database's clock; without one it shows by how much the wall clock was set since the start.
fn clock_offset(clock: &dyn Clock) -> f64 {
    let (rows, wall) = (clock.now(), clock.wall());
    rows.since(wall).as_secs_f64() - wall.since(rows).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    /// Two clocks that stand still: the rows' and the wall's.
    struct Apart(i64, i64);

    impl Clock for Apart {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.0)
        }

        fn wall(&self) -> Timestamp {
            Timestamp::from_micros(self.1)
        }
    }

    #[test]
    fn clocks_that_differ_are_shown_with_who_is_ahead() {
        let table = [
            (7_500_000, 0, "redial_clock_offset_seconds 7.5"),
            (1_000_000, 61_250_000, "redial_clock_offset_seconds -60.25"),
            (5, 5, "redial_clock_offset_seconds 0.0"),
        ];
        for (rows, wall, line) in table {
            let clock_offset = clock_offset(&Apart(rows, wall));
            let page = Metrics::new().page(Look { clock_offset, ..Look::default() });
            assert!(page.lines().any(|it| it == line), "no {line} in\n{page}");
        }
    }
}
