//! What is left of a request's body when its answer is ready.
//!
//! Over HTTP/1.1 a connection with unread bytes cannot be closed without a reset, and a reset can
//! overtake the answer: whoever sent too much, or without a token, would never hear why. So the rest
//! is read and dropped while the answer goes out, up to a limit of bytes and of time. A client that has stopped in
//! the middle of its body is not waited for: it is not sending.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::EXPECT;
use http::{Request, Version};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// How much is read of what nobody wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// The most bytes.
    pub(super) bytes: usize,
    /// The longest time.
    pub(super) time: Duration,
}

/// A body whose rest is read and dropped when nobody wants it any more.
pub(super) struct Drained {
    /// Missing once it was read to its end.
    body: Option<Incoming>,
    patience: Patience,
    /// Whether nothing is on its way: the client waits until somebody asks for the body, or was waited for in vain.
    waits: bool,
}

/// Prepares a request, so that the rest of its body is dropped in a way that lets the client read
/// its answer.
pub(super) fn drained(request: Request<Incoming>, patience: Patience) -> Request<axum::body::Body> {
    // Over HTTP/2 each request ends by itself, and the connection lives on.
    if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
        return request.map(axum::body::Body::new);
    }
    let waits = request.headers().contains_key(EXPECT);
    request.map(|body| axum::body::Body::new(Drained { body: Some(body), patience, waits }))
}

impl Body for Drained {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body: Some(body), waits, .. } = &mut *self else { return Poll::Ready(None) };
        *waits = true;
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        *waits = false;
        if !matches!(frame, Some(Ok(_))) || body.is_end_stream() {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|_| !self.waits) else { return };
        let Patience { bytes, time } = self.patience;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // However it ends: whoever sends more than that has to bear the reset.
            runtime.spawn(async move { tokio::time::timeout(time, drain(body, bytes)).await });
        }
    }
}

async fn drain(mut body: Incoming, most: usize) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > most {
            return;
        }
    }
}
