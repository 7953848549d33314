//! What one delivery costs the engine from its hand-over to the answer of its settle: three steps
//! and their effects. The shell pays this on one core, for all endpoints together.

#![expect(clippy::expect_used, reason = "a benchmark stops when its preset is missing")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use domain::delivery::Pending;
use domain::dice::Dice;
use domain::endpoint::State;
use domain::ids::{ApplicationId, AttemptId, EndpointId, MessageId};
use domain::outcome::Outcome;
use domain::partition::Partition;
use domain::policy::preset;
use domain::time::Timestamp;
use engine::roster::{Policies, Read, Roster};
use engine::{Effect, End, Engine, Event, Moment, Settings};
use store::catalog::{Changes, Confidential, Endpoint, EndpointSettings, EndpointView, FanOut};
use store::keys::{ApplicationKey, DeliveryKey, EndpointKey, Epoch, Lease, MessageKey, Node};
use store::queue::{
    AttemptRecord, Order, PendingDelivery, Phases, Renewal, Running, Settled, Trigger,
};

/// Endpoints of one application.
const EACH: i64 = 10;

struct Shell {
    engine: Engine,
    now: Moment,
    effects: Vec<Effect>,
    policies: Arc<Policies>,
    next_message: i64,
    delivered: u64,
}

impl Shell {
    fn new(endpoints: i64) -> Self {
        let read = Read::from(preset("redial").expect("a built-in preset"));
        let policies = Arc::new(Policies { server: read, event_types: BTreeMap::new() });
        let now = Moment {
            elapsed: Duration::from_secs(1),
            rows: Timestamp::from_seconds(1_700_000_000),
        };
        let engine = Engine::new(Settings::of(Node("a".into())));
        let effects = Vec::new();
        let mut shell = Self { engine, now, effects, policies, next_message: 0, delivered: 0 };
        shell.tell(Event::Policies(Arc::clone(&shell.policies)));
        shell.carry_out();
        // Slow start is over before anything is measured.
        for _ in 0..20 {
            let deliveries = shell.deliveries(endpoints);
            shell.deliver(deliveries);
        }
        shell
    }

    fn tell(&mut self, event: Event) {
        self.now.elapsed += Duration::from_micros(2);
        self.now.rows = self.now.rows.after(Duration::from_micros(2));
        self.engine.step(self.now, event, &mut self.effects);
    }

    fn deliveries(&mut self, endpoints: i64) -> Vec<PendingDelivery> {
        let limits = self.policies.server.policy.limits;
        let one = |endpoint: i64| {
            self.next_message += 1;
            let message = MessageKey(self.next_message);
            let (application, endpoint) = place(endpoint);
            PendingDelivery {
                key: DeliveryKey { application, endpoint, message },
                partition: partition(endpoint),
                turn: self.now.rows.as_micros(),
                pending: Pending::fresh(&limits, self.now.rows),
                recorded: 0,
                ended_before: None,
                last_attempt_at: None,
                message: MessageId::new(self.now.rows, [7; 16]),
                event_type: "invoice.paid".into(),
                received_at: self.now.rows,
                policy: None,
                content_type: None,
                payload: Some(Bytes::from_static(b"{\"a\":1}")),
                expunged: false,
            }
        };
        (0..endpoints).map(one).collect()
    }

    fn deliver(&mut self, deliveries: Vec<PendingDelivery>) {
        let issued_at = self.now.elapsed;
        for delivery in deliveries {
            self.tell(Event::HandedOver { issued_at, deliveries: vec![delivery] });
            self.carry_out();
        }
        // Spaced apart by the rate limit: time for all of them.
        self.now.elapsed += Duration::from_millis(2);
        self.now.rows = self.now.rows.after(Duration::from_millis(2));
        self.tell(Event::TimePassed);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while !self.effects.is_empty() {
            for effect in std::mem::take(&mut self.effects) {
                if let Some(answer) = self.answer(effect) {
                    self.tell(answer);
                }
            }
        }
    }

    fn answer(&mut self, effect: Effect) -> Option<Event> {
        let leases = || {
            let all = Partition::all();
            all.map(|partition| Lease { partition, epoch: Epoch(1) }).collect::<Vec<_>>()
        };
        Some(match effect {
            Effect::Renew => {
                let now = self.now.rows;
                let renewal =
                    Renewal { now, owned: leases(), others: 0, others_until: None, free: 0 };
                Event::Renewed { asked_at: self.now.elapsed, answer: Ok(renewal) }
            }
            Effect::Take { .. } => Event::Taken(Ok(leases())),
            Effect::Walk(_) => Event::Walked(Ok(Vec::new())),
            Effect::ReadRequests(_) => Event::Requests(Ok(Vec::new())),
            Effect::ReadChanges { .. } => {
                let (now, applications) = (self.now.rows, Vec::new());
                Event::Changes(Ok(Changes { now, event_types: 0, applications }))
            }
            Effect::ReadRoster(application) => {
                let roster = Arc::new(roster(application, &self.policies));
                Event::Roster { application, answer: Ok(Some(roster)) }
            }
            Effect::Send(sending) => {
                let record = record(self.now.rows, sending.attempt.0);
                let end = End::Recorded(Box::new(record));
                Event::Ended { attempt: sending.attempt, end, dice: Dice::thrown(1) }
            }
            Effect::Settle { attempt, settle } => {
                black_box(settle);
                self.delivered += 1;
                Event::Settled { attempt, answer: Settled::Applied { turn: None } }
            }
            Effect::Release(_)
            | Effect::Load { .. }
            | Effect::Abort(_)
            | Effect::Upkeep { .. }
            | Effect::Disable { .. }
            | Effect::Confirm { .. }
            | Effect::Announce(_)
            | Effect::WakeAt(_)
            | Effect::Stopped => return None,
        })
    }
}

fn place(endpoint: i64) -> (ApplicationKey, EndpointKey) {
    (ApplicationKey(endpoint / EACH), EndpointKey(endpoint))
}

fn partition(endpoint: EndpointKey) -> Partition {
    let number = u8::try_from(endpoint.0.rem_euclid(64)).unwrap_or(0);
    Partition::from_number(number).expect("below 64")
}

fn record(now: Timestamp, number: u64) -> AttemptRecord {
    let mut random = [0; 16];
    random[1..9].copy_from_slice(&number.to_be_bytes());
    AttemptRecord {
        id: AttemptId::new(now, random),
        began_at: now,
        ended_at: now,
        trigger: Trigger::Scheduled,
        outcome: Outcome::answered(200),
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

fn roster(application: ApplicationKey, policies: &Policies) -> Roster {
    let first = application.0 * EACH;
    let view = |endpoint: i64| {
        let (application, key) = place(endpoint);
        let fast = EndpointSettings { rate: Some(500_000), ..EndpointSettings::default() };
        let endpoint = Endpoint {
            key,
            application,
            id: EndpointId::new(Timestamp::EPOCH, [1; 16]),
            uid: None,
            partition: partition(key),
            state: State::Active,
            order: Order::Due,
            settings: fast,
            confidential: Confidential::default(),
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
        };
        EndpointView { endpoint, secrets: Vec::new(), running: Running::default() }
    };
    let endpoints = (first..first + EACH).map(view).collect();
    let id = ApplicationId::from_bytes([1; 20]);
    let fan_out =
        FanOut { application: id, revision: 1, version: 1, policy: None, rate: None, endpoints };
    Roster::read(application, fan_out, policies)
}

fn steady(c: &mut Criterion) {
    let mut group = c.benchmark_group("steady");
    group.measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    for endpoints in [1_i64, 1_000, 100_000] {
        let mut shell = Shell::new(endpoints);
        let at_once = endpoints.min(1_000);
        group.throughput(Throughput::Elements(at_once.unsigned_abs()));
        group.bench_function(format!("{endpoints} endpoints"), |b| {
            let shell = std::cell::RefCell::new(&mut shell);
            b.iter_batched(
                || shell.borrow_mut().deliveries(at_once),
                |deliveries| shell.borrow_mut().deliver(deliveries),
                BatchSize::PerIteration,
            );
        });
        assert!(shell.delivered > 0, "nothing was delivered");
    }
    group.finish();
}

criterion_group!(benches, steady);
criterion_main!(benches);
