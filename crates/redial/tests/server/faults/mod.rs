//! The whole server as a process, and what happens to it: the short forms of `examples/faults.rs`.
//! Nothing here depends on how fast the machine is.

mod rig;

use std::process::Command;
use std::time::Duration;

use rig::stops::Asked;
use rig::takeover::End;
use rig::{Ground, bad, kills, limits, restarts, stops, takeover};

/// How a process learns that it has a database of its own to restart.
const OWN_DATABASE: &str = "REDIAL_OWN_DATABASE";
/// Far more than a server needs, and far less than one body of a bad receiver.
const MUCH_MEMORY: u64 = 1 << 30;

fn ground(postgres: Option<String>) -> Ground {
    Ground { executable: env!("CARGO_BIN_EXE_redial").into(), postgres, seed: 7, keep: None }
}

fn fleet() -> Ground {
    ground(Some(testkit::database::of_tests()))
}

#[expect(clippy::disallowed_methods, reason = "the script that starts the database says so")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_a_server_is_killed() {
    let order = kills::Order { nodes: 1, cycles: 3, senders: 4, pace: Duration::from_millis(10) };
    let report = kills::run(&ground(None), order).await.unwrap();
    assert!(report.is_good() && report.findings.acknowledged > 0, "{report}");
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_servers_of_a_fleet_are_killed() {
    let order = kills::Order { nodes: 2, cycles: 3, senders: 4, pace: Duration::from_millis(20) };
    let report = kills::run(&fleet(), order).await.unwrap();
    assert!(report.is_good() && report.findings.acknowledged > 0, "{report}");
}

#[tokio::test]
async fn somebody_else_sends_for_a_server_that_is_gone() {
    let report = takeover::run(&fleet(), 1, &[End::Killed, End::Stopped]).await.unwrap();
    assert!(report.is_good() && report.longest() > Duration::ZERO, "{report}");
}

#[tokio::test]
async fn limits_hold_at_the_receiver_while_partitions_change_hands() {
    let report = limits::run(&fleet(), 1).await.unwrap();
    assert!(report.is_good(), "{report}");
}

#[tokio::test]
async fn bad_receivers_harm_neither_the_server_nor_others() {
    let order = bad::Order { span: Duration::ZERO, attempts: 2 };
    let report = bad::run(&ground(None), order).await.unwrap();
    assert!(report.is_good() && report.peak() < MUCH_MEMORY, "{report}");
}

#[tokio::test]
async fn a_server_stops_within_the_time_that_it_has_for_everything() {
    let grace = Duration::from_secs(4);
    let report = stops::run(&ground(None), grace, Asked::Once).await.unwrap();
    assert!(report.took < grace * 2, "{report}");
    assert!(report.good_end && report.files_raised, "{report}");
    assert_eq!(report.attempts, 1, "what was interrupted does not count");
}

#[tokio::test]
async fn a_server_that_is_asked_twice_stops_at_once() {
    let grace = Duration::from_secs(60);
    let report = stops::run(&ground(None), grace, Asked::Twice).await.unwrap();
    assert!(report.took < grace / 3 && !report.good_end, "{report}");
    assert_eq!(report.attempts, 1, "what was interrupted does not count");
}

#[tokio::test]
async fn a_server_whose_disk_hangs_is_gone_soon_after_its_time() {
    let (took, code) = stops::hung(&ground(None), Duration::from_secs(2)).await.unwrap();
    assert_eq!(code, Some(1));
    assert!(took < stops::HUNG / 2, "{took:?}");
}

/// The database of the other tests must go on, so this one starts another.
#[test]
fn nothing_acknowledged_is_lost_when_the_database_restarts() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/with-postgres");
    let status = Command::new(script)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "faults::a_database_is_restarted_under_its_servers", "--nocapture"])
        .env(OWN_DATABASE, "1")
        .env_remove("REDIAL_TEST_POSTGRES")
        .status();
    assert!(status.unwrap().success());
}

/// Does nothing, unless the test above started it.
#[tokio::test]
async fn a_database_is_restarted_under_its_servers() {
    if variable(OWN_DATABASE).is_none() {
        return;
    }
    let restart = variable("REDIAL_TEST_POSTGRES_RESTART").unwrap().into();
    let every = Duration::from_secs(1);
    let order = restarts::Order { restart, nodes: 2, restarts: 2, every, senders: 4 };
    let report = restarts::run(&fleet(), order).await.unwrap();
    assert!(report.is_good(), "{report}");
}
