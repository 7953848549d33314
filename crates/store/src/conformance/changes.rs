//! What was changed, for the nodes that have it in memory.

use std::time::Duration;

use domain::endpoint::{Reason, State};
use domain::time::Timestamp;

use super::{Harness, NOW, Scene, later};
use crate::catalog::{ApplicationSettings, Change, Endpoint, EventType, EventTypeSettings, Secret};
use crate::keys::{ApplicationKey, Node};
use crate::limits;
use crate::queue::{Accepted, Upkeep};

pub async fn every_change_that_sending_sees_raises_the_version(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let mut last = version(&scene).await;
    assert_eq!(last, scene.revision().await, "both begin with the same number");
    let endpoint = scene.endpoint().await;
    let (application, key) = (endpoint.application, endpoint.key);
    raised(&scene, &mut last).await;
    let mut described = endpoint.clone();
    described.settings.description = "other".to_owned();
    scene.change(described).await.unwrap();
    raised(&scene, &mut last).await;
    rotate(&scene, &endpoint).await;
    raised(&scene, &mut last).await;
    let disabled = State::Disabled(Reason::ByPerson);
    scene.change(Endpoint { state: disabled, ..endpoint.clone() }).await.unwrap();
    raised(&scene, &mut last).await;
    catalog.delete_endpoint(application, key, later(6)).await.unwrap();
    raised(&scene, &mut last).await;
    scene.change_application(application, None, renamed(), later(7)).await.unwrap();
    raised(&scene, &mut last).await;
    scene.another_application().await;
    assert_eq!(version(&scene).await, last, "another application's changes do not matter");
}

pub async fn a_new_secret_is_no_change_for_a_fan_out(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let fanned_out = scene.message(&[&endpoint]).await;
    rotate(&scene, &endpoint).await;
    let answers = scene.accept(vec![fanned_out]).await;
    assert!(matches!(answers[0], Accepted::New { .. }), "{answers:?}");
}

pub async fn what_was_changed_is_listed_deleted_or_not(harness: Harness) {
    let scene = Scene::new(harness).await;
    let began = scene.store().queue.now().await.unwrap();
    let (first, second) = (scene.application.key, scene.another_application().await.key);
    assert_eq!(of(&scene, first).await, None, "nothing was changed since it was created");
    scene.endpoint().await;
    let change = of(&scene, first).await.unwrap();
    assert_eq!(change.version, version(&scene).await);
    scene.store().catalog.delete_application(second, later(7)).await.unwrap();
    let gone = of(&scene, second).await.unwrap();
    assert!(gone.version > 1, "{gone:?}");
    let all = changes(&scene, Some(Timestamp::from_micros(1)), None).await;
    let mut by_moment = all.clone();
    by_moment.sort_by_key(|change| (change.at, change.application));
    assert_eq!(all, by_moment);
    // What was changed before that moment is left out; the store's own clock tells it.
    let later = all.iter().map(|change| change.at).max().unwrap().max(began);
    let later = later.after(Duration::from_micros(1));
    assert_eq!(changes(&scene, Some(later), None).await, []);
}

pub async fn a_deleted_application_is_listed_until_every_node_has_seen_it(harness: Harness) {
    let scene = Scene::new(harness).await;
    let key = scene.application.key;
    scene.store().catalog.delete_application(key, NOW).await.unwrap();
    let prune = async |now| scene.keep_up(Upkeep::Prune { now, most: 200 }).await;
    prune(later(1)).await;
    assert!(of(&scene, key).await.is_some(), "a node may not have asked since");
    prune(NOW.after(limits::CHANGING)).await;
    assert_eq!(of(&scene, key).await, None);
}

pub async fn changes_of_event_types_are_counted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let count = async || catalog.changes(None, None).await.unwrap().event_types;
    let mut last = count().await;
    let mut raised = async |what| {
        let now = count().await;
        assert!(now > last, "{what}");
        last = now;
    };
    let settings = EventTypeSettings { description: "one".to_owned(), ..Default::default() };
    let name = "user.created".to_owned();
    let new = EventType { name: name.clone(), settings, created_at: NOW, updated_at: NOW };
    catalog.create_event_type(new.clone()).await.unwrap();
    raised("created").await;
    catalog.create_event_type(new).await.unwrap_err();
    let nothing = |row: &EventType| Ok(row.clone());
    catalog.change_event_type(name.clone(), Box::new(nothing), later(1)).await.unwrap();
    assert_eq!(count().await, 1, "nothing was changed");
    let change = |row: &EventType| {
        let settings = EventTypeSettings { description: "two".to_owned(), ..Default::default() };
        Ok(EventType { settings, ..row.clone() })
    };
    catalog.change_event_type(name.clone(), Box::new(change), later(1)).await.unwrap();
    raised("changed").await;
    catalog.remove_event_type(name, Box::new(|_| Ok(()))).await.unwrap();
    raised("removed").await;
}

pub async fn a_change_is_confirmed_when_every_node_that_lives_has_said_so(harness: Harness) {
    let scene = Scene::new(harness).await;
    let queue = &scene.store().queue;
    let (one, two) = (Node("one-more".to_owned()), Node("and-another".to_owned()));
    let moment = queue.call().await.unwrap();
    assert!(moment <= queue.now().await.unwrap());
    let confirmed = async || queue.confirmed().await.unwrap().covers(moment);
    // The scene's own node has partitions, and has confirmed nothing.
    assert!(!confirmed().await);
    queue.confirm(Node("first".to_owned()), moment).await.unwrap();
    assert!(confirmed().await);
    queue.renew(one.clone()).await.unwrap();
    queue.renew(two.clone()).await.unwrap();
    assert!(!confirmed().await, "both live and have not confirmed");
    queue.confirm(one.clone(), moment).await.unwrap();
    assert!(!confirmed().await);
    queue.confirm(two.clone(), moment.before(Duration::from_micros(1))).await.unwrap();
    assert!(!confirmed().await, "what was committed later is not known there");
    queue.confirm(two.clone(), moment).await.unwrap();
    queue.confirm(two.clone(), moment.before(Duration::from_secs(9))).await.unwrap();
    assert!(confirmed().await, "it never takes back what it has said");
    queue.renew(two).await.unwrap();
    assert!(confirmed().await, "a renewal changes nothing about it");
}

pub async fn changes_are_listed_page_by_page(harness: Harness) {
    let scene = Scene::new(harness).await;
    let mut keys = Vec::new();
    for _ in 0..limits::CHANGES + 2 {
        let key = scene.another_application().await.key;
        scene.change_application(key, None, renamed(), later(5)).await.unwrap();
        keys.push(key);
    }
    let since = Some(Timestamp::from_micros(1));
    let first = changes(&scene, since, None).await;
    assert_eq!(first.len(), limits::CHANGES);
    let second = changes(&scene, since, first.last().copied()).await;
    let mut listed: Vec<_> = first.iter().chain(&second).map(|one| one.application).collect();
    listed.sort_unstable();
    keys.sort_unstable();
    assert_eq!(listed, keys);
}

fn renamed() -> ApplicationSettings {
    ApplicationSettings { name: "other".to_owned(), ..Default::default() }
}

async fn of(scene: &Scene, application: ApplicationKey) -> Option<Change> {
    let changes = changes(scene, Some(Timestamp::from_micros(1)), None).await;
    changes.into_iter().find(|change| change.application == application)
}

async fn changes(scene: &Scene, since: Option<Timestamp>, after: Option<Change>) -> Vec<Change> {
    scene.store().catalog.changes(since, after).await.unwrap().applications
}

async fn version(scene: &Scene) -> i64 {
    let fan_out = scene.store().catalog.fan_out(scene.application.key, later(0)).await;
    fan_out.unwrap().version
}

async fn raised(scene: &Scene, last: &mut i64) {
    let version = version(scene).await;
    assert!(version > *last, "{version} after {last}");
    *last = version;
}

async fn rotate(scene: &Scene, endpoint: &Endpoint) {
    let secret = Secret { text: "whsec_other".to_owned(), created_at: later(4), expires_at: None };
    let (application, key) = (endpoint.application, endpoint.key);
    scene.store().catalog.rotate_secret(application, key, secret, later(60)).await.unwrap();
}
