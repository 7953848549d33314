//! The receivers: one HTTP server plays all endpoints, and logs each request that arrives.
//!
//! An endpoint is a number in the path. Each has its manner, its own secret, and a tally of what it
//! is busy with. A request is logged when all of it was read; whether it was signed and is what was
//! sent is looked at there and then.
//!
//! There are two doors: at one of them connections are taken in at once, at the other only now and
//! then, after they have waited for up to a second with their requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::time::Timestamp;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use redial::clock::{Clock, SystemClock};
use signature::{Profile, SharedSecret, SigningSecret, Verifier};
use testkit::receiver::{self, Keeping, converse, status, whole};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::chance::Chance;
use super::payload::number_of;

/// How an endpoint answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// With success, at once.
    Steady,
    /// With 500 so many times in a hundred, and with success otherwise.
    Flaky(u64),
    /// With success, after a random time between these milliseconds.
    Slow(u64, u64),
    /// With 400, always.
    Refuses,
    /// With success, once for each connection, at the door where connections wait.
    Reluctant,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) at: Timestamp,
    /// The endpoint's number.
    pub(crate) endpoint: usize,
    /// The number in its payload.
    pub(crate) number: u64,
    /// The message's id.
    pub(crate) message: String,
    /// Whether the answer ends its delivery.
    pub(crate) ends: bool,
}

/// What an endpoint is busy with.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    now: u32,
    most: u32,
}

struct Station {
    manner: Manner,
    verifier: Verifier,
}

#[derive(Default)]
struct Log {
    arrivals: Vec<Arrival>,
    tallies: Vec<Tally>,
    /// What is wrong with requests as such.
    faults: Vec<String>,
}

struct Hall {
    stations: Vec<Station>,
    log: Mutex<Log>,
    chance: Mutex<Chance>,
    clock: SystemClock,
    /// Lets in the connections that wait.
    opened: Notify,
}

/// All receivers.
pub(crate) struct Receiver {
    hall: Arc<Hall>,
    door: receiver::Receiver,
    /// Where connections wait.
    reluctant: receiver::Receiver,
    opening: JoinHandle<()>,
}

impl Receiver {
    /// Starts receivers with these manners, numbered from 0.
    pub(crate) async fn start(
        manners: &[Manner],
        seed: u64,
        clock: SystemClock,
    ) -> anyhow::Result<Self> {
        let mut stations = Vec::new();
        for (number, manner) in manners.iter().enumerate() {
            let secrets = [secret(number)?.for_receiver()];
            let verifier = Verifier::new(&secrets, &Profile::StandardWebhooks)?;
            stations.push(Station { manner: *manner, verifier });
        }
        let log = Log { tallies: vec![Tally::default(); stations.len()], ..Log::default() };
        let (log, chance) = (Mutex::new(log), Mutex::new(Chance::new(seed)));
        let hall = Arc::new(Hall { stations, log, chance, clock, opened: Notify::new() });
        let (door, reluctant) = (Arc::clone(&hall), Arc::clone(&hall));
        Ok(Self {
            opening: tokio::spawn(open_reluctantly(Arc::clone(&hall))),
            hall,
            door: receiver::Receiver::start(move |stream, _| {
                let hall = Arc::clone(&door);
                async move { converse(stream, Keeping::Alive, |it| answer(it, &hall)).await }
            })?,
            reluctant: receiver::Receiver::start(move |stream, _| {
                let hall = Arc::clone(&reluctant);
                async move {
                    hall.opened.notified().await;
                    converse(stream, Keeping::Once, |it| answer(it, &hall)).await;
                }
            })?,
        })
    }

    /// Returns the URL of an endpoint.
    pub(crate) fn url(&self, endpoint: usize) -> String {
        let manner = self.hall.stations.get(endpoint).map(|station| station.manner);
        let reluctant = matches!(manner, Some(Manner::Reluctant));
        let door = if reluctant { &self.reluctant } else { &self.door };
        door.url(&format!("/{endpoint}"))
    }

    /// Returns everything that has arrived, in order.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.hall.log().arrivals.clone()
    }

    /// Returns how many requests have arrived.
    pub(crate) fn count(&self) -> usize {
        self.hall.log().arrivals.len()
    }

    /// Returns the most requests that an endpoint was busy with at a time.
    pub(crate) fn most_at_a_time(&self, endpoint: usize) -> u32 {
        self.hall.log().tallies.get(endpoint).map_or(0, |tally| tally.most)
    }

    /// Returns what was wrong with requests as such.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.hall.log().faults.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.opening.abort();
    }
}

/// Returns an endpoint's secret.
///
/// # Errors
/// If the secret is not one, which would be a mistake in here.
pub(crate) fn secret(endpoint: usize) -> anyhow::Result<SigningSecret> {
    let mut bytes = [7; 24];
    bytes[..8].copy_from_slice(&endpoint.to_be_bytes());
    Ok(SigningSecret::Shared(SharedSecret::from_random(&bytes)?))
}

impl Hall {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn below(&self, limit: u64) -> u64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).below(limit)
    }

    fn wrong(&self, text: String) {
        self.log().faults.push(text);
    }
}

/// Counts a request for as long as the receiver is busy with it, or until the sender is gone.
struct Busy {
    hall: Arc<Hall>,
    endpoint: usize,
}

impl Busy {
    fn with(hall: &Arc<Hall>, endpoint: usize) -> Self {
        if let Some(tally) = hall.log().tallies.get_mut(endpoint) {
            tally.now += 1;
            tally.most = tally.most.max(tally.now);
        }
        Self { hall: Arc::clone(hall), endpoint }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(tally) = self.hall.log().tallies.get_mut(self.endpoint) {
            tally.now -= 1;
        }
    }
}

/// Lets in now and then all connections that wait.
async fn open_reluctantly(hall: Arc<Hall>) {
    loop {
        tokio::time::sleep(Duration::from_millis(50 + hall.below(950))).await;
        hall.opened.notify_waiters();
    }
}

async fn answer(request: Request<Incoming>, hall: &Arc<Hall>) -> Response<Full<Bytes>> {
    let endpoint = request.uri().path().trim_start_matches('/').parse().unwrap_or(usize::MAX);
    let Some(station) = hall.stations.get(endpoint) else {
        hall.wrong(format!("nobody lives at {}", request.uri().path()));
        return status(StatusCode::NOT_FOUND);
    };
    let _busy = Busy::with(hall, endpoint);
    // A request that breaks off in the middle has not arrived.
    let Some(request) = whole(request).await else { return status(StatusCode::OK) };
    let (head, body) = request.into_parts();
    let (told, wait) = decide(station.manner, hall);
    let header = |name: &str| head.headers.get(name).map(http::HeaderValue::as_bytes);
    let seconds = hall.clock.wall().as_micros() / 1_000_000;
    match (station.verifier.verify(header, &body, seconds), number_of(&body)) {
        (Ok(verified), Some(number)) => {
            let message = verified.message_id.unwrap_or_default().to_owned();
            let ends = !told.is_server_error();
            let at = hall.clock.now();
            hall.log().arrivals.push(Arrival { at, endpoint, number, message, ends });
        }
        (Err(error), _) => hall.wrong(format!("endpoint {endpoint} got a forgery: {error}")),
        (Ok(_), None) => {
            let text = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
            hall.wrong(format!("endpoint {endpoint} got what was never sent: {text}"));
        }
    }
    tokio::time::sleep(wait).await;
    status(told)
}

fn decide(manner: Manner, hall: &Hall) -> (StatusCode, Duration) {
    match manner {
        Manner::Steady | Manner::Reluctant => (StatusCode::NO_CONTENT, Duration::ZERO),
        Manner::Flaky(share) if hall.below(100) < share => {
            (StatusCode::INTERNAL_SERVER_ERROR, Duration::ZERO)
        }
        Manner::Flaky(_) => (StatusCode::OK, Duration::ZERO),
        Manner::Slow(least, most) => {
            let millis = least + hall.below(most - least + 1);
            (StatusCode::OK, Duration::from_millis(millis))
        }
        Manner::Refuses => (StatusCode::BAD_REQUEST, Duration::ZERO),
    }
}
