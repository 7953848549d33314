//! What is in flight: each attempt a task that ends with an event, whatever becomes of it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use domain::dice::Dice;
use domain::ids::AttemptId;
use domain::outcome::Outcome;
use domain::time::Timestamp;
use engine::{End, Event, Moment, Number, Sending, Suspect};
use store::queue::{AttemptRecord, Phases, Trigger};
use tokio::task::AbortHandle;

use super::World;
use super::inbox::Inbox;
use super::timeline::Timeline;
use crate::clock::Clock;
use crate::dice::Throws;
use crate::telemetry::InFlight;
use crate::transport::Transport;

/// The way out. It never fails: however an attempt ends is an outcome.
pub trait Carrier: Send + Sync {
    /// Makes an attempt, at a time of the rows' timeline: secrets expire on it. Dropping the future
    /// interrupts it.
    fn carry<'a>(
        &'a self,
        sending: &'a Sending,
        rows: Timestamp,
    ) -> Pin<Box<dyn Future<Output = AttemptRecord> + Send + 'a>>;

    /// Interrupts what waits on our side and has not been written, because the node stops.
    fn stop_waiting(&self) {}
}

/// The attempts in flight.
pub(super) struct Attempts {
    running: HashMap<Number, Running>,
    throws: Throws,
}

/// One of them.
struct Running {
    task: AbortHandle,
    /// Whose it is, should its end make the engine panic.
    suspect: Suspect,
}

impl Attempts {
    /// Begins with none.
    pub(super) fn new(seed: u64) -> Self {
        Self { running: HashMap::new(), throws: Throws::seeded(seed) }
    }

    /// Begins one.
    pub(super) fn begin(&mut self, world: &Arc<World>, sending: Box<Sending>) {
        let number = sending.attempt;
        let suspect = Suspect::of(&sending.delivery);
        let promise = Promise {
            inbox: Arc::clone(&world.inbox),
            number,
            trigger: sending.trigger,
            began_at: world.timeline.rows(),
            dice: self.throws.throw(),
            kept: false,
        };
        let making = make(Arc::clone(world), sending);
        let task = tokio::spawn(promise.kept_by(making)).abort_handle();
        self.running.insert(number, Running { task, suspect });
    }

    /// Interrupts one, if it has not ended; it is known until it has.
    pub(super) fn abort(&mut self, number: Number) {
        if let Some(attempt) = self.running.get(&number) {
            attempt.task.abort();
        }
    }

    /// Forgets one that has ended, and tells whose it was.
    pub(super) fn ended(&mut self, number: Number) -> Option<Suspect> {
        self.running.remove(&number).map(|attempt| attempt.suspect)
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        self.running.values().for_each(|attempt| attempt.task.abort());
    }
}

async fn make(world: Arc<World>, sending: Box<Sending>) -> AttemptRecord {
    let began = world.timeline.moment();
    let record = world.carrier.carry(&sending, began.rows).await;
    on_rows(record, began, &world.timeline)
}

/// Puts a record on the rows' timeline, which the transport does not know; how long the attempt took
/// stays as it was measured. The rows' time may be corrected meanwhile, so it is read once, and what
/// has passed since is counted on our own clock. What the attempt waited for on our side went before
/// it: that is the difference.
fn on_rows(record: AttemptRecord, began: Moment, timeline: &Timeline) -> AttemptRecord {
    let took = record.ended_at.since(record.began_at);
    let passed = timeline.moment().elapsed.saturating_sub(began.elapsed);
    let began_at = began.rows.after(passed.saturating_sub(took));
    AttemptRecord { began_at, ended_at: began_at.after(took), ..record }
}

/// Sees to it that an attempt ends with an event, also if it is aborted or panics. It is made before
/// the task is: one that is aborted before its first turn would otherwise end without a word, and
/// the engine would wait for it for ever.
struct Promise {
    inbox: Arc<Inbox>,
    number: Number,
    trigger: Trigger,
    began_at: Timestamp,
    dice: Dice,
    kept: bool,
}

impl Promise {
    /// Keeps it when the attempt has been made.
    async fn kept_by(mut self, making: impl Future<Output = AttemptRecord>) {
        let record = making.await;
        self.keep(End::Recorded(Box::new(record)));
    }

    fn keep(&mut self, end: End) {
        self.kept = true;
        self.inbox.post(Event::Ended { attempt: self.number, end, dice: self.dice });
    }

    fn interrupted(&self) -> AttemptRecord {
        AttemptRecord {
            id: AttemptId::from_bytes([0; 20]),
            began_at: self.began_at,
            ended_at: self.began_at,
            trigger: self.trigger,
            outcome: Outcome::Interrupted,
            retry_after_kept: None,
            phases: Phases::default(),
            request_headers: store::Headers::default(),
            response_headers: store::Headers::default(),
            response_body: bytes::Bytes::new(),
            error: None,
            refusal: None,
            hops: Vec::new(),
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let end = if std::thread::panicking() {
            End::Panicked
        } else {
            End::Recorded(Box::new(self.interrupted()))
        };
        self.keep(end);
    }
}

/// The transport as a way out.
pub struct Outward {
    /// The transport.
    pub(crate) transport: Arc<Transport>,
    /// The clock that it is to read.
    pub(crate) clock: Arc<dyn Clock>,
    /// Where attempts in flight are counted.
    pub(crate) in_flight: InFlight,
}

impl Carrier for Outward {
    fn carry<'a>(
        &'a self,
        sending: &'a Sending,
        rows: Timestamp,
    ) -> Pin<Box<dyn Future<Output = AttemptRecord> + Send + 'a>> {
        Box::pin(async move {
            let _flying = self.in_flight.begin();
            self.transport.send(sending, rows, self.clock.as_ref()).await
        })
    }

    fn stop_waiting(&self) {
        self.transport.stop_waiting();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use super::*;

    const HOUR: i64 = 3_600;

    /// A clock that is set by hand, in seconds.
    struct ByHand(AtomicI64);

    impl Clock for ByHand {
        fn now(&self) -> Timestamp {
            Timestamp::from_seconds(self.0.load(Ordering::Relaxed))
        }

        fn wall(&self) -> Timestamp {
            self.now()
        }
    }

    fn promise(inbox: &Arc<Inbox>) -> Promise {
        Promise {
            inbox: Arc::clone(inbox),
            number: Number(7),
            trigger: Trigger::Scheduled,
            began_at: Timestamp::EPOCH,
            dice: Dice::thrown(0),
            kept: false,
        }
    }

    #[test]
    fn an_attempt_takes_as_long_as_was_measured_whatever_the_stores_clock_says_meanwhile() {
        let at = Timestamp::from_seconds;
        for correction in [0, HOUR, -HOUR] {
            let clock = Arc::new(ByHand(AtomicI64::new(10_000)));
            let timeline = Timeline::start(Arc::clone(&clock) as _);
            let began = timeline.moment();
            clock.0.store(10_005, Ordering::Relaxed);
            timeline.correct(Duration::from_secs(5), at(10_005 + correction));
            let mut promise = promise(&Arc::new(Inbox::new(1)));
            // Of five seconds, two were the attempt, and three were before it: a wait of ours.
            let (began_at, ended_at) = (at(10_003), at(10_005));
            let record = AttemptRecord { began_at, ended_at, ..promise.interrupted() };
            promise.kept = true;
            let record = on_rows(record, began, &timeline);
            assert_eq!((record.began_at, record.ended_at), (began_at, ended_at), "{correction}");
        }
    }

    #[tokio::test]
    async fn an_attempt_that_is_aborted_before_its_first_turn_ends_as_interrupted() {
        let (inbox, mut events) = (Arc::new(Inbox::new(1)), Vec::new());
        let promise = promise(&inbox);
        let task = tokio::spawn(promise.kept_by(std::future::pending()));
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
        inbox.take(&mut events);
        let [Event::Ended { attempt: Number(7), end: End::Recorded(record), .. }] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(record.outcome, Outcome::Interrupted);
    }
}
