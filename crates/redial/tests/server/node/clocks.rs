//! Nodes whose clocks differ from the store's: rows are on the store's timeline all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use domain::delivery::Delivery;
use domain::time::Timestamp;
use redial::clock::{Clock, SystemClock};

use super::scene::{Scene, Step, until};

const HOUR: i64 = 3_600;

/// A clock that differs from the machine's by so many seconds.
struct Wrong {
    clock: SystemClock,
    by: AtomicI64,
}

impl Wrong {
    fn by(seconds: i64) -> Arc<Self> {
        Arc::new(Self { clock: SystemClock::start(), by: AtomicI64::new(seconds) })
    }
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        let by = self.by.load(Ordering::SeqCst) * 1_000_000;
        Timestamp::from_micros(self.clock.now().as_micros() + by)
    }

    fn wall(&self) -> Timestamp {
        self.clock.wall()
    }
}

fn are_close(one: Timestamp, other: Timestamp) -> bool {
    one.since(other).max(other.since(one)) < Duration::from_secs(60)
}

#[tokio::test]
async fn what_a_node_takes_in_whose_clock_is_ahead_is_sent_at_once() {
    let sender = Scene::begin(&[Step::Answer(200)]).await;
    let other = sender.beside(Wrong::by(HOUR), false).await;
    let message = other.send().await;
    assert_eq!(sender.settled(message).await.state, Delivery::Delivered);
    other.end().await;
    sender.end().await;
}

#[tokio::test]
async fn a_node_knows_the_stores_time_as_soon_as_it_has_started() {
    for (seconds, sends) in [(HOUR, true), (HOUR, false), (-HOUR, true), (-HOUR, false)] {
        let right = Scene::begin(&[Step::Answer(200)]).await;
        let wrong = right.beside(Wrong::by(seconds), sends).await;
        assert!(are_close(wrong.now(), right.now()), "{seconds} {sends}");
        wrong.end().await;
        right.end().await;
    }
}

#[tokio::test]
async fn the_way_out_is_told_the_rows_time_whatever_the_nodes_clock_says() {
    for seconds in [HOUR, -HOUR] {
        let right = Scene::begin(&[Step::Answer(200)]).await;
        let wrong = right.beside(Wrong::by(seconds), true).await;
        right.end().await;
        let message = wrong.send().await;
        wrong.settled(message).await;
        let told = wrong.rows_at_attempts();
        assert!(are_close(told[0], SystemClock::start().now()), "{seconds}: {told:?}");
        wrong.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_send_follows_the_stores_clock() {
    let clock = Wrong::by(0);
    let sender = Scene::begin_at(Arc::clone(&clock) as _, &[Step::Answer(200)]).await;
    let other = sender.beside(Arc::new(SystemClock::start()), false).await;
    assert!(are_close(other.now(), clock.now()));
    clock.by.store(HOUR, Ordering::SeqCst);
    until(|| async { are_close(other.now(), clock.now()).then_some(()) }).await;
    other.end().await;
    sender.end().await;
}
