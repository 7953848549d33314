//! A receiver that keeps what arrives and fails when it is told to.
//!
//! It tells its paths apart, so that each endpoint of a tour has one of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{LOCATION, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use testkit::receiver::{self, Keeping, converse, whole};

pub(crate) use testkit::eventually;

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
pub(crate) struct Receiver {
    paths: Paths,
    listening: receiver::Receiver,
}

type Paths = Arc<Mutex<BTreeMap<String, Path>>>;

#[derive(Default)]
struct Path {
    arrivals: Vec<Arrival>,
    answers: VecDeque<u16>,
    /// What failing answers say in Retry-After.
    retry_after: Option<String>,
    /// Where redirects lead.
    location: Option<String>,
    /// How many failing answers wait for each other.
    together: usize,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let paths = Paths::default();
        let own = Arc::clone(&paths);
        let listening = receiver::Receiver::start(move |stream, _| {
            let own = Arc::clone(&own);
            async move { converse(stream, Keeping::Alive, |request| receive(request, &own)).await }
        });
        Self { paths, listening: listening.unwrap() }
    }

    /// Returns a URL of this receiver.
    pub(crate) fn url(&self, name: &str) -> String {
        self.listening.url(&format!("/{name}"))
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

    /// Has the redirects for a name lead somewhere.
    pub(crate) fn leads(&self, name: &str, location: &str) {
        let mut paths = self.paths.lock().unwrap();
        paths.entry(format!("/{name}")).or_default().location = Some(location.to_owned());
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

async fn receive(request: Request<Incoming>, paths: &Paths) -> Response<Full<Bytes>> {
    let (parts, body) = whole(request).await.unwrap().into_parts();
    let name = parts.uri.path().to_owned();
    let (response, together) =
        take_in(paths, &name, Arrival { headers: parts.headers, body, status: 0 });
    let failed = || {
        let paths = paths.lock().unwrap();
        paths
            .get(&name)
            .map_or(0, |path| path.arrivals.iter().filter(|it| it.status >= 400).count())
    };
    while failed() < together {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    response
}

/// Returns the answer, and for how many failing ones it waits.
fn take_in(paths: &Paths, name: &str, arrival: Arrival) -> (Response<Full<Bytes>>, usize) {
    let mut paths = paths.lock().unwrap();
    let path = paths.entry(name.to_owned()).or_default();
    let status = path.answers.pop_front().unwrap_or(204);
    path.arrivals.push(Arrival { status, ..arrival });
    let mut response = receiver::status(StatusCode::from_u16(status).unwrap());
    if let Some(wish) = path.retry_after.as_ref().filter(|_| status >= 400) {
        response.headers_mut().insert(RETRY_AFTER, wish.parse().unwrap());
    }
    if let Some(location) = path.location.as_ref().filter(|_| (300..400).contains(&status)) {
        response.headers_mut().insert(LOCATION, location.parse().unwrap());
    }
    (response, if status >= 400 { path.together } else { 0 })
}
