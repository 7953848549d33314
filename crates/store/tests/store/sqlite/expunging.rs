//! What is expunged is not in the files any more.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use domain::ids::MessageId;
use domain::time::Timestamp;
use store::catalog::Application;
use store::conformance::{Handle, Harness, NOW, Scene, long_ago};
use store::queue::{Accept, Accepted, Done, NextState, Upkeep};
use store::sqlite::{Settings, Sqlite};

use super::{Arc, Pass, harness, settings};

/// Opens a store whose clock goes on when it is told to.
async fn scene(directory: &Path, now: &Arc<AtomicI64>) -> Scene {
    let now = Arc::clone(now);
    let clock = move || Timestamp::from_micros(now.load(Ordering::Relaxed));
    let settings = Settings { clock: Arc::new(clock), ..settings(directory) };
    let pass: Pass = Box::new(|_| Box::pin(async { Ok(()) }));
    let store = Handle::new(Arc::new(Sqlite::open(settings).unwrap()));
    Scene::new(Harness::alone(store, pass)).await
}

/// Tells in which files of a directory some bytes are.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

/// Lets time pass, and pruning come by. The log is emptied once a second, and not while somebody reads
/// it: later steps make up for it.
async fn go_on(scene: &Scene, now: &AtomicI64) {
    for _ in 0..20 {
        now.fetch_add(2_000_000, Ordering::Relaxed);
        while scene.keep_up(Upkeep::Prune { now: NOW, most: 200 }).await != Done::Changed(0) {}
    }
}

#[tokio::test]
async fn what_was_expunged_is_neither_in_the_file_nor_in_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(NOW.as_micros()));
    let scene = scene(directory.path(), &now).await;
    let endpoint = scene.endpoint().await;
    let (mut expunged, mut texts) = (Vec::new(), Vec::new());
    // Large ones are on pages of their own, small ones on pages that they share.
    for (number, length) in [(0, 200), (1, 3_000), (2, 100_000), (3, 900_000)] {
        for beside in ["before", "expunged", "after"] {
            let text = format!("{beside} number {number}");
            let mut accept = scene.message(&[&endpoint]).await;
            accept.message.payload = Bytes::from(text.repeat(length / text.len()));
            let message = scene.accept_new(accept).await;
            if beside == "expunged" {
                expunged.push(message);
                texts.push(text);
            }
        }
    }
    let key = scene.key(&endpoint, expunged[0]);
    let mut settle = scene.settling(key, 0, NextState::Delivered).await;
    let (attempt, said) = (settle.attempt.id, "what the receiver said".to_owned());
    settle.attempt.response_body = Bytes::from(said.clone());
    scene.settle_one(settle).await;
    assert!(!files_with(directory.path(), &said).is_empty());
    let ledger = &scene.store().ledger;
    ledger.expunge_attempt(key, attempt).await.unwrap();
    texts.push(said);
    for message in expunged {
        ledger.expunge(scene.application.key, message, NOW).await.unwrap();
    }
    go_on(&scene, &now).await;
    for text in &texts {
        assert_eq!(files_with(directory.path(), text), [""; 0], "{text}");
    }
    assert_eq!(files_with(directory.path(), "before number 0"), ["redial.db"]);
    drop(scene);
    for text in &texts {
        assert_eq!(files_with(directory.path(), text), [""; 0], "{text}");
    }
}

/// A page that loses most of its rows is merged with its neighbours, and the page that becomes free
/// keeps a copy of what was on it.
#[tokio::test]
async fn what_was_expunged_is_not_in_pages_that_became_free_before() {
    let directory = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicI64::new(NOW.as_micros()));
    let scene = scene(directory.path(), &now).await;
    let (own, other) = (scene.application.clone(), scene.another_application().await);
    let mut expunged = Vec::new();
    let template = scene.message(&[]).await;
    let of = |whose: &Application, text: &str, length: usize| {
        let (application, revision) = (whose.key, whose.revision);
        let mut accept = Accept { application, revision, ..scene.again(&template) };
        accept.message.payload = Bytes::from(text.repeat(length / text.len()));
        accept
    };
    for number in 0..300 {
        let length = [200, 600, 1_500][number % 3];
        let beside = |_: usize| of(&other, "other", length);
        let mut seven: Vec<_> = (0..6).map(beside).collect();
        seven.insert(3, of(&own, "expunged", length));
        let answers = scene.accept(seven).await;
        let Accepted::New { message, .. } = answers[3] else { panic!("{answers:?}") };
        expunged.push(message);
    }
    scene.store().catalog.delete_application(other.key, long_ago()).await.unwrap();
    go_on(&scene, &now).await;
    for message in expunged {
        scene.store().ledger.expunge(own.key, message, NOW).await.unwrap();
    }
    go_on(&scene, &now).await;
    assert_eq!(files_with(directory.path(), "expunged"), [""; 0]);
}

#[tokio::test]
async fn what_a_killed_process_expunged_is_gone_when_its_files_are_opened() {
    let directory = tempfile::tempdir().unwrap();
    let scene = Scene::new(harness(directory.path())).await;
    let mut accept = scene.message(&[]).await;
    accept.message.payload = Bytes::from_static(b"what was expunged");
    let in_file = scene.accept_new(accept.clone()).await;
    drop(scene);
    // The clock stands still, so that the log is not emptied again after the store was opened.
    let scene = Scene::new(harness(directory.path())).await;
    accept.message.id = MessageId::new(NOW, [9; 16]);
    let in_log = scene.accept_new(accept).await;
    for message in [in_file, in_log] {
        scene.store().ledger.expunge(scene.application.key, message, NOW).await.unwrap();
    }
    let left = tempfile::tempdir().unwrap();
    for name in ["redial.db", "redial.db-wal", "redial.key"] {
        fs::copy(directory.path().join(name), left.path().join(name)).unwrap();
    }
    let mut found = files_with(left.path(), "what was expunged");
    found.sort_unstable();
    assert_eq!(found, ["redial.db", "redial.db-wal"]);
    let _opened = Sqlite::open(settings(left.path())).unwrap();
    assert_eq!(files_with(left.path(), "what was expunged"), [""; 0]);
}
