//! Bodies of answers, handed over in pieces.
//!
//! A piece is asked for when there is room for it in the buffers of its connection. So a large answer that its client
//! does not read stays here, and lasts until nearly all of it was read.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// The most bytes of an answer that are handed over at once.
pub(super) const PIECE: usize = 16 << 10;

/// A body that is handed over in pieces.
pub(crate) struct Pieces<Asked> {
    body: Body,
    rest: Bytes,
    asked: Asked,
}

impl<Asked: Fn()> Pieces<Asked> {
    /// Makes one that says whenever a piece is asked for. What `asked` owns lasts as long as the body.
    pub(crate) fn new(body: Body, asked: Asked) -> Self {
        Self { body, rest: Bytes::new(), asked }
    }
}

impl<Asked: Fn() + Unpin> hyper::body::Body for Pieces<Asked> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        (self.asked)();
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
