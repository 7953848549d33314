//! Replays: tasks that go on where they were, and deliveries that begin anew.

use domain::delivery::{Cause, Delivery};
use domain::ids::TaskId;
use domain::partition::Partition;

use super::{Harness, NOW, Scene, attempts_of, fresh, later};
use crate::catalog::Endpoint;
use crate::keys::{Cursor, DeliveryKey, Epoch, MessageKey};
use crate::ledger::{NewTask, RunningTask, Task, TaskKind, TaskState};
use crate::page::{From, Page};
use crate::queue::{Chosen, Done, NextState, Order, Replay, Settled, Upkeep};
use crate::{Error, limits};

pub async fn a_task_begins_with_all_that_was_accepted_before_it(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let before = scene.pending(&endpoint).await.message;
    let new = new_task(&scene, Some(&endpoint));
    let task = scene.store().ledger.start_task(new.clone()).await.unwrap();
    let after = scene.pending(&endpoint).await.message;
    assert!(task.upper >= before && task.upper < after, "{task:?}");
    let expected = Task {
        id: new.id,
        application: new.application,
        endpoint: new.endpoint,
        kind: new.kind,
        selection: new.selection,
        upper: task.upper,
        cursor: None,
        replayed: 0,
        skipped: 0,
        state: TaskState::Running,
        by: new.by,
        created_at: NOW,
        updated_at: NOW,
    };
    assert_eq!(task, expected);
    assert_eq!(scene.store().ledger.task(task.id).await.unwrap(), expected);
}

pub async fn a_task_of_every_kind_is_kept(harness: Harness) {
    let scene = Scene::new(harness).await;
    for kind in [TaskKind::Recover, TaskKind::ReplayMissing, TaskKind::BulkReplay] {
        let task = scene.store().ledger.start_task(NewTask { kind, ..new_task(&scene, None) });
        let task = task.await.unwrap();
        assert_eq!((task.kind, task.endpoint), (kind, None));
        assert_eq!(scene.store().ledger.task(task.id).await.unwrap(), task);
    }
}

pub async fn running_tasks_are_found_without_those_that_have_finished(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut wanted = Vec::new();
    for number in 0..7 {
        let task = start(&scene).await;
        if number % 3 == 0 {
            wanted.insert(0, RunningTask { id: task.id, application: task.application });
        } else {
            finish(&scene, &task).await;
        }
    }
    let page = Page { from: From::Start, limit: 10 };
    let listed = scene.store().ledger.running_tasks(page).await.unwrap();
    assert_eq!((listed.entries, listed.done), (wanted, true));
}

pub async fn only_so_many_tasks_of_an_application_run_at_a_time(harness: Harness) {
    let scene = Scene::new(harness).await;
    let first = start(&scene).await;
    for _ in 1..limits::RUNNING_TASKS {
        start(&scene).await;
    }
    let (ledger, beyond) = (&scene.store().ledger, new_task(&scene, None));
    let refused = ledger.start_task(beyond.clone()).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    let application = scene.another_application().await.key;
    ledger.start_task(NewTask { application, ..new_task(&scene, None) }).await.unwrap();
    // One that has finished makes room.
    finish(&scene, &first).await;
    ledger.start_task(beyond).await.unwrap();
}

pub async fn an_unknown_task_is_missing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let answer = scene.store().ledger.task(scene.id()).await;
    assert!(matches!(answer, Err(Error::Missing("task"))), "{answer:?}");
}

pub async fn a_replay_makes_settled_deliveries_pending_again(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let dead = scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await;
    let delivered = scene.settled(&endpoint, NextState::Delivered).await;
    let cancelled = scene.pending(&endpoint).await;
    scene.store().ledger.cancel(cancelled, NOW).await.unwrap();
    let pending = scene.pending_due(&endpoint, later(5)).await;
    let unknown = DeliveryKey { message: MessageKey(i64::MAX), ..dead };
    let task = start(&scene).await;
    let all = [dead, delivered, cancelled, pending, unknown];
    let chunk = chunk(&scene, &task, &endpoint, &all).await;
    let cursor = Some(Cursor(dead.message.0));
    let replay = Replay { next_cursor: cursor, at: later(40), ..chunk };
    assert_eq!(scene.keep_up(Upkeep::Replay(replay)).await, Done::Changed(3));
    for key in [dead, delivered, cancelled] {
        let entry = scene.look(key).await;
        assert_eq!(entry.state, Delivery::Pending(fresh(later(30))));
        assert_eq!(entry.settled_at, None);
    }
    let untouched = scene.look(pending).await;
    assert_eq!(untouched.state, Delivery::Pending(fresh(later(5))));
    let order = [pending, dead, delivered, cancelled].map(|key| key.message);
    assert_eq!(scene.loaded(&endpoint).await, order);
    let task = scene.store().ledger.task(task.id).await.unwrap();
    assert_eq!((task.cursor, task.replayed), (cursor, 3));
    assert_eq!((task.state, task.updated_at), (TaskState::Running, later(40)));
}

pub async fn a_replayed_delivery_keeps_its_history(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await;
    let before = scene.look(key).await;
    let task = start(&scene).await;
    scene.keep_up(Upkeep::Replay(chunk(&scene, &task, &endpoint, &[key]).await)).await;
    let loaded = scene.load(&endpoint).await.deliveries.remove(0);
    assert_eq!((loaded.recorded, loaded.turn), (1, later(30).as_micros()));
    assert_eq!(loaded.last_attempt_at, Some(later(1)));
    let settle = scene.settling(key, 1, NextState::Delivered).await;
    assert_eq!(scene.settle_one(settle).await, Settled::Applied { turn: None });
    let after = scene.look(key).await;
    assert_eq!((after.id, after.recorded), (before.id, 2));
    let attempts = attempts_of(&scene.store().ledger, key).await.unwrap();
    let numbers: Vec<_> = attempts.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [2, 1]);
}

pub async fn a_replay_goes_to_the_end_of_the_line(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let (first, second) = (
        scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await,
        scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await,
    );
    let waiting = scene.pending(&endpoint).await;
    let task = start(&scene).await;
    scene.keep_up(Upkeep::Replay(chunk(&scene, &task, &endpoint, &[second, first]).await)).await;
    let last = scene.pending(&endpoint).await;
    let line = scene.loaded(&endpoint).await;
    assert_eq!(line, [waiting, second, first, last].map(|key| key.message));
}

pub async fn a_replay_follows_the_order_that_its_endpoint_has_by_then(harness: Harness) {
    let scene = Scene::new(harness).await;
    for (before, after) in [(Order::Due, Order::Fifo), (Order::Fifo, Order::Due)] {
        let endpoint = scene.create(scene.new_endpoint(before)).await;
        let first = scene.settled(&endpoint, NextState::Delivered).await;
        let second = scene.settled(&endpoint, NextState::Delivered).await;
        let task = start(&scene).await;
        let chunk = chunk(&scene, &task, &endpoint, &[second, first]).await;
        let switched = Endpoint { order: after, ..endpoint.clone() };
        scene.change(switched.clone()).await.unwrap();
        assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(2));
        let due = match after {
            Order::Due => later(40),
            Order::Fifo => NOW,
        };
        let accepted = scene.pending_due(&switched, due).await;
        let loaded = scene.load(&endpoint).await.deliveries;
        let turns: Vec<_> = loaded.iter().map(|one| one.turn).collect();
        let messages: Vec<_> = loaded.iter().map(|one| one.key).collect();
        match after {
            Order::Due => {
                assert_eq!(turns, [30, 30, 40].map(|at| later(at).as_micros()));
                assert_eq!(messages, [first, second, accepted]);
            }
            Order::Fifo => {
                assert!(turns.is_sorted() && turns[2] < later(30).as_micros(), "{turns:?}");
                assert_eq!(messages, [second, first, accepted]);
            }
        }
        // A retry moves those that go by due time, and leaves the others where they are in line.
        let due = later(300);
        let settle = scene.settling(second, 1, NextState::Pending { due }).await;
        let turn = match after {
            Order::Due => due.as_micros(),
            Order::Fifo => turns[0],
        };
        assert_eq!(scene.settle_one(settle).await, Settled::Applied { turn: Some(turn) });
    }
}

pub async fn a_task_without_a_next_cursor_is_finished(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let task = start(&scene).await;
    let last = chunk(&scene, &task, &endpoint, &[key]).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(last.clone())).await, Done::Changed(1));
    let finished = scene.store().ledger.task(task.id).await.unwrap();
    assert_eq!((finished.state, finished.replayed), (TaskState::Finished, 1));
    let settle = scene.settling(key, 1, NextState::Delivered).await;
    scene.settle_one(settle).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(last)).await, Done::Fenced);
    assert_eq!(scene.look(key).await.state, Delivery::Delivered);
}

pub async fn a_chunk_that_comes_again_changes_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let task = start(&scene).await;
    let chunk = chunk(&scene, &task, &endpoint, &[key]).await;
    let cursor = Some(Cursor(key.message.0));
    let chunk = Replay { next_cursor: cursor, ..chunk };
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk.clone())).await, Done::Changed(1));
    let settle = scene.settling(key, 1, NextState::Delivered).await;
    scene.settle_one(settle).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk.clone())).await, Done::Fenced);
    assert_eq!(scene.look(key).await.state, Delivery::Delivered);
    let next = Replay { cursor, next_cursor: None, ..chunk };
    assert_eq!(scene.keep_up(Upkeep::Replay(next)).await, Done::Changed(1));
}

pub async fn what_another_task_replayed_and_has_ended_anew_is_left_alone(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let dead = NextState::Dead(Cause::Exhausted);
    let table = [
        // Its state is another, and its time the same.
        (dead, NextState::Delivered, later(1)),
        // Its state is the same, and its time another.
        (NextState::Delivered, NextState::Delivered, later(50)),
        (dead, dead, later(50)),
    ];
    for (first, anew, at) in table {
        let key = scene.settled(&endpoint, first).await;
        let (slow, quick) = (start(&scene).await, start(&scene).await);
        // Both have chosen the delivery before one of them writes.
        let slow_chunk = chunk(&scene, &slow, &endpoint, &[key]).await;
        let quick_chunk = chunk(&scene, &quick, &endpoint, &[key]).await;
        assert_eq!(scene.keep_up(Upkeep::Replay(quick_chunk)).await, Done::Changed(1));
        let mut settle = scene.settling(key, 1, anew).await;
        settle.attempt.ended_at = at;
        assert_eq!(scene.settle_one(settle).await, Settled::Applied { turn: None });
        let before = scene.look(key).await;
        assert_eq!(scene.keep_up(Upkeep::Replay(slow_chunk)).await, Done::Changed(0));
        assert_eq!(scene.look(key).await, before);
        let slow = scene.store().ledger.task(slow.id).await.unwrap();
        assert_eq!((slow.state, slow.replayed), (TaskState::Finished, 0));
        // Whoever chooses it now replays it.
        let task = start(&scene).await;
        let next = chunk(&scene, &task, &endpoint, &[key]).await;
        assert_eq!(scene.keep_up(Upkeep::Replay(next)).await, Done::Changed(1));
    }
}

pub async fn an_attempt_that_is_recorded_late_takes_no_replay_away(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let in_flight = scene.settling(key, 0, NextState::Dead(Cause::Exhausted)).await;
    scene.store().ledger.cancel(key, later(5)).await.unwrap();
    let task = start(&scene).await;
    let chunk = chunk(&scene, &task, &endpoint, &[key]).await;
    assert_eq!(scene.settle_one(in_flight).await, Settled::LeftAlone);
    assert_eq!(scene.look(key).await.recorded, 1);
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(1));
    assert_eq!(scene.look(key).await.state, Delivery::Pending(fresh(later(30))));
}

pub async fn what_a_chunk_passes_over_is_counted_once(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let task = start(&scene).await;
    let chunk = chunk(&scene, &task, &endpoint, &[key]).await;
    let chunk = Replay { passed_over: 3, ..chunk };
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk.clone())).await, Done::Changed(1));
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Fenced);
    let task = scene.store().ledger.task(task.id).await.unwrap();
    assert_eq!((task.replayed, task.skipped), (1, 3));
}

pub async fn a_chunk_of_an_old_owner_changes_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let task = start(&scene).await;
    let mut chunk = chunk(&scene, &task, &endpoint, &[key]).await;
    chunk.lease.epoch = Epoch(chunk.lease.epoch.0 - 1);
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Fenced);
    assert_eq!(scene.look(key).await.state, Delivery::Delivered);
    assert_eq!(scene.store().ledger.task(task.id).await.unwrap(), task);
}

pub async fn a_chunk_of_an_unknown_task_changes_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let task = start(&scene).await;
    let unknown: TaskId = scene.id();
    let chunk = Replay { task: unknown, ..chunk(&scene, &task, &endpoint, &[key]).await };
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Fenced);
    assert_eq!(scene.look(key).await.state, Delivery::Delivered);
}

fn new_task(scene: &Scene, endpoint: Option<&Endpoint>) -> NewTask {
    NewTask {
        id: scene.id(),
        application: scene.application.key,
        endpoint: endpoint.map(|endpoint| endpoint.key),
        kind: TaskKind::Recover,
        selection: serde_json::json!({ "since": "2026-01-01", "causes": ["expired"] }),
        by: "somebody".to_owned(),
        at: NOW,
    }
}

pub(super) async fn start(scene: &Scene) -> Task {
    scene.store().ledger.start_task(new_task(scene, None)).await.unwrap()
}

/// Has a task walk to its end without finding anything.
async fn finish(scene: &Scene, task: &Task) {
    let last = chunk(scene, task, &scene.endpoint().await, &[]).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(last)).await, Done::Changed(0));
}

/// Describes a chunk which finishes its task, and whose deliveries, chosen as they are now, are due 30
/// seconds later.
pub(super) async fn chunk(
    scene: &Scene,
    task: &Task,
    endpoint: &Endpoint,
    keys: &[DeliveryKey],
) -> Replay {
    let mut deliveries = Vec::new();
    for key in keys {
        deliveries.push(chosen(scene, endpoint, *key).await);
    }
    Replay {
        lease: scene.lease_on(Partition::from_number(17).unwrap()),
        task: task.id,
        cursor: task.cursor,
        next_cursor: None,
        deliveries,
        missing: None,
        passed_over: 0,
        at: later(20),
    }
}

/// Chooses a delivery as it is now. One that is not there is chosen as if it had been delivered.
async fn chosen(scene: &Scene, endpoint: &Endpoint, key: DeliveryKey) -> Chosen {
    let of = scene.store().ledger.deliveries_of(key.application, key.message).await;
    let found = of.unwrap_or_default().into_iter().find(|entry| entry.key == key);
    let (state, ended_at) =
        found.map_or((Delivery::Delivered, None), |entry| (entry.state, entry.settled_at));
    let (partition, pending) = (endpoint.partition, fresh(later(30)));
    Chosen { key, partition, state, ended_at, pending }
}
