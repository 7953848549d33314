//! Upkeep: burying, running state, requests, sums.

use domain::breaker::Breaker;
use domain::delivery::{Cause, Delivery, Pending};
use domain::health::{Health, Level};
use domain::partition::Partition;

use super::replays::{chunk, start};
use super::{Harness, MINUTE, NOW, Scene, fresh, later, long_ago};
use crate::catalog::Endpoint;
use crate::keys::{ApplicationKey, MessageKey};
use crate::limits::REQUESTS;
use crate::queue::{
    Batch, Bury, Done, Doomed, Ending, Minute, NextState, Request, RequestKind, Rollup, Running,
    Subject, Upkeep,
};

pub async fn burying_takes_the_pending_ones_only(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let pending = scene.pending(&endpoint).await;
    let delivered = scene.settled(&endpoint, NextState::Delivered).await;
    let not_meant = scene.pending(&endpoint).await;
    let mut doomed = vec![scene.doomed(pending).await];
    for message in [delivered.message, MessageKey(i64::MAX)] {
        doomed.push(Doomed { message, ..doomed[0] });
    }
    let bury = burial(&scene, &endpoint, doomed);
    assert_eq!(scene.keep_up(Upkeep::Bury(bury.clone())).await, Done::Changed(1));
    let buried = scene.look(pending).await;
    assert_eq!(buried.state, Delivery::Dead(Cause::Expired));
    assert_eq!((buried.settled_at, buried.recorded), (Some(later(70)), 0));
    let delivered = scene.look(delivered).await;
    assert_eq!((delivered.state, delivered.settled_at), (Delivery::Delivered, Some(later(1))));
    assert_eq!(scene.loaded(&endpoint).await, [not_meant.message]);
    assert_eq!(scene.keep_up(Upkeep::Bury(bury)).await, Done::Changed(0));
}

pub async fn a_burial_that_comes_after_a_replay_leaves_it_alone(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for buried_before in [false, true] {
        let key = scene.pending(&endpoint).await;
        let bury = burial(&scene, &endpoint, vec![scene.doomed(key).await]);
        if buried_before {
            // It was done, and only its answer got lost.
            assert_eq!(scene.keep_up(Upkeep::Bury(bury.clone())).await, Done::Changed(1));
        } else {
            scene.store().ledger.cancel(key, later(5)).await.unwrap();
        }
        let task = start(&scene).await;
        let chunk = chunk(&scene, &task, &endpoint, &[key]).await;
        assert_eq!(scene.keep_up(Upkeep::Replay(chunk)).await, Done::Changed(1));
        assert_eq!(scene.keep_up(Upkeep::Bury(bury)).await, Done::Changed(0));
        let entry = scene.look(key).await;
        assert_eq!(entry.state, Delivery::Pending(fresh(later(30))), "{buried_before}");
        // Whoever loads it now may bury it.
        let bury = burial(&scene, &endpoint, vec![scene.doomed(key).await]);
        assert_eq!(scene.keep_up(Upkeep::Bury(bury)).await, Done::Changed(1));
        assert_eq!(scene.look(key).await.state, Delivery::Dead(Cause::Expired));
    }
}

pub async fn what_was_tried_since_it_was_loaded_is_not_buried(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let bury = burial(&scene, &endpoint, vec![scene.doomed(key).await]);
    let retry = NextState::Pending { due: later(60) };
    scene.settle_one(scene.settling(key, 0, retry).await).await;
    assert_eq!(scene.keep_up(Upkeep::Bury(bury)).await, Done::Changed(0));
    assert_eq!(scene.loaded(&endpoint).await, [key.message]);
    let bury = burial(&scene, &endpoint, vec![scene.doomed(key).await]);
    assert_eq!(scene.keep_up(Upkeep::Bury(bury)).await, Done::Changed(1));
}

pub async fn an_endpoint_that_never_ran_has_the_running_state_of_a_new_one(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    assert_eq!(scene.running(&endpoint).await, Running::default());
}

pub async fn every_running_state_is_read_as_it_was_written(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let breakers = [
        Breaker::Closed { failures: 4 },
        Breaker::Open { until: later(90), cooldown: MINUTE },
        Breaker::HalfOpen { cooldown: MINUTE * 2 },
    ];
    let warnings = [None, Some(Level::Half), Some(Level::Most), Some(Level::Nearly)];
    for breaker in breakers {
        for warned in warnings {
            let health = Health { permanent_streak: 7, failing_since: warned.map(|_| NOW), warned };
            let paused_until = warned.map(|_| later(9));
            let written = Running { breaker, health, paused_until };
            assert_eq!(run(&scene, &endpoint, written).await, Done::Changed(1));
            assert_eq!(scene.running(&endpoint).await, written);
        }
    }
    let fan_out = scene.store().catalog.fan_out(endpoint.application, NOW).await.unwrap();
    assert_eq!(fan_out.endpoints[0].running, scene.running(&endpoint).await);
}

pub async fn the_running_states_of_several_endpoints_are_read_together(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (first, second) = (scene.endpoint().await, scene.endpoint().await);
    let (never, deleted) = (scene.endpoint().await, scene.endpoint().await);
    let breaker = Breaker::Open { until: later(90), cooldown: MINUTE };
    let open = Running { breaker, ..Running::default() };
    let paused = Running { paused_until: Some(later(30)), ..Running::default() };
    for (endpoint, written) in [(&first, open), (&second, paused), (&deleted, open)] {
        run(&scene, endpoint, written).await;
    }
    let (catalog, application) = (&scene.store().catalog, first.application);
    catalog.delete_endpoint(application, deleted.key, NOW).await.unwrap();
    let keys = [&deleted, &second, &never, &first, &second].map(|endpoint| endpoint.key).to_vec();
    let found = catalog.running(application, keys.clone()).await.unwrap();
    let expected = [(first.key, open), (second.key, paused), (never.key, Running::default())];
    assert_eq!(found, expected);
    let other = scene.another_application().await;
    assert_eq!(catalog.running(other.key, keys).await.unwrap(), []);
}

pub async fn running_state_does_not_change_the_revision(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let before = scene.revision().await;
    run(&scene, &endpoint, Running { paused_until: Some(later(5)), ..Running::default() }).await;
    assert_eq!(scene.revision().await, before);
}

pub async fn requests_are_numbered_and_kept_in_order_until_consumed(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let kinds = [
        RequestKind::Refresh,
        RequestKind::ResetBreaker,
        RequestKind::Cancel(MessageKey(77)),
        RequestKind::RetryNow(MessageKey(78)),
        RequestKind::EndPause,
    ];
    for kind in kinds {
        assert!(matches!(scene.ask(request(&endpoint, kind)).await, Done::Changed(_)));
    }
    let asked = requests(&scene, &endpoint).await;
    let told: Vec<_> = asked.iter().map(|request| request.kind).collect();
    assert_eq!(told, kinds);
    let numbers: Vec<_> = asked.iter().map(|request| request.number).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    for asked in &asked {
        let number = asked.number;
        assert_eq!(*asked, Request { number, ..request(&endpoint, asked.kind) });
    }
    let lease = scene.lease(&endpoint);
    let consume = Upkeep::Consume { lease, requests: vec![numbers[1], numbers[3], -5] };
    assert_eq!(scene.keep_up(consume).await, Done::Changed(2));
    assert_eq!(
        requests(&scene, &endpoint).await,
        [asked[0].clone(), asked[2].clone(), asked[4].clone()]
    );
}

pub async fn requests_are_read_in_portions(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let ask = |number: usize| {
        let message = MessageKey(i64::try_from(number).unwrap());
        Upkeep::Ask {
            once: scene.once(),
            request: request(&endpoint, RequestKind::Cancel(message)),
        }
    };
    let upkeep = (0..REQUESTS + 2).map(ask).collect();
    scene.commit(Batch { upkeep, ..Batch::default() }).await;
    let messages = |requests: &[Request]| -> Vec<RequestKind> {
        requests.iter().map(|request| request.kind).collect()
    };
    let kinds = |range: std::ops::Range<usize>| -> Vec<RequestKind> {
        range
            .map(|number| RequestKind::Cancel(MessageKey(i64::try_from(number).unwrap())))
            .collect()
    };
    let first = requests(&scene, &endpoint).await;
    assert_eq!(messages(&first), kinds(0..REQUESTS));
    let lease = scene.lease(&endpoint);
    let numbers = first.iter().map(|request| request.number).collect();
    scene.keep_up(Upkeep::Consume { lease, requests: numbers }).await;
    let rest = requests(&scene, &endpoint).await;
    assert_eq!(messages(&rest), kinds(REQUESTS..REQUESTS + 2));
}

pub async fn requests_of_one_application_do_not_hide_anothers(harness: Harness) {
    let scene = Scene::new(harness).await;
    let busy = scene.endpoint().await;
    let others = [scene.another_application().await, scene.another_application().await];
    let of = |application: i64, number: usize| {
        let kind = RequestKind::Cancel(MessageKey(i64::try_from(number).unwrap()));
        let application = ApplicationKey(application);
        let request = Request { application, ..request(&busy, kind) };
        Upkeep::Ask { once: scene.once(), request }
    };
    let (busy_one, [one, two]) = (busy.application.0, others.map(|other| other.key.0));
    let mut upkeep: Vec<_> = (0..REQUESTS * 2).map(|number| of(busy_one, number)).collect();
    upkeep.extend((0..3).map(|number| of(one, number)));
    upkeep.extend((0..2).map(|number| of(two, number)));
    scene.commit(Batch { upkeep, ..Batch::default() }).await;
    let read = requests(&scene, &busy).await;
    assert!(read.is_sorted_by_key(|request| request.number));
    let count = |application: i64| {
        read.iter().filter(|request| request.application == ApplicationKey(application)).count()
    };
    let counts = [count(busy_one), count(one), count(two)];
    assert_eq!(counts, [REQUESTS - 5, 3, 2], "and nothing is left empty");
}

pub async fn requests_are_told_to_the_owner_of_their_partition(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    scene.ask(request(&endpoint, RequestKind::Refresh)).await;
    let others = Partition::all().filter(|other| *other != endpoint.partition).collect();
    assert_eq!(scene.store().queue.requests(others).await.unwrap(), []);
    assert_eq!(requests(&scene, &endpoint).await.len(), 1);
}

pub async fn a_retry_asked_for_is_due_at_once(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let first = scene.pending_due(&endpoint, later(100)).await;
    let asked = scene.pending_due(&endpoint, later(500)).await;
    let ask = Request { at: later(20), ..request(&endpoint, RequestKind::RetryNow(asked.message)) };
    scene.ask(ask).await;
    let loaded = scene.load(&endpoint).await.deliveries;
    assert_eq!((loaded[0].key, loaded[1].key), (asked, first));
    assert_eq!(loaded[0].turn, later(20).as_micros());
    let pending = Pending { due: later(20), ..fresh(later(500)) };
    assert_eq!(loaded[0].pending, pending, "the budget stays as it was");
}

pub async fn a_retry_asked_for_is_never_later_than_it_was(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending_due(&endpoint, later(5)).await;
    let ask = Request { at: later(20), ..request(&endpoint, RequestKind::RetryNow(key.message)) };
    scene.ask(ask).await;
    let loaded = scene.load(&endpoint).await.deliveries.remove(0);
    assert_eq!((loaded.pending.due, loaded.turn), (later(5), later(5).as_micros()));
}

pub async fn a_retry_asked_for_does_not_overtake_in_a_line(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let (first, asked) = (scene.pending(&endpoint).await, scene.pending(&endpoint).await);
    let settle = scene.settling(asked, 0, NextState::Pending { due: later(500) }).await;
    scene.settle_one(settle).await;
    let turn = scene.load(&endpoint).await.deliveries[1].turn;
    let ask = Request { at: later(20), ..request(&endpoint, RequestKind::RetryNow(asked.message)) };
    scene.ask(ask).await;
    let loaded = scene.load(&endpoint).await.deliveries;
    assert_eq!((loaded[0].key, loaded[1].key), (first, asked));
    assert_eq!((loaded[1].turn, loaded[1].pending.due), (turn, later(20)));
}

pub async fn a_retry_asked_for_wakes_nothing_that_is_settled(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let before = scene.look(key).await;
    scene.ask(request(&endpoint, RequestKind::RetryNow(key.message))).await;
    assert_eq!(scene.look(key).await, before);
    assert!(scene.loaded(&endpoint).await.is_empty());
}

pub async fn sums_add_up(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = Subject::Endpoint(scene.endpoint().await.key);
    let application = Subject::Application(scene.application.key);
    let one = rollup(endpoint, 10, &[1, 2]);
    let two = rollup(endpoint, 10, &[0, 1, 5]);
    let rest = [rollup(endpoint, 11, &[]), rollup(application, 10, &[3])];
    scene.roll_up([vec![one], rest.to_vec()].concat()).await;
    let rest = [rollup(application, 11, &[]), rollup(Subject::Whole, 10, &[])];
    scene.roll_up([vec![two], rest.to_vec()].concat()).await;
    let both = Rollup {
        succeeded: 4,
        failed: 6,
        delivered: 8,
        dead: 10,
        ..rollup(endpoint, 10, &[1, 3, 5])
    };
    let read = sums(&scene, endpoint, 0, 100).await;
    assert_eq!(read, [both, rollup(endpoint, 11, &[])]);
    let read = sums(&scene, application, 0, 100).await;
    assert_eq!(read, [rollup(application, 10, &[3]), rollup(application, 11, &[])]);
    let whole = rollup(Subject::Whole, 10, &[]);
    assert_eq!(sums(&scene, Subject::Whole, 0, 100).await, [whole]);
}

pub async fn sums_of_one_batch_add_up_too(harness: Harness) {
    let scene = Scene::new(harness).await;
    let twice = vec![rollup(Subject::Whole, 10, &[1]), rollup(Subject::Whole, 10, &[0, 2])];
    scene.roll_up(twice).await;
    let read = sums(&scene, Subject::Whole, 0, 100).await;
    assert_eq!((read[0].succeeded, &read[0].latencies[..]), (4, &[1, 2][..]));
}

pub async fn sums_are_told_from_a_minute_up_to_another(harness: Harness) {
    let scene = Scene::new(harness).await;
    let minutes = [12, 9, 10, 11];
    let rollups = minutes.map(|minute| rollup(Subject::Whole, minute, &[])).to_vec();
    scene.roll_up(rollups).await;
    let read = sums(&scene, Subject::Whole, 10, 12).await;
    let read: Vec<_> = read.iter().map(|rollup| rollup.minute).collect();
    assert_eq!(read, [Minute(10), Minute(11)]);
}

pub async fn sums_of_those_who_are_gone_are_left_out_and_count_for_the_whole(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (gone, stays) = (scene.endpoint().await, scene.endpoint().await);
    let (application, catalog) = (scene.application.key, &scene.store().catalog);
    let Minute(now) = Minute::of(NOW);
    let subjects = [
        Subject::Endpoint(gone.key),
        Subject::Endpoint(stays.key),
        Subject::Application(application),
        Subject::Whole,
    ];
    let counted = async || {
        let mut counted = Vec::new();
        for subject in subjects {
            counted.push(sums(&scene, subject, now, now + 3).await.len());
        }
        counted
    };
    let add = async |minute| {
        let rollups = subjects.map(|subject| rollup(subject, minute, &[1])).to_vec();
        let (lease, once) = (Some(scene.some_lease()), scene.once());
        let step = Upkeep::RollUp { lease, once, rollups };
        for _ in 0..2 {
            assert_eq!(scene.keep_up(step.clone()).await, Done::Changed(4));
        }
    };
    catalog.delete_endpoint(application, gone.key, NOW).await.unwrap();
    prune(&scene).await;
    add(now).await;
    assert_eq!(counted().await, [0, 1, 1, 1]);
    catalog.delete_application(application, long_ago()).await.unwrap();
    add(now + 1).await;
    assert_eq!(counted().await, [0, 1, 1, 2]);
    prune(&scene).await;
    add(now + 2).await;
    assert_eq!(counted().await, [0, 0, 0, 3]);
    let whole = sums(&scene, Subject::Whole, now + 2, now + 3).await;
    assert_eq!(whole, [rollup(Subject::Whole, now + 2, &[1])], "once");
}

async fn prune(scene: &Scene) {
    while scene.keep_up(Upkeep::Prune { now: NOW, most: 200 }).await != Done::Changed(0) {}
}

fn burial(scene: &Scene, endpoint: &Endpoint, deliveries: Vec<Doomed>) -> Bury {
    Bury {
        lease: scene.lease(endpoint),
        application: endpoint.application,
        endpoint: endpoint.key,
        deliveries,
        ending: Ending::Dead(Cause::Expired),
        at: later(70),
    }
}

fn request(endpoint: &Endpoint, kind: RequestKind) -> Request {
    Request {
        number: 0,
        application: endpoint.application,
        endpoint: endpoint.key,
        partition: endpoint.partition,
        kind,
        at: later(3),
    }
}

async fn requests(scene: &Scene, endpoint: &Endpoint) -> Vec<Request> {
    scene.store().queue.requests(vec![endpoint.partition]).await.unwrap()
}

async fn run(scene: &Scene, endpoint: &Endpoint, running: Running) -> Done {
    let (application, lease) = (endpoint.application, scene.lease(endpoint));
    scene.keep_up(Upkeep::Run { lease, application, endpoint: endpoint.key, running }).await
}

fn rollup(subject: Subject, minute: i64, latencies: &[u32]) -> Rollup {
    Rollup {
        succeeded: 2,
        failed: 3,
        delivered: 4,
        dead: 5,
        latencies: latencies.to_vec(),
        ..Rollup::empty(subject, Minute(minute))
    }
}

/// Reads sums, without the empty buckets at the end: how many of them are kept is no matter.
async fn sums(scene: &Scene, subject: Subject, from: i64, to: i64) -> Vec<Rollup> {
    let ledger = &scene.store().ledger;
    let mut read = ledger.rollups(subject, Minute(from), Minute(to)).await.unwrap().minutes;
    for rollup in &mut read {
        let full = rollup.latencies.iter().rposition(|count| *count > 0);
        rollup.latencies.truncate(full.map_or(0, |place| place + 1));
    }
    read
}
