//! A server whose files are taken away while it runs must not acknowledge what no start would find; and
//! what it says of a file in which a migration had to change something.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::process::{Running, Server};
use super::{TOKEN, installed};

const FILES: [&str; 3] = ["redial.db", "redial.db-wal", "redial.db-shm"];

/// Asks, and returns the status, or none if nobody answers any more.
async fn ask(server: &Server, method: &str, path: &str, body: &str) -> Option<u16> {
    let place = server.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(place).await.ok()?;
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

async fn send(server: &Server) -> Option<u16> {
    ask(server, "POST", "/app/a/msg", r#"{"eventType":"x","payload":{}}"#).await
}

/// Starts a server that has taken a message in, takes something from it, and returns how it ended.
async fn ends_without(take: impl FnOnce(&Path)) -> (Option<i32>, String) {
    let server = Server::start(&[], TOKEN);
    let made = ask(&server, "POST", "/app", r#"{"name":"a","uid":"a"}"#).await;
    assert_eq!((made, send(&server).await), (Some(201), Some(202)));
    take(&server.place());
    // From the first message on, and for as long as it answers.
    assert_eq!(send(&server).await, Some(503), "{}", server.log());
    let mut health = Some(200);
    while health == Some(200) {
        health = ask(&server, "GET", "/health", "").await;
        assert_ne!(send(&server).await, Some(202), "{}", server.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(health, Some(503), "{}", server.log());
    let (status, log) = server.ends();
    (status.and_then(|status| status.code()), log)
}

#[tokio::test]
async fn a_server_whose_data_directory_is_removed_acknowledges_nothing_and_ends() {
    let (code, log) = ends_without(|place| fs::remove_dir_all(place).unwrap()).await;
    assert_eq!(code, Some(3), "{log}");
    assert!(log.contains("redial.db has gone while the server was running"), "{log}");
    assert!(log.contains("put the data directory back"), "{log}");
}

#[tokio::test]
async fn a_server_whose_database_is_replaced_leaves_the_other_one_alone() {
    let kept = tempfile::TempDir::new().unwrap();
    let backup = kept.path().join("backup");
    let (code, log) = ends_without(|place| {
        // A backup that is put back under a server that runs.
        fs::rename(place, kept.path().join("old")).unwrap();
        fs::create_dir(&backup).unwrap();
        for name in FILES {
            fs::write(backup.join(name), "a backup").unwrap();
        }
        std::os::unix::fs::symlink(&backup, place).unwrap();
    })
    .await;
    assert_eq!(code, Some(3), "{log}");
    assert!(log.contains("redial.db was replaced by another file"), "{log}");
    for name in FILES {
        assert_eq!(fs::read_to_string(backup.join(name)).unwrap(), "a backup", "{name}");
    }
}

/// What a migration writes when it changes a name.
const RENAMED: &str = "\
import sqlite3, sys
file = sqlite3.connect(sys.argv[1])
file.execute(\"INSERT INTO renamed (kind, id, old, new) VALUES (3, x'', '..', '..-renamed')\")
file.commit()
";

#[test]
fn a_name_that_a_migration_has_changed_is_told_at_the_next_start_and_not_again() {
    let told = |server: &Server| {
        let log = server.log();
        log.lines().filter(|line| line.contains("the event type was changed")).count()
    };
    let server = Server::start(&[], TOKEN);
    assert_eq!(told(&server), 0, "{}", server.log());
    let mut python = std::process::Command::new(installed("venv/bin/python"));
    python.args(["-c", RENAMED]).arg(server.place().join("redial.db"));
    let data = server.killed();
    Running::start(python).finish();
    let server = Server::start_in(data, &[], TOKEN);
    assert_eq!(told(&server), 1, "{}", server.log());
    assert!(server.log().contains("..-renamed"), "{}", server.log());
    let server = Server::start_in(server.killed(), &[], TOKEN);
    assert_eq!(told(&server), 0, "{}", server.log());
}
