//! Who may open a store, with which key, and what it finds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::conformance::Scene;
use store::keys::Node;
use store::queue::NextState;
use store::sqlite::{Settings, Sqlite};
use store::{Error, Queue};

use super::{harness, settings};

fn refusal(settings: Settings) -> String {
    let error = Sqlite::open(settings).unwrap_err();
    assert!(matches!(error, Error::CannotOpen(_)), "{error:?}");
    error.to_string()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_second_process_is_refused_and_told_about_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let first = Sqlite::open(settings(directory.path())).unwrap();
    let text = refusal(settings(directory.path()));
    let who = format!("process {}, started 2027-01-15T08:00:00Z", std::process::id());
    assert!(text.contains(&who), "{text}");
    assert!(text.contains(&directory.path().display().to_string()), "{text}");
    drop(first);
    Sqlite::open(settings(directory.path())).unwrap();
}

#[test]
fn directory_and_key_are_for_their_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("new/data");
    Sqlite::open(settings(&data)).unwrap();
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("redial.key")), 0o600);
}

#[tokio::test]
async fn every_file_is_for_its_owner_alone_whatever_directory_it_is_in() {
    const FILES: [&str; 5] =
        ["redial.db", "redial.db-wal", "redial.db-shm", "redial.lock", "redial.key"];
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let modes = || FILES.map(|name| mode(&directory.path().join(name)));
    let scene = Scene::new(harness(directory.path())).await;
    assert_eq!(modes(), [0o600; 5]);
    drop(scene);
    // As after a restored backup, or a process that was killed before its files were closed.
    for name in FILES {
        let file = directory.path().join(name);
        drop(fs::OpenOptions::new().append(true).create(true).open(&file).unwrap());
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let _scene = Scene::new(harness(directory.path())).await;
    assert_eq!(modes(), [0o600; 5]);
}

#[test]
fn a_key_is_made_once_and_used_from_then_on() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(settings(directory.path())).unwrap());
    let made = fs::read(directory.path().join("redial.key")).unwrap();
    drop(Sqlite::open(settings(directory.path())).unwrap());
    assert_eq!(fs::read(directory.path().join("redial.key")).unwrap(), made);
}

#[test]
fn a_configured_key_needs_no_file_and_another_one_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let with = |key| Settings { key: Some([key; 32]), ..settings(directory.path()) };
    drop(Sqlite::open(with(1)).unwrap());
    assert!(!directory.path().join("redial.key").exists());
    let text = refusal(with(2));
    assert!(text.contains("another key than the configured key"), "{text}");
    drop(Sqlite::open(with(1)).unwrap());
}

#[test]
fn a_key_file_that_is_lost_changed_or_broken_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(settings(directory.path())).unwrap());
    let file = directory.path().join("redial.key");
    for (content, text) in [
        (None, "is missing"),
        (Some("00".repeat(32)), "was made with another key than"),
        (Some("00".repeat(31)), "does not hold 64 hexadecimal digits"),
    ] {
        match content {
            None => fs::remove_file(&file).unwrap(),
            Some(content) => fs::write(&file, content).unwrap(),
        }
        let refused = refusal(settings(directory.path()));
        assert!(refused.contains(text) && refused.contains("redial.key"), "{refused}");
    }
}

#[tokio::test]
async fn secrets_are_not_in_the_file_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    scene.endpoint().await;
    drop(scene);
    let file = fs::read(directory.path().join("redial.db")).unwrap();
    let holds = |text: &[u8]| file.windows(text.len()).any(|window| window == text);
    assert!(holds(b"https://receiver.example"));
    assert!(!holds(b"whsec_one") && !holds(b"token=1"));
}

#[tokio::test]
async fn a_store_that_is_opened_again_has_everything_and_goes_on_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    let endpoint = scene.endpoint().await;
    let done = scene.settled(&endpoint, NextState::Delivered).await;
    let pending = scene.pending(&endpoint).await;
    let lease = scene.lease(&endpoint);
    let before = (scene.look(done).await, scene.look(pending).await);
    drop(scene);

    let again = Scene::new(harness(directory.path())).await;
    assert_eq!((again.look(done).await, again.look(pending).await), before);
    assert_eq!(again.loaded(&endpoint).await, [pending.message]);
    assert_eq!(again.lease(&endpoint).epoch.0, lease.epoch.0 + 1);
    let next = again.accept_new(again.message(&[]).await).await;
    assert!(next > pending.message, "{next:?} {pending:?}");
}

#[tokio::test]
async fn a_fresh_process_owns_nothing_and_can_take_everything() {
    let directory = tempfile::tempdir().unwrap();
    drop(Scene::new(harness(directory.path())).await);
    let store = Sqlite::open(settings(directory.path())).unwrap();
    let node = Node("second".to_owned());
    assert_eq!(store.renew(node.clone()).await.unwrap().owned, []);
    let taken = store.take(node, 64).await.unwrap();
    assert_eq!(taken.len(), 64);
    assert!(taken.iter().all(|lease| lease.epoch.0 == 2));
}

#[test]
fn a_store_of_a_later_version_is_refused_by_name_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(settings(directory.path())).unwrap());
    let file = directory.path().join("redial.db");
    let insert = "INSERT INTO schema_versions VALUES (12, 'twelfth', x''), (13, 'thirteenth', x'')";
    rusqlite::Connection::open(&file).unwrap().execute(insert, []).unwrap();
    let text = refusal(settings(directory.path()));
    assert!(text.contains("schema version 13 (`thirteenth`)"), "{text}");
    let remove = "DELETE FROM schema_versions WHERE version = 13";
    rusqlite::Connection::open(&file).unwrap().execute(remove, []).unwrap();
    drop(Sqlite::open(settings(directory.path())).unwrap());
}
