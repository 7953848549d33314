//! Fencing: what an owner of yesterday writes does not count.

use domain::breaker::Breaker;
use domain::delivery::Cause;

use crate::catalog::Endpoint;
use crate::conformance::{Harness, NOW, Scene, attempts_of, later};
use crate::keys::{Epoch, Lease, Node};
use crate::limits;
use crate::queue::{
    Bury, Done, Ending, Minute, NextState, Once, Request, RequestKind, Rollup, Running, Settle,
    Settled, Subject, Upkeep,
};

pub async fn a_settle_under_an_old_epoch_writes_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let before = (scene.look(key).await, scene.load(&endpoint).await);
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    let settle = Settle { running: Some(tripped()), ..settle };
    take_over(&scene).await;
    assert_eq!(scene.settle_one(settle).await, Settled::Fenced);
    assert_eq!((scene.look(key).await, scene.load(&endpoint).await), before);
    assert!(attempts_of(&scene.store().ledger, key).await.unwrap().is_empty());
    assert_eq!(scene.running(&endpoint).await, Running::default());
}

pub async fn a_settle_under_an_epoch_of_the_future_writes_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let mut settle = scene.settling(key, 0, NextState::Delivered).await;
    settle.lease.epoch = Epoch(settle.lease.epoch.0 + 1);
    assert_eq!(scene.settle_one(settle).await, Settled::Fenced);
    assert_eq!(scene.loaded(&endpoint).await, [key.message]);
}

pub async fn a_settled_attempt_that_comes_again_too_late_is_fenced(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    scene.settle_one(settle.clone()).await;
    take_over(&scene).await;
    assert_eq!(scene.settle_one(settle).await, Settled::Fenced);
    assert_eq!(scene.look(key).await.recorded, 1);
}

pub async fn the_new_owner_settles_what_the_old_one_loaded(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let old = scene.settling(key, 0, NextState::Dead(Cause::Exhausted)).await;
    let lease = lease_of(&take_over(&scene).await, &endpoint);
    let new = Settle { lease, ..scene.settling(key, 0, NextState::Delivered).await };
    let answers = scene.settle(vec![old, new]).await;
    assert_eq!(answers, [Settled::Fenced, Settled::Applied { turn: None }]);
    assert_eq!(scene.look(key).await.recorded, 1);
}

pub async fn a_fenced_settle_harms_no_other_of_its_batch(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let (one, two) = (scene.pending(&endpoint).await, scene.pending(&endpoint).await);
    let mut fenced = scene.settling(one, 0, NextState::Delivered).await;
    fenced.lease.epoch = Epoch(fenced.lease.epoch.0 - 1);
    let good = scene.settling(two, 0, NextState::Delivered).await;
    let answers = scene.settle(vec![fenced, good]).await;
    assert_eq!(answers, [Settled::Fenced, Settled::Applied { turn: None }]);
    assert_eq!(scene.loaded(&endpoint).await, [one.message]);
}

pub async fn steps_of_an_old_owner_write_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let lease = scene.lease(&endpoint);
    let application = endpoint.application;
    let ask = Request {
        number: 0,
        application,
        endpoint: endpoint.key,
        partition: endpoint.partition,
        kind: RequestKind::ResetBreaker,
        at: NOW,
    };
    scene.ask(ask).await;
    let asked = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
    let doomed = scene.doomed(key).await;
    take_over(&scene).await;
    let bury = Bury {
        lease,
        application,
        endpoint: endpoint.key,
        deliveries: vec![doomed],
        ending: Ending::Dead(Cause::EndpointDisabled),
        at: NOW,
    };
    assert_eq!(scene.keep_up(Upkeep::Bury(bury)).await, Done::Fenced);
    assert_eq!(scene.loaded(&endpoint).await, [key.message]);
    let run = Upkeep::Run { lease, application, endpoint: endpoint.key, running: tripped() };
    assert_eq!(scene.keep_up(run).await, Done::Fenced);
    assert_eq!(scene.running(&endpoint).await, Running::default());
    let consume = Upkeep::Consume { lease, requests: vec![asked[0].number] };
    assert_eq!(scene.keep_up(consume).await, Done::Fenced);
    let left = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
    assert_eq!(left, asked);
    let sum = Rollup { succeeded: 1, ..Rollup::empty(Subject::Whole, Minute::of(NOW)) };
    let once = Once { at: NOW, id: [1; 16] };
    let roll_up = Upkeep::RollUp { lease: Some(lease), once, rollups: vec![sum] };
    assert_eq!(scene.keep_up(roll_up).await, Done::Fenced);
    let sums = scene.store().ledger.rollups(Subject::Whole, Minute(0), Minute(i64::MAX)).await;
    assert_eq!(sums.unwrap().minutes, []);
}

pub async fn the_other_handle_is_fenced_too(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let settle = scene.settling(key, 0, NextState::Delivered).await;
    take_over(&scene).await;
    let batch = crate::queue::Batch { settles: vec![settle], ..Default::default() };
    let done = scene.harness.other.queue.commit(batch.into()).await.unwrap();
    assert_eq!(done.settles, [Settled::Fenced]);
}

/// Lets the first node's lease lapse, and a second node take everything.
async fn take_over(scene: &Scene) -> Vec<Lease> {
    (scene.harness.pass)(limits::LEASE * 2).await.unwrap();
    let second = Node("second".to_owned());
    let queue = &scene.harness.other.queue;
    queue.renew(second.clone()).await.unwrap();
    let leases = queue.take(second, 64).await.unwrap();
    assert_eq!(leases.len(), 64);
    leases
}

fn lease_of(leases: &[Lease], endpoint: &Endpoint) -> Lease {
    *leases.iter().find(|lease| lease.partition == endpoint.partition).unwrap()
}

fn tripped() -> Running {
    let breaker = Breaker::Open { until: later(300), cooldown: crate::conformance::MINUTE };
    Running { breaker, ..Running::default() }
}
