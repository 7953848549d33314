//! Disabling: an endpoint by the machine, and the tokens of an application.

use domain::endpoint::{Reason, State};

use super::tokens::token;
use super::{Harness, NOW, Scene, later};
use crate::Error;
use crate::catalog::{Endpoint, EndpointEdit, EndpointSettings, Expiry, Name, Scope};
use crate::page::{From, Page};

pub async fn a_disabled_endpoint_says_why_and_is_otherwise_as_it_was(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let before = scene.revision().await;
    let disabled = disable(&scene, &endpoint, Reason::Gone, 9).await.unwrap();
    let wanted =
        Endpoint { state: State::Disabled(Reason::Gone), updated_at: later(9), ..endpoint.clone() };
    assert_eq!(disabled, wanted);
    assert_eq!(found(&scene, &endpoint).await, wanted);
    assert!(scene.revision().await > before);
    let fan_out = scene.store().catalog.fan_out(endpoint.application, NOW).await.unwrap();
    assert_eq!(fan_out.endpoints[0].secrets.len(), 1);
}

pub async fn the_first_reason_for_disabling_stays(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let first = disable(&scene, &endpoint, Reason::PermanentStreak, 1).await.unwrap();
    let before = scene.revision().await;
    let second = disable(&scene, &endpoint, Reason::Gone, 9).await.unwrap();
    assert_eq!(second, first);
    assert_eq!(found(&scene, &endpoint).await, first);
    assert_eq!(scene.revision().await, before, "nothing changed that a fan-out sees");
}

pub async fn a_paused_endpoint_is_disabled_too(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let paused = Endpoint { state: State::Paused, ..endpoint.clone() };
    scene.change(paused).await.unwrap();
    let disabled = disable(&scene, &endpoint, Reason::WithoutSuccess, 9).await.unwrap();
    assert_eq!(disabled.state, State::Disabled(Reason::WithoutSuccess));
}

pub async fn disabling_loses_no_change_that_somebody_else_made(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let (application, key) = (endpoint.application, endpoint.key);
    let settings = move |number: u32| EndpointSettings {
        description: format!("number {number}"),
        ..EndpointSettings::default()
    };
    let other = scene.harness.other.catalog.clone();
    let changing = async {
        for number in 1..=20 {
            let change = EndpointEdit::of(move |row| {
                Ok(Endpoint { settings: settings(number), ..row.clone() })
            });
            other.change_endpoint(application, key, change, NOW).await.unwrap();
        }
    };
    let disabling = async {
        for second in 0..20 {
            disable(&scene, &endpoint, Reason::Gone, second).await.unwrap();
        }
    };
    tokio::join!(changing, disabling);
    let found = found(&scene, &endpoint).await;
    assert_eq!((found.settings, found.state), (settings(20), State::Disabled(Reason::Gone)));
}

pub async fn an_attempt_disables_no_other_url_than_was_tried(harness: Harness) {
    let changes: [fn(&mut Endpoint); 2] = [
        |row| row.settings.origin = "https://new.example".to_owned(),
        |row| row.confidential.path_and_query = "/new".to_owned(),
    ];
    let scene = Scene::new(harness).await;
    for change in changes {
        let tried = scene.endpoint().await;
        let mut moved = tried.clone();
        change(&mut moved);
        scene.change(moved).await.unwrap();
        let before = found(&scene, &tried).await;
        let after = edited(&scene, &tried, EndpointEdit::disabling(Reason::Gone, tried.clone()), 9);
        assert_eq!(after.await.unwrap(), before);
        let again = edited(&scene, &tried, EndpointEdit::disabling(Reason::Gone, before), 9).await;
        assert_eq!(again.unwrap().state, State::Disabled(Reason::Gone));
    }
}

pub async fn an_attempt_disables_nothing_that_was_enabled_since(harness: Harness) {
    let scene = Scene::new(harness).await;
    let tried = scene.endpoint().await;
    disable(&scene, &tried, Reason::ByPerson, 1).await.unwrap();
    let enable = EndpointEdit::of(|row| Ok(Endpoint { state: row.state.enable()?, ..row.clone() }));
    let enabled = edited(&scene, &tried, enable, 2).await.unwrap();
    assert_eq!(found(&scene, &tried).await, enabled);
    let after = edited(&scene, &tried, EndpointEdit::disabling(Reason::Gone, tried.clone()), 3);
    assert_eq!(after.await.unwrap(), enabled);
    // A change of something else is no word about the receiver.
    let describe = EndpointEdit::of(|row| {
        let mut row = row.clone();
        row.settings.description = "busy".to_owned();
        Ok(row)
    });
    edited(&scene, &tried, describe, 4).await.unwrap();
    let after = edited(&scene, &tried, EndpointEdit::disabling(Reason::Gone, enabled), 5).await;
    assert_eq!(after.unwrap().state, State::Disabled(Reason::Gone));
}

pub async fn what_is_deleted_is_not_disabled(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (endpoint, other) = (scene.endpoint().await, scene.endpoint().await);
    let catalog = &scene.store().catalog;
    let theirs = scene.another_application().await.key;
    let change = disabling(Reason::Gone);
    let wrong = catalog.change_endpoint(theirs, endpoint.key, change, NOW).await;
    assert!(matches!(wrong, Err(Error::Missing("endpoint"))), "{wrong:?}");
    catalog.delete_endpoint(endpoint.application, endpoint.key, NOW).await.unwrap();
    let before = scene.revision().await;
    let gone = disable(&scene, &endpoint, Reason::Gone, 1).await;
    assert!(matches!(gone, Err(Error::Missing("endpoint"))), "{gone:?}");
    assert_eq!(scene.revision().await, before);
    catalog.delete_application(other.application, NOW).await.unwrap();
    let gone = disable(&scene, &other, Reason::Gone, 1).await;
    assert!(matches!(gone, Err(Error::Missing("endpoint"))), "{gone:?}");
}

pub async fn the_tokens_of_an_application_are_revoked_together(harness: Harness) {
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let other = scene.another_application().await.id;
    let own = Scope::Application(scene.application.id);
    let scopes = [("a", own), ("b", own), ("c", Scope::Application(other)), ("d", Scope::Admin)];
    for (id, scope) in scopes {
        catalog.create_token(token(id, scope)).await.unwrap();
    }
    catalog.revoke_token("b".to_owned(), later(1)).await.unwrap();
    assert_eq!(
        catalog.expire_tokens(Expiry::of_all(scene.application.id, later(5))).await.unwrap(),
        1
    );
    let page = Page { from: From::Start, limit: 10 };
    let revoked = catalog.tokens(page).await.unwrap().entries;
    let revoked: Vec<_> = revoked.into_iter().map(|token| token.revoked_at).collect();
    assert_eq!(revoked, [Some(later(5)), Some(later(1)), None, None]);
    assert_eq!(
        catalog.expire_tokens(Expiry::of_all(scene.application.id, later(6))).await.unwrap(),
        0
    );
}

async fn disable(
    scene: &Scene,
    endpoint: &Endpoint,
    reason: Reason,
    seconds: u64,
) -> Result<Endpoint, Error> {
    edited(scene, endpoint, disabling(reason), seconds).await
}

async fn edited(
    scene: &Scene,
    endpoint: &Endpoint,
    change: EndpointEdit,
    seconds: u64,
) -> Result<Endpoint, Error> {
    let (application, key) = (endpoint.application, endpoint.key);
    let catalog = &scene.store().catalog;
    let changed = catalog.change_endpoint(application, key, change, later(seconds)).await;
    changed.map(|changed| changed.after)
}

fn disabling(reason: Reason) -> EndpointEdit {
    EndpointEdit::of(move |row| Ok(Endpoint { state: row.state.disable(reason)?, ..row.clone() }))
}

async fn found(scene: &Scene, endpoint: &Endpoint) -> Endpoint {
    let name = Name::Id(endpoint.id);
    scene.store().catalog.endpoint(endpoint.application, name).await.unwrap()
}
