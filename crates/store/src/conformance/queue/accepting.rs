//! Accepting: all of a message or nothing, and nothing of one that harms another.

use bytes::Bytes;
use domain::delivery::{Cause, Delivery};
use domain::ids::DeliveryId;
use domain::time::Timestamp;

use crate::catalog::{Name, NewEndpoint};
use crate::conformance::{Harness, MINUTE, NOW, Scene, attempts_of, fresh, later};
use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::ledger::{MessageEntry, Payload};
use crate::page::{From, Page};
use crate::queue::{Accept, Accepted, Batch, FirstState, NextState, Order};

pub async fn an_accepted_message_is_there_with_all_that_was_said(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut accept = scene.message(&[]).await;
    accept.message.event_id = Some("order-17".to_owned());
    accept.message.channels = vec!["north".to_owned(), "south:1".to_owned()];
    accept.message.payload = Bytes::from_static(b"{ \"a\" : 1.0 }\xff\x00 as it came");
    accept.message.content_type = Some("text/plain".to_owned());
    accept.message.policy = Some("{\"preset\":\"svix\"}".to_owned());
    accept.message.deliver_at = Some(later(60));
    accept.message.only = Some(EndpointKey(7));
    let key = scene.accept_new(accept.clone()).await;
    for name in [Name::Id(accept.message.id), Name::Uid("order-17".to_owned())] {
        let entry = scene.store().ledger.message(scene.application.key, name).await.unwrap();
        assert_eq!((entry.key, entry.application), (key, scene.application.key));
        assert_eq!((entry.id, entry.event_type), (accept.message.id, "invoice.paid".to_owned()));
        assert_eq!(entry.event_id.as_deref(), Some("order-17"));
        assert_eq!(entry.channels, accept.message.channels);
        assert_eq!(entry.content_type.as_deref(), Some("text/plain"));
        assert_eq!(entry.policy, accept.message.policy);
        assert_eq!((entry.deliver_at, entry.only), (Some(later(60)), Some(EndpointKey(7))));
        assert_eq!(entry.received_at, NOW);
        assert_eq!(entry.payload, Payload::Kept(accept.message.payload.clone()));
    }
    for name in [Name::Id(accept.message.id), Name::Uid("order-17".to_owned())] {
        let (ledger, application) = (&scene.store().ledger, scene.application.key);
        let whole = ledger.message(application, name.clone()).await.unwrap();
        let bare = ledger.message_without_payload(application, name).await.unwrap();
        assert_eq!(bare, MessageEntry { payload: Payload::Omitted, ..whole });
    }
    let page = Page { from: From::Start, limit: 10 };
    let listed = scene.store().ledger.messages(scene.application.key, Default::default(), page);
    let entry = &listed.await.unwrap().entries[0];
    assert_eq!((&entry.policy, entry.deliver_at), (&accept.message.policy, Some(later(60))));
    assert_eq!((entry.only, &entry.payload), (Some(EndpointKey(7)), &Payload::Omitted));
}

pub async fn a_message_without_deliveries_is_accepted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let answers = scene.accept(vec![scene.message(&[]).await]).await;
    assert!(matches!(&answers[..], [Accepted::New { turns, .. }] if turns.is_empty()));
}

pub async fn each_delivery_gets_its_turn_and_its_derived_id(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let mut accept = scene.message(&[&two, &one]).await;
    accept.deliveries[1].state = FirstState::Pending(fresh(later(60)));
    let answers = scene.accept(vec![accept.clone()]).await;
    let [Accepted::New { message, turns }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(turns, &[NOW.as_micros(), later(60).as_micros()]);
    let of = scene.store().ledger.deliveries_of(scene.application.key, *message).await.unwrap();
    let ids: Vec<_> = of.iter().map(|entry| entry.id).collect();
    let derived = [&one, &two].map(|endpoint| {
        DeliveryId::derive(&accept.message.id, u64::try_from(endpoint.key.0).unwrap())
    });
    assert_eq!(ids, derived);
    assert_eq!(of[0].state, Delivery::Pending(fresh(later(60))));
    assert_eq!(of[1].state, Delivery::Pending(fresh(NOW)));
}

pub async fn a_delivery_can_begin_as_a_dead_letter(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut accept = scene.message(&[&endpoint]).await;
    accept.deliveries[0].state = FirstState::Dead(Cause::EndpointDisabled);
    let answers = scene.accept(vec![accept]).await;
    let [Accepted::New { message, turns }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(turns, &[0]);
    let entry = scene.look(scene.key(&endpoint, *message)).await;
    assert_eq!(entry.state, Delivery::Dead(Cause::EndpointDisabled));
    assert_eq!(entry.settled_at, Some(NOW));
    assert!(scene.loaded(&endpoint).await.is_empty());
}

pub async fn a_later_message_has_a_higher_key(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut keys = Vec::new();
    for _ in 0..3 {
        let pair = vec![scene.message(&[]).await, scene.message(&[]).await];
        let mut both: Vec<_> = scene.accept(pair).await.into_iter().map(key).collect();
        both.sort_unstable();
        keys.extend(both);
    }
    assert!(keys.is_sorted_by(|one, next| one < next), "{keys:?}");
}

pub async fn fifo_turns_grow_in_the_order_of_acceptance(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.fifo_endpoint().await;
    let mut accepts = Vec::new();
    for _ in 0..3 {
        accepts.push(scene.message(&[&endpoint]).await);
    }
    let mut answers = scene.accept(accepts).await;
    answers.extend(scene.accept(vec![scene.message(&[&endpoint]).await]).await);
    let turns: Vec<_> = answers.iter().flat_map(turns).collect();
    assert!(turns.is_sorted_by(|one, next| one < next), "{turns:?}");
    let keys: Vec<_> = answers.into_iter().map(key).collect();
    assert_eq!(scene.loaded(&endpoint).await, keys);
}

pub async fn an_unknown_application_has_no_messages(harness: Harness) {
    let scene = Scene::new(harness).await;
    let application = ApplicationKey(scene.application.key.0 + 1_000);
    let stranger = Accept { application, ..scene.message(&[]).await };
    assert_eq!(scene.accept(vec![stranger]).await, [Accepted::ApplicationMissing]);
}

pub async fn a_deleted_application_accepts_nothing_not_even_a_repeat(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut accept = scene.message(&[]).await;
    accept.idempotency = Some([1; 32]);
    scene.accept_new(accept.clone()).await;
    scene.store().catalog.delete_application(scene.application.key, NOW).await.unwrap();
    let again = scene.again(&accept);
    let answers = scene.accept(vec![accept, again]).await;
    assert_eq!(answers, [Accepted::ApplicationMissing, Accepted::ApplicationMissing]);
}

pub async fn the_same_key_again_names_the_first_message(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut first = scene.message(&[]).await;
    first.idempotency = Some([1; 32]);
    scene.accept_new(first.clone()).await;
    let second = scene.again(&first);
    let other = Accept { idempotency: Some([2; 32]), ..scene.message(&[]).await };
    let answers = scene.accept(vec![second.clone(), other]).await;
    assert_eq!(answers[0], Accepted::Repeated(first.message.id));
    assert!(matches!(answers[1], Accepted::New { .. }));
    let second = scene.store().ledger.message(first.application, Name::Id(second.message.id));
    assert!(second.await.is_err(), "a repeat writes nothing");
}

pub async fn a_key_used_twice_in_a_batch_has_one_winner(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut first = scene.message(&[]).await;
    first.idempotency = Some([1; 32]);
    let second = scene.again(&first);
    let answers = scene.accept(vec![first.clone(), second]).await;
    assert!(matches!(answers[0], Accepted::New { .. }));
    assert_eq!(answers[1], Accepted::Repeated(first.message.id));
}

pub async fn a_repeat_is_recognised_although_its_revision_is_old(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut first = scene.message(&[]).await;
    first.idempotency = Some([1; 32]);
    first.message.event_id = Some("order-1".to_owned());
    scene.accept_new(first.clone()).await;
    scene.endpoint().await;
    let by_key = scene.again(&first);
    let by_event = Accept { idempotency: None, ..by_key.clone() };
    let answers = scene.accept(vec![by_key, by_event]).await;
    let id = first.message.id;
    assert_eq!(answers, [Accepted::Repeated(id), Accepted::EventIdTaken(id)]);
}

pub async fn a_key_is_forgotten_after_twelve_hours(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut first = scene.message(&[]).await;
    first.idempotency = Some([1; 32]);
    scene.accept_new(first.clone()).await;
    let at = |received_at: Timestamp| {
        let mut again = scene.again(&first);
        again.message.received_at = received_at;
        again
    };
    let just_before = at(NOW.after(MINUTE * (12 * 60 - 1)));
    assert_eq!(scene.accept(vec![just_before]).await, [Accepted::Repeated(first.message.id)]);
    let after = at(NOW.after(MINUTE * (12 * 60 + 1)));
    scene.accept_new(after.clone()).await;
    let replaced = at(NOW.after(MINUTE * (12 * 60 + 2)));
    assert_eq!(scene.accept(vec![replaced]).await, [Accepted::Repeated(after.message.id)]);
}

pub async fn a_key_belongs_to_one_application(harness: Harness) {
    let scene = Scene::new(harness).await;
    let other = scene.another_application().await;
    let mut first = scene.message(&[]).await;
    first.idempotency = Some([1; 32]);
    first.message.event_id = Some("order-1".to_owned());
    let (application, revision) = (other.key, other.revision);
    let theirs = Accept { application, revision, ..scene.again(&first) };
    let answers = scene.accept(vec![first, theirs]).await;
    assert!(answers.iter().all(|answer| matches!(answer, Accepted::New { .. })), "{answers:?}");
}

pub async fn an_event_id_is_used_once(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut accepts = Vec::new();
    for event_id in ["a", "b", "a"] {
        let mut accept = scene.message(&[]).await;
        accept.message.event_id = Some(event_id.to_owned());
        accepts.push(accept);
    }
    let first = accepts[0].message.id;
    let answers = scene.accept(accepts).await;
    assert!(matches!(answers[..2], [Accepted::New { .. }, Accepted::New { .. }]), "{answers:?}");
    assert_eq!(answers[2], Accepted::EventIdTaken(first));
    let mut later = scene.message(&[]).await;
    later.message.event_id = Some("a".to_owned());
    later.idempotency = Some([9; 32]);
    assert_eq!(scene.accept(vec![later.clone()]).await, [Accepted::EventIdTaken(first)]);
    // Nothing was written: its key is still free.
    later.message.event_id = None;
    scene.accept_new(later).await;
}

pub async fn a_stale_fan_out_is_refused_and_writes_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut accept = scene.message(&[]).await;
    accept.idempotency = Some([1; 32]);
    accept.message.event_id = Some("order-1".to_owned());
    scene.endpoint().await;
    let current = scene.revision().await;
    assert_eq!(scene.accept(vec![accept.clone()]).await, [Accepted::Stale(current)]);
    let again = Accept { revision: current, ..accept };
    scene.accept_new(again).await;
}

pub async fn an_endpoint_created_elsewhere_counts_for_the_next_message(harness: Harness) {
    let scene = Scene::new(harness).await;
    let accept = scene.message(&[]).await;
    let new = scene.new_endpoint(Order::Due);
    scene.harness.other.catalog.create_endpoint(new).await.unwrap();
    let answers = scene.accept(vec![accept]).await;
    assert_eq!(answers, [Accepted::Stale(scene.revision().await)]);
}

pub async fn a_name_that_moved_accepts_nothing_not_even_a_repeat(harness: Harness) {
    let scene = Scene::new(harness).await;
    let rename = async |key, uid: Option<&str>| {
        let settings = scene.application.settings.clone();
        scene.change_application(key, uid.map(str::to_owned), settings, NOW).await.unwrap()
    };
    let (one, two) = (scene.application.key, scene.another_application().await.key);
    rename(one, Some("cust")).await;
    let named = async |application, revision| {
        let named = Some("cust".into());
        Accept { application, named, revision, ..scene.message(&[]).await }
    };
    let mut first = named(one, scene.revision().await).await;
    first.idempotency = Some([1; 32]);
    first.message.event_id = Some("order-17".to_owned());
    scene.accept_new(first.clone()).await;
    let repeated = [Accepted::Repeated(first.message.id)];
    assert_eq!(scene.accept(vec![scene.again(&first)]).await, repeated);
    // The name moves from one application to the other.
    rename(one, Some("cust-old")).await;
    let revision = rename(two, Some("cust")).await.revision;
    let current = scene.revision().await;
    let late = named(one, current).await;
    let by_event = Accept { idempotency: None, ..scene.again(&first) };
    let by_id = Accept { named: None, ..by_event.clone() };
    let mut there = named(two, revision).await;
    there.idempotency = Some([1; 32]);
    let items = vec![by_id, late.clone(), scene.again(&first), by_event, there, first.clone()];
    let answers = scene.accept(items).await;
    assert_eq!(answers[0], Accepted::EventIdTaken(first.message.id), "by its id it is found");
    assert_eq!(answers[1..4], [const { Accepted::NameMoved }; 3], "{answers:?}");
    // The other application bears the name by now, and keeps keys of its own.
    assert!(matches!(answers[4], Accepted::New { .. }), "{answers:?}");
    assert!(matches!(answers[5], Accepted::New { .. }), "the same message is found: {answers:?}");
    let name = Name::Id(late.message.id);
    let missing = scene.store().ledger.message(one, name).await.unwrap_err();
    assert!(matches!(missing, crate::Error::Missing("message")), "{missing}");
    // A name that was taken off and given back is the same name.
    rename(one, None).await;
    let bare = named(one, scene.revision().await).await;
    assert_eq!(scene.accept(vec![bare]).await, [Accepted::NameMoved]);
    rename(two, None).await;
    rename(one, Some("cust")).await;
    scene.accept_new(named(one, scene.revision().await).await).await;
}

pub async fn a_delivery_to_an_unknown_endpoint_is_refused_alone(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut bad = scene.message(&[&endpoint]).await;
    bad.deliveries[0].endpoint.0 += 1_000;
    let good = vec![scene.message(&[&endpoint]).await, scene.message(&[&endpoint]).await];
    let mut batch = good.clone();
    batch.insert(1, bad);
    let answers = scene.accept(batch).await;
    assert!(matches!(answers[1], Accepted::Refused(_)), "{answers:?}");
    assert!(matches!(answers[0], Accepted::New { .. }), "{answers:?}");
    assert!(matches!(answers[2], Accepted::New { .. }), "{answers:?}");
    assert_eq!(scene.loaded(&endpoint).await.len(), 2);
}

pub async fn a_delivery_to_another_applications_endpoint_is_refused(harness: Harness) {
    let scene = Scene::new(harness).await;
    let other = scene.another_application().await;
    let new = NewEndpoint { application: other.key, ..scene.new_endpoint(Order::Due) };
    let theirs = scene.create(new).await;
    let answers = scene.accept(vec![scene.message(&[&theirs]).await]).await;
    assert!(matches!(answers[..], [Accepted::Refused(_)]), "{answers:?}");
}

pub async fn a_message_that_is_refused_keeps_no_key_from_the_next_of_its_batch(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let mut good = scene.message(&[&endpoint]).await;
    good.idempotency = Some([1; 32]);
    good.message.event_id = Some("order-1".to_owned());
    let mut unknown = scene.again(&good);
    unknown.deliveries[0].endpoint.0 += 1_000;
    let stale = Accept { revision: -1, ..scene.again(&good) };
    let last = scene.again(&good);
    let id = good.message.id;
    let answers = scene.accept(vec![unknown, stale, good, last]).await;
    assert!(matches!(answers[0], Accepted::Refused(_)), "{answers:?}");
    assert_eq!(answers[1], Accepted::Stale(scene.revision().await));
    assert!(matches!(answers[2], Accepted::New { .. }), "{answers:?}");
    assert_eq!(answers[3], Accepted::Repeated(id));
}

pub async fn a_text_that_a_database_cannot_hold_harms_no_other(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut bad = scene.message(&[]).await;
    bad.message.event_id = Some("a\0b".to_owned());
    let (one, two) = (scene.message(&[]).await, scene.message(&[]).await);
    let answers = scene.accept(vec![one, bad, two]).await;
    assert!(matches!(answers[1], Accepted::New { .. } | Accepted::Refused(_)), "{answers:?}");
    assert!(matches!(answers[0], Accepted::New { .. }), "{answers:?}");
    assert!(matches!(answers[2], Accepted::New { .. }), "{answers:?}");
}

pub async fn a_repeated_batch_answers_alike_and_writes_nothing_more(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (due, fifo) = (scene.endpoint().await, scene.fifo_endpoint().await);
    let settled = scene.pending(&due).await;
    let mut keyed = scene.message(&[&due, &fifo]).await;
    keyed.idempotency = Some([1; 32]);
    keyed.message.event_id = Some("order-1".to_owned());
    let repeat = scene.again(&keyed);
    let stale = Accept { revision: -1, ..scene.message(&[]).await };
    let batch = Batch {
        accepts: vec![keyed, repeat, stale, scene.message(&[&fifo]).await],
        settles: vec![scene.settling(settled, 0, NextState::Pending { due: later(9) }).await],
        upkeep: Vec::new(),
    };
    let first = scene.commit(batch.clone()).await;
    let (at_due, at_fifo) = (scene.load(&due).await, scene.load(&fifo).await);
    assert_eq!(scene.commit(batch).await, first);
    assert_eq!(scene.load(&due).await, at_due);
    assert_eq!(scene.load(&fifo).await, at_fifo);
    assert_eq!(attempts_of(&scene.store().ledger, settled).await.unwrap().len(), 1);
}

pub async fn a_batch_that_comes_again_is_known_although_its_revision_is_old(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let batch = vec![scene.message(&[&endpoint]).await];
    let first = scene.accept(batch.clone()).await;
    scene.endpoint().await;
    assert_eq!(scene.accept(batch).await, first);
}

pub async fn one_bad_item_of_each_kind_harms_none_of_the_good_ones(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let (cancelled, fine) = (scene.pending(&endpoint).await, scene.pending(&endpoint).await);
    scene.store().ledger.cancel(cancelled, NOW).await.unwrap();
    let mut keyed = scene.message(&[&endpoint]).await;
    keyed.idempotency = Some([1; 32]);
    let duplicate = scene.again(&keyed);
    let mut unknown = scene.message(&[&endpoint]).await;
    unknown.deliveries[0].endpoint.0 += 1_000;
    let stale = Accept { revision: -1, ..scene.message(&[&endpoint]).await };
    let good = scene.message(&[&endpoint]).await;
    let batch = Batch {
        accepts: vec![unknown, keyed.clone(), stale, duplicate, good],
        settles: vec![
            scene.settling(cancelled, 0, NextState::Delivered).await,
            scene.settling(fine, 0, NextState::Delivered).await,
        ],
        upkeep: Vec::new(),
    };
    let done = scene.commit(batch).await;
    let [refused, first, stale, repeated, last] = &done.accepts[..] else { panic!("{done:?}") };
    assert!(matches!(refused, Accepted::Refused(_)), "{refused:?}");
    assert!(matches!(first, Accepted::New { .. }), "{first:?}");
    assert_eq!(*stale, Accepted::Stale(scene.revision().await));
    assert_eq!(*repeated, Accepted::Repeated(keyed.message.id));
    assert!(matches!(last, Accepted::New { .. }), "{last:?}");
    assert_eq!(scene.look(cancelled).await.state, Delivery::Cancelled);
    assert_eq!(scene.look(fine).await.state, Delivery::Delivered);
    assert_eq!(scene.loaded(&endpoint).await, [key(first.clone()), key(last.clone())]);
}

fn key(answer: Accepted) -> MessageKey {
    let Accepted::New { message, .. } = answer else { panic!("not new: {answer:?}") };
    message
}

fn turns(answer: &Accepted) -> Vec<i64> {
    let Accepted::New { turns, .. } = answer else { panic!("not new: {answer:?}") };
    turns.clone()
}
