//! Filters: what is asked for, from both ends, however short the pages.

use domain::delivery::Cause;
use domain::ids::MessageId;
use domain::outcome::{Outcome, Unreachable};
use domain::replay::StatusClass;

use crate::Answer;
use crate::catalog::Endpoint;
use crate::conformance::{Harness, Scene, later};
use crate::keys::{DeliveryKey, MessageKey};
use crate::ledger::{AttemptFilter, DeliveryFilter, MessageFilter, Payload};
use crate::page::{From, Listed, Page};
use crate::queue::{Batch, NextState};

pub async fn messages_are_filtered_by_type_channel_and_time(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut ids = Vec::new();
    for (seconds, event_type, channels) in [
        (0, "a", vec!["x", "y"]),
        (10, "b", vec!["y"]),
        (20, "c", vec![]),
        (30, "a", vec!["xx"]),
        (40, "b", vec!["x"]),
    ] {
        let mut accept = scene.message(&[]).await;
        accept.message.event_type = event_type.to_owned();
        accept.message.channels = channels.into_iter().map(str::to_owned).collect();
        accept.message.received_at = later(seconds);
        ids.push(accept.message.id);
        scene.accept_new(accept).await;
    }
    let none = MessageFilter::default;
    let types = |types: &[&str]| types.iter().map(|one| (*one).to_owned()).collect();
    let cases = [
        (none(), vec![4, 3, 2, 1, 0]),
        (MessageFilter { event_types: types(&["a"]), ..none() }, vec![3, 0]),
        (MessageFilter { event_types: types(&["a", "c"]), ..none() }, vec![3, 2, 0]),
        (MessageFilter { event_types: types(&["d"]), ..none() }, vec![]),
        (MessageFilter { channel: Some("x".to_owned()), ..none() }, vec![4, 0]),
        (MessageFilter { since: Some(later(20)), ..none() }, vec![4, 3, 2]),
        (MessageFilter { until: Some(later(20)), ..none() }, vec![1, 0]),
        (
            MessageFilter {
                since: Some(later(1)),
                until: Some(later(40)),
                event_types: types(&["b"]),
                ..none()
            },
            vec![1],
        ),
    ];
    for (filter, places) in cases {
        let expected: Vec<_> = places.iter().map(|place: &usize| ids[*place]).collect();
        let list =
            |page| scene.store().ledger.messages(scene.application.key, filter.clone(), page);
        let after_all = MessageId::from_bytes([0; 20]);
        check(&expected, after_all, list, |entry| entry.id, &format!("{filter:?}")).await;
    }
}

pub async fn payloads_are_listed_if_they_are_asked_for(harness: Harness) {
    let scene = Scene::new(harness).await;
    let accept = scene.message(&[]).await;
    scene.accept_new(accept.clone()).await;
    let list = async |with_payload| {
        let filter = MessageFilter { with_payload, ..MessageFilter::default() };
        let page = Page { from: From::Start, limit: 5 };
        let ledger = &scene.store().ledger;
        let listed = ledger.messages(scene.application.key, filter, page).await.unwrap();
        listed.entries[0].payload.clone()
    };
    assert_eq!(list(false).await, Payload::Omitted);
    assert_eq!(list(true).await, Payload::Kept(accept.message.payload));
}

pub async fn deliveries_are_filtered_by_state_cause_class_type_and_time(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let keys = one_of_each(&scene, &endpoint).await;
    let none = DeliveryFilter::default;
    let class = |class| DeliveryFilter { status_class: Some(class), ..none() };
    let cases = [
        (none(), vec![5, 4, 3, 2, 1, 0]),
        (DeliveryFilter { state: Some("pending"), ..none() }, vec![5, 0]),
        (DeliveryFilter { state: Some("delivered"), ..none() }, vec![1]),
        (DeliveryFilter { state: Some("dead"), ..none() }, vec![3, 2]),
        (DeliveryFilter { state: Some("cancelled"), ..none() }, vec![4]),
        (DeliveryFilter { cause: Some(Cause::Permanent), ..none() }, vec![2]),
        (class(StatusClass::Success), vec![1]),
        (class(StatusClass::ClientError), vec![2]),
        (class(StatusClass::ServerError), vec![5]),
        // Only what was tried can have stayed without an answer.
        (class(StatusClass::NoAnswer), vec![3]),
        (DeliveryFilter { event_types: vec!["odd".to_owned()], ..none() }, vec![5, 3, 1]),
        (DeliveryFilter { since: Some(later(3)), ..none() }, vec![5, 4, 3]),
        (DeliveryFilter { until: Some(later(3)), state: Some("dead"), ..none() }, vec![2]),
    ];
    for (filter, places) in cases {
        let expected: Vec<_> = places.iter().map(|place: &usize| keys[*place].message).collect();
        let ledger = &scene.store().ledger;
        let list =
            |page| ledger.deliveries(endpoint.application, endpoint.key, filter.clone(), page);
        let named = format!("{filter:?}");
        check(&expected, MessageKey(0), list, |entry| entry.key.message, &named).await;
    }
}

pub async fn dead_letters_are_filtered_like_deliveries(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let keys = one_of_each(&scene, &endpoint).await;
    let none = DeliveryFilter::default;
    let cases = [
        (none(), vec![3, 2]),
        (DeliveryFilter { cause: Some(Cause::Exhausted), ..none() }, vec![3]),
        (DeliveryFilter { cause: Some(Cause::Poison), ..none() }, vec![]),
        (DeliveryFilter { status_class: Some(StatusClass::ClientError), ..none() }, vec![2]),
        (DeliveryFilter { event_types: vec!["odd".to_owned()], ..none() }, vec![3]),
        (DeliveryFilter { since: Some(later(3)), ..none() }, vec![3]),
        (DeliveryFilter { until: Some(later(3)), ..none() }, vec![2]),
    ];
    for (filter, places) in cases {
        let place = |key: &DeliveryKey| (key.message, key.endpoint);
        let expected: Vec<_> = places.iter().map(|at: &usize| place(&keys[*at])).collect();
        let ledger = &scene.store().ledger;
        let list = |page| ledger.dead_letters(scene.application.key, filter.clone(), page);
        let named = format!("{filter:?}");
        let after_all = (MessageKey(0), endpoint.key);
        check(&expected, after_all, list, |entry| place(&entry.key), &named).await;
    }
}

pub async fn dead_letters_are_filtered_and_purged_by_endpoint(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    one_of_each(&scene, &one).await;
    let keys = one_of_each(&scene, &two).await;
    let filter = DeliveryFilter { endpoint: Some(two.key), ..DeliveryFilter::default() };
    let place = |key: &DeliveryKey| (key.message, key.endpoint);
    let expected = [place(&keys[3]), place(&keys[2])];
    let (ledger, application) = (&scene.store().ledger, scene.application.key);
    let list = |page| ledger.dead_letters(application, filter.clone(), page);
    let after_all = (MessageKey(0), one.key);
    check(&expected, after_all, list, |entry| place(&entry.key), "by endpoint").await;
    let page = || Page { from: From::Start, limit: 50 };
    let purged = ledger.purge_dead_letters(application, filter.clone(), page()).await.unwrap();
    assert_eq!(purged.entries.len(), 2);
    let left = ledger.dead_letters(application, DeliveryFilter::default(), page()).await.unwrap();
    assert_eq!(left.entries.len(), 2);
    assert!(left.entries.iter().all(|entry| entry.key.endpoint == one.key));
}

pub async fn attempts_are_filtered_by_success_class_type_and_time(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let deliveries = one_of_each(&scene, &endpoint).await;
    let ledger = &scene.store().ledger;
    let page = Page { from: From::Start, limit: 50 };
    let (application, key) = (endpoint.application, endpoint.key);
    let all = ledger.attempts(application, key, AttemptFilter::default(), page).await.unwrap();
    let ids: Vec<_> = all.entries.iter().map(|entry| entry.record.id).collect();
    let none = AttemptFilter::default;
    let class = |class| AttemptFilter { status_class: Some(class), ..none() };
    // Newest first: 503, no answer, 404, 200, each begun as long after the start as its place.
    let cases = [
        (none(), vec![0, 1, 2, 3]),
        (AttemptFilter { succeeded: Some(true), ..none() }, vec![3]),
        (AttemptFilter { succeeded: Some(false), ..none() }, vec![0, 1, 2]),
        (class(StatusClass::ServerError), vec![0]),
        (class(StatusClass::NoAnswer), vec![1]),
        (AttemptFilter { event_types: vec!["even".to_owned()], ..none() }, vec![2]),
        (AttemptFilter { since: Some(later(3)), ..none() }, vec![0, 1]),
        (AttemptFilter { until: Some(later(3)), ..none() }, vec![2, 3]),
    ];
    for (filter, places) in cases {
        let expected: Vec<_> = places.iter().map(|place: &usize| ids[*place]).collect();
        let list = |page| ledger.attempts(application, key, filter.clone(), page);
        let named = format!("{filter:?}");
        let after_all = domain::ids::AttemptId::from_bytes([0; 20]);
        check(&expected, after_all, list, |entry| entry.record.id, &named).await;
        let mut found = Vec::new();
        for delivery in &deliveries {
            let page = Page { from: From::Start, limit: 50 };
            let listed = ledger.attempts_of((*delivery).into(), filter.clone(), page).await;
            found.extend(listed.unwrap().entries.iter().map(|entry| entry.record.id));
        }
        found.sort_unstable();
        assert!(found.iter().rev().eq(&expected), "{named}");
    }
}

/// Makes six deliveries, each received a second after the one before: pending, delivered, dead by
/// 404, dead without an answer, cancelled, pending after 503. The types alternate.
async fn one_of_each(scene: &Scene, endpoint: &Endpoint) -> Vec<DeliveryKey> {
    let mut keys = Vec::new();
    for seconds in 0..6 {
        let mut accept = scene.message(&[endpoint]).await;
        accept.message.received_at = later(seconds);
        accept.message.event_type = if seconds % 2 == 0 { "even" } else { "odd" }.to_owned();
        let message = scene.accept_new(accept).await;
        keys.push(scene.key(endpoint, message));
    }
    scene.store().ledger.cancel(keys[4], later(9)).await.unwrap();
    let refused = Outcome::Unreachable(Unreachable::Refused);
    let outcomes = [
        (1, NextState::Delivered, Outcome::answered(200)),
        (2, NextState::Dead(Cause::Permanent), Outcome::answered(404)),
        (3, NextState::Dead(Cause::Exhausted), refused),
        (5, NextState::Pending { due: later(60) }, Outcome::answered(503)),
    ];
    let mut settles = Vec::new();
    for (place, next, outcome) in outcomes {
        let mut settle = scene.settling(keys[place], 0, next).await;
        settle.attempt.outcome = outcome;
        settle.attempt.began_at = later(u64::try_from(place).unwrap());
        settles.push(settle);
    }
    scene.commit(Batch { settles, ..Batch::default() }).await;
    keys
}

/// Checks a filtered list in pages of every size, forwards, and backwards from behind its end.
/// Pages may be short, so each begins where the one before said that it had got.
async fn check<'a, Entry, Id>(
    expected: &[Id],
    after_all: Id,
    list: impl Fn(Page<Id>) -> Answer<'a, Listed<Entry, Id>>,
    id: impl Fn(&Entry) -> Id,
    named: &str,
) where
    Id: Clone + PartialEq + std::fmt::Debug,
{
    for limit in 1..=4 {
        let (mut forwards, mut from) = (Vec::new(), From::Start);
        for _ in 0..20 {
            let listed = list(Page { from, limit }).await.unwrap();
            forwards.extend(listed.entries.iter().map(&id));
            if listed.done {
                break;
            }
            from = From::After(listed.reached.unwrap());
        }
        from = From::Before(after_all.clone());
        assert_eq!(forwards, expected, "pages of {limit} with {named}");
        let mut backwards = Vec::new();
        for _ in 0..20 {
            let listed = list(Page { from, limit }).await.unwrap();
            let page: Vec<_> = listed.entries.iter().map(&id).collect();
            backwards.splice(0..0, page);
            if listed.done {
                break;
            }
            from = From::Before(listed.reached.unwrap());
        }
        assert_eq!(backwards, expected, "pages of {limit} backwards with {named}");
    }
}
