//! Sums: what they keep, how they are folded into hours, and what a burial adds to them.

use std::time::Duration;

use domain::delivery::Cause;

use super::{Harness, MINUTE, NOW, Scene, later, long_ago};
use crate::catalog::Endpoint;
use crate::limits;
use crate::queue::{Bury, Done, Ending, Minute, NextState, Rollup, Rollups, Subject, Upkeep};

/// An hour.
const HOUR: Duration = Duration::from_secs(3_600);

pub async fn all_that_is_summed_is_read_as_it_was_added(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let subjects = subjects(&endpoint);
    for _ in 0..2 {
        scene.roll_up(subjects.map(|subject| full(subject, Minute(7))).to_vec()).await;
    }
    for subject in subjects {
        let mut twice = full(subject, Minute(7));
        twice.add(&full(subject, Minute(7)));
        assert_eq!(read(&scene, subject).await.minutes, [twice]);
    }
}

pub async fn sums_of_different_buckets_and_causes_add_up(harness: Harness) {
    let scene = Scene::new(harness).await;
    let sum = |seconds, cause| {
        let mut sum = Rollup::empty(Subject::Whole, Minute(7));
        sum.attempt(false, true, Duration::from_secs(seconds));
        sum.die(cause);
        sum
    };
    let (one, two) = (sum(20, Cause::Permanent), sum(1, Cause::Poison));
    let mut both = one.clone();
    both.add(&two);
    scene.roll_up(vec![one]).await;
    scene.roll_up(vec![two]).await;
    assert_eq!(read(&scene, Subject::Whole).await.minutes, [both]);
}

pub async fn sums_under_no_lease_are_added_whoever_owns_what(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let rollups = subjects(&endpoint).map(|subject| {
        let mut sum = Rollup::empty(subject, Minute(7));
        sum.accept(false);
        sum
    });
    let (lease, once, rollups) = (None, scene.once(), rollups.to_vec());
    let step = Upkeep::RollUp { lease, once, rollups: rollups.clone() };
    for _ in 0..2 {
        assert_eq!(scene.keep_up(step.clone()).await, Done::Changed(3), "once");
    }
    for sum in rollups {
        assert_eq!(read(&scene, sum.subject).await.minutes, [sum]);
    }
}

pub async fn minutes_that_are_old_are_folded_into_their_hours(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let hour = Minute::of(NOW).hour();
    let minutes = [0, 1, 59, 60].map(|minute| Minute(hour.0 + minute));
    let sums = subjects(&endpoint).map(|subject| minutes.map(|minute| full(subject, minute)));
    scene.roll_up(sums.concat()).await;
    let before = read(&scene, Subject::Whole).await;
    // The hour that is not over for long enough stays as it is.
    let now = hour.next_hour().begins_at().after(limits::MINUTES);
    assert_eq!(fold(&scene, now.before(MINUTE)).await, 0);
    assert_eq!(read(&scene, Subject::Whole).await, before);
    assert_eq!(fold(&scene, now).await, 9);
    for subject in subjects(&endpoint) {
        let mut whole = full(subject, hour);
        whole.add(&full(subject, hour));
        whole.add(&full(subject, hour));
        let expected = Rollups { minutes: vec![full(subject, minutes[3])], hours: vec![whole] };
        assert_eq!(read(&scene, subject).await, expected);
    }
}

pub async fn what_comes_late_is_folded_into_the_same_hour(harness: Harness) {
    let scene = Scene::new(harness).await;
    let hour = Minute::of(NOW).hour();
    let now = hour.next_hour().begins_at().after(limits::MINUTES);
    let late = full(Subject::Whole, Minute(hour.0 + 30));
    let mut sums = Rollup::empty(Subject::Whole, hour);
    for _ in 0..3 {
        scene.roll_up(vec![late.clone()]).await;
        sums.add(&late);
        assert_eq!(fold(&scene, now).await, 1);
        let expected = Rollups { minutes: Vec::new(), hours: vec![sums.clone()] };
        assert_eq!(read(&scene, Subject::Whole).await, expected);
    }
}

pub async fn an_hour_is_found_by_its_first_minute(harness: Harness) {
    let scene = Scene::new(harness).await;
    let hour = Minute::of(NOW).hour();
    scene.roll_up(vec![full(Subject::Whole, Minute(hour.0 + 30))]).await;
    fold(&scene, hour.begins_at().after(limits::MINUTES + HOUR)).await;
    let ledger = &scene.store().ledger;
    let hours =
        async |from, to| ledger.rollups(Subject::Whole, from, to).await.unwrap().hours.len();
    assert_eq!(hours(hour, Minute(hour.0 + 1)).await, 1);
    assert_eq!(hours(Minute(hour.0 + 1), hour.next_hour()).await, 0);
}

pub async fn folding_ends_however_many_minutes_a_step_may_take(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let hour = Minute::of(NOW).hour();
    let sums = (0..50).flat_map(|minute| {
        subjects(&endpoint).map(|subject| full(subject, Minute(hour.0 + minute)))
    });
    scene.roll_up(sums.collect()).await;
    let now = hour.next_hour().begins_at().after(limits::MINUTES);
    let (mut folded, mut steps) = (0, 0);
    while folded < 150 {
        let Done::Changed(minutes) = scene.keep_up(Upkeep::Fold { now, most: 7 }).await else {
            panic!("it is not fenced")
        };
        assert!(minutes <= 7, "{minutes}");
        folded += minutes;
        steps += 1;
        assert!(steps < 100, "{folded} of 150");
    }
    for subject in subjects(&endpoint) {
        let Rollups { minutes, hours } = read(&scene, subject).await;
        assert_eq!((minutes.len(), hours.len(), hours[0].accepted), (0, 1, 50));
    }
}

pub async fn hours_go_with_whose_they_are_and_after_ninety_days(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let [own, application, whole] = subjects(&endpoint);
    let minute = Minute::of(NOW);
    scene.roll_up([own, application, whole].map(|subject| full(subject, minute)).to_vec()).await;
    let now = NOW.after(limits::MINUTES + HOUR);
    fold(&scene, now).await;
    let hours = async || {
        let mut hours = Vec::new();
        for subject in [own, application, whole] {
            hours.push(read(&scene, subject).await.hours.len());
        }
        hours
    };
    assert_eq!(hours().await, [1, 1, 1]);
    let (catalog, key) = (&scene.store().catalog, endpoint.application);
    catalog.delete_endpoint(key, endpoint.key, NOW).await.unwrap();
    super::pruning::prune(&scene, later(9)).await;
    assert_eq!(hours().await, [0, 1, 1]);
    catalog.delete_application(key, long_ago()).await.unwrap();
    super::pruning::prune(&scene, later(9)).await;
    assert_eq!(hours().await, [0, 0, 1]);
    super::pruning::prune(&scene, NOW.after(limits::ROLLUPS + HOUR)).await;
    assert_eq!(hours().await, [0, 0, 0]);
}

pub async fn what_is_buried_is_summed_in_the_step_that_buries_it(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (endpoint, other) = (scene.endpoint().await, scene.endpoint().await);
    let (one, two) = (scene.pending(&endpoint).await, scene.pending(&endpoint).await);
    let settled = scene.settled(&endpoint, NextState::Delivered).await;
    let mut deliveries = Vec::new();
    for key in [one, two, settled] {
        deliveries.push(scene.doomed(key).await);
    }
    let bury = Bury {
        lease: scene.lease(&endpoint),
        application: endpoint.application,
        endpoint: endpoint.key,
        deliveries,
        ending: Ending::Dead(Cause::Expired),
        at: later(70),
    };
    assert_eq!(scene.keep_up(Upkeep::Bury(bury.clone())).await, Done::Changed(2));
    assert_eq!(scene.keep_up(Upkeep::Bury(bury.clone())).await, Done::Changed(0), "once");
    let cancelled = scene.pending(&other).await;
    let cancels = Bury {
        lease: scene.lease(&other),
        endpoint: other.key,
        deliveries: vec![scene.doomed(cancelled).await],
        ending: Ending::Cancelled,
        ..bury
    };
    assert_eq!(scene.keep_up(Upkeep::Bury(cancels)).await, Done::Changed(1));
    for subject in subjects(&endpoint) {
        let mut sum = Rollup::empty(subject, Minute::of(later(70)));
        sum.bury(Cause::Expired, 2);
        assert_eq!(read(&scene, subject).await.minutes, [sum], "{subject:?}");
    }
    assert_eq!(read(&scene, Subject::Endpoint(other.key)).await, Rollups::default());
}

pub async fn what_a_deleted_endpoint_leaves_is_summed_when_it_is_buried(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for _ in 0..3 {
        scene.pending(&endpoint).await;
    }
    let catalog = &scene.store().catalog;
    catalog.delete_endpoint(endpoint.application, endpoint.key, NOW).await.unwrap();
    super::pruning::prune_by(&scene, later(70), 2).await;
    for subject in [Subject::Application(endpoint.application), Subject::Whole] {
        let mut sum = Rollup::empty(subject, Minute::of(later(70)));
        sum.bury(Cause::EndpointDeleted, 3);
        assert_eq!(read(&scene, subject).await.minutes, [sum], "{subject:?}");
    }
}

/// Returns an endpoint, its application, and the whole.
fn subjects(endpoint: &Endpoint) -> [Subject; 3] {
    [Subject::Endpoint(endpoint.key), Subject::Application(endpoint.application), Subject::Whole]
}

/// Makes sums in which nothing is zero.
fn full(subject: Subject, minute: Minute) -> Rollup {
    let mut sum = Rollup::empty(subject, minute);
    sum.accept(true);
    sum.attempt(true, true, Duration::from_millis(3));
    sum.attempt(false, false, Duration::from_secs(20));
    sum.deliver(true, Duration::from_secs(2));
    sum.die(Cause::Exhausted);
    sum.bury(Cause::BreakerOpen, 2);
    sum
}

/// Folds until nothing more is to be folded; returns how many minutes that were.
async fn fold(scene: &Scene, now: domain::time::Timestamp) -> u32 {
    let mut folded = 0;
    loop {
        match scene.keep_up(Upkeep::Fold { now, most: 1_000 }).await {
            Done::Changed(0) => return folded,
            Done::Changed(minutes) => folded += minutes,
            done @ (Done::Numbered { .. } | Done::Fenced | Done::Refused(_)) => panic!("{done:?}"),
        }
    }
}

async fn read(scene: &Scene, subject: Subject) -> Rollups {
    scene.store().ledger.rollups(subject, Minute(0), Minute(i64::MAX)).await.unwrap()
}
