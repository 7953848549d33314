//! Probing: whether anything can be written.

use domain::partition::Partition;

use crate::conformance::{Harness, Scene};

pub async fn a_probe_changes_nothing_that_anybody_sees(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let pending = scene.pending(&endpoint).await;
    let (one, two) = (&scene.harness.store, &scene.harness.other);
    let seen = async || {
        let changes = one.catalog.changes(None, None).await.unwrap();
        (scene.look(pending).await, changes.applications, changes.event_types)
    };
    let before = seen().await;
    for _ in 0..2 {
        one.queue.probe().await.unwrap();
        two.queue.probe().await.unwrap();
    }
    assert_eq!(seen().await, before);
    assert_eq!(one.queue.waiting(Partition::all().collect()).await.unwrap().len(), 1);
    assert_eq!(scene.loaded(&endpoint).await, [pending.message]);
}
