//! Records: what is looked at one by one is what was written, cut where it is too long.

use std::time::Duration;

use bytes::Bytes;
use domain::delivery::{Cause, Delivery};
use domain::ids::DeliveryId;
use domain::outcome::{KEPT_OF_FAILURE, KEPT_OF_SUCCESS, Outcome, Unreachable};
use domain::retry_after::RetryAfter;

use crate::Error;
use crate::catalog::Name;
use crate::conformance::{Harness, NOW, Scene, fresh, later};
use crate::keys::{DeliveryKey, MessageKey};
use crate::ledger::{AttemptEntry, Payload};
use crate::page::{From, Page};
use crate::queue::{
    AttemptRecord, FirstState, Hop, NextState, Phases, RequestKind, Settle, Trigger,
};

pub async fn an_attempt_is_read_as_it_was_written(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for reused in [None, Some(false), Some(true)] {
        let key = scene.pending(&endpoint).await;
        let mut settle = scene.settling(key, 0, NextState::Pending { due: later(60) }).await;
        settle.attempt = full(&settle.attempt, reused);
        scene.settle_one(settle.clone()).await;
        let expected = AttemptEntry {
            key,
            message: scene.look(key).await.message,
            event_type: "invoice.paid".to_owned(),
            number: 1,
            next_due: Some(later(60)),
            record: settle.attempt,
        };
        let attempts = scene.store().ledger.attempts_of(key).await.unwrap();
        assert_eq!(attempts, [expected]);
    }
}

/// An attempt about which there is everything to say.
fn full(attempt: &AttemptRecord, reused: Option<bool>) -> AttemptRecord {
    AttemptRecord {
        id: attempt.id,
        began_at: later(7),
        ended_at: later(9),
        trigger: Trigger::Manual,
        outcome: Outcome::Answered { status: 429, retry_after: Some(RetryAfter::Seconds(17)) },
        retry_after_kept: reused.map(|_| Duration::from_micros(3_600_000_007)),
        phases: Phases {
            dns: Some(Duration::from_micros(1_234)),
            connect: None,
            tls: Some(Duration::from_micros(1)),
            first_byte: Some(Duration::from_micros(987_654)),
            reused,
        },
        request_headers: [("b", "1"), ("a", "\"quoted\" ü"), ("b", "2")].into_iter().collect(),
        response_headers: [("set-cookie", "x"), ("set-cookie", "y")].into_iter().collect(),
        response_body: Bytes::from_static(b"\x00\xffnot text"),
        error: Some("it said no".to_owned()),
        refusal: reused.map(|_| "10.0.0.7 is in 10.0.0.0/8 private use".to_owned()),
        hops: match reused {
            None => Vec::new(),
            Some(_) => [(302, "http://hooks.example.com"), (308, "https://hooks.example.com:8443")]
                .map(|(status, to)| Hop { status, to: to.to_owned() })
                .to_vec(),
        },
    }
}

pub async fn an_expunged_attempt_keeps_its_outcome_and_loses_what_was_said(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let settle = scene.settling(key, 0, NextState::Pending { due: later(60) }).await;
    let first = AttemptRecord {
        response_headers: [("x-secret", "1")].into_iter().collect(),
        error: Some("it said no".to_owned()),
        ..settle.attempt.clone()
    };
    scene.settle_one(Settle { attempt: first.clone(), ..settle }).await;
    let settle = scene.settling(key, 1, NextState::Delivered).await;
    let second = settle.attempt.clone();
    scene.settle_one(settle).await;
    let ledger = &scene.store().ledger;
    ledger.expunge_attempt(key, first.id).await.unwrap();
    let attempts = ledger.attempts_of(key).await.unwrap();
    let records: Vec<_> = attempts.into_iter().map(|entry| entry.record).collect();
    let bare = AttemptRecord {
        request_headers: crate::Headers::default(),
        response_headers: crate::Headers::default(),
        response_body: Bytes::new(),
        ..first.clone()
    };
    assert_eq!(records, [second, bare]);
    // Once more is no harm; what is not there is missing.
    ledger.expunge_attempt(key, first.id).await.unwrap();
    let other = scene.pending(&endpoint).await;
    let foreign = DeliveryKey { application: scene.another_application().await.key, ..key };
    for (key, id) in [(key, scene.id()), (other, first.id), (foreign, first.id)] {
        let answer = ledger.expunge_attempt(key, id).await;
        assert!(matches!(answer, Err(Error::Missing("attempt"))), "{answer:?}");
    }
}

pub async fn every_outcome_is_read_as_it_was_written(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let answered = |status, retry_after| Outcome::Answered { status, retry_after };
    let outcomes = [
        answered(200, None),
        answered(503, Some(RetryAfter::Seconds(0))),
        answered(503, Some(RetryAfter::Seconds(u64::from(u32::MAX)))),
        answered(999, Some(RetryAfter::At(later(77)))),
        Outcome::TimedOut,
        Outcome::Unreachable(Unreachable::Dns),
        Outcome::Unreachable(Unreachable::Refused),
        Outcome::Unreachable(Unreachable::Reset),
        Outcome::Unreachable(Unreachable::Other),
        Outcome::TlsFailed,
        Outcome::BrokenAnswer,
        Outcome::Blocked,
        Outcome::Interrupted,
    ];
    for (recorded, outcome) in (0..).zip(outcomes) {
        let mut settle = scene.settling(key, recorded, NextState::Pending { due: later(60) }).await;
        settle.attempt.outcome = outcome;
        scene.settle_one(settle).await;
        let newest = scene.store().ledger.attempts_of(key).await.unwrap().remove(0);
        assert_eq!(newest.record.outcome, outcome);
        assert_eq!(scene.look(key).await.last_status, outcome.status());
    }
}

pub async fn a_response_is_kept_as_far_as_its_status_allows(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let body: Bytes = (0..=u8::MAX).cycle().take(20_000).collect();
    let cases = [
        (Outcome::answered(200), KEPT_OF_SUCCESS),
        (Outcome::answered(299), KEPT_OF_SUCCESS),
        (Outcome::answered(404), KEPT_OF_FAILURE),
        (Outcome::answered(302), KEPT_OF_FAILURE),
        (Outcome::TimedOut, KEPT_OF_FAILURE),
    ];
    for (outcome, kept) in cases {
        let key = scene.pending(&endpoint).await;
        let mut settle = scene.settling(key, 0, NextState::Delivered).await;
        settle.attempt.outcome = outcome;
        settle.attempt.response_body = body.clone();
        scene.settle_one(settle).await;
        let attempts = scene.store().ledger.attempts_of(key).await.unwrap();
        assert_eq!(attempts[0].record.response_body, body[..kept], "{outcome:?}");
    }
}

pub async fn the_attempts_of_a_delivery_are_told_newest_first(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let (key, other) = (scene.pending(&endpoint).await, scene.pending(&endpoint).await);
    let mut ids = Vec::new();
    for recorded in 0..4 {
        for key in [key, other] {
            let next = NextState::Pending { due: later(60) };
            let settle = scene.settling(key, recorded, next).await;
            ids.push((key, settle.attempt.id));
            scene.settle_one(settle).await;
        }
    }
    let told = scene.store().ledger.attempts_of(key).await.unwrap();
    let told: Vec<_> = told.iter().map(|entry| (entry.number, entry.record.id)).collect();
    let own = ids.iter().filter(|(whose, _)| *whose == key).map(|(_, id)| *id);
    let expected: Vec<_> = (1..).zip(own).collect::<Vec<_>>().into_iter().rev().collect();
    assert_eq!(told, expected);
}

pub async fn a_delivery_is_found_by_its_derived_id(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let message = scene.accept_new(scene.message(&[&one, &two]).await).await;
    scene.accept_new(scene.message(&[&one, &two]).await).await;
    let ledger = &scene.store().ledger;
    for endpoint in [&one, &two] {
        let entry = scene.look(scene.key(endpoint, message)).await;
        let found = ledger.delivery(scene.application.key, entry.id).await.unwrap();
        assert_eq!(found, entry);
        assert_eq!((found.received_at, found.recorded), (NOW, 0));
        assert_eq!(found.state, Delivery::Pending(fresh(NOW)));
        let other = scene.another_application().await;
        let elsewhere = ledger.delivery(other.key, entry.id).await;
        assert!(matches!(elsewhere, Err(Error::Missing("delivery"))), "{elsewhere:?}");
    }
    let id = scene.look(scene.key(&one, message)).await.message;
    let never = u64::try_from(two.key.0).unwrap() + 1_000;
    for unknown in [DeliveryId::derive(&id, never), scene.id()] {
        let answer = ledger.delivery(scene.application.key, unknown).await;
        assert!(matches!(answer, Err(Error::Missing("delivery"))), "{answer:?}");
    }
}

pub async fn a_delivery_tells_the_policy_of_its_message(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut accept = scene.message(&[&endpoint]).await;
    accept.message.policy = Some(r#"{"policy":{"give_up_after":"7m"}}"#.to_owned());
    accept.deliveries[0].state = FirstState::Dead(Cause::EndpointDisabled);
    let own = scene.accept_new(accept.clone()).await;
    let without = scene.pending(&endpoint).await;
    let (application, ledger) = (scene.application.key, &scene.store().ledger);
    let entry = scene.look(scene.key(&endpoint, own)).await;
    assert_eq!(entry.policy, accept.message.policy);
    assert_eq!(ledger.delivery(application, entry.id).await.unwrap(), entry);
    let page = Page { from: From::Start, limit: 100 };
    let listed = ledger.deliveries(application, endpoint.key, Default::default(), page).await;
    assert_eq!(listed.unwrap().entries, [scene.look(without).await, entry.clone()]);
    let page = Page { from: From::Start, limit: 100 };
    let listed = ledger.dead_letters(application, Default::default(), page).await;
    assert_eq!(listed.unwrap().entries, [entry]);
    assert_eq!(scene.look(without).await.policy, None);
}

pub async fn the_deliveries_of_a_message_are_told_by_endpoint(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoints = [scene.endpoint().await, scene.fifo_endpoint().await, scene.endpoint().await];
    let [one, two, three] = &endpoints;
    scene.accept_new(scene.message(&[one, two, three]).await).await;
    let message = scene.accept_new(scene.message(&[three, one]).await).await;
    let of = scene.store().ledger.deliveries_of(scene.application.key, message).await.unwrap();
    let told: Vec<_> = of.iter().map(|entry| entry.key).collect();
    assert_eq!(told, [scene.key(one, message), scene.key(three, message)]);
}

pub async fn an_unknown_message_is_missing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let application = scene.application.key;
    let mut accept = scene.message(&[]).await;
    accept.message.event_id = Some("order-1".to_owned());
    let key = scene.accept_new(accept.clone()).await;
    let other = scene.another_application().await;
    let answers = [
        ledger.message(application, Name::Id(scene.id())).await,
        ledger.message(application, Name::Uid("order-2".to_owned())).await,
        ledger.message(other.key, Name::Id(accept.message.id)).await,
        ledger.message(other.key, Name::Uid("order-1".to_owned())).await,
    ];
    for answer in answers {
        assert!(matches!(answer, Err(Error::Missing("message"))), "{answer:?}");
    }
    for (application, message) in [(other.key, key), (application, MessageKey(i64::MAX))] {
        let answer = ledger.expunge(application, message, NOW).await;
        assert!(matches!(answer, Err(Error::Missing("message"))), "{answer:?}");
    }
}

pub async fn an_application_sees_nothing_of_another(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let own = scene.settled(&endpoint, NextState::Dead(Cause::Exhausted)).await;
    let other = scene.another_application().await.key;
    let ledger = &scene.store().ledger;
    let key = DeliveryKey { application: other, ..own };
    // Nothing to see, or no such thing: either hides it.
    let attempts = ledger.attempts_of(key).await;
    assert!(attempts.map_or(true, |attempts| attempts.is_empty()));
    let of = ledger.deliveries_of(other, own.message).await;
    assert!(of.map_or(true, |of| of.is_empty()));
    let page = Page { from: From::Start, limit: 10 };
    let listed = ledger.attempts(other, endpoint.key, Default::default(), page).await;
    assert!(listed.map_or(true, |listed| listed.entries.is_empty()));
    let page = Page { from: From::Start, limit: 10 };
    let listed = ledger.deliveries(other, endpoint.key, Default::default(), page).await;
    assert!(listed.map_or(true, |listed| listed.entries.is_empty()));
    let page = Page { from: From::Start, limit: 10 };
    let listed = ledger.dead_letters(other, Default::default(), page).await.unwrap();
    assert!(listed.entries.is_empty());
    let cancel = ledger.cancel(key, NOW).await;
    assert!(matches!(cancel, Err(Error::Missing("delivery"))), "{cancel:?}");
}

pub async fn an_expunged_payload_is_gone_and_all_else_is_there(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let accept = scene.message(&[]).await;
    let key = scene.accept_new(accept.clone()).await;
    let none = ledger.expunge(scene.application.key, key, NOW).await.unwrap();
    assert_eq!(none, []);
    let name = Name::Id(accept.message.id);
    let entry = ledger.message(scene.application.key, name).await.unwrap();
    assert_eq!((entry.payload, entry.event_type), (Payload::Gone, accept.message.event_type));
    ledger.expunge(scene.application.key, key, NOW).await.unwrap();
}

pub async fn an_empty_payload_is_not_a_missing_one(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut accept = scene.message(&[&endpoint]).await;
    accept.message.payload = Bytes::new();
    scene.accept_new(accept.clone()).await;
    let name = Name::Id(accept.message.id);
    let entry = scene.store().ledger.message(scene.application.key, name).await.unwrap();
    assert_eq!(entry.payload, Payload::Kept(Bytes::new()));
    assert_eq!(scene.load(&endpoint).await.deliveries[0].payload, Some(Bytes::new()));
}

pub async fn a_cancelled_delivery_is_forgotten_by_its_owner(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let entry = scene.store().ledger.cancel(key, later(4)).await.unwrap();
    assert_eq!((entry.state, entry.settled_at), (Delivery::Cancelled, Some(later(4))));
    assert_eq!(scene.look(key).await, entry);
    assert!(scene.load(&endpoint).await.deliveries.is_empty());
    let requests = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(request.kind, RequestKind::Cancel(key.message));
    assert_eq!((request.application, request.endpoint), (key.application, key.endpoint));
    assert_eq!((request.partition, request.at), (endpoint.partition, later(4)));
}

pub async fn only_a_pending_delivery_is_cancelled(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let before = scene.look(key).await;
    let ledger = &scene.store().ledger;
    let answer = ledger.cancel(key, later(4)).await;
    assert!(matches!(answer, Err(Error::Refused(_))), "{answer:?}");
    assert_eq!(scene.look(key).await, before);
    let unknown = DeliveryKey { message: MessageKey(i64::MAX), ..key };
    let answer = ledger.cancel(unknown, later(4)).await;
    assert!(matches!(answer, Err(Error::Missing("delivery"))), "{answer:?}");
    let requests = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
    assert_eq!(requests, []);
}

pub async fn a_delivery_retried_now_is_due_and_its_owner_is_asked(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let first = scene.pending_due(&endpoint, later(100)).await;
    let key = scene.pending_due(&endpoint, later(500)).await;
    let entry = scene.store().ledger.retry_now(key, later(20)).await.unwrap();
    assert_eq!(entry, scene.look(key).await);
    let loaded = scene.load(&endpoint).await.deliveries;
    assert_eq!((loaded[0].key, loaded[1].key), (key, first));
    assert_eq!(entry.state, Delivery::Pending(loaded[0].pending));
    assert_eq!((loaded[0].pending.due, loaded[0].turn), (later(20), later(20).as_micros()));
    let requests = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(request.kind, RequestKind::RetryNow(key.message));
    assert_eq!((request.application, request.endpoint), (key.application, key.endpoint));
    assert_eq!((request.partition, request.at), (endpoint.partition, later(20)));
    // What is due earlier stays so.
    let entry = scene.store().ledger.retry_now(key, later(30)).await.unwrap();
    assert_eq!(entry, scene.look(key).await);
    assert_eq!(scene.load(&endpoint).await.deliveries[0].pending.due, later(20));
}

pub async fn a_delivery_retried_now_does_not_overtake_in_a_line(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let (first, key) = (scene.pending(&endpoint).await, scene.pending(&endpoint).await);
    let settle = scene.settling(key, 0, NextState::Pending { due: later(500) }).await;
    scene.settle_one(settle).await;
    scene.store().ledger.retry_now(key, later(20)).await.unwrap();
    let loaded = scene.load(&endpoint).await.deliveries;
    assert_eq!((loaded[0].key, loaded[1].key), (first, key));
    assert_eq!(loaded[1].pending.due, later(20));
}

pub async fn only_a_pending_delivery_is_retried_now(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let before = scene.look(key).await;
    let ledger = &scene.store().ledger;
    let answer = ledger.retry_now(key, later(4)).await;
    let Err(Error::Refused(text)) = answer else { panic!("{answer:?}") };
    assert!(text.contains("delivered"), "{text}");
    assert_eq!(scene.look(key).await, before);
    let unknown = DeliveryKey { message: MessageKey(i64::MAX), ..key };
    let answer = ledger.retry_now(unknown, later(4)).await;
    assert!(matches!(answer, Err(Error::Missing("delivery"))), "{answer:?}");
    let requests = scene.store().queue.requests(vec![endpoint.partition]).await.unwrap();
    assert_eq!(requests, []);
}
