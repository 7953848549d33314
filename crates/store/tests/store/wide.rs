//! Messages with many deliveries.

use store::conformance::{Harness, NOW, Scene, later};
use store::queue::{Done, Upkeep};

/// A step of pruning looks at so many rows, deliveries included: whoever accepts waits for it.
pub(crate) async fn fan_outs_are_looked_at_in_steps(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut endpoints = Vec::new();
    for _ in 0..100 {
        endpoints.push(scene.endpoint().await);
    }
    let mut template = scene.message(&endpoints.iter().collect::<Vec<_>>()).await;
    template.message.retained_until = NOW;
    // Everything is pending, so that all of them stay.
    scene.accept((0..60).map(|_| scene.again(&template)).collect()).await;
    let mut steps = 0;
    while scene.keep_up(Upkeep::Prune { now: later(9), most: 200 }).await != Done::Changed(0) {
        steps += 1;
        assert!(steps < 20, "it comes to an end");
    }
    assert!(steps >= 2, "only {steps} before the last");
}
