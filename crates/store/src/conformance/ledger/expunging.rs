//! Expunging: with its payload gone, what is pending of a message is cancelled.

use domain::delivery::{Cause, Delivery};

use crate::conformance::missing::missing;
use crate::conformance::replays::{chunk, start};
use crate::conformance::{Harness, NOW, Scene, attempts_of, later};
use crate::queue::{Bury, Done, Ending, NextState, RequestKind, Settled, Upkeep};

pub async fn what_is_pending_is_cancelled_with_the_payload(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (due, fifo) = (scene.endpoint().await, scene.fifo_endpoint().await);
    let (dead, done) = (scene.endpoint().await, scene.endpoint().await);
    let accept = scene.message(&[&due, &fifo, &dead, &done]).await;
    let message = scene.accept_new(accept).await;
    let keys = [&due, &fifo, &dead, &done].map(|endpoint| scene.key(endpoint, message));
    for (key, next) in [(keys[2], NextState::Dead(Cause::Blocked)), (keys[3], NextState::Delivered)]
    {
        scene.settle_one(scene.settling(key, 0, next).await).await;
    }
    let other = scene.pending(&due).await.message;
    let ledger = &scene.store().ledger;
    let mut partitions = ledger.expunge(scene.application.key, message, later(5)).await.unwrap();
    partitions.sort_unstable();
    let mut expected = vec![due.partition, fifo.partition];
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(partitions, expected);
    for key in &keys[..2] {
        let entry = scene.look(*key).await;
        assert_eq!((entry.state, entry.settled_at), (Delivery::Cancelled, Some(later(5))));
        assert_eq!((entry.recorded, entry.last_status), (0, None));
    }
    assert_eq!(scene.look(keys[2]).await.state, Delivery::Dead(Cause::Blocked));
    assert_eq!(scene.look(keys[3]).await.state, Delivery::Delivered);
    assert_eq!((scene.loaded(&due).await, scene.loaded(&fifo).await), (vec![other], vec![]));
    let requests = scene.store().queue.requests(partitions).await.unwrap();
    assert!(requests.iter().all(|one| one.kind == RequestKind::Cancel(message)), "{requests:?}");
    let mut asked: Vec<_> = requests.iter().map(|one| one.endpoint).collect();
    asked.sort_unstable();
    assert_eq!(asked, [due.key, fifo.key]);
    let again = ledger.expunge(scene.application.key, message, later(9)).await.unwrap();
    assert_eq!(again, []);
    assert_eq!(scene.look(keys[0]).await.settled_at, Some(later(5)));
}

pub async fn what_is_scheduled_or_was_made_later_is_cancelled_too(harness: Harness) {
    let scene = Scene::new(harness).await;
    let fifo = scene.fifo_endpoint().await;
    let scheduled = scene.pending_due(&fifo, later(100)).await;
    let late = scene.endpoint().await;
    let made = scene.key(&late, scheduled.message);
    let task = start(&scene).await;
    let chunk = missing(&scene, &task, &late, &[made]).await;
    scene.keep_up(Upkeep::Replay(chunk)).await;
    assert_eq!(scene.loaded(&late).await, [made.message]);
    let ledger = &scene.store().ledger;
    ledger.expunge(scene.application.key, made.message, later(5)).await.unwrap();
    for key in [scheduled, made] {
        assert_eq!(scene.look(key).await.state, Delivery::Cancelled);
    }
    assert!(scene.store().queue.waiting(vec![fifo.partition]).await.unwrap().is_empty());
}

pub async fn an_attempt_that_had_begun_is_recorded_and_nothing_follows(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for next in [NextState::Delivered, NextState::Pending { due: later(60) }] {
        let key = scene.pending(&endpoint).await;
        let settle = scene.settling(key, 0, next).await;
        let ledger = &scene.store().ledger;
        ledger.expunge(key.application, key.message, later(5)).await.unwrap();
        assert_eq!(scene.settle_one(settle).await, Settled::LeftAlone);
        let entry = scene.look(key).await;
        assert_eq!((entry.state, entry.recorded), (Delivery::Cancelled, 1));
        assert_eq!(attempts_of(ledger, key).await.unwrap().len(), 1);
    }
    assert_eq!(scene.loaded(&endpoint).await, []);
}

pub async fn what_has_no_payload_is_not_replayed(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let gone = scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await;
    let kept = scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await;
    let ledger = &scene.store().ledger;
    ledger.expunge(gone.application, gone.message, later(5)).await.unwrap();
    let task = start(&scene).await;
    let chunk = chunk(&scene, &task, &endpoint, &[gone, kept]).await;
    assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(1));
    assert_eq!(scene.look(gone).await.state, Delivery::Dead(Cause::Exhausted));
    assert_eq!(scene.loaded(&endpoint).await, [kept.message]);
    let finished = ledger.task(task.id).await.unwrap();
    assert_eq!((finished.replayed, finished.skipped), (1, 1));
}

pub async fn an_owner_cancels_what_it_cannot_send(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let bury = Bury {
        lease: scene.lease(&endpoint),
        application: endpoint.application,
        endpoint: endpoint.key,
        deliveries: vec![scene.doomed(key).await],
        ending: Ending::Cancelled,
        at: NOW,
    };
    assert_eq!(scene.keep_up(Upkeep::Bury(bury.clone())).await, Done::Changed(1));
    let entry = scene.look(key).await;
    assert_eq!((entry.state, entry.settled_at), (Delivery::Cancelled, Some(NOW)));
    assert_eq!(scene.loaded(&endpoint).await, []);
    assert_eq!(scene.keep_up(Upkeep::Bury(bury)).await, Done::Changed(0));
}
