//! What a client does with an HTTP/2 connection, so that one that does nothing any more can be ended.
//!
//! A request runs until the client has taken its answer. The answer is handed over in pieces, so it can be
//! seen whether the client still reads.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;

use super::pieces::Pieces;

/// What a client does with its connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Counts everything that happens.
    moves: AtomicU64,
    running: AtomicU64,
}

impl Activity {
    /// Waits until a client has asked nothing for a while and has all its answers, or until nothing
    /// has moved for so long that nothing will.
    pub(super) async fn idle(&self, patience: Duration, longest: Duration) {
        let (mut seen, mut still) = (0, Duration::ZERO);
        loop {
            tokio::time::sleep(patience).await;
            let moves = self.moves.load(Ordering::Relaxed);
            if moves != seen {
                (seen, still) = (moves, Duration::ZERO);
                continue;
            }
            still += patience;
            if self.running.load(Ordering::Relaxed) == 0 || still > longest {
                return;
            }
        }
    }

    fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request that is being answered.
struct Began(Arc<Activity>);

impl Began {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.moved();
        activity.running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for Began {
    fn drop(&mut self) {
        self.0.moved();
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A service that notes what is asked and answered.
#[derive(Clone)]
pub(super) struct Counted<S> {
    /// Whatever answers.
    pub(super) service: S,
    /// Where it is noted.
    pub(super) activity: Arc<Activity>,
}

impl<S> hyper::service::Service<http::Request<Incoming>> for Counted<S>
where
    S: hyper::service::Service<
            http::Request<Incoming>,
            Response = http::Response<Body>,
            Error = Infallible,
            Future: Send + 'static,
        >,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let began = Began::new(&self.activity);
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| Body::new(Pieces::new(body, move || began.0.moved()))))
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt as _;

    use super::super::pieces::PIECE;
    use super::*;

    #[tokio::test]
    async fn an_answer_runs_until_its_last_piece_was_taken() {
        let activity = Arc::new(Activity::default());
        let whole = Bytes::from(vec![7; PIECE * 2 + 1]);
        let body = Body::from(whole.clone());
        let began = Began::new(&activity);
        let mut pieces = Pieces::new(body, move || began.0.moved());
        let mut sizes = Vec::new();
        while let Some(frame) = pieces.frame().await {
            sizes.push(frame.unwrap().into_data().unwrap().len());
            assert_eq!(activity.running.load(Ordering::Relaxed), 1);
        }
        assert_eq!(sizes, [PIECE, PIECE, 1]);
        drop(pieces);
        assert_eq!(activity.running.load(Ordering::Relaxed), 0);
    }
}
