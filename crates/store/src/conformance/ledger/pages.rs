//! Pages: a page ends before it has too many bytes, and the next one goes on from there.

use bytes::Bytes;
use domain::delivery::Cause;
use domain::ids::{AttemptId, MessageId};

use crate::Answer;
use crate::catalog::{
    Application, ApplicationSettings, Edit, EventType, EventTypeSettings, Granted, NewApplication,
    NewEndpoint, Schemas, Scope, Token,
};
use crate::conformance::{Harness, NOW, Scene, later};
use crate::keys::DeliveryKey;
use crate::ledger::{DeliveriesOf, DeliveryFilter, MessageFilter, NewTask, TaskKind};
use crate::limits::PAGE_BYTES;
use crate::page::{From, Listed, Page};
use crate::queue::{AttemptRecord, FirstState, NextState, Order, Settle};

/// How many entries each list has, and how many of them fit on a page.
const ENTRIES: usize = 6;
const FIT: usize = 4;

/// Returns a text of which a page takes four.
fn large() -> String {
    "x".repeat(PAGE_BYTES * 2 / 9)
}

pub async fn a_page_of_what_people_set_up_ends_before_it_has_too_many_bytes(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let rename: Edit<Application> = Box::new(|row| {
        let settings = ApplicationSettings { name: large(), ..row.settings.clone() };
        Ok(Application { settings, ..row.clone() })
    });
    catalog.change_application(scene.application.key, rename, NOW).await.unwrap();
    let mut applications = vec![scene.application.id];
    let (mut endpoints, mut names, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..ENTRIES {
        if number > 0 {
            let settings = ApplicationSettings { name: large(), ..Default::default() };
            let new = NewApplication { id: scene.id(), uid: None, settings, at: NOW };
            applications.push(catalog.create_application(new).await.unwrap().id);
        }
        let mut new: NewEndpoint = scene.new_endpoint(Order::Due);
        new.settings.description = large();
        endpoints.push(scene.create(new).await.id);
        let schemas = Some(serde_json::json!({ "1": large() }));
        let settings = EventTypeSettings { schemas, ..Default::default() };
        let name = format!("type{number}");
        names.push(name.clone());
        let new = EventType { name, settings, created_at: NOW, updated_at: NOW };
        catalog.create_event_type(new).await.unwrap();
        tokens.push(format!("t{number}"));
        catalog.create_token(token(format!("t{number}"))).await.unwrap();
    }
    applications.sort_unstable();
    endpoints.reverse();
    let application = scene.application.key;
    check(&applications, |page| catalog.applications(page), |entry| entry.id).await;
    check(&endpoints, |page| catalog.endpoints(application, page), |entry| entry.id).await;
    let list = |page| catalog.event_types(Schemas::Shown, page);
    check(&names, list, |entry| entry.name.clone()).await;
    check(&tokens, |page| catalog.tokens(page), |entry| entry.id.clone()).await;
    let bare = catalog.event_types(Schemas::Omitted, all()).await.unwrap();
    assert!(bare.done && bare.entries.len() == ENTRIES, "{}", bare.entries.len());
    assert!(bare.entries.iter().all(|entry| entry.settings.schemas.is_none()));
}

fn token(id: String) -> Token {
    Token {
        id,
        hash: [1; 32],
        name: large(),
        scope: Scope::Admin,
        read_only: false,
        granted: Granted::default(),
        session: None,
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
    }
}

pub async fn a_page_of_what_people_look_at_ends_before_it_has_too_many_bytes(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let endpoint = scene.endpoint().await;
    let (application, whose) = (scene.application.key, (scene.application.key, endpoint.key));
    let (mut messages, mut keys, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ENTRIES {
        let mut accept = scene.message(&[&endpoint]).await;
        accept.message.payload = Bytes::from(large());
        messages.push(accept.message.id);
        scene.accept_new(accept).await;
        let mut accept = scene.message(&[&endpoint]).await;
        accept.message.event_type = "with.policy".to_owned();
        accept.message.policy = Some(large());
        accept.deliveries[0].state = FirstState::Dead(Cause::EndpointDisabled);
        keys.push(scene.accept_new(accept).await);
        let task = NewTask {
            id: scene.id(),
            application,
            endpoint: None,
            kind: TaskKind::BulkReplay,
            selection: serde_json::json!(large()),
            by: String::new(),
            at: NOW,
        };
        tasks.push(ledger.start_task(task).await.unwrap().id);
    }
    messages.reverse();
    keys.reverse();
    tasks.reverse();
    let filter = |with_payload| MessageFilter {
        event_types: vec!["invoice.paid".to_owned()],
        with_payload,
        ..Default::default()
    };
    let list = |page| ledger.messages(application, filter(true), page);
    check(&messages, list, |entry| entry.id).await;
    let bare = ledger.messages(application, filter(false), all()).await.unwrap();
    assert!(bare.done && bare.entries.len() == ENTRIES, "{}", bare.entries.len());
    check(&tasks, |page| ledger.tasks(None, page), |entry| entry.id).await;
    check(&tasks, |page| ledger.tasks(Some(application), page), |entry| entry.id).await;
    let filter = |with_policy| DeliveryFilter {
        event_types: vec!["with.policy".to_owned()],
        with_policy,
        ..Default::default()
    };
    let list = |page| ledger.deliveries(whose.0, whose.1, filter(true), page);
    check(&keys, list, |entry| entry.key.message).await;
    let places: Vec<_> = keys.iter().map(|message| (*message, endpoint.key)).collect();
    let list = |page| ledger.dead_letters(application, filter(true), page);
    check(&places, list, |entry| (entry.key.message, entry.key.endpoint)).await;
    let bare = ledger.deliveries(whose.0, whose.1, filter(false), all()).await.unwrap();
    assert!(bare.done && bare.entries.len() == ENTRIES, "{}", bare.entries.len());
    assert!(bare.entries.iter().all(|entry| entry.policy.is_none()));
}

pub async fn a_page_of_attempts_ends_before_it_has_too_many_bytes(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let (endpoint, other) = (scene.endpoint().await, scene.endpoint().await);
    let message = scene.accept_new(scene.message(&[&endpoint, &other]).await).await;
    let (mut ids, mut all_ids) = (Vec::new(), Vec::new());
    for recorded in 0..ENTRIES {
        for endpoint in [&endpoint, &other] {
            let id = attempt(&scene, scene.key(endpoint, message), recorded).await;
            all_ids.push(id);
        }
        ids.extend(all_ids.iter().rev().nth(1));
    }
    ids.reverse();
    all_ids.reverse();
    let (application, filter) = (scene.application.key, Default::default);
    let list = |page| ledger.attempts(application, endpoint.key, filter(), page);
    check(&ids, list, |entry| entry.record.id).await;
    let of = DeliveriesOf::from(scene.key(&endpoint, message));
    check(&ids, |page| ledger.attempts_of(of, filter(), page), |entry| entry.record.id).await;
    let of = DeliveriesOf { endpoint: None, ..of };
    check(&all_ids, |page| ledger.attempts_of(of, filter(), page), |entry| entry.record.id).await;
}

/// Records an attempt that sent large headers.
async fn attempt(scene: &Scene, key: DeliveryKey, recorded: usize) -> AttemptId {
    let recorded = u32::try_from(recorded).unwrap();
    let settle = scene.settling(key, recorded, NextState::Pending { due: later(60) }).await;
    let headers = [("x-large", large().as_str())].into_iter().collect();
    let attempt = AttemptRecord { request_headers: headers, ..settle.attempt };
    let id = attempt.id;
    scene.settle_one(Settle { attempt, ..settle }).await;
    id
}

pub async fn an_entry_that_is_larger_than_a_page_is_a_page_of_its_own(harness: Harness) {
    let scene = Scene::new(harness).await;
    let ledger = &scene.store().ledger;
    let mut ids = Vec::new();
    for bytes in [PAGE_BYTES - 1, PAGE_BYTES + 1, PAGE_BYTES, 1] {
        let mut accept = scene.message(&[]).await;
        accept.message.payload = Bytes::from("x".repeat(bytes));
        ids.push(accept.message.id);
        scene.accept_new(accept).await;
    }
    let filter = MessageFilter { with_payload: true, ..Default::default() };
    let list = |page| ledger.messages(scene.application.key, filter.clone(), page);
    ids.reverse();
    let mut from = From::Start;
    for id in &ids {
        let listed = list(Page { from, limit: 250 }).await.unwrap();
        assert!(listed.entries.iter().map(|entry| entry.id).eq([*id]));
        assert_eq!(listed.done, Some(id) == ids.last());
        from = From::After(*id);
    }
    from = From::Before(MessageId::from_bytes([0; 20]));
    for id in ids.iter().rev() {
        let listed = list(Page { from, limit: 250 }).await.unwrap();
        assert!(listed.entries.iter().map(|entry| entry.id).eq([*id]), "backwards");
        assert_eq!(listed.done, Some(id) == ids.first());
        from = From::Before(*id);
    }
}

const fn all<Id>() -> Page<Id> {
    Page { from: From::Start, limit: 250 }
}

/// Walks a list of large entries in both directions: each page is full, none has more than it may, and
/// nothing is missing or twice.
async fn check<'a, Entry, Id>(
    expected: &[Id],
    list: impl Fn(Page<Id>) -> Answer<'a, Listed<Entry, Id>>,
    id: impl Fn(&Entry) -> Id,
) where
    Id: Clone + PartialEq + std::fmt::Debug,
{
    let mut left = expected;
    let mut from = From::Start;
    while !left.is_empty() {
        let listed = list(Page { from, limit: 250 }).await.unwrap();
        let ids: Vec<_> = listed.entries.iter().map(&id).collect();
        let (page, rest) = left.split_at(left.len().min(FIT));
        assert_eq!(ids, page);
        assert_eq!(listed.done, rest.is_empty());
        from = From::After(listed.reached.unwrap());
        left = rest;
    }
    let (last, mut left) = expected.split_last().unwrap();
    let mut from = From::Before(last.clone());
    while !left.is_empty() {
        let listed = list(Page { from, limit: 250 }).await.unwrap();
        let ids: Vec<_> = listed.entries.iter().map(&id).collect();
        let (rest, page) = left.split_at(left.len().saturating_sub(FIT));
        assert_eq!(ids, page, "backwards");
        assert_eq!(listed.done, rest.is_empty(), "backwards");
        from = From::Before(listed.reached.unwrap());
        left = rest;
    }
}
