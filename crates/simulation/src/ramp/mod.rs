//! An hour's outage of one receiver with 10,000 deliveries waiting: what arrives when it is back.
//!
//! The endpoint has the settings that everybody starts with. While the receiver is down, its
//! breaker lets a probe through now and then; when one succeeds, deliveries go one at a time, then
//! two, and so on, up to the endpoint's limit.

mod svg;

use std::fmt;
use std::time::Duration;

use domain::ids::ApplicationId;
use domain::names::EventTypeName;
use engine::Settings;
use engine::commit::Limits;
use serde_json::Value;
use store::catalog::{ApplicationSettings, EndpointSettings, NewApplication};
use store::keys::Node;
use store::queue::Order;

use crate::agenda::{Happening, RequestId};
use crate::chance::Chance;
use crate::node::BEGINNING;
use crate::plan::{Faults, Plan};
use crate::senders::{EVENT_TYPES, Letter};
use crate::trace::Detail;
use crate::wires::Mood;
use crate::world::World;

/// When the receiver goes down, and when it is back.
const DOWN: Duration = Duration::from_secs(60);
/// How long it is down.
const OUTAGE: Duration = Duration::from_secs(3_600);
/// How many messages come while it is down.
const MESSAGES: u32 = 10_000;
/// When the history ends at the latest.
const END: Duration = Duration::from_secs(4 * 3_600);

/// What a receiver saw.
#[derive(Debug)]
pub struct Ramp {
    /// When requests arrived, and whether they were answered with success.
    pub arrivals: Vec<(Duration, bool)>,
    /// When the receiver went down and was back.
    pub outage: (Duration, Duration),
    /// Deliveries that were waiting when the first one succeeded again.
    pub waiting: usize,
    /// What went wrong; nothing if all is well.
    pub violations: Vec<crate::Violation>,
}

/// Simulates the outage.
#[must_use]
pub fn run(seed: u64) -> Ramp {
    let mut world = World::planned(Chance::seeded(seed), plan(), None, Detail::Outline);
    let Some(endpoint) = set_up(&mut world) else {
        return Ramp {
            arrivals: Vec::new(),
            outage: (DOWN, DOWN),
            waiting: 0,
            violations: Vec::new(),
        };
    };
    world.wires.arrivals = Some(Vec::new());
    world.run_until(DOWN);
    world.wires.receivers.entry(endpoint).or_default().mood = Mood::Unavailable;
    hand_over_all(&mut world);
    world.run_until(DOWN + OUTAGE);
    let waiting = world.watch.waiting();
    world.wires.receivers.entry(endpoint).or_default().mood = Mood::Steady;
    while world.now < END && !world.watch.nothing_waits() && world.watch.is_content() {
        let next = world.now + Duration::from_secs(1);
        world.run_until(next);
    }
    let arrivals = world.wires.arrivals.take().unwrap_or_default();
    let violations = world.watch.into_violations();
    Ramp { arrivals, outage: (DOWN, DOWN + OUTAGE), waiting, violations }
}

fn plan() -> Plan {
    Plan {
        fleet: 1,
        applications: 1,
        endpoints: 1,
        messages: 0,
        lasting: END,
        faults: Faults::over(),
        people: false,
        moods: false,
        settings: Settings::of(Node(String::new())),
        lanes: Limits::default(),
    }
}

fn set_up(world: &mut World) -> Option<store::keys::EndpointKey> {
    let new = NewApplication {
        id: ApplicationId::new(BEGINNING, world.chance.id_bytes()),
        uid: None,
        settings: ApplicationSettings::default(),
        at: BEGINNING,
    };
    let application = world.state.create_application(new).ok()?.key;
    world.applications.push(application);
    let mut endpoint = world.new_endpoint(application);
    endpoint.order = Order::Due;
    endpoint.settings = EndpointSettings {
        origin: "https://receiver.example".to_owned(),
        policy: Some(Value::String("redial".to_owned())),
        ..EndpointSettings::default()
    };
    world.create(&endpoint);
    world.agenda.plan(Duration::ZERO, Happening::Starts(0));
    world.watch.living_endpoints().first().copied()
}

/// The messages come evenly over the outage.
fn hand_over_all(world: &mut World) {
    let Some(application) = world.applications.first().copied() else { return };
    let Ok(event_type) = EventTypeName::parse(EVENT_TYPES[0]) else { return };
    for number in 0..MESSAGES {
        let at = DOWN + OUTAGE * number / MESSAGES;
        world.letters.push(Letter {
            application,
            event_type: event_type.clone(),
            channels: std::collections::BTreeSet::new(),
            payload: bytes::Bytes::from(format!("{{\"number\":{number}}}")),
            key: None,
            deliver_at: None,
            policy: None,
            acknowledged: None,
            named: None,
            returned: false,
            again: at,
        });
        world.agenda.plan(at, Happening::SenderRepeats(RequestId(number.into())));
    }
}

impl Ramp {
    /// Returns the moment at which the receiver first took something again.
    #[must_use]
    pub fn recovery(&self) -> Duration {
        let back = self.arrivals.iter().find(|(at, good)| *good && *at >= self.outage.1);
        back.map_or(self.outage.1, |(at, _)| *at)
    }

    /// Counts the arrivals in each of the first seconds after the recovery.
    #[must_use]
    pub fn seconds(&self, count: usize) -> Vec<usize> {
        let mut seconds = vec![0; count];
        for (at, _) in self.arrivals.iter().filter(|(at, _)| *at >= self.recovery()) {
            let second = usize::try_from((*at - self.recovery()).as_secs()).unwrap_or(usize::MAX);
            if let Some(bucket) = seconds.get_mut(second) {
                *bucket += 1;
            }
        }
        seconds
    }

    /// Returns how many requests arrived while the receiver was down.
    #[must_use]
    pub fn wasted(&self) -> usize {
        let (from, to) = self.outage;
        self.arrivals.iter().filter(|(at, _)| *at >= from && *at < to).count()
    }
}

impl fmt::Display for Ramp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.arrivals.last().map_or(Duration::ZERO, |(at, _)| *at);
        write!(
            f,
            "{} waiting after {} s down; {} requests while down; first success {:.0} s after; \
             arrivals in the seconds from there: {:?}; caught up in {:.0} s; {} violations",
            self.waiting,
            (self.outage.1 - self.outage.0).as_secs(),
            self.wasted(),
            (self.recovery() - self.outage.1).as_secs_f64(),
            self.seconds(10),
            last.saturating_sub(self.recovery()).as_secs_f64(),
            self.violations.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waited_for_an_hour_arrives_slowly_at_first() {
        let ramp = run(1);
        assert_eq!(ramp.violations, []);
        assert!(ramp.waiting >= 9_990, "{}", ramp.waiting);
        assert!(ramp.wasted() < 30, "{}", ramp.wasted());
        let seconds = ramp.seconds(60);
        let most = seconds.iter().copied().max().unwrap_or(0);
        // It begins with one at a time, and takes some seconds to get to what the limit allows.
        assert!(seconds[0] * 3 <= most, "{seconds:?}");
        assert!(seconds[1] < most, "{seconds:?}");
        assert!(seconds[30] * 10 >= most * 8, "{seconds:?}");
        assert_eq!(ramp.arrivals.iter().filter(|(_, good)| *good).count(), 10_000);
    }
}
