//! Reading an answer: as much as is kept, a little more if that saves the connection, no further.
//!
//! An answer counts from the moment its body has ended, or as much of it has come as is kept. Whatever it
//! does after that, be it endless, slow or cut off, changes nothing. A body that breaks off or stalls
//! before that is a failure, whatever the status: nobody knows what the receiver has done. Nothing is ever
//! unpacked.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use domain::outcome::Outcome;
use domain::policy::{BodyLimit, Part, ResponseKept};
use domain::retry_after::RetryAfter;
use http::header::{CONTENT_LENGTH, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderMap, response};
use hyper::body::{Body as _, Frame, Incoming};
use store::Headers;

use super::exchange::{Reading, Wire};
use super::outcome::Failure;

/// How much of a body is read beyond what is kept, to save its connection.
const DRAINED_BYTES: usize = 64 * 1024;
/// How many bytes of an answer's headers are kept.
const KEPT_OF_HEADERS: usize = 16 * 1024;

/// About what the record of an answer's headers takes.
const USUAL_BYTES: usize = 256;

/// An answer, as far as it has come and is kept.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    retry_after: Option<RetryAfter>,
    headers: Headers,
    body: Vec<u8>,
    limit: BodyLimit,
    /// The most bytes that could be kept.
    most: usize,
    /// Whether the head says where the body ends. Otherwise it ends with the connection.
    has_end: bool,
    /// What is to be said about it.
    pub(super) complaint: Option<String>,
}

/// How the reading of a body has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// At the body's end.
    Whole,
    /// With as much of it as is kept; what followed was left.
    Enough,
    /// It broke off before that.
    Cut,
    /// Its time ran out before that.
    Stalled,
}

impl Answer {
    /// Begins with the head of one that leads elsewhere: nothing of it is kept.
    pub(super) fn passing(head: &response::Parts) -> Self {
        let kept = ResponseKept { parts: BTreeSet::new(), body_limit: BodyLimit::Bytes(0) };
        Self::begin(head, &kept)
    }

    /// Begins with a head.
    pub(super) fn begin(head: &response::Parts, kept: &ResponseKept) -> Self {
        let asked = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = asked.and_then(RetryAfter::parse);
        let status = head.status.as_u16();
        let kept_headers = kept.parts.contains(&Part::Headers);
        Self {
            status,
            retry_after,
            headers: if kept_headers { keep_headers(&head.headers) } else { Headers::default() },
            body: Vec::new(),
            limit: kept.body_limit,
            most: kept.most(Outcome::answered(status)),
            has_end: [CONTENT_LENGTH, TRANSFER_ENCODING]
                .iter()
                .any(|name| head.headers.contains_key(name)),
            complaint: None,
        }
    }

    /// Returns what it counts as once its body has ended, or enough of it has come.
    pub(super) fn outcome(&self) -> Outcome {
        Outcome::Answered { status: self.status, retry_after: self.retry_after }
    }

    /// Tells whether as much of the body has come as is kept.
    pub(super) fn has_enough(&self) -> bool {
        self.body.len() == self.most || self.limit.is_met_by(&self.body)
    }

    /// Makes what a body is that broke off.
    pub(super) fn cut(&self) -> Failure {
        Failure::body_cut(self.status)
    }

    /// Makes what a body is that did not come in time.
    pub(super) fn stalled(&self) -> Failure {
        Failure::body_stalled(self.status)
    }

    /// Takes what fits of a piece of the body.
    fn take(&mut self, piece: &[u8]) {
        let room = self.most - self.body.len();
        self.body.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// Returns what is recorded of it: headers and body.
    pub(super) fn finish(mut self) -> (Headers, Bytes) {
        let kept = self.limit.keep(&self.body).len();
        self.body.truncate(kept);
        (self.headers, Bytes::from(self.body))
    }
}

/// Reads a body.
pub(super) async fn read(
    wire: &mut Wire,
    mut body: Incoming,
    answer: &mut Answer,
    reading: &mut Reading,
) -> Read {
    let mut drained = 0;
    loop {
        if body.is_end_stream() {
            return Read::Whole;
        }
        let unread = body.size_hint().exact().and_then(|rest| usize::try_from(rest).ok());
        let room = answer.most - answer.body.len() + DRAINED_BYTES - drained;
        // A body that says it is too long is not begun to be drained.
        if room == 0 || answer.body.len() == answer.most && unread.is_some_and(|it| it > room) {
            return Read::Enough;
        }
        let frame = match next_frame(wire, &mut body, (answer, reading)).await {
            Next::Frame(frame) => frame,
            Next::End => return Read::Whole,
            Next::Broken(_) | Next::TooLate if answer.has_enough() => return Read::Enough,
            // Many servers end TLS by closing the connection. Where that is the only end that the body
            // has, it cannot be told from one that was cut off, and most of them mean it.
            Next::Broken(error) if !answer.has_end && is_unannounced_end(&error) => {
                return Read::Whole;
            }
            Next::Broken(_) => return Read::Cut,
            Next::TooLate => return Read::Stalled,
        };
        if let Some(piece) = frame.data_ref() {
            let before = answer.body.len();
            answer.take(piece);
            let passed = piece.len() - (answer.body.len() - before);
            drained = DRAINED_BYTES.min(drained + passed);
        }
    }
}

/// What comes next of a body.
enum Next {
    Frame(Frame<Bytes>),
    End,
    Broken(hyper::Error),
    TooLate,
}

async fn next_frame(
    wire: &mut Wire,
    body: &mut Incoming,
    (answer, reading): (&Answer, &mut Reading),
) -> Next {
    let next = |frame: Option<Result<_, _>>| match frame {
        Some(Ok(frame)) => Next::Frame(frame),
        Some(Err(error)) => Next::Broken(error),
        None => Next::End,
    };
    poll_fn(|context| {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(next(frame));
        }
        // Asking for the piece has told the connection to read it.
        wire.drive(context);
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(next(frame));
        }
        if answer.has_enough() {
            reading.hurry();
        }
        match reading.poll_passed(context, || true) {
            true => Poll::Ready(Next::TooLate),
            false => Poll::Pending,
        }
    })
    .await
}

/// Tells whether a connection was closed that TLS had not said would be.
fn is_unannounced_end(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
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
            assert!(answer.has_enough());
            assert_eq!(answer.finish().1.len(), most);
        }
    }

    #[test]
    fn a_preset_may_keep_less() {
        let mut cut = answer(500, &kept(&Part::ALL, BodyLimit::Characters(3)));
        cut.take("äöüß".as_bytes());
        assert!(cut.has_enough());
        assert_eq!(cut.finish().1, "äöü".as_bytes());
        let mut bare = answer(500, &kept(&[Part::Status], BodyLimit::Bytes(9)));
        bare.take(b"body");
        assert!(bare.has_enough());
        assert_eq!(bare.outcome(), Outcome::answered(500));
        let (headers, body) = bare.finish();
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
