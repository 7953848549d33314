//! Lists: in their order, page by page, in both directions.

use domain::delivery::Cause;

use crate::Answer;
use crate::catalog::{EventType, EventTypeSettings, Schemas, Scope, Token};
use crate::conformance::scene::new_application;
use crate::conformance::tokens::token;
use crate::conformance::{Harness, NOW, Scene, later};
use crate::ledger::{
    AttemptFilter, DeliveriesOf, DeliveryFilter, MOST_WALKED, MessageFilter, NewTask, TaskKind,
};
use crate::page::{From, Listed, Page};
use crate::queue::NextState;

pub async fn applications_are_listed_by_id_and_deleted_ones_are_not(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let mut ids = vec![scene.application.id];
    for _ in 0..5 {
        let created = catalog.create_application(new_application(scene.id())).await.unwrap();
        ids.push(created.id);
    }
    let gone = scene.another_application().await;
    catalog.delete_application(gone.key, NOW).await.unwrap();
    ids.sort_unstable();
    check(&ids, |page| catalog.applications(page), |entry| entry.id).await;
}

pub async fn endpoints_are_listed_newest_first_and_deleted_ones_are_not(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let application = scene.application.key;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(scene.endpoint().await.id);
    }
    let gone = scene.endpoint().await;
    catalog.delete_endpoint(application, gone.key, NOW).await.unwrap();
    ids.reverse();
    check(&ids, |page| catalog.endpoints(application, page), |entry| entry.id).await;
}

pub async fn event_types_are_listed_by_name_archived_ones_included(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let mut names = Vec::new();
    for name in ["b.two", "a.one", "b.one", "c", "a-one"] {
        let settings = EventTypeSettings { archived: name == "c", ..Default::default() };
        let name = name.to_owned();
        names.push(name.clone());
        let new = EventType { name, settings, created_at: NOW, updated_at: NOW };
        catalog.create_event_type(new).await.unwrap();
    }
    names.sort_unstable();
    check(&names, |page| catalog.event_types(Schemas::Shown, page), |entry| entry.name.clone())
        .await;
}

pub async fn tokens_are_listed_by_id(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let mut ids = Vec::new();
    for id in ["t3", "t1", "t2", "Z", "t10"] {
        ids.push(id.to_owned());
        let token = Token { revoked_at: (id == "t2").then_some(NOW), ..token(id, Scope::Admin) };
        catalog.create_token(token).await.unwrap();
    }
    ids.sort_unstable();
    check(&ids, |page| catalog.tokens(page), |entry| entry.id.clone()).await;
}

pub async fn messages_are_listed_newest_first(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let application = scene.application.key;
    let mut ids = Vec::new();
    for _ in 0..7 {
        let accept = scene.message(&[]).await;
        ids.push(accept.message.id);
        scene.accept_new(accept).await;
    }
    let other = scene.another_application().await;
    let mut theirs = scene.message(&[]).await;
    (theirs.application, theirs.revision) = (other.key, other.revision);
    scene.accept_new(theirs).await;
    ids.reverse();
    let list = |page| ledger.messages(application, MessageFilter::default(), page);
    check(&ids, list, |entry| entry.id).await;
}

pub async fn deliveries_are_listed_by_message_newest_first(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let (endpoint, other) = (scene.endpoint().await, scene.endpoint().await);
    let mut keys = Vec::new();
    for due in [30, 10, 20] {
        keys.push(scene.pending_due(&endpoint, later(due)).await.message);
        scene.pending(&other).await;
    }
    keys.push(scene.settled(&endpoint, NextState::Delivered).await.message);
    keys.push(scene.settled(&endpoint, NextState::Dead(Cause::Poison)).await.message);
    keys.reverse();
    let filter = DeliveryFilter::default();
    let list = |page| ledger.deliveries(endpoint.application, endpoint.key, filter.clone(), page);
    check(&keys, list, |entry| entry.key.message).await;
}

pub async fn dead_letters_of_all_endpoints_are_listed_newest_message_first(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let mut keys = Vec::new();
    for _ in 0..3 {
        let message = scene.accept_new(scene.message(&[&one, &two]).await).await;
        for endpoint in [&one, &two] {
            let key = scene.key(endpoint, message);
            let dead = NextState::Dead(Cause::Exhausted);
            scene.settle_one(scene.settling(key, 0, dead).await).await;
            keys.push((message, endpoint.key));
        }
        scene.pending(&one).await;
        scene.settled(&two, NextState::Delivered).await;
    }
    keys.sort_unstable();
    keys.reverse();
    let filter = DeliveryFilter::default();
    let list = |page| ledger.dead_letters(scene.application.key, filter.clone(), page);
    check(&keys, list, |entry| (entry.key.message, entry.key.endpoint)).await;
}

pub async fn attempts_of_all_deliveries_are_listed_newest_first(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let (endpoint, other) = (scene.endpoint().await, scene.endpoint().await);
    let keys = [scene.pending(&endpoint).await, scene.pending(&endpoint).await];
    let mut ids = Vec::new();
    for recorded in 0..3 {
        for key in keys {
            let next = NextState::Pending { due: later(60) };
            let settle = scene.settling(key, recorded, next).await;
            ids.push(settle.attempt.id);
            scene.settle_one(settle).await;
        }
        scene.settled(&other, NextState::Delivered).await;
    }
    ids.reverse();
    let filter = AttemptFilter::default();
    let list = |page| ledger.attempts(endpoint.application, endpoint.key, filter.clone(), page);
    check(&ids, list, |entry| entry.record.id).await;
}

pub async fn attempts_of_a_message_and_of_one_delivery_are_listed_newest_first(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let message = scene.accept_new(scene.message(&[&one, &two]).await).await;
    scene.settled(&one, NextState::Delivered).await;
    let (mut of_one, mut of_both) = (Vec::new(), Vec::new());
    for recorded in 0..5 {
        for endpoint in [&one, &two] {
            let next = NextState::Pending { due: later(60) };
            let settle = scene.settling(scene.key(endpoint, message), recorded, next).await;
            if endpoint.key == one.key {
                of_one.push(settle.attempt.id);
            }
            of_both.push(settle.attempt.id);
            scene.settle_one(settle).await;
        }
    }
    of_one.reverse();
    of_both.reverse();
    let of = DeliveriesOf::from(scene.key(&one, message));
    let all = DeliveriesOf { endpoint: None, ..of };
    for (of, ids) in [(of, of_one), (all, of_both)] {
        let list = |page| ledger.attempts_of(of, AttemptFilter::default(), page);
        check(&ids, list, |entry| entry.record.id).await;
    }
    let other = scene.another_application().await.key;
    for of in [of, all].map(|of| DeliveriesOf { application: other, ..of }) {
        let page = Page { from: From::Start, limit: 9 };
        let listed = ledger.attempts_of(of, AttemptFilter::default(), page).await.unwrap();
        assert!(listed.entries.is_empty() && listed.done);
    }
}

pub async fn tasks_are_listed_newest_first_for_one_application_or_all(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let other = scene.another_application().await;
    let (mut own, mut all) = (Vec::new(), Vec::new());
    for round in 0..6 {
        let application = if round % 3 == 2 { other.key } else { scene.application.key };
        let task = NewTask {
            id: scene.id(),
            application,
            endpoint: None,
            kind: TaskKind::BulkReplay,
            selection: serde_json::json!({}),
            by: String::new(),
            at: NOW,
        };
        let task = ledger.start_task(task).await.unwrap();
        all.push(task.id);
        if application != other.key {
            own.push(task.id);
        }
    }
    own.reverse();
    all.reverse();
    check(&all, |page| ledger.tasks(None, page), |entry| entry.id).await;
    let list = |page| ledger.tasks(Some(scene.application.key), page);
    check(&own, list, |entry| entry.id).await;
    check(&all, |page| ledger.running_tasks(page), |task| task.id).await;
}

pub async fn an_empty_list_is_done_at_once(harness: Harness) {
    let scene = Scene::new(harness).await;
    let page = Page { from: From::Start, limit: 10 };
    let filter = MessageFilter::default();
    let listed = scene.store().ledger.messages(scene.application.key, filter, page).await.unwrap();
    assert!(listed.done && listed.entries.is_empty());
}

pub async fn a_page_that_would_walk_too_far_comes_short_and_says_so(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let mut wanted = scene.message(&[]).await;
    wanted.message.event_type = "rare".to_owned();
    scene.accept_new(wanted.clone()).await;
    let rest = usize::try_from(MOST_WALKED).unwrap() + 10;
    let template = scene.message(&[]).await;
    let mut accepts: Vec<_> = (0..rest).map(|_| scene.again(&template)).collect();
    while !accepts.is_empty() {
        let chunk = accepts.split_off(accepts.len().saturating_sub(2_001));
        scene.accept(chunk).await;
    }
    let filter = MessageFilter { event_types: vec!["rare".to_owned()], ..MessageFilter::default() };
    let mut from = From::Start;
    let mut pages = Vec::new();
    for _ in 0..4 {
        let page = Page { from, limit: 50 };
        let listed = ledger.messages(scene.application.key, filter.clone(), page).await.unwrap();
        pages.push((listed.entries.len(), listed.done));
        if listed.done {
            break;
        }
        from = From::After(listed.reached.unwrap());
    }
    assert_eq!(pages, [(0, false), (1, true)]);
}

/// Checks a list of at least five entries without filters: in one page, in pages of every size
/// from both ends, and from the middle.
async fn check<'a, Entry, Id>(
    expected: &[Id],
    list: impl Fn(Page<Id>) -> Answer<'a, Listed<Entry, Id>>,
    id: impl Fn(&Entry) -> Id,
) where
    Id: Clone + PartialEq + std::fmt::Debug,
{
    let whole = u32::try_from(expected.len()).unwrap();
    for limit in 1..=whole + 1 {
        let mut forwards = Vec::new();
        let mut from = From::Start;
        loop {
            let listed = list(Page { from, limit }).await.unwrap();
            let ids: Vec<_> = listed.entries.iter().map(&id).collect();
            let left = expected.len() - forwards.len();
            assert_eq!(ids.len(), left.min(usize::try_from(limit).unwrap()), "pages of {limit}");
            assert_eq!(listed.reached.as_ref(), ids.last(), "pages of {limit}");
            forwards.extend(ids);
            assert_eq!(listed.done, forwards.len() == expected.len(), "pages of {limit}");
            if listed.done {
                break;
            }
            from = From::After(forwards.last().unwrap().clone());
        }
        assert_eq!(forwards, expected, "pages of {limit}");
    }
    check_backwards(expected, &list, &id).await;
    let last = expected.last().unwrap().clone();
    let behind = list(Page { from: From::After(last), limit: 3 }).await.unwrap();
    assert!(behind.entries.is_empty() && behind.done);
    let before = list(Page { from: From::Before(expected[0].clone()), limit: 3 }).await.unwrap();
    assert!(before.entries.is_empty() && before.done);
}

async fn check_backwards<'a, Entry, Id>(
    expected: &[Id],
    list: &impl Fn(Page<Id>) -> Answer<'a, Listed<Entry, Id>>,
    id: &impl Fn(&Entry) -> Id,
) where
    Id: Clone + PartialEq + std::fmt::Debug,
{
    let (last, rest) = expected.split_last().unwrap();
    for limit in 1..=u32::try_from(expected.len()).unwrap() {
        let mut left = rest;
        let mut from = From::Before(last.clone());
        while !left.is_empty() {
            let listed = list(Page { from, limit }).await.unwrap();
            let ids: Vec<_> = listed.entries.iter().map(id).collect();
            let (next, page) =
                left.split_at(left.len().saturating_sub(usize::try_from(limit).unwrap()));
            assert_eq!(ids, page, "pages of {limit}, backwards");
            assert_eq!(listed.reached.as_ref(), ids.first(), "pages of {limit}, backwards");
            assert_eq!(listed.done, next.is_empty(), "pages of {limit}, backwards");
            left = next;
            from = From::Before(ids[0].clone());
        }
    }
}
