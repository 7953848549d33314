//! Changing: a change is made of the row as it is, so that of two at the same moment none is lost.

use domain::endpoint::{Reason, State};

use super::{Handle, Harness, NOW, Scene, later};
use crate::Error;
use crate::catalog::{
    Application, Changed, Edit, Endpoint, EndpointEdit, EventType, EventTypeSettings, Name,
    NewSecret, Refusal, Secret, admit_all,
};
use crate::queue::Order;

/// How often two change the same row at once.
const ROUNDS: u32 = 20;

/// What is changed, whether a fan-out uses it, and how it is changed.
type Case<T> = (&'static str, bool, fn(&mut T));

pub async fn a_change_is_made_of_the_row_as_it_is(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let changed = change(scene.store(), &endpoint, |row| row.settings.rate = Some(7)).await;
    let mut wanted = endpoint.clone();
    (wanted.settings.rate, wanted.updated_at) = (Some(7), changed.after.updated_at);
    assert_eq!(changed, Changed { before: endpoint.clone(), after: wanted.clone() });
    let paused = change(scene.store(), &endpoint, |row| row.state = State::Paused).await;
    assert_eq!(paused.before, wanted);
    wanted.state = State::Paused;
    wanted.updated_at = paused.after.updated_at;
    assert_eq!((&paused.after, found(&scene, &endpoint).await), (&wanted, wanted.clone()));
}

pub async fn a_change_that_leaves_all_as_it_is_writes_nothing(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let (catalog, application) = (&scene.store().catalog, scene.application.key);
    let event_type = event_type("a.b");
    catalog.create_event_type(event_type.clone()).await.unwrap();
    let before = catalog.application(Name::Id(scene.application.id)).await.unwrap();
    let same = change(scene.store(), &endpoint, |_| {}).await;
    assert!(same.is_nothing(), "{same:?}");
    let same: Edit<Application> = Box::new(|row| Ok(row.clone()));
    let same = catalog.change_application(application, same, later(9)).await.unwrap();
    assert!(same.is_nothing(), "{same:?}");
    let same: Edit<EventType> = Box::new(|row| Ok(row.clone()));
    let same = catalog.change_event_type("a.b".to_owned(), same, later(9)).await.unwrap();
    assert!(same.is_nothing(), "{same:?}");
    assert_eq!(found(&scene, &endpoint).await, endpoint);
    assert_eq!(catalog.application(Name::Id(scene.application.id)).await.unwrap(), before);
    assert_eq!(catalog.event_type("a.b".to_owned()).await.unwrap(), event_type);
}

pub async fn each_change_has_a_later_time_than_the_one_before_it(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let catalog = &scene.store().catalog;
    catalog.create_event_type(event_type("a.b")).await.unwrap();
    let application = scene.application.key;
    let (mut first, mut second, mut third) = (NOW, NOW, NOW);
    // The clock of the node that changes stands still.
    for number in 1..=3 {
        let changed = change(scene.store(), &endpoint, move |row| {
            row.settings.rate = Some(number);
        });
        let changed = changed.await.after.updated_at;
        assert!(changed > first, "{changed:?} after {first:?}");
        first = changed;
        let change: Edit<Application> = Box::new(move |row| Ok(limited(row, number)));
        let changed = catalog.change_application(application, change, NOW).await.unwrap();
        assert!(changed.after.updated_at > second, "{changed:?} after {second:?}");
        second = changed.after.updated_at;
        let change: Edit<EventType> = Box::new(move |row| Ok(described(row, number)));
        let changed = catalog.change_event_type("a.b".to_owned(), change, NOW).await.unwrap();
        assert!(changed.after.updated_at > third, "{changed:?} after {third:?}");
        third = changed.after.updated_at;
    }
}

pub async fn a_change_that_declines_writes_nothing_and_says_why(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let (catalog, application) = (&scene.store().catalog, scene.application.key);
    catalog.create_event_type(event_type("a.b")).await.unwrap();
    let before = scene.revision().await;
    let declines = EndpointEdit::of(|_| Err(no()));
    let declined = catalog.change_endpoint(application, endpoint.key, declines, later(9)).await;
    assert_declined(declined);
    let declined = catalog.change_application(application, Box::new(|_| Err(no())), NOW).await;
    assert_declined(declined);
    let declines = Box::new(|_: &EventType| Err(no()));
    assert_declined(catalog.change_event_type("a.b".to_owned(), declines, NOW).await);
    assert_eq!((found(&scene, &endpoint).await, scene.revision().await), (endpoint, before));
}

pub async fn only_what_a_fan_out_uses_raises_the_revision(harness: Harness) {
    let cases: [Case<Endpoint>; 15] = [
        ("state", true, |row| row.state = State::Paused),
        ("order", true, |row| row.order = Order::Fifo),
        ("event types", true, |row| row.settings.event_types = vec!["a.b".to_owned()]),
        ("channels", true, |row| row.settings.channels = vec!["c".to_owned()]),
        ("policy", true, |row| row.settings.policy = Some(serde_json::json!("github"))),
        ("uid", false, |row| row.uid = Some("other".to_owned())),
        ("origin", false, |row| row.settings.origin = "https://other.example".to_owned()),
        ("description", false, |row| row.settings.description = "other".to_owned()),
        ("rate", false, |row| row.settings.rate = Some(7)),
        ("in flight", false, |row| row.settings.in_flight = Some(7)),
        ("signatures", false, |row| row.settings.signatures = vec!["standard".to_owned()]),
        ("metadata", false, |row| {
            row.settings.metadata.insert("a".to_owned(), "1".to_owned());
        }),
        ("plain headers", false, |row| {
            row.settings.headers.insert("a".to_owned(), "1".to_owned());
        }),
        ("confidential", false, |row| row.confidential.path_and_query = "/other".to_owned()),
        ("nothing", false, |_| {}),
    ];
    let scene = Scene::new(harness).await;
    let catalog = &scene.store().catalog;
    let endpoint = scene.endpoint().await;
    let fan_out = async || catalog.fan_out(scene.application.key, NOW).await.unwrap();
    let counted = async || (fan_out().await.revision, fan_out().await.version);
    for (what, fans_out, edit) in cases {
        let (revision, version) = counted().await;
        change(scene.store(), &endpoint, edit).await;
        let wanted = (revision + i64::from(fans_out), version + i64::from(what != "nothing"));
        assert_eq!(counted().await, wanted, "{what}");
    }
    let cases: [Case<Application>; 5] = [
        ("policy", true, |row| row.settings.policy = Some(serde_json::json!("github"))),
        ("uid", false, |row| row.uid = Some("other".to_owned())),
        ("name", false, |row| row.settings.name = "other".to_owned()),
        ("rate", false, |row| row.settings.rate = Some(7)),
        ("nothing", false, |_| {}),
    ];
    for (what, fans_out, edit) in cases {
        let (revision, version) = counted().await;
        let edit: Edit<Application> = Box::new(move |row| {
            let mut row = row.clone();
            edit(&mut row);
            Ok(row)
        });
        let changed = catalog.change_application(scene.application.key, edit, NOW).await.unwrap();
        let wanted = (revision + i64::from(fans_out), version + i64::from(what != "nothing"));
        assert_eq!((counted().await, what), (wanted, what));
        assert_eq!((changed.after.revision, changed.after.version), wanted, "{what}");
    }
}

pub async fn a_check_that_declines_keeps_what_was_to_be_deleted(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (catalog, id) = (&scene.store().catalog, scene.application.id);
    catalog.create_event_type(event_type("a.b")).await.unwrap();
    let key = scene.application.key;
    let declined = catalog.delete_application_if(key, Box::new(|_| Err(no())), NOW).await;
    assert_declined(declined);
    assert_eq!(catalog.application(Name::Id(id)).await.unwrap(), scene.application);
    let declined = catalog.remove_event_type("a.b".to_owned(), Box::new(|_| Err(no()))).await;
    assert_declined(declined);
    assert_eq!(catalog.event_type("a.b".to_owned()).await.unwrap(), event_type("a.b"));
}

pub async fn of_two_changes_of_an_endpoint_at_once_none_is_lost(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    for number in 1..=ROUNDS {
        tokio::join!(
            change(scene.store(), &endpoint, move |row| row.settings.rate = Some(number)),
            change(&scene.harness.other, &endpoint, move |row| {
                row.settings.description = number.to_string();
            }),
        );
        let found = found(&scene, &endpoint).await.settings;
        assert_eq!((found.rate, found.description), (Some(number), number.to_string()));
    }
}

pub async fn a_pause_beside_a_change_of_settings_is_not_lost(harness: Harness) {
    assert_state_is_not_lost(harness, State::Paused).await;
}

pub async fn a_disabling_beside_a_change_of_settings_is_not_lost(harness: Harness) {
    assert_state_is_not_lost(harness, State::Disabled(Reason::Gone)).await;
}

pub async fn of_two_changes_of_headers_at_once_none_is_lost(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.endpoint().await;
    let set = |number: u32, name: &'static str| {
        move |row: &mut Endpoint| {
            row.settings.headers.insert(format!("{name}-{number}"), "1".to_owned());
            row.confidential.headers.insert(format!("{name}-key-{number}"), "1".to_owned());
        }
    };
    for number in 1..=ROUNDS {
        tokio::join!(
            change(scene.store(), &endpoint, set(number, "x")),
            change(&scene.harness.other, &endpoint, set(number, "y")),
        );
    }
    let found = found(&scene, &endpoint).await;
    let wanted = 2 * usize::try_from(ROUNDS).unwrap();
    assert_eq!(found.settings.headers.len(), wanted);
    assert_eq!(found.confidential.headers.len(), wanted);
}

pub async fn of_two_changes_of_an_application_at_once_none_is_lost(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (key, id) = (scene.application.key, scene.application.id);
    for number in 1..=ROUNDS {
        let limit: Edit<Application> = Box::new(move |row| Ok(limited(row, number)));
        let name: Edit<Application> = Box::new(move |row| {
            let uid = Some(format!("uid-{number}"));
            Ok(Application { uid, ..row.clone() })
        });
        let (limited, named) = tokio::join!(
            scene.store().catalog.change_application(key, limit, NOW),
            scene.harness.other.catalog.change_application(key, name, NOW),
        );
        limited.unwrap();
        named.unwrap();
        let found = scene.store().catalog.application(Name::Id(id)).await.unwrap();
        let wanted = (Some(format!("uid-{number}")), Some(number));
        assert_eq!((found.uid, found.settings.rate), wanted);
    }
}

pub async fn of_two_changes_of_an_event_type_at_once_none_is_lost(harness: Harness) {
    let scene = Scene::new(harness).await;
    let name = || "a.b".to_owned();
    scene.store().catalog.create_event_type(event_type("a.b")).await.unwrap();
    for number in 1..=ROUNDS {
        let describe: Edit<EventType> = Box::new(move |row| Ok(described(row, number)));
        let group: Edit<EventType> = Box::new(move |row| {
            let group = Some(number.to_string());
            let settings = EventTypeSettings { group, ..row.settings.clone() };
            Ok(EventType { settings, ..row.clone() })
        });
        let (first, second) = tokio::join!(
            scene.store().catalog.change_event_type(name(), describe, NOW),
            scene.harness.other.catalog.change_event_type(name(), group, NOW),
        );
        first.unwrap();
        second.unwrap();
        let found = scene.store().catalog.event_type(name()).await.unwrap().settings;
        assert_eq!(
            (found.description, found.group),
            (number.to_string(), Some(number.to_string()))
        );
    }
}

pub async fn of_two_endpoints_that_want_a_uid_at_once_one_gets_it(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (one, two) = (scene.endpoint().await, scene.endpoint().await);
    let want = |handle: Handle, endpoint: &Endpoint, uid: String| {
        let (application, key) = (endpoint.application, endpoint.key);
        let change =
            EndpointEdit::of(move |row| Ok(Endpoint { uid: Some(uid.clone()), ..row.clone() }));
        async move { handle.catalog.change_endpoint(application, key, change, NOW).await }
    };
    for number in 1..=ROUNDS {
        let uid = format!("uid-{number}");
        let (first, second) = tokio::join!(
            want(scene.store().clone(), &one, uid.clone()),
            want(scene.harness.other.clone(), &two, uid.clone()),
        );
        assert_ne!(first.is_ok(), second.is_ok(), "{first:?} {second:?}");
        let refused = first.err().or(second.err());
        assert!(matches!(&refused, Some(Error::Taken { name, .. }) if *name == uid), "{refused:?}");
    }
}

pub async fn a_secret_comes_with_a_change_or_not_at_all(harness: Harness) {
    let scene = Scene::new(harness).await;
    let (endpoint, other) = (scene.endpoint().await, scene.endpoint().await);
    change(scene.store(), &other, |row| row.uid = Some("taken".to_owned())).await;
    let catalog = &scene.store().catalog;
    let (application, key) = (endpoint.application, endpoint.key);
    let with = |uid: Option<&str>, text: &str| {
        let uid = uid.map(str::to_owned);
        let row: Edit<Endpoint> =
            Box::new(move |row| Ok(Endpoint { uid: uid.clone(), ..row.clone() }));
        let secret = Secret { text: text.to_owned(), created_at: later(5), expires_at: None };
        EndpointEdit {
            row,
            secret: Some(NewSecret { secret, grace_ends: later(60) }),
            admission: admit_all(),
        }
    };
    let texts = async || {
        let secrets = catalog.secrets(application, key, later(9)).await.unwrap();
        secrets.into_iter().map(|secret| (secret.text, secret.expires_at)).collect::<Vec<_>>()
    };
    let first = ("whsec_one".to_owned(), None);
    let same = with(None, "whsec_one");
    let same = catalog.change_endpoint(application, key, same, later(5)).await.unwrap();
    assert!(same.is_nothing(), "it is the current one: {same:?}");
    let refused = with(Some("taken"), "whsec_two");
    let refused = catalog.change_endpoint(application, key, refused, later(5)).await;
    assert!(matches!(refused, Err(Error::Taken { .. })), "{refused:?}");
    assert_eq!(texts().await, [first]);
    let second = with(None, "whsec_two");
    let changed = catalog.change_endpoint(application, key, second, later(5)).await.unwrap();
    assert_eq!(changed.after, Endpoint { updated_at: later(5), ..endpoint.clone() });
    let (current, old) =
        (("whsec_two".to_owned(), None), ("whsec_one".to_owned(), Some(later(60))));
    assert_eq!(texts().await, [current.clone(), old]);
    let again = with(None, "whsec_two");
    let again = catalog.change_endpoint(application, key, again, later(6)).await.unwrap();
    assert!(again.is_nothing(), "{again:?}");
    let named = with(Some("named"), "whsec_two");
    let named = catalog.change_endpoint(application, key, named, later(6)).await.unwrap();
    assert_eq!(named.after.uid.as_deref(), Some("named"));
    assert_eq!(texts().await.first(), Some(&current));
}

pub async fn a_rotated_secret_makes_another_version_of_its_endpoint(harness: Harness) {
    let scene = Scene::new(harness).await;
    let endpoint = scene.create(scene.new_endpoint(Order::Due)).await;
    let secret = Secret { text: "whsec_two".to_owned(), created_at: NOW, expires_at: None };
    let (application, key) = (endpoint.application, endpoint.key);
    scene.store().catalog.rotate_secret(application, key, secret, later(60)).await.unwrap();
    let found = found(&scene, &endpoint).await;
    assert!(found.updated_at > endpoint.updated_at, "{found:?}");
    assert_eq!(Endpoint { updated_at: endpoint.updated_at, ..found }, endpoint);
}

/// Sets one of two fields in turn while the other handle changes another.
async fn assert_state_is_not_lost(harness: Harness, state: State) {
    let scene = Scene::new(harness).await;
    for number in 1..=ROUNDS {
        let endpoint = scene.endpoint().await;
        tokio::join!(
            change(scene.store(), &endpoint, move |row| row.settings.rate = Some(number)),
            change(&scene.harness.other, &endpoint, move |row| row.state = state),
        );
        let found = found(&scene, &endpoint).await;
        assert_eq!((found.settings.rate, found.state), (Some(number), state));
    }
}

async fn change(
    handle: &Handle,
    endpoint: &Endpoint,
    edit: impl Fn(&mut Endpoint) + Send + Sync + 'static,
) -> Changed<Endpoint> {
    let edited = EndpointEdit::of(move |row| {
        let mut row = row.clone();
        edit(&mut row);
        Ok(row)
    });
    let (application, key) = (endpoint.application, endpoint.key);
    handle.catalog.change_endpoint(application, key, edited, NOW).await.unwrap()
}

async fn found(scene: &Scene, endpoint: &Endpoint) -> Endpoint {
    let name = Name::Id(endpoint.id);
    scene.store().catalog.endpoint(endpoint.application, name).await.unwrap()
}

fn event_type(name: &str) -> EventType {
    let (name, settings) = (name.to_owned(), EventTypeSettings::default());
    EventType { name, settings, created_at: NOW, updated_at: NOW }
}

fn limited(row: &Application, rate: u32) -> Application {
    let mut row = row.clone();
    row.settings.rate = Some(rate);
    row
}

fn described(row: &EventType, number: u32) -> EventType {
    let mut row = row.clone();
    row.settings.description = number.to_string();
    row
}

fn no() -> Refusal {
    "not like this".into()
}

fn assert_declined<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let said = |refusal: &Refusal| refusal.to_string() == "not like this";
    assert!(matches!(&answer, Err(Error::Declined(refusal)) if said(refusal)), "{answer:?}");
}
