//! Loading: what is pending, earliest turn first, within the limits; and who has anything.

use bytes::Bytes;
use domain::delivery::Cause;
use domain::partition::Partition;

use crate::conformance::{Harness, NOW, Scene, fresh, later};
use crate::keys::ApplicationKey;
use crate::queue::{Load, Loaded, NextState, Waiting};

pub async fn a_load_brings_all_that_sending_needs(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut accept = scene.message_due(&endpoint, later(5)).await;
    accept.message.policy = Some("{}".to_owned());
    accept.message.content_type = Some("text/plain".to_owned());
    accept.message.payload = Bytes::from_static(b"\x00\xffexact");
    let message = scene.accept_new(accept.clone()).await;
    let loaded = scene.load(&endpoint).await;
    assert!(loaded.complete);
    let [delivery] = &loaded.deliveries[..] else { panic!("{loaded:?}") };
    assert_eq!(delivery.key, scene.key(&endpoint, message));
    assert_eq!(delivery.partition, endpoint.partition);
    assert_eq!(delivery.turn, later(5).as_micros());
    assert_eq!(delivery.pending, fresh(later(5)));
    assert_eq!((delivery.recorded, delivery.last_attempt_at), (0, None));
    assert_eq!(delivery.message, accept.message.id);
    assert_eq!(delivery.event_type, accept.message.event_type);
    assert_eq!(delivery.received_at, NOW);
    assert_eq!(delivery.policy, accept.message.policy);
    assert_eq!(delivery.content_type, accept.message.content_type);
    assert_eq!(delivery.payload, Some(accept.message.payload));
}

pub async fn the_earliest_due_is_loaded_first_and_the_earlier_message_before_its_equal(
    harness: Harness,
) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut keys = Vec::new();
    for seconds in [30, 10, 20, 10] {
        keys.push(scene.pending_due(&endpoint, later(seconds)).await.message);
    }
    let order = [1, 3, 2, 0].map(|place: usize| keys[place]);
    assert_eq!(scene.loaded(&endpoint).await, order);
}

pub async fn a_load_says_whether_it_is_complete(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    assert!(scene.load(&endpoint).await.complete);
    for _ in 0..3 {
        scene.pending(&endpoint).await;
    }
    scene.settled(&endpoint, NextState::Delivered).await;
    for (most, complete) in [(2, false), (3, true), (4, true)] {
        let loaded = scene.load_most(&endpoint, most, 1_000).await;
        assert_eq!(loaded.complete, complete, "at most {most}");
        assert_eq!(loaded.deliveries.len(), usize::try_from(most.min(3)).unwrap());
    }
}

pub async fn loads_at_the_same_time_are_each_answered_with_their_own(harness: Harness) {
    let scene = Scene::new(harness).await;
    let [one, none, many] =
        [scene.endpoint().await, scene.endpoint().await, scene.endpoint().await];
    scene.pending(&one).await;
    for seconds in [40, 10, 30, 20, 50] {
        scene.pending_due(&many, later(seconds)).await;
    }
    let application = ApplicationKey(i64::MAX);
    let nobody = Load { application, endpoint: many.key, from: i64::MIN, most: 9, most_bytes: 9 };
    let (one, none, some, all, of_nobody) = tokio::join!(
        scene.load_most(&one, 3, 1_000),
        scene.load_most(&none, 3, 1_000),
        scene.load_most(&many, 2, 0),
        scene.load_most(&many, 5, 1_000),
        scene.store().queue.load(nobody),
    );
    let told = |loaded: &Loaded| (loaded.deliveries.len(), loaded.complete);
    let told = [&one, &none, &some, &all, &of_nobody.unwrap()].map(told);
    assert_eq!(told, [(1, true), (0, true), (2, false), (5, true), (0, true)]);
    let due: Vec<_> = all.deliveries.iter().map(|one| one.pending.due).collect();
    assert_eq!(due, [10, 20, 30, 40, 50].map(later));
    assert_eq!(some.deliveries[0].key, all.deliveries[0].key);
    let has_payload: Vec<_> = some.deliveries.iter().map(|it| it.payload.is_some()).collect();
    assert_eq!(has_payload, [true, false]);
}

pub async fn a_load_begins_at_the_turn_it_names(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for seconds in [10, 20, 20, 30] {
        scene.pending_due(&endpoint, later(seconds)).await;
    }
    let application = endpoint.application;
    for (seconds, most, expected, complete) in [
        (5, 9, vec![10, 20, 20, 30], true),
        (20, 9, vec![20, 20, 30], true),
        (20, 2, vec![20, 20], false),
        (30, 1, vec![30], true),
        (31, 9, vec![], true),
    ] {
        let from = later(seconds).as_micros();
        let load = Load { application, endpoint: endpoint.key, from, most, most_bytes: 1_000 };
        let loaded = scene.store().queue.load(load).await.unwrap();
        let due: Vec<_> = loaded.deliveries.iter().map(|one| one.pending.due).collect();
        let expected: Vec<_> = expected.into_iter().map(later).collect();
        assert_eq!((due, loaded.complete), (expected, complete), "from {seconds}, {most}");
        assert!(loaded.deliveries.iter().all(|one| one.payload.is_some()));
    }
}

pub async fn payloads_come_until_their_bytes_are_used_up(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for size in [10, 10, 10, 1] {
        let mut accept = scene.message(&[&endpoint]).await;
        accept.message.payload = vec![b'x'; size].into();
        scene.accept_new(accept).await;
    }
    for (most_bytes, with_payload) in [(0, 1), (9, 1), (19, 1), (20, 2), (29, 2), (30, 3), (31, 4)]
    {
        let loaded = scene.load_most(&endpoint, 10, most_bytes).await;
        let lengths: Vec<_> = loaded.deliveries.iter().map(|one| one.payload.is_some()).collect();
        let expected: Vec<_> = (0..4).map(|place| place < with_payload).collect();
        assert_eq!(lengths, expected, "at most {most_bytes} bytes");
        assert!(loaded.complete);
    }
}

pub async fn payloads_of_every_length_come_as_they_were(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let lengths = [0, 1, 2_047, 2_048, 2_049, 5_000, 70_000, 0, 3];
    let payloads: Vec<Vec<u8>> =
        (0_u8..).zip(lengths).map(|(byte, length)| vec![byte; length]).collect();
    for payload in &payloads {
        let mut accept = scene.message(&[&endpoint]).await;
        accept.message.payload = payload.clone().into();
        scene.accept_new(accept).await;
    }
    let all = u64::try_from(lengths.iter().sum::<usize>()).unwrap();
    for (most_bytes, with_payload) in [(0, 1), (2_048, 3), (100, 2), (all, 9), (all - 1, 8)] {
        let loaded = scene.load_most(&endpoint, 20, most_bytes).await;
        let came = loaded.deliveries.iter().map(|row| row.payload.as_deref());
        let expected = payloads.iter().map(|payload| Some(&**payload));
        let expected = expected.take(with_payload).chain(std::iter::repeat(None));
        assert!(came.eq(expected.take(lengths.len())), "at most {most_bytes} bytes");
    }
}

pub async fn a_load_knows_one_endpoint_of_one_application(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let key = scene.pending(&one).await;
    scene.pending(&two).await;
    assert_eq!(scene.loaded(&one).await, [key.message]);
    let application = ApplicationKey(one.application.0 + 1_000);
    let load = Load { application, endpoint: one.key, from: i64::MIN, most: 10, most_bytes: 1_000 };
    assert!(scene.store().queue.load(load).await.unwrap().deliveries.is_empty());
}

pub async fn every_endpoint_with_something_pending_is_waiting(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (busy, idle, settled) =
        (scene.endpoint().await, scene.endpoint().await, scene.endpoint().await);
    for seconds in [40, 20, 60] {
        scene.pending_due(&busy, later(seconds)).await;
    }
    scene.settled(&settled, NextState::Dead(Cause::Permanent)).await;
    let other = scene.endpoint().await;
    scene.pending_due(&other, later(7)).await;
    let mut waiting = waiting(&scene, Partition::all().collect()).await;
    waiting.sort_by_key(|waiting| waiting.endpoint);
    let expected = [(&busy, 20), (&other, 7)].map(|(endpoint, seconds)| Waiting {
        application: endpoint.application,
        endpoint: endpoint.key,
        partition: endpoint.partition,
        due: Some(later(seconds)),
        scheduled: None,
    });
    assert_eq!(waiting, expected);
    assert!(!waiting.iter().any(|waiting| waiting.endpoint == idle.key));
}

pub async fn a_fifo_endpoint_waits_for_the_first_of_its_line(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let first = scene.pending(&endpoint).await;
    scene.pending(&endpoint).await;
    let settle = scene.settling(first, 0, NextState::Pending { due: later(90) }).await;
    scene.settle_one(settle).await;
    let waiting = waiting(&scene, vec![endpoint.partition]).await;
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].due, Some(later(90)));
}

pub async fn only_the_given_partitions_are_looked_at(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    scene.pending(&endpoint).await;
    let others = Partition::all().filter(|other| *other != endpoint.partition).collect();
    assert!(waiting(&scene, others).await.is_empty());
    assert_eq!(waiting(&scene, vec![endpoint.partition]).await.len(), 1);
    assert!(waiting(&scene, Vec::new()).await.is_empty());
}

async fn waiting(scene: &Scene, partitions: Vec<Partition>) -> Vec<Waiting> {
    scene.store().queue.waiting(partitions).await.unwrap()
}
