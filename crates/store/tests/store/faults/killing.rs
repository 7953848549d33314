//! A process is killed in the middle of its work. `examples/crash.rs` does it for longer.

use std::path::Path;
use std::process::Command;

use super::work::{Backend, Cycles, work_until_killed};
use super::{damage, open};

/// How the child learns that it is one, and where to work: its session and the store's place.
const CHILD: &str = "REDIAL_KILLED_CHILD";
const CYCLES: u32 = 4;

const SQLITE: Backend = Backend {
    open: |place| {
        let opened = open(Path::new(place));
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
    let child = |session: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "faults::killing::a_child_works_until_it_is_killed"]);
        command.arg("--nocapture").env(CHILD, format!("{session} {place}"));
        command
    };
    let cycles = Cycles { backend: SQLITE, place, count: CYCLES, seed: 7, child: &child };
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

#[expect(clippy::disallowed_methods, reason = "the test's own word to its child")]
fn session() -> Option<(u32, String)> {
    let text = std::env::var(CHILD).ok()?;
    let (session, place) = text.split_once(' ')?;
    Some((session.parse().ok()?, place.to_owned()))
}
