//! A receiver that keeps what arrives and fails when it is told to.
//!
//! It tells its paths apart, so that each endpoint of a tour has one of its own.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Asks again and again, for thirty seconds at the most.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1_500 {
        if let Some(found) = ask().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("within thirty seconds it did not happen that {what}");
}

/// One request as it arrived, and what it was answered.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) status: u16,
}

impl Arrival {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Listens on a port of this machine.
#[derive(Clone)]
pub(crate) struct Receiver {
    port: u16,
    paths: Arc<Mutex<BTreeMap<String, Path>>>,
}

#[derive(Default)]
struct Path {
    arrivals: Vec<Arrival>,
    answers: VecDeque<u16>,
    /// What failing answers say in Retry-After.
    retry_after: Option<String>,
    /// How many failing answers wait for each other.
    together: usize,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let receiver = Self { port, paths: Arc::default() };
        let own = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let own = own.clone();
                let service = service_fn(move |request| own.clone().receive(request));
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        receiver
    }

    /// Returns a URL of this receiver.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    async fn receive(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Empty<Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let name = parts.uri.path().trim_start_matches('/').to_owned();
        let (response, together) = self.take_in(&name, parts.headers, body);
        let failed = || self.at(&name).iter().filter(|it| it.status >= 400).count();
        while failed() < together {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(response)
    }

    /// Returns the answer, and for how many failing ones it waits.
    fn take_in(
        &self,
        name: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> (Response<Empty<Bytes>>, usize) {
        let mut paths = self.paths.lock().unwrap();
        let path = paths.entry(format!("/{name}")).or_default();
        let status = path.answers.pop_front().unwrap_or(204);
        path.arrivals.push(Arrival { headers, body, status });
        let mut response = Response::new(Empty::new());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        if let Some(wish) = path.retry_after.as_ref().filter(|_| status >= 400) {
            response.headers_mut().insert(RETRY_AFTER, wish.parse().unwrap());
        }
        (response, if status >= 400 { path.together } else { 0 })
    }

    /// Gives the next requests for a name these statuses; later ones get 204.
    pub(crate) fn answer(&self, name: &str, statuses: &[u16]) {
        let mut paths = self.paths.lock().unwrap();
        paths.entry(format!("/{name}")).or_default().answers = statuses.iter().copied().collect();
    }

    /// Has the failing answers for a name ask for a wait.
    pub(crate) fn retry_after(&self, name: &str, wish: &str) {
        let mut paths = self.paths.lock().unwrap();
        paths.entry(format!("/{name}")).or_default().retry_after = Some(wish.to_owned());
    }

    /// Has so many failing answers for a name wait for each other.
    pub(crate) fn together(&self, name: &str, count: usize) {
        let mut paths = self.paths.lock().unwrap();
        paths.entry(format!("/{name}")).or_default().together = count;
    }

    /// Returns what has arrived for a name.
    pub(crate) fn at(&self, name: &str) -> Vec<Arrival> {
        let paths = self.paths.lock().unwrap();
        paths.get(&format!("/{name}")).map(|path| path.arrivals.clone()).unwrap_or_default()
    }

    /// Waits for that many arrivals of a message.
    pub(crate) async fn wait(&self, name: &str, message: &str, count: usize) -> Vec<Arrival> {
        eventually(&format!("{message} arrives {count} times at {name}"), async || {
            let mut arrivals = self.at(name);
            arrivals.retain(|arrival| arrival.header("webhook-id") == message);
            (arrivals.len() >= count).then_some(arrivals)
        })
        .await
    }
}
