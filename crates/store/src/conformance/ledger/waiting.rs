//! What waits.

use domain::delivery::Cause;

use crate::conformance::{Harness, NOW, Scene, later};
use crate::keys::EndpointKey;
use crate::ledger::{Depth, Tally, Within};
use crate::queue::NextState;

pub async fn the_first_in_line_is_the_one_that_the_others_wait_for(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (fifo, empty) = (scene.fifo_endpoint().await, scene.fifo_endpoint().await);
    let scheduled = scene.fifo_endpoint().await;
    scene.pending_due(&scheduled, later(60)).await;
    scene.pending_due(&fifo, later(60)).await;
    let (first, second) = (scene.pending(&fifo).await, scene.pending(&fifo).await);
    let ledger = &scene.store().ledger;
    let application = scene.application.key;
    let asked = vec![fifo.key, scheduled.key, EndpointKey(i64::MAX), empty.key, fifo.key];
    let found = ledger.first_in_line(application, asked.clone()).await.unwrap();
    assert_eq!(found, [first]);
    // A head that is to be retried later holds up the others.
    let retry = scene.settling(first, 0, NextState::Pending { due: later(30) }).await;
    scene.settle_one(retry).await;
    assert_eq!(ledger.first_in_line(application, asked.clone()).await.unwrap(), [first]);
    ledger.cancel(first, NOW).await.unwrap();
    assert_eq!(ledger.first_in_line(application, asked.clone()).await.unwrap(), [second]);
    let other = scene.another_application().await;
    assert_eq!(ledger.first_in_line(other.key, asked).await.unwrap(), []);
}

pub async fn what_waits_is_counted_for_each_that_it_belongs_to(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (due, fifo, idle) =
        (scene.endpoint().await, scene.fifo_endpoint().await, scene.endpoint().await);
    let depth = async |within| scene.store().ledger.depth(within).await.unwrap();
    let of = |number, oldest_due| Depth { waiting: Tally { number, complete: true }, oldest_due };
    assert_eq!(depth(Within::Whole).await, of(0, None));
    for seconds in [50, 40] {
        scene.pending_due(&due, later(seconds)).await;
    }
    // One in the order, and two that are scheduled.
    for seconds in [0, 30, 20] {
        scene.pending_due(&fifo, later(seconds)).await;
    }
    scene.settled(&idle, NextState::Delivered).await;
    scene.settled(&idle, NextState::Dead(Cause::Permanent)).await;
    let application = scene.application.key;
    assert_eq!(depth(Within::Endpoint(application, due.key)).await, of(2, Some(later(40))));
    assert_eq!(depth(Within::Endpoint(application, fifo.key)).await, of(3, Some(NOW)));
    assert_eq!(depth(Within::Endpoint(application, idle.key)).await, of(0, None));
    assert_eq!(depth(Within::Application(application)).await, of(5, Some(NOW)));
    assert_eq!(depth(Within::Whole).await, of(5, Some(NOW)));
    let other = scene.another_application().await;
    assert_eq!(depth(Within::Application(other.key)).await, of(0, None));
}
