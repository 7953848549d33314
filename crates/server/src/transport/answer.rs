//! Reading an answer: as much as is kept, a little more if that saves the connection, no further.
//!
//! An answer counts from the moment its head is complete. Whatever its body does after that, be it
//! endless, slow, cut off or packed, changes neither the status nor what is kept; nothing is ever
//! unpacked.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use domain::outcome::Outcome;
use domain::policy::{BodyLimit, Part, ResponseKept};
use domain::retry_after::RetryAfter;
use http::header::RETRY_AFTER;
use http::{HeaderMap, response};
use hyper::body::{Body as _, Frame, Incoming};
use store::Headers;

use super::exchange::{Reading, Wire};

/// How much of a body is read beyond what is kept, to save its connection.
const DRAINED_BYTES: usize = 64 * 1024;
/// How many bytes of an answer's headers are kept.
const KEPT_OF_HEADERS: usize = 16 * 1024;

/// About what the record of an answer's headers takes.
const USUAL_BYTES: usize = 256;

/// An answer, as far as it has come and is kept.
#[derive(Debug)]
pub(super) struct Answer {
    outcome: Outcome,
    headers: Headers,
    body: Vec<u8>,
    limit: BodyLimit,
    /// The most bytes that could be kept.
    most: usize,
}

impl Answer {
    /// Begins with a head.
    pub(super) fn begin(head: &response::Parts, kept: &ResponseKept) -> Self {
        let asked = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = asked.and_then(RetryAfter::parse);
        let outcome = Outcome::Answered { status: head.status.as_u16(), retry_after };
        let kept_headers = kept.parts.contains(&Part::Headers);
        Self {
            outcome,
            headers: if kept_headers { keep_headers(&head.headers) } else { Headers::default() },
            body: Vec::new(),
            limit: kept.body_limit,
            most: kept.most(outcome),
        }
    }

    /// Takes what fits of a piece of the body.
    fn take(&mut self, piece: &[u8]) {
        let room = self.most - self.body.len();
        self.body.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// Returns what is recorded: outcome, headers, body.
    pub(super) fn finish(mut self) -> (Outcome, Headers, Bytes) {
        let kept = self.limit.keep(&self.body).len();
        self.body.truncate(kept);
        (self.outcome, self.headers, Bytes::from(self.body))
    }
}

/// Reads a body, and tells whether it came to its end.
pub(super) async fn read(
    wire: &mut Wire,
    mut body: Incoming,
    answer: &mut Answer,
    reading: &mut Reading,
) -> bool {
    let mut drained = 0;
    loop {
        if body.is_end_stream() {
            return true;
        }
        let unread = body.size_hint().exact().and_then(|rest| usize::try_from(rest).ok());
        let room = answer.most - answer.body.len() + DRAINED_BYTES - drained;
        // A body that says it is too long is not begun to be drained.
        if room == 0 || answer.body.len() == answer.most && unread.is_some_and(|it| it > room) {
            return false;
        }
        let frame = match next_frame(wire, &mut body, reading).await {
            Some(Ok(frame)) => frame,
            Some(Err(Cut)) => return false,
            None => return true,
        };
        if let Some(piece) = frame.data_ref() {
            let before = answer.body.len();
            answer.take(piece);
            let passed = piece.len() - (answer.body.len() - before);
            drained = DRAINED_BYTES.min(drained + passed);
        }
    }
}

/// A body that broke off, or whose time ran out.
struct Cut;

async fn next_frame(
    wire: &mut Wire,
    body: &mut Incoming,
    reading: &mut Reading,
) -> Option<Result<Frame<Bytes>, Cut>> {
    poll_fn(|context| {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|_| Cut)));
        }
        // Asking for the piece has told the connection to read it.
        wire.drive(context);
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|_| Cut)));
        }
        match reading.poll_passed(context, || true) {
            true => Poll::Ready(Some(Err(Cut))),
            false => Poll::Pending,
        }
    })
    .await
}

fn keep_headers(headers: &HeaderMap) -> Headers {
    let mut kept = Headers::with_capacity(USUAL_BYTES);
    let mut bytes = 0;
    for (name, value) in headers {
        bytes += name.as_str().len() + value.len();
        if bytes > KEPT_OF_HEADERS {
            break;
        }
        kept.push(name.as_str(), &String::from_utf8_lossy(value.as_bytes()));
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::outcome::{KEPT_OF_FAILURE, KEPT_OF_SUCCESS};

    use super::*;

    fn kept(parts: &[Part], body_limit: BodyLimit) -> ResponseKept {
        ResponseKept { parts: parts.iter().copied().collect::<BTreeSet<_>>(), body_limit }
    }

    fn answer(status: u16, kept: &ResponseKept) -> Answer {
        let response =
            http::Response::builder().status(status).header("x-a", "1").body(()).unwrap();
        Answer::begin(&response.into_parts().0, kept)
    }

    #[test]
    fn of_a_failure_more_is_kept_than_of_a_success() {
        let kept = kept(&Part::ALL, BodyLimit::Bytes(u32::MAX));
        for (status, most) in [(200, KEPT_OF_SUCCESS), (500, KEPT_OF_FAILURE)] {
            let mut answer = answer(status, &kept);
            for _ in 0..3 {
                answer.take(&[b'a'; 10_000]);
            }
            assert_eq!(answer.finish().2.len(), most);
        }
    }

    #[test]
    fn a_preset_may_keep_less() {
        let mut cut = answer(500, &kept(&Part::ALL, BodyLimit::Characters(3)));
        cut.take("äöüß".as_bytes());
        assert_eq!(cut.finish().2, "äöü".as_bytes());
        let mut bare = answer(500, &kept(&[Part::Status], BodyLimit::Bytes(9)));
        bare.take(b"body");
        let (outcome, headers, body) = bare.finish();
        assert_eq!(outcome, Outcome::answered(500));
        assert!(headers.is_empty() && body.is_empty());
    }

    #[test]
    fn headers_are_kept_up_to_a_limit() {
        let mut headers = HeaderMap::new();
        for each in 0..20_u8 {
            let name = http::HeaderName::try_from(format!("x-{each}")).unwrap();
            headers.append(name, "v".repeat(1_000).parse().unwrap());
        }
        assert_eq!(keep_headers(&headers).pairs().len(), 16);
    }
}
