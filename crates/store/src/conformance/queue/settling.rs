//! Settling: the verdict once, every attempt recorded, and a cancel that stands.

use domain::breaker::Breaker;
use domain::delivery::{Budget, Cause, Delivery, Pending};
use domain::health::Health;
use std::time::Duration;

use crate::conformance::replays::{chunk, start};
use crate::conformance::{Harness, NOW, Scene, attempts_of, fresh, later};
use crate::keys::MessageKey;
use crate::queue::{Done, NextState, Running, Settle, Settled, Upkeep};

pub async fn a_delivered_delivery_is_done(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    assert_eq!(scene.settle_one(settle.clone()).await, Settled::Applied { turn: None });
    let entry = scene.look(key).await;
    assert_eq!(entry.state, Delivery::Delivered);
    assert_eq!(entry.settled_at, Some(settle.attempt.ended_at));
    assert_eq!(entry.recorded, 1);
    assert_eq!(entry.last_attempt, Some(settle.attempt.id));
    assert_eq!(entry.last_status, Some(200));
    assert!(scene.loaded(&endpoint).await.is_empty());
}

pub async fn a_dead_delivery_keeps_its_cause(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for cause in Cause::ALL {
        let key = scene.settled(&endpoint, NextState::Dead(cause)).await;
        let entry = scene.look(key).await;
        assert_eq!((entry.state, entry.settled_at), (Delivery::Dead(cause), Some(later(1))));
    }
    assert!(scene.loaded(&endpoint).await.is_empty());
}

pub async fn a_retry_is_pending_with_its_new_due_time_and_budget(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let due = later(300);
    let budget = Budget {
        attempts: 1,
        ambiguous: 1,
        last_wait: Duration::from_micros(5_000_001),
        expires_at: None,
    };
    let settle = Settle { budget, ..scene.settling(key, 0, NextState::Pending { due }).await };
    let turn = Some(due.as_micros());
    assert_eq!(scene.settle_one(settle.clone()).await, Settled::Applied { turn });
    let entry = scene.look(key).await;
    assert_eq!(entry.state, Delivery::Pending(Pending { due, budget }));
    assert_eq!((entry.settled_at, entry.recorded), (None, 1));
    let loaded = scene.load(&endpoint).await.deliveries.remove(0);
    assert_eq!(loaded.pending, Pending { due, budget });
    assert_eq!((Some(loaded.turn), loaded.recorded), (turn, 1));
    assert_eq!(loaded.last_attempt_at, Some(settle.attempt.ended_at));
}

pub async fn a_fifo_delivery_keeps_its_turn_when_it_is_retried(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let (first, second) = (scene.pending(&endpoint).await, scene.pending(&endpoint).await);
    let before = scene.load(&endpoint).await.deliveries[0].turn;
    let settle = scene.settling(first, 0, NextState::Pending { due: later(300) }).await;
    assert_eq!(scene.settle_one(settle).await, Settled::Applied { turn: Some(before) });
    assert_eq!(scene.loaded(&endpoint).await, [first.message, second.message]);
    assert_eq!(scene.load(&endpoint).await.deliveries[0].pending.due, later(300));
}

pub async fn the_same_settle_again_answers_alike_and_records_once(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for next in [
        NextState::Delivered,
        NextState::Dead(Cause::Permanent),
        NextState::Pending { due: later(60) },
    ] {
        let key = scene.pending(&endpoint).await;
        let settle = scene.settling(key, 0, next).await;
        let first = scene.settle_one(settle.clone()).await;
        let entry = scene.look(key).await;
        assert_eq!(scene.settle_one(settle).await, first);
        assert_eq!(scene.look(key).await, entry);
        assert_eq!(attempts_of(&scene.store().ledger, key).await.unwrap().len(), 1);
    }
}

pub async fn a_settle_that_was_left_alone_is_left_alone_again(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    // Both verdicts are the same, so only the record can tell which of them took effect.
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let late = scene.settling(key, 0, NextState::Delivered).await;
    assert_eq!(scene.settle_one(late.clone()).await, Settled::LeftAlone);
    assert_eq!(scene.settle_one(late).await, Settled::LeftAlone);
    assert_eq!(scene.look(key).await.recorded, 2);
}

pub async fn a_cancel_stands(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    scene.store().ledger.cancel(key, later(5)).await.unwrap();
    let settle = scene.settling(key, 0, NextState::Pending { due: later(60) }).await;
    assert_eq!(scene.settle_one(settle.clone()).await, Settled::LeftAlone);
    let entry = scene.look(key).await;
    assert_eq!(entry.state, Delivery::Cancelled);
    assert_eq!(entry.settled_at, Some(later(5)));
    assert_eq!((entry.recorded, entry.last_attempt), (1, Some(settle.attempt.id)));
    assert_eq!(entry.last_status, Some(503));
    assert!(scene.loaded(&endpoint).await.is_empty());
    assert_eq!(scene.settle_one(settle).await, Settled::LeftAlone);
    assert_eq!(scene.look(key).await.recorded, 1);
}

pub async fn a_settle_from_before_a_replay_is_recorded_only(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let retry = NextState::Pending { due: later(60) };
    for next in [NextState::Delivered, NextState::Dead(Cause::Exhausted), retry] {
        let key = scene.pending(&endpoint).await;
        let old = scene.settling(key, 0, next).await;
        // Cancelled and replayed while the attempt is in flight; nothing is recorded in between.
        scene.store().ledger.cancel(key, later(5)).await.unwrap();
        let task = start(&scene).await;
        let chunk = chunk(&scene, &task, &endpoint, &[key]).await;
        assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(1));
        for _ in 0..2 {
            assert_eq!(scene.settle_one(old.clone()).await, Settled::LeftAlone);
            let entry = scene.look(key).await;
            assert_eq!(entry.state, Delivery::Pending(fresh(later(30))));
            assert_eq!((entry.settled_at, entry.recorded), (None, 1));
            assert_eq!(entry.last_attempt, Some(old.attempt.id));
        }
        // Whoever loads it now settles it, also if it is sent several times.
        let again = scene.settling(key, 1, retry).await;
        let turn = Some(later(60).as_micros());
        assert_eq!(scene.settle_one(again).await, Settled::Applied { turn });
        assert_eq!(scene.look(key).await.settled_at, None);
        let last = scene.settling(key, 2, NextState::Delivered).await;
        let at = last.attempt.ended_at;
        assert_eq!(scene.settle_one(last).await, Settled::Applied { turn: None });
        let entry = scene.look(key).await;
        assert_eq!((entry.state, entry.settled_at), (Delivery::Delivered, Some(at)));
    }
}

pub async fn a_settle_with_an_old_count_is_recorded_only(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let due = later(60);
    let first = scene.settling(key, 0, NextState::Pending { due }).await;
    let budget = first.budget;
    scene.settle_one(first).await;
    let late = scene.settling(key, 0, NextState::Delivered).await;
    assert_eq!(scene.settle_one(late.clone()).await, Settled::LeftAlone);
    let entry = scene.look(key).await;
    assert_eq!(entry.state, Delivery::Pending(Pending { due, budget }));
    assert_eq!((entry.recorded, entry.last_attempt), (2, Some(late.attempt.id)));
    let attempts = attempts_of(&scene.store().ledger, key).await.unwrap();
    let told: Vec<_> = attempts.iter().map(|entry| (entry.number, entry.next_due)).collect();
    assert_eq!(told, [(2, None), (1, Some(due))]);
    // Whoever loads it now settles it.
    let next = scene.settling(key, 2, NextState::Delivered).await;
    assert_eq!(scene.settle_one(next).await, Settled::Applied { turn: None });
}

pub async fn two_settles_of_a_delivery_in_one_batch_count_in_order(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let first = scene.settling(key, 0, NextState::Pending { due: later(60) }).await;
    let stale = scene.settling(key, 0, NextState::Dead(Cause::Exhausted)).await;
    let third = scene.settling(key, 2, NextState::Delivered).await;
    let last = third.attempt.id;
    let answers = scene.settle(vec![first, stale, third]).await;
    let turn = answers[0];
    assert!(matches!(turn, Settled::Applied { .. }), "{answers:?}");
    assert_eq!(answers[1..], [Settled::LeftAlone, Settled::Applied { turn: None }]);
    let entry = scene.look(key).await;
    assert_eq!((entry.state, entry.recorded), (Delivery::Delivered, 3));
    assert_eq!(entry.last_attempt, Some(last));
}

pub async fn a_settle_of_a_delivery_that_is_gone_says_so(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let mut gone = scene.settling(key, 0, NextState::Delivered).await;
    gone.key.message = MessageKey(key.message.0 + 1_000);
    let good = scene.settling(key, 0, NextState::Delivered).await;
    let answers = scene.settle(vec![gone, good]).await;
    assert_eq!(answers, [Settled::Missing, Settled::Applied { turn: None }]);
}

pub async fn a_settle_brings_the_running_state_along(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let running = running();
    let settle = scene.settling(key, 0, NextState::Pending { due: later(60) }).await;
    scene.settle_one(Settle { running: Some(running), ..settle }).await;
    assert_eq!(scene.running(&endpoint).await, running);
    // None means unchanged, not gone.
    let settle = scene.settling(key, 1, NextState::Delivered).await;
    scene.settle_one(settle).await;
    assert_eq!(scene.running(&endpoint).await, running);
}

pub async fn a_settle_that_is_left_alone_brings_the_running_state_along(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    scene.store().ledger.cancel(key, NOW).await.unwrap();
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    let settle = Settle { running: Some(running()), ..settle };
    assert_eq!(scene.settle_one(settle).await, Settled::LeftAlone);
    assert_eq!(scene.running(&endpoint).await, running());
}

pub async fn a_settle_that_comes_again_brings_no_old_running_state_back(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let first = scene.settling(key, 0, NextState::Pending { due: later(60) }).await;
    let first = Settle { running: Some(Running::default()), ..first };
    scene.settle_one(first.clone()).await;
    let second = scene.settling(key, 1, NextState::Delivered).await;
    scene.settle_one(Settle { running: Some(running()), ..second }).await;
    scene.settle_one(first).await;
    assert_eq!(scene.running(&endpoint).await, running());
}

pub async fn a_message_to_two_endpoints_is_settled_for_each(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let message = scene.accept_new(scene.message(&[&one, &two]).await).await;
    let settle = scene.settling(scene.key(&one, message), 0, NextState::Delivered).await;
    scene.settle_one(settle).await;
    assert_eq!(scene.look(scene.key(&one, message)).await.state, Delivery::Delivered);
    let other = scene.look(scene.key(&two, message)).await;
    assert_eq!((other.state, other.recorded), (Delivery::Pending(fresh(NOW)), 0));
}

fn running() -> Running {
    Running {
        breaker: Breaker::Open { until: later(300), cooldown: Duration::from_secs(300) },
        health: Health { permanent_streak: 3, failing_since: Some(NOW), warned: None },
        paused_until: Some(later(30)),
    }
}
