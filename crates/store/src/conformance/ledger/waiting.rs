//! What waits.

use crate::conformance::{Harness, NOW, Scene, later};
use crate::keys::EndpointKey;
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
