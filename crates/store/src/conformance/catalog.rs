//! The catalog: what was set up is there, what is taken is refused, what changes is counted.

use domain::endpoint::{Reason, State};
use domain::partition::Partition;
use domain::rights::{Grant, Right, Rights};

use super::scene::new_application;
use super::{Harness, NOW, Scene, later};
use crate::Error;
use crate::catalog::{
    Application, ApplicationSettings, Changed, Check, Confidential, Credentials, Edit, Endpoint,
    EndpointSettings, EventType, EventTypeSettings, Granted, Name, NewApplication, NewEndpoint,
    Scope, Token,
};
use crate::keys::{ApplicationKey, EndpointKey};
use crate::queue::{Accepted, NextState, Order, Upkeep};

pub async fn an_application_is_found_as_it_was_created(harness: Harness) {
    let scene = Scene::new(harness).await;
    let settings = ApplicationSettings {
        name: "Ärzte & Söhne \u{1f4e8}".to_owned(),
        rate: Some(50),
        policy: Some(serde_json::json!({ "preset": "svix", "limits": { "attempts": 3 } })),
        metadata: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
    };
    let new = NewApplication {
        uid: Some("customer-1".to_owned()),
        settings: settings.clone(),
        ..new_application(scene.id())
    };
    let catalog = &scene.store().catalog;
    let created = catalog.create_application(new.clone()).await.unwrap();
    assert_eq!((created.id, &created.uid, &created.settings), (new.id, &new.uid, &settings));
    assert_eq!((created.created_at, created.updated_at), (NOW, NOW));
    for name in [Name::Id(new.id), Name::Uid("customer-1".to_owned())] {
        assert_eq!(catalog.application(name).await.unwrap(), created);
    }
}

pub async fn an_application_is_changed_and_its_version_raised(harness: Harness) {
    let scene = Scene::new(harness).await;
    let before = scene.application.clone();
    let settings =
        ApplicationSettings { name: "new".to_owned(), rate: Some(1), ..Default::default() };
    let uid = Some("customer-1".to_owned());
    let catalog = &scene.store().catalog;
    let changed =
        scene.change_application(before.key, uid.clone(), settings.clone(), later(5)).await;
    let expected = Application {
        uid,
        settings,
        version: before.version + 1,
        updated_at: later(5),
        ..before.clone()
    };
    assert_eq!(changed.unwrap(), expected);
    assert_eq!(catalog.application(Name::Id(before.id)).await.unwrap(), expected);
    let none = scene.change_application(before.key, None, Default::default(), later(6)).await;
    assert_eq!(none.unwrap().uid, None);
    assert_missing(catalog.application(Name::Uid("customer-1".to_owned())).await, "application");
}

pub async fn an_unknown_application_is_missing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let key = ApplicationKey(scene.application.key.0 + 1_000);
    assert_missing(catalog.application(Name::Id(scene.id())).await, "application");
    assert_missing(catalog.application(Name::Uid("nobody".to_owned())).await, "application");
    let change = scene.change_application(key, None, Default::default(), NOW).await;
    assert_missing(change, "application");
    assert_missing(catalog.delete_application(key, NOW).await, "application");
    assert_missing(catalog.fan_out(key, NOW).await, "application");
    let stray = NewEndpoint { application: key, ..scene.new_endpoint(Order::Due) };
    assert_missing(catalog.create_endpoint(stray).await, "application");
}

pub async fn an_applications_uid_is_taken_until_it_is_deleted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let uid = Some("customer-1".to_owned());
    let catalog = &scene.store().catalog;
    let new = || NewApplication { uid: uid.clone(), ..new_application(scene.id()) };
    let first = catalog.create_application(new()).await.unwrap();
    assert_taken(catalog.create_application(new()).await, "customer-1");
    let own = scene.application.key;
    let change = scene.change_application(own, uid.clone(), Default::default(), NOW).await;
    assert_taken(change, "customer-1");
    let same = scene.change_application(first.key, uid.clone(), Default::default(), NOW).await;
    assert_eq!(same.unwrap().uid, uid);
    catalog.delete_application(first.key, NOW).await.unwrap();
    catalog.create_application(new()).await.unwrap();
}

pub async fn a_deleted_application_is_gone_at_once(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let catalog = &scene.store().catalog;
    let (id, key) = (scene.application.id, scene.application.key);
    catalog.delete_application(key, NOW).await.unwrap();
    assert_missing(catalog.application(Name::Id(id)).await, "application");
    assert_missing(catalog.fan_out(key, NOW).await, "application");
    assert!(catalog.endpoint(key, Name::Id(endpoint.id)).await.is_err());
    let new = catalog.create_endpoint(scene.new_endpoint(Order::Due)).await;
    assert_missing(new, "application");
    // That it is gone counts for more than that somebody else has the name.
    let other = scene.another_application().await;
    let (uid, settings) = (Some("theirs".to_owned()), other.settings);
    let named = scene.change_application(other.key, uid.clone(), settings.clone(), NOW).await;
    assert!(named.is_ok(), "{named:?}");
    let late = scene.change_application(key, uid, settings, NOW).await;
    assert_missing(late, "application");
}

pub async fn an_endpoint_is_found_as_it_was_created(harness: Harness) {
    let scene = Scene::new(harness).await;
    let text = str::to_owned;
    let settings = EndpointSettings {
        origin: text("https://receiver.example:8443"),
        description: text("for invoices"),
        event_types: vec![text("invoice.paid"), text("invoice.sent")],
        channels: vec![text("north")],
        rate: Some(7),
        in_flight: Some(3),
        policy: Some(serde_json::json!({ "preset": "github" })),
        signatures: vec![text("standard"), text("formspring")],
        headers: [(text("x-a"), text("1"))].into(),
        metadata: [(text("k"), text("v"))].into(),
        enabled: 3,
    };
    let basic = Credentials::Basic { user: text("u"), password: text("p:w") };
    let confidential = Confidential {
        path_and_query: text("/in?token=secret"),
        headers: [(text("authorization"), text("Custom 1"))].into(),
        credentials: Some(basic),
    };
    let new = NewEndpoint {
        uid: Some(text("main")),
        state: State::Disabled(Reason::ByPerson),
        settings: settings.clone(),
        confidential: confidential.clone(),
        ..scene.new_endpoint(Order::Fifo)
    };
    let created = scene.create(new.clone()).await;
    let expected = Endpoint {
        key: created.key,
        application: scene.application.key,
        id: new.id,
        uid: new.uid,
        partition: Partition::of(&new.id),
        state: new.state,
        order: Order::Fifo,
        settings,
        confidential,
        created_at: NOW,
        updated_at: NOW,
    };
    assert_eq!(created, expected);
    for name in [Name::Id(new.id), Name::Uid(text("main"))] {
        let found = scene.store().catalog.endpoint(expected.application, name).await.unwrap();
        assert_eq!(found, expected);
    }
}

pub async fn an_endpoint_in_every_state_is_read_as_it_was_written(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut endpoint = scene.endpoint().await;
    let reasons = [Reason::Gone, Reason::PermanentStreak, Reason::WithoutSuccess, Reason::ByPerson];
    let disabled = reasons.map(State::Disabled);
    for (second, state) in (1..).zip([State::Paused, State::Active].into_iter().chain(disabled)) {
        (endpoint.state, endpoint.updated_at) = (state, later(second));
        let changed = scene.change(endpoint.clone()).await.unwrap();
        assert_eq!(changed, endpoint);
        assert_eq!(found(&scene, &endpoint).await, endpoint);
    }
}

pub async fn an_endpoint_is_changed_where_it_can_be(harness: Harness) {
    let scene = Scene::new(harness).await;
    let before = scene.endpoint().await;
    let mut wanted = before.clone();
    wanted.uid = Some("main".to_owned());
    wanted.settings.description = "changed".to_owned();
    wanted.confidential.credentials = Some(Credentials::Bearer("token".to_owned()));
    wanted.order = Order::Fifo;
    wanted.updated_at = later(9);
    let asked = Endpoint { created_at: later(8), ..wanted.clone() };
    let changed = scene.change(asked).await.unwrap();
    assert_eq!(changed, wanted);
    assert_eq!(found(&scene, &before).await, wanted);
}

pub async fn an_unknown_endpoint_is_missing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let other = scene.another_application().await;
    let endpoint = scene.endpoint().await;
    let unknown = EndpointKey(endpoint.key.0 + 1_000);
    for (application, key) in [(endpoint.application, unknown), (other.key, endpoint.key)] {
        let stray = Endpoint { application, key, ..endpoint.clone() };
        assert_missing(scene.change(stray).await, "endpoint");
        assert_missing(catalog.delete_endpoint(application, key, NOW).await, "endpoint");
        assert_eq!(catalog.running(application, vec![key]).await.unwrap(), []);
        assert_missing(catalog.secrets(application, key, NOW).await, "endpoint");
    }
    assert_missing(catalog.endpoint(other.key, Name::Id(endpoint.id)).await, "endpoint");
    assert_missing(catalog.endpoint(other.key, Name::Uid("x".to_owned())).await, "endpoint");
}

pub async fn an_endpoints_uid_is_taken_in_its_application_until_it_is_deleted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let uid = Some("main".to_owned());
    let new = || NewEndpoint { uid: uid.clone(), ..scene.new_endpoint(Order::Due) };
    let first = scene.create(new()).await;
    let before = scene.revision().await;
    assert_taken(catalog.create_endpoint(new()).await, "main");
    let other = Endpoint { uid: uid.clone(), ..scene.endpoint().await };
    assert_taken(scene.change(other).await, "main");
    assert_eq!(scene.revision().await, before + 1, "what is refused changes no revision");
    let elsewhere = scene.another_application().await;
    scene.create(NewEndpoint { application: elsewhere.key, ..new() }).await;
    scene.change(first.clone()).await.unwrap();
    catalog.delete_endpoint(first.application, first.key, NOW).await.unwrap();
    scene.create(new()).await;
}

pub async fn a_deleted_endpoint_is_gone_at_once_but_not_its_deliveries(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.settled(&endpoint, NextState::Delivered).await;
    let catalog = &scene.store().catalog;
    catalog.delete_endpoint(endpoint.application, endpoint.key, NOW).await.unwrap();
    let name = Name::Id(endpoint.id);
    assert_missing(catalog.endpoint(endpoint.application, name).await, "endpoint");
    let again = catalog.delete_endpoint(endpoint.application, endpoint.key, NOW).await;
    assert_missing(again, "endpoint");
    let fan_out = catalog.fan_out(endpoint.application, NOW).await.unwrap();
    assert!(fan_out.endpoints.is_empty());
    assert_eq!(scene.look(key).await.recorded, 1);
}

pub async fn endpoints_are_found_by_row_deleted_or_not(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (kept, deleted, lonely) =
        (scene.endpoint().await, scene.endpoint().await, scene.endpoint().await);
    scene.settled(&deleted, NextState::Delivered).await;
    let (catalog, application) = (&scene.store().catalog, scene.application.key);
    for endpoint in [&deleted, &lonely] {
        catalog.delete_endpoint(application, endpoint.key, later(5)).await.unwrap();
    }
    let keys = vec![lonely.key, deleted.key, EndpointKey(i64::MAX), kept.key, kept.key];
    let found = catalog.endpoints_by_key(application, keys.clone()).await.unwrap();
    let tombstone =
        |endpoint: Endpoint| Endpoint { state: State::Deleted, updated_at: later(5), ..endpoint };
    let expected = [kept.clone(), tombstone(deleted.clone()), tombstone(lonely)];
    assert_eq!(found, expected);
    for endpoint in &expected {
        assert_eq!(catalog.endpoint_key(application, endpoint.id).await.unwrap(), endpoint.key);
    }
    let ids = catalog.endpoint_ids(application, keys.clone()).await.unwrap();
    assert!(ids.iter().copied().eq(expected.iter().map(|endpoint| (endpoint.key, endpoint.id))));
    let gone = expected[2].id;
    // A tombstone that nothing refers to goes.
    scene.keep_up(Upkeep::Prune { now: later(9), most: 100 }).await;
    let found = catalog.endpoints_by_key(application, keys.clone()).await.unwrap();
    assert_eq!(found, [kept, tombstone(deleted.clone())]);
    assert_missing(catalog.endpoint_key(application, gone).await, "endpoint");
    let other = scene.another_application().await;
    assert_missing(catalog.endpoint_key(other.key, deleted.id).await, "endpoint");
    assert_eq!(catalog.endpoints_by_key(other.key, keys.clone()).await.unwrap(), []);
    assert_eq!(catalog.endpoint_ids(other.key, keys.clone()).await.unwrap(), []);
    catalog.delete_application(application, later(6)).await.unwrap();
    assert_eq!(catalog.endpoints_by_key(application, keys.clone()).await.unwrap(), []);
    assert_eq!(catalog.endpoint_ids(application, keys).await.unwrap(), []);
    assert_missing(catalog.endpoint_key(application, deleted.id).await, "endpoint");
}

pub async fn every_change_that_a_fan_out_sees_raises_the_revision(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let mut last = scene.revision().await;
    let endpoint = scene.endpoint().await;
    let (application, key) = (endpoint.application, endpoint.key);
    raised(&scene, &mut last).await;
    scene.change(Endpoint { state: State::Paused, ..endpoint }).await.unwrap();
    raised(&scene, &mut last).await;
    catalog.delete_endpoint(application, key, NOW).await.unwrap();
    raised(&scene, &mut last).await;
    let policy = Some(serde_json::json!("github"));
    let settings = ApplicationSettings { policy, ..Default::default() };
    scene.change_application(application, None, settings, NOW).await.unwrap();
    raised(&scene, &mut last).await;
    scene.another_application().await;
    assert_eq!(scene.revision().await, last, "another application's changes do not matter");
}

pub async fn the_order_of_an_endpoint_changes_only_while_nothing_is_pending(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let key = scene.pending(&endpoint).await;
    let before = scene.revision().await;
    let fifo = Endpoint { order: Order::Fifo, ..endpoint.clone() };
    let refused = scene.change(fifo.clone()).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(
        (found(&scene, &endpoint).await, scene.revision().await),
        (endpoint.clone(), before)
    );
    let renamed = Endpoint { uid: Some("other".to_owned()), ..endpoint };
    scene.change(renamed).await.unwrap();
    scene.settle_one(scene.settling(key, 0, NextState::Delivered).await).await;
    assert_eq!(scene.change(fifo).await.unwrap().order, Order::Fifo);
}

pub async fn a_fan_out_shows_living_endpoints_by_row(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let application = scene.application.key;
    let policy = Some(serde_json::json!({ "a": 1 }));
    let settings = ApplicationSettings { policy, rate: Some(7), ..Default::default() };
    scene.change_application(application, None, settings.clone(), NOW).await.unwrap();
    let (one, gone, three) =
        (scene.endpoint().await, scene.endpoint().await, scene.fifo_endpoint().await);
    catalog.delete_endpoint(application, gone.key, NOW).await.unwrap();
    let other = scene.another_application().await;
    scene.create(NewEndpoint { application: other.key, ..scene.new_endpoint(Order::Due) }).await;
    let fan_out = catalog.fan_out(application, NOW).await.unwrap();
    assert_eq!(fan_out.revision, scene.revision().await);
    assert_eq!((&fan_out.policy, fan_out.rate), (&settings.policy, settings.rate));
    let shown: Vec<_> = fan_out.endpoints.iter().map(|view| view.endpoint.clone()).collect();
    assert_eq!(shown, [one, three]);
    let secrets: Vec<_> = fan_out.endpoints[0].secrets.iter().map(|one| &one.text[..]).collect();
    assert_eq!(secrets, ["whsec_one"]);
    let accept = crate::queue::Accept { revision: fan_out.revision, ..scene.message(&[]).await };
    assert!(matches!(scene.accept(vec![accept]).await[0], Accepted::New { .. }));
}

pub async fn an_event_type_is_kept_changed_and_removed(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let name = "invoice.paid".to_owned();
    assert_missing(catalog.event_type(name.clone()).await, "event type");
    let settings = EventTypeSettings {
        description: "An invoice was paid".to_owned(),
        archived: true,
        deprecated: true,
        schemas: Some(serde_json::json!({ "1": { "type": "object" } })),
        feature_flag: Some("beta".to_owned()),
        other_flags: vec!["early".to_owned()],
        group: Some("invoices".to_owned()),
        policy: Some(serde_json::json!({ "preset": "slack" })),
    };
    let first = EventType { name: name.clone(), settings, created_at: NOW, updated_at: NOW };
    catalog.create_event_type(first.clone()).await.unwrap();
    let usual = EventTypeSettings::default();
    let again = EventType { settings: usual, ..first.clone() };
    let taken = catalog.create_event_type(again).await;
    assert!(matches!(taken, Err(Error::Taken { what: "event type", .. })), "{taken:?}");
    assert_eq!(catalog.event_type(name.clone()).await.unwrap(), first);
    let second =
        EventType { settings: EventTypeSettings::default(), updated_at: later(1), ..first.clone() };
    let replace = || -> Edit<EventType> {
        Box::new(|row| Ok(EventType { settings: EventTypeSettings::default(), ..row.clone() }))
    };
    let changed = catalog.change_event_type(name.clone(), replace(), later(1)).await.unwrap();
    assert_eq!(changed, Changed { before: first, after: second.clone() });
    assert_eq!(catalog.event_type(name.clone()).await.unwrap(), second);
    let allowed = || -> Check<EventType> { Box::new(|_| Ok(())) };
    catalog.remove_event_type(name.clone(), allowed()).await.unwrap();
    assert_missing(catalog.event_type(name.clone()).await, "event type");
    assert_missing(catalog.change_event_type(name.clone(), replace(), NOW).await, "event type");
    assert_missing(catalog.remove_event_type(name, allowed()).await, "event type");
}

pub async fn a_token_is_kept_and_revoked(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let token = Token {
        id: "one".to_owned(),
        hash: [9; 32],
        name: "for tests".to_owned(),
        scope: Scope::Application(scene.application.id),
        read_only: true,
        granted: Granted {
            rights: Grant::Within(Rights::from_iter([Right::Secrets, Right::Replay])),
            feature_flags: ["beta".to_owned()].into(),
        },
        session: Some("monday".to_owned()),
        created_at: NOW,
        expires_at: Some(later(60)),
        revoked_at: None,
    };
    let admin = Token {
        id: "two".to_owned(),
        scope: Scope::Admin,
        read_only: false,
        granted: Granted::default(),
        session: None,
        expires_at: None,
        ..token.clone()
    };
    for token in [&token, &admin] {
        catalog.create_token(token.clone()).await.unwrap();
        assert_eq!(catalog.token(token.id.clone()).await.unwrap(), *token);
    }
    catalog.revoke_token(token.id.clone(), later(5)).await.unwrap();
    let revoked = Token { revoked_at: Some(later(5)), ..token };
    assert_eq!(catalog.token(revoked.id.clone()).await.unwrap(), revoked);
    assert_missing(catalog.token("three".to_owned()).await, "token");
    assert_missing(catalog.revoke_token("three".to_owned(), NOW).await, "token");
}

async fn found(scene: &Scene, endpoint: &Endpoint) -> Endpoint {
    let name = Name::Id(endpoint.id);
    scene.store().catalog.endpoint(endpoint.application, name).await.unwrap()
}

async fn raised(scene: &Scene, last: &mut i64) {
    let now = scene.revision().await;
    assert_eq!(now, *last + 1);
    *last = now;
}

fn assert_missing<T: std::fmt::Debug>(answer: Result<T, Error>, what: &str) {
    assert!(matches!(answer, Err(Error::Missing(missing)) if missing == what), "{answer:?}");
}

fn assert_taken<T: std::fmt::Debug>(answer: Result<T, Error>, uid: &str) {
    let taken = |what: &str, name: &str| what == "uid" && name == uid;
    assert!(matches!(&answer, Err(Error::Taken { what, name }) if taken(what, name)), "{answer:?}");
}
