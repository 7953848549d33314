//! A process is killed in the middle of its work, and so is the server it works with.
//! `examples/crash.rs` does it for longer.

use std::path::Path;
use std::process::Command;

use super::work::{Backend, Cycles, LARGE_LOG, POSTGRES, work_until_killed};
use super::{damage, open};

/// How the child learns that it is one, and where to work: its session and the store's place.
const CHILD: &str = "REDIAL_KILLED_CHILD";
/// How a process learns that it has a server of its own to restart.
const OWN_SERVER: &str = "REDIAL_OWN_SERVER";
const CYCLES: u32 = 4;

const SQLITE: Backend = Backend {
    open: |place| {
        let opened = open(Path::new(place), Some(LARGE_LOG));
        Box::pin(async { opened })
    },
    inspect: |place| {
        damage(&rusqlite::Connection::open(Path::new(place).join("redial.db")).unwrap())
    },
};

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let child = |session| child("a_child_works_until_it_is_killed", session, place);
    let (backend, restart) = (SQLITE, None);
    let cycles = Cycles { backend, place, count: CYCLES, seed: 7, restart, child: &child };
    let summary = cycles.run().await.unwrap();
    eprintln!("{summary}");
    assert!(summary.is_good() && summary.accepted > 0, "{summary}");
}

/// Does nothing, unless the test above started it.
#[tokio::test]
async fn a_child_works_until_it_is_killed() {
    if let Some((session, place)) = session() {
        work_until_killed(SQLITE, &place, session).await.unwrap();
    }
}

/// The server of the other tests must go on, so this one starts another.
#[test]
fn nothing_acknowledged_is_lost_when_postgres_crashes() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/with-postgres");
    let status = Command::new(script)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "faults::killing::a_server_is_restarted_under_its_children"])
        .arg("--nocapture")
        .env(OWN_SERVER, "1")
        .env_remove("REDIAL_TEST_POSTGRES")
        .status();
    assert!(status.unwrap().success());
}

/// Does nothing, unless the test above started it.
#[tokio::test]
async fn a_server_is_restarted_under_its_children() {
    if variable(OWN_SERVER).is_none() {
        return;
    }
    let place = variable("REDIAL_TEST_POSTGRES").unwrap();
    let program = variable("REDIAL_TEST_POSTGRES_RESTART").unwrap();
    let restart = || match Command::new(&program).status()? {
        status if status.success() => Ok(()),
        status => Err(std::io::Error::other(status.to_string())),
    };
    let child = |session| child("a_child_works_with_a_server", session, &place);
    let (backend, place, count) = (POSTGRES, &place, CYCLES);
    let cycles = Cycles { backend, place, count, seed: 7, restart: Some(&restart), child: &child };
    let summary = cycles.run().await.unwrap();
    eprintln!("{summary}");
    assert!(summary.is_good() && summary.accepted > 0 && summary.restarts > 0, "{summary}");
}

/// Does nothing, unless the test above started it.
#[tokio::test]
async fn a_child_works_with_a_server() {
    if let Some((session, place)) = session() {
        work_until_killed(POSTGRES, &place, session).await.unwrap();
    }
}

fn child(test: &str, session: u32, place: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("faults::killing::{test}"), "--nocapture"]);
    command.env(CHILD, format!("{session} {place}"));
    command
}

fn session() -> Option<(u32, String)> {
    let text = variable(CHILD)?;
    let (session, place) = text.split_once(' ')?;
    Some((session.parse().ok()?, place.to_owned()))
}

#[expect(clippy::disallowed_methods, reason = "the test's own word to its child")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
