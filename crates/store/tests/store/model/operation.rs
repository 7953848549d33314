//! What can happen to a store, drawn at random. Numbers choose among what is there by then, so
//! that any history makes sense and a shortened one still does.

use domain::delivery::Cause;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// One thing that happens.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    SetUp(SetUp),
    Commit { accepts: Vec<Accepting>, settles: Vec<Settling>, again: bool },
    Step(Step),
    Touch(Touch),
    TakeOver,
    Release,
    Wait { hours: u16 },
    Prune { most: u32 },
    Fold { most: u32 },
}

/// A change of the catalog.
#[derive(Debug, Clone)]
pub(super) enum SetUp {
    CreateApplication { uid: Option<u8> },
    UpdateApplication { application: usize, uid: Option<u8> },
    DeleteApplication { application: usize },
    CreateEndpoint { application: usize, fifo: bool, uid: Option<u8> },
    UpdateEndpoint { endpoint: usize, fifo: bool, uid: Option<u8> },
    DisableEndpoint { endpoint: usize },
    DeleteEndpoint { endpoint: usize },
    RotateSecret { endpoint: usize },
}

/// A step of upkeep.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Bury { endpoint: usize, deliveries: Vec<usize> },
    RetryNow { delivery: usize },
    Number { endpoint: usize, seconds: u64, most: u32 },
    Replay { task: usize, deliveries: Vec<usize>, astray: bool, last: bool },
    Consume { endpoint: usize, most: usize },
    RollUp { endpoint: usize, minute: u8, latencies: Vec<u32> },
}

/// What the API and the engine do one at a time.
#[derive(Debug, Clone)]
pub(super) enum Touch {
    Cancel { delivery: usize },
    RetryNow { delivery: usize },
    Purge { application: usize, most: u32 },
    Count { endpoint: usize, hours: u16 },
    Remember { hash: u8, answer: u16 },
    Expunge { message: usize },
    StartTask { application: usize },
    Load { endpoint: usize, most: u32, most_bytes: u64 },
}

/// A message to be accepted.
#[derive(Debug, Clone)]
pub(super) struct Accepting {
    pub(super) application: usize,
    pub(super) endpoints: u8,
    pub(super) key: Option<u8>,
    pub(super) event_id: Option<u8>,
    pub(super) due_in: u64,
    pub(super) flaw: Option<Flaw>,
}

/// What is wrong with a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Flaw {
    OldRevision,
    UnknownEndpoint,
    DeadFromTheStart,
}

/// An attempt to be settled.
#[derive(Debug, Clone)]
pub(super) struct Settling {
    pub(super) delivery: usize,
    pub(super) verdict: Verdict,
    pub(super) old_epoch: bool,
    pub(super) old_count: bool,
    pub(super) running: bool,
    pub(super) body: usize,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict {
    Delivered,
    Retry { wait: u64 },
    Bury { cause: Cause },
}

/// Draws one operation.
pub(super) fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => commit(),
        12 => set_up().prop_map(Operation::SetUp),
        10 => step().prop_map(Operation::Step),
        8 => touch().prop_map(Operation::Touch),
        1 => Just(Operation::TakeOver),
        1 => Just(Operation::Release),
        2 => select(vec![1, 13, 800]).prop_map(|hours| Operation::Wait { hours }),
        2 => (1..30_u32).prop_map(|most| Operation::Prune { most }),
        1 => (1..30_u32).prop_map(|most| Operation::Fold { most }),
    ]
}

fn set_up() -> impl Strategy<Value = SetUp> {
    let uid = || option::of(0..3_u8);
    prop_oneof![
        2 => uid().prop_map(|uid| SetUp::CreateApplication { uid }),
        1 => (any_one(), uid())
            .prop_map(|(application, uid)| SetUp::UpdateApplication { application, uid }),
        1 => any_one().prop_map(|application| SetUp::DeleteApplication { application }),
        4 => (any_one(), any::<bool>(), uid()).prop_map(|(application, fifo, uid)| {
            SetUp::CreateEndpoint { application, fifo, uid }
        }),
        2 => (any_one(), any::<bool>(), uid())
            .prop_map(|(endpoint, fifo, uid)| SetUp::UpdateEndpoint { endpoint, fifo, uid }),
        1 => any_one().prop_map(|endpoint| SetUp::DisableEndpoint { endpoint }),
        1 => any_one().prop_map(|endpoint| SetUp::DeleteEndpoint { endpoint }),
        1 => any_one().prop_map(|endpoint| SetUp::RotateSecret { endpoint }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (any_one(), some())
            .prop_map(|(endpoint, deliveries)| Step::Bury { endpoint, deliveries }),
        1 => any_one().prop_map(|delivery| Step::RetryNow { delivery }),
        2 => (any_one(), 0..60_u64, 1..4_u32)
            .prop_map(|(endpoint, seconds, most)| Step::Number { endpoint, seconds, most }),
        4 => (any_one(), some(), any::<bool>(), any::<bool>()).prop_map(
            |(task, deliveries, astray, last)| Step::Replay { task, deliveries, astray, last }
        ),
        1 => (any_one(), 0..3_usize)
            .prop_map(|(endpoint, most)| Step::Consume { endpoint, most }),
        1 => (any_one(), 0..3_u8, vec(0..5_u32, 0..4)).prop_map(
            |(endpoint, minute, latencies)| Step::RollUp { endpoint, minute, latencies }
        ),
    ]
}

fn touch() -> impl Strategy<Value = Touch> {
    prop_oneof![
        2 => any_one().prop_map(|delivery| Touch::Cancel { delivery }),
        1 => any_one().prop_map(|delivery| Touch::RetryNow { delivery }),
        1 => (any_one(), 0..3_u32)
            .prop_map(|(application, most)| Touch::Purge { application, most }),
        1 => (any_one(), 0..30_u16).prop_map(|(endpoint, hours)| Touch::Count { endpoint, hours }),
        1 => (0..2_u8, 200..203_u16).prop_map(|(hash, answer)| Touch::Remember { hash, answer }),
        1 => any_one().prop_map(|message| Touch::Expunge { message }),
        2 => any_one().prop_map(|application| Touch::StartTask { application }),
        2 => (any_one(), 0..5_u32, 0..60_u64).prop_map(
            |(endpoint, most, most_bytes)| Touch::Load { endpoint, most, most_bytes }
        ),
    ]
}

fn commit() -> impl Strategy<Value = Operation> {
    let parts = (vec(accepting(), 0..4), vec(settling(), 0..4), any::<bool>());
    parts.prop_map(|(accepts, settles, again)| Operation::Commit { accepts, settles, again })
}

fn accepting() -> impl Strategy<Value = Accepting> {
    let flaws = vec![Flaw::OldRevision, Flaw::UnknownEndpoint, Flaw::DeadFromTheStart];
    let flaw = prop_oneof![4 => Just(None), 1 => select(flaws).prop_map(Some)];
    let names = (option::of(0..3_u8), option::weighted(0.3, 0..3_u8));
    (any_one(), any::<u8>(), names, 0..100_u64, flaw).prop_map(
        |(application, endpoints, (key, event_id), due_in, flaw)| Accepting {
            application,
            endpoints,
            key,
            event_id,
            due_in,
            flaw,
        },
    )
}

fn settling() -> impl Strategy<Value = Settling> {
    let verdict = prop_oneof![
        2 => Just(Verdict::Delivered),
        3 => (0..500_u64).prop_map(|wait| Verdict::Retry { wait }),
        1 => select(Cause::ALL.to_vec()).prop_map(|cause| Verdict::Bury { cause }),
    ];
    let rarely = || proptest::bool::weighted(0.15);
    (any_one(), verdict, rarely(), rarely(), any::<bool>(), 0..2_000_usize).prop_map(
        |(delivery, verdict, old_epoch, old_count, running, body)| Settling {
            delivery,
            verdict,
            old_epoch,
            old_count,
            running,
            body,
        },
    )
}

fn any_one() -> impl Strategy<Value = usize> {
    0..1_000_usize
}

fn some() -> impl Strategy<Value = Vec<usize>> {
    vec(any_one(), 0..5)
}
