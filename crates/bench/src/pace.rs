//! An open loop: requests are sent when their time has come, whether or not earlier ones were
//! answered, and every time is counted from when a request should have been sent. So a server that
//! stalls for a second is charged for all that would have come in that second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::time::Timestamp;
use host::clock::Clock;
use testkit::connection::Connection;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use super::client::Source;
use super::latencies::Latencies;

/// Requests are not sent more often than this: at a high rate several are due at once. Waking up
/// for each would take a core away from the server.
const SHORTEST_STEP: Duration = Duration::from_micros(500);
/// The runtime's own timers are a millisecond late; a sleeping thread is not.
const THREAD_NAME: &str = "bench-pace";

/// An open loop.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) port: u16,
    pub(super) connections: usize,
    pub(super) source: Arc<Source>,
    pub(super) per_second: f64,
    pub(super) span: Duration,
}

/// What an open loop did.
#[derive(Debug, Clone)]
pub(super) struct Paced {
    /// Requests that were taken.
    pub(super) requests: u64,
    /// How long they took from when they should have been sent until they were answered.
    pub(super) answered: Latencies,
}

impl Open {
    /// Runs the loop.
    ///
    /// # Errors
    /// If a request fails.
    pub(super) async fn run(self, clock: &Arc<dyn Clock>) -> anyhow::Result<Paced> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            connections.push(Connection::open(self.port).await?);
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let schedule = Schedule::new(self.per_second, self.span);
        let times = Arc::clone(clock);
        let pacer = std::thread::Builder::new().name(THREAD_NAME.to_owned());
        let pacer = pacer.spawn(move || schedule.walk(times.as_ref(), &sender))?;
        let due = Arc::new(tokio::sync::Mutex::new(receiver));
        let answered = Arc::new(Mutex::new(Latencies::default()));
        let mut workers = JoinSet::new();
        for connection in connections {
            let line = Line {
                source: Arc::clone(&self.source),
                due: Arc::clone(&due),
                answered: Arc::clone(&answered),
                clock: Arc::clone(clock),
            };
            workers.spawn(line.work(connection));
        }
        while let Some(worked) = workers.join_next().await {
            worked??;
        }
        // It has ended: the workers end when it does.
        drop(pacer.join());
        let answered = answered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Paced { requests: answered.count(), answered })
    }
}

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Schedule {
    /// The time between two steps.
    step: Duration,
    /// How many steps there are.
    steps: u32,
    /// How many requests are due at each.
    at_once: f64,
}

impl Schedule {
    fn new(per_second: f64, span: Duration) -> Self {
        let step = Duration::from_secs_f64(1.0 / per_second.max(0.001)).max(SHORTEST_STEP);
        let steps = span.as_nanos() / step.as_nanos().max(1);
        let steps = u32::try_from(steps).unwrap_or(u32::MAX).max(1);
        Self { step, steps, at_once: per_second * step.as_secs_f64() }
    }

    /// Returns how many are due up to a step.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few million at the most"
    )]
    fn due_until(&self, step: u32) -> u64 {
        (self.at_once * f64::from(step) + 1e-6).floor() as u64
    }

    /// Hands out each due time when it has come.
    fn walk(&self, clock: &dyn Clock, due: &UnboundedSender<Timestamp>) {
        let began = clock.now();
        for step in 0..self.steps {
            let at = began.after(self.step * step);
            std::thread::sleep(at.since(clock.now()));
            for _ in self.due_until(step)..self.due_until(step + 1) {
                if due.send(at).is_err() {
                    return;
                }
            }
        }
    }
}

/// One connection's share of an open loop.
struct Line {
    source: Arc<Source>,
    due: Arc<tokio::sync::Mutex<UnboundedReceiver<Timestamp>>>,
    answered: Arc<Mutex<Latencies>>,
    clock: Arc<dyn Clock>,
}

impl Line {
    async fn work(self, mut connection: Connection) -> anyhow::Result<()> {
        loop {
            let due = self.due.lock().await.recv().await;
            let Some(at) = due else { return Ok(()) };
            self.source.send(&mut connection, at).await?;
            let took = self.clock.now().since(at);
            self.answered.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_of_a_second_are_due_in_it() {
        for per_second in [1.0, 3.0, 100.0, 1_999.0, 14_000.0, 33_333.0] {
            let schedule = Schedule::new(per_second, Duration::from_secs(1));
            let due = schedule.due_until(schedule.steps);
            let off = f64::from(u32::try_from(due).unwrap()) - per_second;
            assert!(off.abs() <= 1.0, "{due} instead of {per_second}");
            assert!(schedule.step >= SHORTEST_STEP);
        }
    }

    #[test]
    fn a_slow_rate_is_one_request_at_each_step() {
        let schedule = Schedule::new(100.0, Duration::from_secs(2));
        assert_eq!(schedule.step, Duration::from_millis(10));
        assert_eq!((0..4).map(|step| schedule.due_until(step)).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
