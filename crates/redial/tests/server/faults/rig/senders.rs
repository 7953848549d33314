//! Whoever sends messages, and keeps a ledger of every one that was acknowledged.
//!
//! A sender that got no answer, or was told to come later, comes again with the same idempotency
//! key, to the next server if there are several. So every message that it began is acknowledged in
//! the end, by one id.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::time::Timestamp;
use http::StatusCode;
use redial::clock::{Clock, SystemClock};
use serde_json::Value;
use tokio::task::JoinSet;

use super::client::{Answer, Client};
use super::payload::{message, payload};

/// The wait before a sender comes again.
const AGAIN_AFTER: Duration = Duration::from_millis(25);
/// How long a sender that has stopped may need for its last message.
const LAST_PATIENCE: Duration = Duration::from_secs(80);

/// How messages are sent.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The application's id.
    pub(crate) application: String,
    /// The servers.
    pub(crate) ports: Vec<u16>,
    /// How many send at a time.
    pub(crate) senders: u64,
    /// The wait of each between two messages.
    pub(crate) pace: Duration,
    /// On which channels the message with a number is sent.
    pub(crate) channels: fn(u64) -> &'static [&'static str],
    /// How much longer than usual the payloads are.
    pub(crate) padding: usize,
}

/// A message that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its id.
    pub(crate) message: String,
    /// When it was first sent.
    pub(crate) sent: Timestamp,
    /// When it was acknowledged.
    pub(crate) acknowledged: Timestamp,
}

/// Every acknowledged message by its number, and how often there was something else.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) entries: BTreeMap<u64, Entry>,
    /// Times without an answer.
    pub(crate) unanswered: u64,
    /// Times it was asked to come later.
    pub(crate) later: u64,
    /// The longest time from the first sending to the acknowledgement.
    pub(crate) slowest: Duration,
    /// Answers that should not have been.
    pub(crate) faults: Vec<String>,
}

struct Office {
    plan: Plan,
    ledger: Mutex<Ledger>,
    next: AtomicU64,
    stopped: AtomicBool,
    clock: SystemClock,
}

/// Senders at work.
pub(crate) struct Senders {
    office: Arc<Office>,
    tasks: JoinSet<()>,
}

impl Senders {
    /// Begins to send.
    pub(crate) fn start(plan: Plan, clock: SystemClock) -> Self {
        let senders = plan.senders;
        let ledger = Mutex::new(Ledger::default());
        let (next, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        let office = Arc::new(Office { plan, ledger, next, stopped, clock });
        let mut tasks = JoinSet::new();
        for _ in 0..senders {
            tasks.spawn(work(Arc::clone(&office)));
        }
        Self { office, tasks }
    }

    /// Stops when every message that was begun is acknowledged, and returns the ledger.
    pub(crate) async fn stop(mut self) -> anyhow::Result<Ledger> {
        self.office.stopped.store(true, Ordering::Relaxed);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let ended = tokio::time::timeout(LAST_PATIENCE, all).await;
        anyhow::ensure!(ended.is_ok(), "a message is not accepted for {LAST_PATIENCE:?}");
        Ok(self.office.change(|ledger| ledger.clone()))
    }
}

impl Office {
    fn change<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        change(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn work(office: Arc<Office>) {
    let mut clients: Vec<Client> = office.plan.ports.iter().map(|port| Client::of(*port)).collect();
    while !office.stopped.load(Ordering::Relaxed) {
        let number = office.next.fetch_add(1, Ordering::Relaxed);
        send_until_acknowledged(&office, &mut clients, number).await;
        tokio::time::sleep(office.plan.pace).await;
    }
}

async fn send_until_acknowledged(office: &Office, clients: &mut [Client], number: u64) {
    let plan = &office.plan;
    let message = message(&payload(number, plan.padding), (plan.channels)(number));
    let key = format!("faults-{number}");
    let sent = office.clock.now();
    let mut at = usize::try_from(number).unwrap_or(0);
    loop {
        let count = clients.len();
        let Some(client) = clients.get_mut(at % count) else { return };
        match client.send(&plan.application, message.clone(), &key).await {
            Err(_) => office.change(|ledger| ledger.unanswered += 1),
            Ok(answer) => {
                let acknowledged = office.clock.now();
                if office.change(|ledger| ledger.enter(number, &answer, sent, acknowledged)) {
                    return;
                }
            }
        }
        at += 1;
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

impl Ledger {
    /// Takes an answer in; tells whether the message is done with.
    fn enter(
        &mut self,
        number: u64,
        answer: &Answer,
        sent: Timestamp,
        acknowledged: Timestamp,
    ) -> bool {
        let later = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
        if later.contains(&answer.status) {
            self.later += 1;
            if !answer.says_when {
                self.faults.push(format!("{} does not say when to come again", answer.status));
            }
            return false;
        }
        let said: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let id = said.as_ref().and_then(|said| said["id"].as_str());
        let Some(message) = id.filter(|_| answer.status == StatusCode::ACCEPTED) else {
            let text = String::from_utf8_lossy(&answer.body);
            self.faults.push(format!("message {number} got {}: {text}", answer.status));
            return true;
        };
        let message = message.to_owned();
        self.slowest = self.slowest.max(acknowledged.since(sent));
        self.entries.insert(number, Entry { message, sent, acknowledged });
        true
    }
}
