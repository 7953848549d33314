//! A cheap HTTP client: it shares the cores with the server it measures, so it does as little as
//! can be done and still be a client. It dials this machine and nothing else.
//!
//! A closed loop sends the next request when the last one was answered; it finds out how much the
//! other side can take. An open loop, in [`super::pace`], sends when the time has come.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use domain::time::Timestamp;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::body::Body;
use super::shapes;
use crate::clock::Clock;

/// How long to wait after having been turned away.
const TURNED_AWAY_WAIT: Duration = Duration::from_millis(2);
/// How often in a row one request may be turned away: some seconds.
const MOST_TURNS: u32 = 5_000;
/// The most of an answer that an error quotes.
const QUOTED_BYTES: usize = 300;

/// One connection, with one request at a time.
#[derive(Debug)]
pub(super) struct Connection {
    port: u16,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects to a port of this machine.
    pub(super) async fn open(port: u16) -> anyhow::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        // A broken connection is told to whoever sends on it next.
        tokio::spawn(async { drop(driver.await) });
        Ok(Self { port, sender })
    }

    /// Sends a request and returns the answer. A server closes a connection that was idle for long, so
    /// another one is opened if there is none any more before anything is written.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        if self.sender.ready().await.is_err() {
            *self = Self::open(self.port).await?;
            self.sender.ready().await?;
        }
        let (head, mut body) = self.sender.send_request(request).await?.into_parts();
        let mut kept = Bytes::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            // Nearly every answer comes in one piece, and then nothing is copied.
            kept = if kept.is_empty() { data } else { [kept, data].concat().into() };
        }
        Ok((head.status, kept))
    }

    /// Sends the next request of a source. A server that is full may take a part of it, or nothing;
    /// then there is a short wait.
    ///
    /// # Errors
    /// If the answer is neither a success nor "later", or nothing was taken for too long.
    pub(super) async fn send(&mut self, source: &Source, at: Timestamp) -> anyhow::Result<Taken> {
        let number = source.next.fetch_add(1, Ordering::Relaxed);
        let mut turned_away = 0;
        for _ in 0..MOST_TURNS {
            let (status, body) = self.exchange(source.request(number, at)).await?;
            anyhow::ensure!(
                status.is_success() || is_full(status),
                "{}",
                quoted(&source.head, status, &body)
            );
            let messages = source.accepted(status, &body);
            let refused = source.messages() - messages;
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
        anyhow::bail!("{} was turned away {MOST_TURNS} times", source.head.uri())
    }
}

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
pub(super) fn quoted<B>(request: &Request<B>, status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES)]);
    format!("{} {} was answered with {status}: {text}", request.method(), request.uri())
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
        let taken = connection.send(&source, now).await?;
        tickets.give_back(source.messages() - taken.messages);
        all.add(taken);
    }
}
