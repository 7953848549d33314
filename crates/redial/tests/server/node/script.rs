//! A way out that does what a test says, and remembers what it was given.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use domain::ids::{AttemptId, MessageId};
use domain::outcome::Outcome;
use domain::time::Timestamp;
use engine::{Number, Sending};
use redial::node::Carrier;
use store::queue::{AttemptRecord, Phases};

use super::grenade::grenade;

/// What the way out does next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Answer(u16),
    Slow(Duration, u16),
    Panic,
    /// An interrupted attempt whose record makes the engine panic when it lets go of it.
    Grenade,
}

/// Does what it is told, step by step; the last step repeats.
pub(super) struct Script {
    steps: Mutex<VecDeque<Step>>,
    pub(super) arrivals: AtomicUsize,
    pub(super) numbers: Mutex<Vec<Number>>,
    pub(super) messages: Mutex<Vec<MessageId>>,
    /// The rows' time at each attempt, as it was told.
    pub(super) rows: Mutex<Vec<Timestamp>>,
}

impl Script {
    pub(super) fn of(steps: &[Step]) -> Self {
        Self {
            steps: Mutex::new(steps.iter().copied().collect()),
            arrivals: AtomicUsize::new(0),
            numbers: Mutex::default(),
            messages: Mutex::default(),
            rows: Mutex::default(),
        }
    }
}

impl Carrier for Script {
    fn carry<'a>(
        &'a self,
        sending: &'a Sending,
        rows: Timestamp,
    ) -> Pin<Box<dyn Future<Output = AttemptRecord> + Send + 'a>> {
        let step = {
            let mut steps = self.steps.lock().unwrap();
            if steps.len() > 1 { steps.pop_front() } else { steps.front().copied() }.unwrap()
        };
        self.arrivals.fetch_add(1, Ordering::SeqCst);
        self.numbers.lock().unwrap().push(sending.attempt);
        self.messages.lock().unwrap().push(sending.delivery.message);
        self.rows.lock().unwrap().push(rows);
        Box::pin(async move {
            let status = match step {
                Step::Answer(status) => status,
                Step::Panic => panic!("as told"),
                Step::Grenade => {
                    let (outcome, response_body) = (Outcome::Interrupted, grenade());
                    let usual = record(sending, 200);
                    return AttemptRecord { outcome, response_body, ..usual };
                }
                Step::Slow(wait, status) => {
                    tokio::time::sleep(wait).await;
                    status
                }
            };
            record(sending, status)
        })
    }
}

/// Attempts of all nodes of a test. An id that another node has used is taken for a settle that is
/// repeated, and leaves its delivery pending.
static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);

fn record(sending: &Sending, status: u16) -> AttemptRecord {
    let mut random = [7; 16];
    random[4..12].copy_from_slice(&ATTEMPTS.fetch_add(1, Ordering::SeqCst).to_be_bytes());
    let now = sending.delivery.received_at;
    AttemptRecord {
        id: AttemptId::new(now, random),
        began_at: now,
        ended_at: now,
        trigger: sending.trigger,
        outcome: Outcome::answered(status),
        retry_after_kept: None,
        phases: Phases::default(),
        request_headers: store::Headers::default(),
        response_headers: store::Headers::default(),
        response_body: Bytes::new(),
        error: None,
        refusal: None,
        hops: Vec::new(),
    }
}
