//! What kind of world a seed makes: how many nodes, how much work, which limits, which faults.
//!
//! Limits are small, so that windows overflow and chunks do not suffice. Policies are short, so
//! that a history ends within minutes. Some worlds are calm, so that what holds only without
//! faults can be checked too.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::policy::Policy;
use engine::Settings;
use engine::commit::{Bound, Limits, Weight};
use engine::roster::{Policies, Read, read_policy};
use serde_json::{Value, json};
use store::keys::Node;

use crate::chance::Chance;

/// The world of one seed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// How many processes there are; one is like SQLite, more are like PostgreSQL.
    pub(crate) fleet: usize,
    /// Applications.
    pub(crate) applications: u32,
    /// Endpoints at the beginning.
    pub(crate) endpoints: u32,
    /// Messages in all.
    pub(crate) messages: u32,
    /// How long senders send, people act and faults strike.
    pub(crate) lasting: Duration,
    /// How often each kind of fault strikes, of a thousand; all zero in a calm world.
    pub(crate) faults: Faults,
    /// Of a thousand acts of a person in the time that a message takes.
    pub(crate) people: bool,
    /// Whether receivers change their ways.
    pub(crate) moods: bool,
    /// The engines' limits, but for the name.
    pub(crate) settings: Settings,
    /// The committers' limits.
    pub(crate) lanes: Limits,
}

/// What goes wrong, and how often.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Weights of the faults that strike now and then.
    pub(crate) crash: u32,
    /// A process is frozen.
    pub(crate) freeze: u32,
    /// A process loses the store.
    pub(crate) cut: u32,
    /// Everybody loses the store.
    pub(crate) outage: u32,
    /// The store is slow.
    pub(crate) slow: u32,
    /// A process guesses the time wrong.
    pub(crate) jump: u32,
    /// A process is stopped as planned.
    pub(crate) stop: u32,
    /// Hand-overs lost, of a thousand.
    pub(crate) lost_hand_overs: u32,
    /// Hand-overs late, of a thousand.
    pub(crate) late_hand_overs: u32,
    /// Notifications lost, of a thousand.
    pub(crate) lost_notifications: u32,
    /// Store calls that fail, of a thousand.
    pub(crate) failing_calls: u32,
    /// Panics while sending, of a thousand.
    pub(crate) panics: u32,
    /// Messages that make us panic each time, of a thousand.
    pub(crate) poison: u32,
    /// Requests that the network loses, of a thousand.
    pub(crate) lost_requests: u32,
}

impl Plan {
    /// Draws a world.
    pub(crate) fn draw(chance: &mut Chance) -> Self {
        let fleet = usize::try_from(chance.between(1, 4)).unwrap_or(1);
        let calm = chance.percent(10);
        Self {
            fleet,
            applications: chance.count(1, 3),
            endpoints: chance.count(2, 8),
            messages: chance.count(80, 500),
            lasting: Duration::from_secs(chance.between(20, 90)),
            faults: if calm { Faults::default() } else { Faults::draw(chance) },
            people: chance.percent(80),
            moods: chance.percent(85),
            settings: settings(chance, fleet),
            lanes: lanes(chance),
        }
    }

    /// Tells whether engines are now and then woken before they wish to be. Not drawn, so that the
    /// seeds of other worlds keep their histories.
    pub(crate) fn wakes_early(&self) -> bool {
        self.messages.is_multiple_of(3)
    }

    /// Tells whether nothing fails in this world but receivers.
    pub(crate) fn is_calm(&self) -> bool {
        self.faults.weights() == 0 && self.faults.failing_calls == 0
    }
}

impl Faults {
    fn draw(chance: &mut Chance) -> Self {
        // Each kind is missing from some worlds: what one fault hides, another world shows.
        let mut some = |of_thousand: u32| {
            let strength = chance.count(1, 10);
            if chance.percent(60) { of_thousand * strength / 10 } else { 0 }
        };
        Self {
            crash: some(100),
            freeze: some(100),
            cut: some(100),
            outage: some(60),
            slow: some(60),
            jump: some(100),
            stop: some(60),
            lost_hand_overs: some(300),
            late_hand_overs: some(300),
            lost_notifications: some(500),
            failing_calls: some(60),
            panics: some(20),
            poison: some(20),
            lost_requests: some(40),
        }
    }

    /// Returns the sum of the weights of faults that strike.
    pub(crate) fn weights(&self) -> u32 {
        let Self { crash, freeze, cut, outage, slow, jump, stop, .. } = *self;
        crash + freeze + cut + outage + slow + jump + stop
    }

    /// Returns what is left when the faults are over.
    pub(crate) fn over() -> Self {
        Self::default()
    }
}

fn settings(chance: &mut Chance, fleet: usize) -> Settings {
    let usual = Settings::of(Node(String::new()));
    let walk = if fleet == 1 { 30 } else { 5 };
    let narrow = chance.percent(60);
    let in_flight = if narrow { chance.count(4, 40) } else { usual.in_flight };
    Settings {
        in_flight,
        // Not drawn, so that seeds keep their histories: from two to eleven.
        hanging: if narrow { in_flight / 4 + 1 } else { usual.hanging },
        // One at a time, and far enough apart to be noticed.
        silent_step: if narrow { Duration::from_millis(400) } else { usual.silent_step },
        trusted_step: if narrow { Duration::from_millis(400) } else { usual.trusted_step },
        silent_burst: if narrow { Duration::from_millis(100) } else { usual.silent_burst },
        settling: if narrow { chance.count(4, 60) } else { usual.settling },
        window: if narrow { chance.count(2, 24) } else { usual.window },
        payload_bytes: if narrow { chance.between(200, 20_000) } else { usual.payload_bytes },
        loads: chance.count(1, 8),
        kept_within: Duration::from_secs(chance.between(1, 10)),
        walk_every: Duration::from_secs(walk),
        roster_age: Duration::from_secs(chance.between(5, 30)),
        // Two to twenty small rosters.
        roster_memory: if narrow { chance.between(2, 20) << 11 } else { usual.roster_memory },
        bury_chunk: if narrow { chance.count(1, 20) } else { usual.bury_chunk },
        // Few in memory, and few with each load: then most windows are spilled most of the time.
        rows: if narrow { chance.count(4, 120) } else { usual.rows },
        load_rows: if chance.percent(50) { chance.count(1, 12) } else { usual.load_rows },
        ..usual
    }
}

fn lanes(chance: &mut Chance) -> Limits {
    let usual = Limits::default();
    if chance.percent(70) {
        return usual;
    }
    let batch = Weight { rows: chance.count(8, 64), ..usual.batch };
    let lane = Weight { rows: chance.count(200, 600), ..usual.lane };
    // Not drawn, so that seeds keep their histories: up to seven.
    let items = usize::try_from(lane.rows % 8).unwrap_or_default();
    let waiting = Bound { items, ..usual.waiting };
    Limits {
        batch,
        lane,
        upkeep_rows: chance.count(4, 64),
        upkeep_steps: 64,
        waiting,
        wait: usual.wait,
    }
}

/// The policies that endpoints choose from, as documents.
pub(crate) fn documents() -> Vec<Value> {
    let schedule = |waits: &[&str]| json!({ "kind": "fixed", "waits": waits });
    let breaker = |threshold: u32, cooldown: &str, while_open: &str| {
        json!({ "threshold": threshold, "cooldown": cooldown, "growth": 2,
                "longest_cooldown": "40s", "while_open": while_open })
    };
    let timeouts = json!({ "connect": "1s", "read": "none", "whole": "3s" });
    let policy = |attempts: Value, give_up: &str, waits: &[&str]| {
        json!({ "max_attempts": attempts, "give_up_after": give_up,
                "schedule": schedule(waits), "timeouts": timeouts.clone() })
    };
    vec![
        json!({ "policy": policy(json!(4), "2m", &["500ms", "2s", "5s"]),
                "endpoint": { "breaker": breaker(4, "3s", "hold") } }),
        json!({ "policy": policy(json!(8), "90s", &["200ms", "1s", "3s", "8s"]),
                "endpoint": { "breaker": breaker(3, "5s", "hold") } }),
        json!({ "policy": policy(json!(3), "never", &["1s", "12s"]),
                "endpoint": { "breaker": "off" } }),
        json!({ "policy": policy(json!("unlimited"), "20s", &["300ms", "1s", "2s"]),
                "endpoint": { "breaker": breaker(5, "4s", "hold"),
                              "disable": { "permanent_streak": 4, "without_success": "2m" } } }),
        json!({ "policy": policy(json!(5), "1m", &["1s", "4s", "15s"]),
                "endpoint": { "breaker": breaker(3, "2s", "bury") } }),
        json!({ "policy": policy(json!(2), "10s", &["2s"]),
                "endpoint": { "breaker": breaker(6, "10s", "hold") } }),
    ]
}

/// Returns the one of them that has no breaker.
pub(crate) fn without_breaker() -> Value {
    let off = |document: &Value| document["endpoint"]["breaker"] == "off";
    documents().into_iter().find(off).unwrap_or(Value::Null)
}

/// Returns a policy that a message may have of its own, as a document and read.
pub(crate) fn own_policy() -> Option<(String, Arc<Policy>)> {
    static READ: OnceLock<Option<(String, Arc<Policy>)>> = OnceLock::new();
    let read = || {
        let document = documents().into_iter().next_back()?;
        let read = read_policy(&document).ok()?;
        Some((document.to_string(), read.policy))
    };
    READ.get_or_init(read).clone()
}

/// Returns the server's policies: the first of the documents, read once for all histories.
pub(crate) fn policies() -> Arc<Policies> {
    static READ: OnceLock<Arc<Policies>> = OnceLock::new();
    let read = || {
        let document = documents().into_iter().next().unwrap_or(Value::Null);
        let server = read_policy(&document);
        let server = server.unwrap_or_else(|_| fallback());
        Arc::new(Policies { server, event_types: std::collections::BTreeMap::new() })
    };
    Arc::clone(READ.get_or_init(read))
}

/// The product's own preset; a test makes sure that it is not needed.
#[expect(clippy::expect_used, reason = "the preset `redial` is part of the domain")]
fn fallback() -> Read {
    Read::from(domain::policy::preset("redial").expect("the preset `redial` exists"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_reads() {
        for document in documents() {
            let read = read_policy(&document);
            assert!(read.is_ok(), "{document}: {read:?}");
        }
        let off = read_policy(&without_breaker()).unwrap();
        assert_eq!(off.defaults.breaker, None);
    }
}
