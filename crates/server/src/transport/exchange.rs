//! One request and its answer on one connection.
//!
//! HTTP is driven by the attempt itself, not by a task of the connection's own: an exchange then
//! costs no wake-ups between tasks, and dropping the attempt closes the connection at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use domain::address::NotFollowed;
use domain::policy::ResponseKept;
use domain::time::Timestamp;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use store::queue::Phases;
use tokio::time::Sleep;

use super::answer::{self, Answer, Read};
use super::hops::{Redirect, Trip};
use super::outcome::{Failure, Stage};
use super::stream::{Mark, Stream, Traffic};
use crate::clock::Clock;

/// The largest head of an answer, and the largest piece of its body.
const BUFFER_BYTES: usize = 32 * 1024;
/// How many headers an answer may have.
const ANSWER_HEADERS: usize = 64;
/// How long a body may go on of which enough has come: less than another connection would take.
const DRAINED_FOR: Duration = Duration::from_millis(250);

/// A request with the payload as it was accepted.
pub(super) type Outgoing = Request<Full<Bytes>>;

/// A connection on which HTTP is spoken.
pub(super) struct Wire {
    sender: SendRequest<Full<Bytes>>,
    /// None once it is closed.
    connection: Option<Box<Connection<TokioIo<Stream>, Full<Bytes>>>>,
    traffic: Arc<Traffic>,
    opened_at: Timestamp,
}

/// How far an attempt has come. It outlives the deadline that cuts the attempt off.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What the attempt is about.
    pub(super) stage: Stage,
    /// When that began, until it has ended.
    since: Option<Timestamp>,
    /// Where the time went.
    pub(super) phases: Phases,
    /// The answer, once its head has come.
    pub(super) answer: Option<Answer>,
}

impl Progress {
    /// Goes on to the next stage.
    pub(super) fn begin(&mut self, stage: Stage, clock: &dyn Clock) {
        (self.stage, self.since) = (stage, Some(clock.now()));
    }

    /// Takes the time of the stage that has ended, be it that it failed or was cut off.
    pub(super) fn end(&mut self, clock: &dyn Clock) {
        let Some(since) = self.since.take() else { return };
        let phase = match self.stage {
            Stage::LookUp => &mut self.phases.dns,
            Stage::Proxy | Stage::Connect => &mut self.phases.connect,
            Stage::Handshake => &mut self.phases.tls,
            // How long it took beyond the first byte is in the attempt's own times.
            Stage::Exchange => return,
        };
        // An attempt that is redirected connects more than once.
        *phase = Some(phase.unwrap_or_default() + clock.now().since(since));
    }
}

/// The terms of an exchange.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    /// The time from the request's last byte to the answer's end, if limited by itself.
    pub(super) read: Option<Duration>,
    /// What is kept of the answer.
    pub(super) kept: &'a ResponseKept,
    /// Tells the time.
    pub(super) clock: &'a dyn Clock,
    /// The way of the attempt, if its policy follows redirects.
    pub(super) trip: Option<&'a Trip<'a>>,
}

/// How an exchange ended.
pub(super) enum Ended {
    /// With an answer; the connection can be used again if it is there.
    Answered(Option<Wire>),
    /// With a redirect that is to be followed, and the connection like above.
    Redirected(Redirect, Option<Wire>),
    /// Before any byte of the request had left; here it is again.
    Unsent(Box<Outgoing>),
    /// Otherwise.
    Failed(Failure),
}

impl Wire {
    /// Begins to speak HTTP.
    pub(super) async fn new(stream: Stream, opened_at: Timestamp) -> Result<Self, Failure> {
        let traffic = stream.traffic();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES)
            .max_headers(ANSWER_HEADERS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::exchange(&error, false))?;
        Ok(Self { sender, connection: Some(Box::new(connection)), traffic, opened_at })
    }

    /// Returns when the connection was made.
    pub(super) fn opened_at(&self) -> Timestamp {
        self.opened_at
    }

    /// Has the next read look what the peer has done while the connection was idle.
    pub(super) fn suspect(&self) {
        self.traffic.suspect();
    }

    /// Tells whether an idle connection is still open.
    pub(super) fn is_alive(&mut self) -> bool {
        self.suspect();
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some()
    }

    /// Lets the connection do what it can. A closed one is dropped, which answers whoever waits.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        let closed = self
            .connection
            .as_mut()
            .is_some_and(|connection| Pin::new(connection).poll(context).is_ready());
        if closed {
            self.connection = None;
        }
    }

    /// Returns the connection for another request, if it is fit for one: after an answer was read to its
    /// end, and not while the request is still being written.
    fn kept_after(mut self, read: Read, mark: Mark) -> Option<Self> {
        let whole = read == Read::Whole && self.traffic.flushed_since(mark);
        (whole && self.is_reusable()).then_some(self)
    }

    /// Tells, after an answer was read to its end, whether another request may follow.
    fn is_reusable(&mut self) -> bool {
        // Nobody is to be woken by a waiting connection: the next request looks at it anyway.
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// Sends a request and reads its answer into the progress.
pub(super) async fn exchange(
    mut wire: Wire,
    request: Outgoing,
    terms: Terms<'_>,
    progress: &mut Progress,
) -> Ended {
    progress.stage = Stage::Exchange;
    let mark = wire.traffic.mark();
    let mut reading = Reading { limit: terms.read, sleep: None, hurried: None };
    let response = match head(&mut wire, request, (terms, mark), (&mut reading, progress)).await {
        Ok(response) => response,
        Err(ended) => return ended,
    };
    let (parts, body) = response.into_parts();
    let complaint = match terms.trip.and_then(|trip| trip.next(&parts)) {
        Some(Ok(redirect)) => {
            let mut passing = Answer::passing(&parts);
            let read = answer::read(&mut wire, body, &mut passing, &mut reading).await;
            return Ended::Redirected(redirect, wire.kept_after(read, mark));
        }
        Some(Err(NotFollowed::Blocked(refusal))) => {
            return Ended::Failed(Failure::redirect_blocked(&refusal));
        }
        Some(Err(why)) => Some(format!("the redirect cannot be followed: {why}")),
        None => None,
    };
    let answer = progress.answer.insert(Answer::begin(&parts, terms.kept));
    answer.complaint = complaint;
    match answer::read(&mut wire, body, answer, &mut reading).await {
        Read::Cut => Ended::Failed(answer.cut()),
        Read::Stalled => Ended::Failed(answer.stalled()),
        read @ (Read::Whole | Read::Enough) => Ended::Answered(wire.kept_after(read, mark)),
    }
}

async fn head(
    wire: &mut Wire,
    request: Outgoing,
    (terms, mark): (Terms<'_>, Mark),
    (reading, progress): (&mut Reading, &mut Progress),
) -> Result<Response<Incoming>, Ended> {
    let began = terms.clock.now();
    let mut response = pin!(wire.sender.try_send_request(request));
    let traffic = Arc::clone(&wire.traffic);
    let answered = poll_fn(|context| {
        wire.drive(context);
        if progress.phases.first_byte.is_none() && traffic.received_since(mark) {
            progress.phases.first_byte = Some(terms.clock.now().since(began));
        }
        if let Poll::Ready(answered) = response.as_mut().poll(context) {
            return Poll::Ready(Some(answered));
        }
        match reading.poll_passed(context, || traffic.flushed_since(mark)) {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    })
    .await;
    match answered {
        Some(Ok(response)) => Ok(response),
        Some(Err(mut error)) => Err(match error.take_message() {
            Some(request) => Ended::Unsent(Box::new(request)),
            None => {
                let begun = traffic.received_since(mark);
                Ended::Failed(Failure::exchange(&error.into_error(), begun))
            }
        }),
        None => Err(Ended::Failed(Failure::timed_out(Stage::Exchange))),
    }
}

/// The time that a receiver has from the request's last byte to its answer's end.
pub(super) struct Reading {
    limit: Option<Duration>,
    /// Boxed, because few policies have such a limit and every attempt has room for it.
    sleep: Option<Pin<Box<Sleep>>>,
    /// What is left once the answer can only save its connection.
    hurried: Option<Pin<Box<Sleep>>>,
}

impl Reading {
    /// Lets what follows take only a moment more.
    pub(super) fn hurry(&mut self) {
        self.hurried.get_or_insert_with(|| Box::pin(tokio::time::sleep(DRAINED_FOR)));
    }

    /// Tells whether it has passed; it begins when `written` first says so.
    pub(super) fn poll_passed(
        &mut self,
        context: &mut Context<'_>,
        written: impl FnOnce() -> bool,
    ) -> bool {
        let passed = |sleep: &mut Pin<Box<Sleep>>| sleep.as_mut().poll(context).is_ready();
        if self.hurried.as_mut().is_some_and(passed) {
            return true;
        }
        let Some(limit) = self.limit else { return false };
        if self.sleep.is_none() && written() {
            self.sleep = Some(Box::pin(tokio::time::sleep(limit)));
        }
        self.sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(context).is_ready())
    }
}
