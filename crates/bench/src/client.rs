//! What is sent over and over, on connections of this machine.
//!
//! A closed loop sends the next request when the last one was answered; it finds out how much the
//! other side can take. An open loop, in [`super::pace`], sends when the time has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use domain::time::Timestamp;
use host::clock::Clock;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use testkit::connection::Connection;
use tokio::task::JoinSet;

use super::body::Body;
use super::shapes;

/// How long to wait after having been turned away.
const TURNED_AWAY_WAIT: Duration = Duration::from_millis(2);
/// How often in a row one request may be turned away: some seconds.
const MOST_TURNS: u32 = 5_000;
/// The most of an answer that an error quotes.
const QUOTED_BYTES: usize = 300;

/// What became of a request, or of several.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// Messages that were taken.
    pub(super) messages: u64,
    /// How often a message was turned away before or beside them.
    pub(super) turned_away: u64,
    /// How many of those were not sent again, because others of their batch were taken.
    pub(super) given_up: u64,
}

impl Taken {
    /// Adds what became of others.
    pub(super) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.turned_away += other.turned_away;
        self.given_up += other.given_up;
    }
}

fn is_full(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// Says what was answered to what.
pub(super) fn quoted(what: &str, answer: &Response<Bytes>) -> String {
    let (status, body) = (answer.status(), answer.body());
    let text = String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES)]);
    format!("{what} was answered with {status}: {text}")
}

/// What is sent over and over.
#[derive(Debug)]
pub(super) struct Source {
    head: Request<()>,
    bodies: Vec<Body>,
    next: AtomicUsize,
    /// What the idempotency keys begin with, if there are any.
    keys: Option<String>,
}

impl Source {
    /// Sends bodies in turn to a path.
    pub(super) fn new(method: Method, path: &str, bodies: Vec<Body>) -> anyhow::Result<Self> {
        let mut head = Request::builder().method(method).uri(path).body(())?;
        head.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
        Ok(Self { head, bodies, next: AtomicUsize::new(0), keys: None })
    }

    /// Sends this header with each.
    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.head.headers_mut().insert(name, value);
        self
    }

    /// Sends an idempotency key with each, as the SDKs do.
    pub(super) fn with_keys(mut self, beginning: &str) -> Self {
        self.keys = Some(beginning.to_owned());
        self
    }

    /// Sends the next request. A server that is full may take a part of it, or nothing; then there is a
    /// short wait.
    ///
    /// # Errors
    /// If the answer is neither a success nor "later", or nothing was taken for too long.
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        at: Timestamp,
    ) -> anyhow::Result<Taken> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let what = || format!("{} {}", self.head.method(), self.head.uri());
        let mut turned_away = 0;
        for _ in 0..MOST_TURNS {
            let answer = connection.exchange(self.request(number, at)).await?;
            let status = answer.status();
            anyhow::ensure!(status.is_success() || is_full(status), "{}", quoted(&what(), &answer));
            let messages = self.accepted(status, answer.body());
            let refused = self.messages() - messages;
            turned_away += refused;
            if turned_away == 0 {
                return Ok(Taken { messages, ..Taken::default() });
            }
            tokio::time::sleep(TURNED_AWAY_WAIT).await;
            // Sent again, it would bring once more what was taken of it.
            if messages > 0 {
                return Ok(Taken { messages, turned_away, given_up: refused });
            }
        }
        anyhow::bail!("{} was turned away {MOST_TURNS} times", self.head.uri())
    }

    /// Returns how many requests it has made.
    pub(super) fn made(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// Makes a request, stamped with a time.
    fn request(&self, number: usize, at: Timestamp) -> Request<Full<Bytes>> {
        let body = self.bodies.get(number % self.bodies.len().max(1));
        let mut request = self.head.clone();
        if let Some(beginning) = &self.keys
            && let Ok(key) = HeaderValue::from_str(&format!("{beginning}-{number}"))
        {
            request.headers_mut().insert(HeaderName::from_static("idempotency-key"), key);
        }
        request.map(|()| Full::new(body.map(|body| body.stamped(at)).unwrap_or_default()))
    }

    /// Returns how many messages one request has. One without any counts as one.
    pub(super) fn messages(&self) -> u64 {
        let messages = self.bodies.first().map_or(0, Body::messages);
        u64::try_from(messages).unwrap_or(u64::MAX).max(1)
    }

    /// Returns how many of a request's messages were taken.
    fn accepted(&self, status: StatusCode, body: &[u8]) -> u64 {
        match (status.is_success(), self.messages()) {
            (false, _) => 0,
            (true, 1) => 1,
            (true, messages) => shapes::accepted(body).min(messages),
        }
    }
}

/// When a closed loop ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    /// When so many messages were taken, or a few more: a batch is not cut.
    Messages(u64),
    /// After so long.
    Time(Duration),
}

/// A closed loop.
#[derive(Debug, Clone)]
pub(super) struct Closed {
    pub(super) port: u16,
    pub(super) connections: usize,
    pub(super) source: Arc<Source>,
    pub(super) limit: Limit,
}

/// What a loop did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    /// What became of all requests.
    pub(super) taken: Taken,
    /// When the first was sent.
    pub(super) began: Timestamp,
    /// When the last was answered.
    pub(super) ended: Timestamp,
}

impl Sent {
    /// Returns the messages per second.
    pub(super) fn per_second(&self) -> f64 {
        super::per_second(self.taken.messages, self.ended.since(self.began))
    }
}

/// Tells workers whether there is something left to do.
#[derive(Debug)]
struct Tickets {
    limit: Limit,
    began: Timestamp,
    /// Messages that were given out and not given back.
    given: AtomicU64,
}

impl Tickets {
    fn take(&self, messages: u64, now: Timestamp) -> bool {
        match self.limit {
            Limit::Messages(most) => {
                let left = self.given.fetch_add(messages, Ordering::Relaxed) < most;
                if !left {
                    self.give_back(messages);
                }
                left
            }
            Limit::Time(span) => now.since(self.began) < span,
        }
    }

    fn give_back(&self, messages: u64) {
        self.given.fetch_sub(messages, Ordering::Relaxed);
    }
}

impl Closed {
    /// Runs the loop.
    ///
    /// # Errors
    /// If a request fails: a benchmark of errors would be worth nothing.
    pub(super) async fn run(self, clock: &Arc<dyn Clock>) -> anyhow::Result<Sent> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            connections.push(Connection::open(self.port).await.context("cannot connect")?);
        }
        let began = clock.now();
        let tickets = Arc::new(Tickets { limit: self.limit, began, given: AtomicU64::new(0) });
        let mut workers = JoinSet::new();
        for connection in connections {
            let (source, tickets) = (Arc::clone(&self.source), Arc::clone(&tickets));
            workers.spawn(work(connection, source, tickets, Arc::clone(clock)));
        }
        let mut taken = Taken::default();
        while let Some(worked) = workers.join_next().await {
            taken.add(worked??);
        }
        Ok(Sent { taken, began, ended: clock.now() })
    }
}

async fn work(
    mut connection: Connection,
    source: Arc<Source>,
    tickets: Arc<Tickets>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Taken> {
    let mut all = Taken::default();
    loop {
        let now = clock.now();
        if !tickets.take(source.messages(), now) {
            return Ok(all);
        }
        let taken = source.send(&mut connection, now).await?;
        tickets.give_back(source.messages() - taken.messages);
        all.add(taken);
    }
}
