//! The receivers: one HTTP server on a thread of its own plays them all.
//!
//! The first part of a path says which of two groups an endpoint is in. `/steady/…` answers at
//! once; `/crowd/…` answers at once, late or never, as the scenario has it, so that one thing can
//! be changed and everything else stays. The second part is the endpoint's number in its group.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::time::Timestamp;
use host::clock::Clock;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use testkit::receiver::{self, Keeping, converse};

use super::body;
use super::latencies::Latencies;

/// How late a late answer is.
const LATE: Duration = Duration::from_millis(5);
/// The shortest and the longest time that a busy endpoint takes. If all took the same, they would
/// all be done in the same moment, again and again. All slots are taken all the time; if they took
/// less, it would be seen how busy the disk is, and not whether others get their turn.
const BUSY_MILLIS: (u64, u64) = (250, 750);
/// The highest number of an endpoint in its group, plus one.
const MOST_ENDPOINTS: usize = 8_192;
/// How often a wait for arrivals looks.
const LOOK: Duration = Duration::from_millis(1);

/// Which endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// They answer at once, whatever happens.
    Steady,
    /// They behave as told.
    Crowd,
}

/// How the crowd behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Each answers at once.
    AtOnce,
    /// Each answers a few milliseconds late.
    Late,
    /// Each takes about half a second.
    Busy,
    /// None ever answers.
    Hangs,
}

impl Behaviour {
    const ALL: [Self; 4] = [Self::AtOnce, Self::Late, Self::Busy, Self::Hangs];
}

/// What has arrived at a group.
#[derive(Debug)]
struct Arrivals {
    count: AtomicU64,
    last_micros: AtomicI64,
    latencies: Mutex<Latencies>,
    per_endpoint: Vec<AtomicU64>,
}

impl Arrivals {
    fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            last_micros: AtomicI64::new(0),
            latencies: Mutex::new(Latencies::default()),
            per_endpoint: (0..MOST_ENDPOINTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn record(&self, endpoint: usize, sent: Option<Timestamp>, now: Timestamp) {
        if let Some(sent) = sent {
            let took = now.since(sent);
            self.latencies.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        }
        if let Some(count) = self.per_endpoint.get(endpoint) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.last_micros.store(now.as_micros(), Ordering::Relaxed);
        // Last, because it is what others wait for.
        self.count.fetch_add(1, Ordering::Release);
    }

    fn forget(&self) {
        self.count.store(0, Ordering::Relaxed);
        *self.latencies.lock().unwrap_or_else(PoisonError::into_inner) = Latencies::default();
        for count in &self.per_endpoint {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// What the receivers' thread and the scenarios share.
struct Shared {
    steady: Arrivals,
    crowd: Arrivals,
    behaviour: AtomicU8,
    clock: Arc<dyn Clock>,
}

/// All receivers.
pub(super) struct Receiver {
    shared: Arc<Shared>,
    listening: receiver::Receiver,
}

impl Receiver {
    /// Starts the receivers on a free port of this machine.
    pub(super) fn start(clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            steady: Arrivals::new(),
            crowd: Arrivals::new(),
            behaviour: AtomicU8::new(0),
            clock,
        });
        let served = Arc::clone(&shared);
        let listening = receiver::Receiver::on_a_thread(move |stream, _| {
            let shared = Arc::clone(&served);
            async move {
                converse(stream, Keeping::Alive, |request| answer(request, &shared)).await;
            }
        })?;
        Ok(Self { shared, listening })
    }

    /// Returns the port.
    pub(super) fn port(&self) -> u16 {
        self.listening.port()
    }

    /// Returns the URL of an endpoint.
    pub(super) fn url(&self, group: Group, endpoint: usize) -> String {
        self.listening.url(&path(group, endpoint))
    }

    /// Forgets what has arrived.
    pub(super) fn forget(&self) {
        self.shared.steady.forget();
        self.shared.crowd.forget();
    }

    /// Tells the crowd how to behave from now on.
    pub(super) fn behave(&self, behaviour: Behaviour) {
        let index = Behaviour::ALL.iter().position(|it| *it == behaviour).unwrap_or(0);
        self.shared.behaviour.store(u8::try_from(index).unwrap_or(0), Ordering::Relaxed);
    }

    /// Returns how many have arrived at a group.
    pub(super) fn arrived(&self, group: Group) -> u64 {
        self.shared.arrived(group)
    }

    /// Returns when the last one arrived at a group.
    pub(super) fn last_arrival(&self, group: Group) -> Timestamp {
        Timestamp::from_micros(self.arrivals(group).last_micros.load(Ordering::Relaxed))
    }

    /// Returns how many have arrived at each of a group's first endpoints.
    pub(super) fn per_endpoint(&self, group: Group, endpoints: usize) -> Vec<u64> {
        let counts = self.arrivals(group).per_endpoint.iter().take(endpoints);
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Returns how long messages took to a group, from when they should have been sent.
    pub(super) fn latencies(&self, group: Group) -> Latencies {
        self.arrivals(group).latencies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until so many have arrived at a group.
    ///
    /// # Errors
    /// If none arrives for as long as the patience lasts.
    pub(super) async fn wait_for(
        &self,
        group: Group,
        count: u64,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let mut before = (self.arrived(group), self.shared.clock.now());
        loop {
            let arrived = self.arrived(group);
            if arrived >= count {
                return Ok(());
            }
            let now = self.shared.clock.now();
            if arrived > before.0 {
                before = (arrived, now);
            }
            let waited = now.since(before.1);
            anyhow::ensure!(
                waited < patience,
                "{arrived} of {count} deliveries arrived, and none for {} s",
                waited.as_secs()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    fn arrivals(&self, group: Group) -> &Arrivals {
        self.shared.arrivals(group)
    }
}

impl Shared {
    fn arrivals(&self, group: Group) -> &Arrivals {
        match group {
            Group::Steady => &self.steady,
            Group::Crowd => &self.crowd,
        }
    }

    fn arrived(&self, group: Group) -> u64 {
        self.arrivals(group).count.load(Ordering::Acquire)
    }

    fn behaviour(&self, group: Group) -> Behaviour {
        let index = usize::from(self.behaviour.load(Ordering::Relaxed));
        match group {
            Group::Steady => Behaviour::AtOnce,
            Group::Crowd => Behaviour::ALL.get(index).copied().unwrap_or(Behaviour::AtOnce),
        }
    }
}

/// Returns how long the so-manieth attempt keeps a busy endpoint.
fn busy(number: u64) -> Duration {
    // Far apart for neighbours, evenly spread in the long run.
    let (least, most) = BUSY_MILLIS;
    Duration::from_millis(least + number.wrapping_mul(97) % (most - least + 1))
}

/// Returns the path of an endpoint.
pub(super) fn path(group: Group, endpoint: usize) -> String {
    match group {
        Group::Steady => format!("/steady/{endpoint}"),
        Group::Crowd => format!("/crowd/{endpoint}"),
    }
}

fn endpoint_at(path: &str) -> Option<(Group, usize)> {
    let steady = path.strip_prefix("/steady/").map(|rest| (Group::Steady, rest));
    let (group, number) =
        steady.or_else(|| path.strip_prefix("/crowd/").map(|rest| (Group::Crowd, rest)))?;
    Some((group, number.parse().ok()?))
}

async fn answer(mut request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let mut first = None;
    while let Some(Ok(frame)) = request.body_mut().frame().await {
        first = first.or_else(|| frame.data_ref().and_then(|data| body::time_in(data)));
    }
    let Some((group, endpoint)) = endpoint_at(request.uri().path()) else {
        return receiver::status(StatusCode::NOT_FOUND);
    };
    shared.arrivals(group).record(endpoint, first, shared.clock.now());
    match shared.behaviour(group) {
        Behaviour::AtOnce => {}
        Behaviour::Late => tokio::time::sleep(LATE).await,
        Behaviour::Busy => tokio::time::sleep(busy(shared.arrived(group))).await,
        Behaviour::Hangs => std::future::pending().await,
    }
    receiver::status(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests;
