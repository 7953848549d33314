//! What a client does with an HTTP/2 connection, so that one that does nothing any more can be ended.
//!
//! A request runs until the client has taken its answer. The answer is handed over in pieces, each
//! only when there is room for it; so it can be seen whether the client still reads, and an answer
//! that nobody reads does not lie whole in a buffer of the connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};

/// The most bytes of an answer that are handed over at once.
const PIECE: usize = 16 << 10;

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
    type Response = http::Response<Pieces>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let began = Began::new(&self.activity);
        let answer = self.service.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| Pieces { body, rest: Bytes::new(), began }))
        })
    }
}

/// The body of an answer, handed over in pieces. Its request runs as long as it is there.
pub(super) struct Pieces {
    body: Body,
    rest: Bytes,
    began: Began,
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.began.0.moved();
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let size = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let after = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.saturating_add(after.lower()));
        if let Some(upper) = after.upper() {
            hint.set_upper(rest.saturating_add(upper));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn an_answer_runs_until_its_last_piece_was_taken() {
        let activity = Arc::new(Activity::default());
        let whole = Bytes::from(vec![7; PIECE * 2 + 1]);
        let body = Body::from(whole.clone());
        let mut pieces = Pieces { body, rest: Bytes::new(), began: Began::new(&activity) };
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
