//! Sizes: how much an application has is counted in the transaction that changes it, and whoever caps it
//! is asked before.

use std::sync::{Arc, Mutex};

use super::{Handle, Harness, NOW, Scene};
use crate::Error;
use crate::catalog::{
    Admission, Changed, Endpoint, EndpointEdit, Growth, NewEndpoint, Size, admit_all,
};
use crate::queue::Order;

/// How often two meet at a cap.
const ROUNDS: u64 = 20;

/// What an admission was asked.
type Asked = Arc<Mutex<Vec<Growth>>>;

pub async fn an_admission_is_told_what_an_application_has_and_would_have(harness: Harness) {
    let scene = Scene::new(harness).await;
    let elsewhere = scene.another_application().await;
    let other = NewEndpoint { application: elsewhere.key, ..new(&scene, 3) };
    scene.create(other).await;
    let (asked, mut before) = (Asked::default(), Size::default());
    for patterns in [0, 2, 1] {
        let made = create(scene.store(), new(&scene, patterns), &asked).await.unwrap();
        let after = before.and(Size::of(&made));
        assert_eq!(last(&asked), Growth { before, after });
        assert_eq!(Size::of(&made).patterns, u64::try_from(patterns).unwrap());
        before = after;
    }
    let endpoint = create(scene.store(), new(&scene, 1), &asked).await.unwrap();
    before = before.and(Size::of(&endpoint));
    let edits: [fn(&mut Endpoint); 5] = [
        |row| row.settings.event_types = vec!["a".to_owned(), "b".to_owned()],
        |row| row.settings.channels = vec!["c".to_owned()],
        |row| drop(row.settings.metadata.insert("k".to_owned(), "v".to_owned())),
        |row| drop(row.confidential.headers.insert("authorization".to_owned(), "v".to_owned())),
        |row| row.settings.event_types.clear(),
    ];
    for edit in edits {
        let Changed { before: was, after: is } =
            change(&scene.harness.other, &endpoint, edit, watch(&asked)).await.unwrap();
        assert_ne!(Size::of(&was), Size::of(&is));
        assert_eq!(last(&asked).before, before, "{is:?}");
        before = last(&asked).after;
    }
    let deleted = EndpointEdit { admission: watch(&asked), ..EndpointEdit::deletion() };
    let catalog = &scene.store().catalog;
    catalog.change_endpoint(endpoint.application, endpoint.key, deleted, NOW).await.unwrap();
    let Growth { before: whole, after: rest } = last(&asked);
    assert_eq!(
        (whole, rest.endpoints, rest.patterns),
        (before, 3, 3),
        "it does not count any more"
    );
}

pub async fn what_is_not_admitted_is_not_written(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.create(new(&scene, 1)).await;
    let before = scene.revision().await;
    let refused = scene.store().catalog.create_endpoint_if(new(&scene, 0), at_most(1)).await;
    assert_declined(refused);
    let never: Admission = Box::new(|_| Err("no".into()));
    let larger = |row: &mut Endpoint| row.settings.channels = vec!["c".to_owned()];
    assert_declined(change(scene.store(), &endpoint, larger, never).await);
    let fan_out = scene.store().catalog.fan_out(endpoint.application, NOW).await.unwrap();
    let views: Vec<_> = fan_out.endpoints.into_iter().map(|view| view.endpoint).collect();
    assert_eq!((views, scene.revision().await), (vec![endpoint], before));
}

pub async fn what_leaves_the_size_as_it_is_needs_no_admission(harness: Harness) {
    let scene = Scene::new(harness).await;
    let made = new(&scene, 1);
    let endpoint = scene.create(made.clone()).await;
    let never = || -> Admission { Box::new(|_| Err("no".into())) };
    let paused = |row: &mut Endpoint| row.state = domain::endpoint::State::Paused;
    change(scene.store(), &endpoint, paused, never()).await.unwrap();
    // The one that is there already is found, as by a request that is repeated.
    let again = scene.store().catalog.create_endpoint_if(made, never()).await.unwrap();
    assert_eq!(again.key, endpoint.key);
}

pub async fn of_two_that_meet_at_a_cap_one_is_admitted(harness: Harness) {
    let scene = Scene::new(harness).await;
    for most in 1..=ROUNDS {
        let (one, two) = (new(&scene, 0), new(&scene, 0));
        let (first, second) = tokio::join!(
            scene.store().catalog.create_endpoint_if(one, at_most(most)),
            scene.harness.other.catalog.create_endpoint_if(two, at_most(most)),
        );
        assert_ne!(first.is_ok(), second.is_ok(), "{first:?} {second:?}");
        let refused = first.err().or(second.err());
        assert!(matches!(refused, Some(Error::Declined(_))), "{refused:?}");
    }
    let fan_out = scene.store().catalog.fan_out(scene.application.key, NOW).await.unwrap();
    assert_eq!(fan_out.endpoints.len(), usize::try_from(ROUNDS).unwrap());
}

pub async fn of_two_changes_that_meet_at_a_cap_one_is_admitted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.create(new(&scene, 0)).await, scene.create(new(&scene, 0)).await);
    let few = || -> Admission {
        Box::new(|growth| if growth.after.patterns <= 1 { Ok(()) } else { Err("full".into()) })
    };
    let filter = |row: &mut Endpoint| row.settings.event_types = vec!["a".to_owned()];
    let all = |row: &mut Endpoint| row.settings.event_types.clear();
    for _ in 0..ROUNDS {
        let (first, second) = tokio::join!(
            change(scene.store(), &one, filter, few()),
            change(&scene.harness.other, &two, filter, few()),
        );
        assert_ne!(first.is_ok(), second.is_ok(), "{first:?} {second:?}");
        for endpoint in [&one, &two] {
            change(scene.store(), endpoint, all, admit_all()).await.unwrap();
        }
    }
}

fn new(scene: &Scene, patterns: usize) -> NewEndpoint {
    let mut new = scene.new_endpoint(Order::Due);
    new.settings.event_types = (0..patterns).map(|number| format!("type.{number}")).collect();
    new
}

async fn create(handle: &Handle, new: NewEndpoint, asked: &Asked) -> Result<Endpoint, Error> {
    handle.catalog.create_endpoint_if(new, watch(asked)).await
}

async fn change(
    handle: &Handle,
    endpoint: &Endpoint,
    edit: impl Fn(&mut Endpoint) + Send + Sync + 'static,
    admission: Admission,
) -> Result<Changed<Endpoint>, Error> {
    let row = EndpointEdit::of(move |row| {
        let mut row = row.clone();
        edit(&mut row);
        Ok(row)
    });
    let edited = EndpointEdit { admission, ..row };
    handle.catalog.change_endpoint(endpoint.application, endpoint.key, edited, NOW).await
}

fn watch(asked: &Asked) -> Admission {
    let asked = Arc::clone(asked);
    Box::new(move |growth| {
        asked.lock().unwrap().push(*growth);
        Ok(())
    })
}

fn last(asked: &Asked) -> Growth {
    *asked.lock().unwrap().last().unwrap()
}

fn at_most(endpoints: u64) -> Admission {
    Box::new(
        move |growth| {
            if growth.after.endpoints <= endpoints { Ok(()) } else { Err("full".into()) }
        },
    )
}

fn assert_declined<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(matches!(answer, Err(Error::Declined(_))), "{answer:?}");
}
