//! The commands around the server: `serve`, `token`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{ADMIN, Running};
use crate::binary::Finished;

/// Runs the binary in an empty directory, without blocking the server in the same process.
pub(super) async fn redial(arguments: &[&str]) -> Finished {
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let run = move || {
        let directory = TempDir::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        let output = command.args(arguments).current_dir(directory.path()).output().unwrap();
        Finished {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Reads what a server prints until it says where it listens.
pub(super) fn listening(out: std::process::ChildStdout) -> String {
    let mut lines = BufReader::new(out).lines().map(Result::unwrap);
    let address = lines.find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
    address.expect("it says where it listens")
}

#[tokio::test]
async fn a_token_is_made_listed_and_revoked_over_the_api() {
    let server = Running::start().await;
    let app = server.application().await;
    let place = ["--server", server.address(), "--token", ADMIN];
    let run = async |arguments: &[&str]| redial(&[arguments, &place].concat()).await;
    let made = run(&["token", "create", "robot", "--application", &app, "--lasts", "90d"]).await;
    assert_eq!(made.code, Some(0), "{}", made.err);
    let token = made.out.trim();
    let path = format!("/app/{app}");
    let works = async || server.ask(token, http::Method::GET, &path, &Value::Null).await.status;
    assert_eq!(works().await, 200);
    let listed = run(&["token", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["appId"]), (&"robot".into(), &app.clone().into()));
    let shown = run(&["token", "list"]).await.out;
    assert!(shown.contains("robot") && !shown.contains(token), "{shown}");
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(run(&["token", "revoke", id]).await.code, Some(0));
    assert_eq!(works().await, 401);
    let nobody = run(&["token", "revoke", "nobody"]).await;
    assert_eq!((nobody.code, nobody.err.contains("404")), (Some(1), true), "{}", nobody.err);
}

#[test]
fn the_first_start_says_where_it_is_and_shows_the_token_once() {
    let directory = TempDir::new().unwrap();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
        let mut child =
            command.current_dir(directory.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let who = out.next().unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::TERM).unwrap();
        let lines: Vec<String> = [who].into_iter().chain(out).collect();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        lines
    };
    let first = start();
    assert_eq!(first[0], concat!("redial ", env!("CARGO_PKG_VERSION")));
    assert!(first[1].starts_with("listening on http://127.0.0.1:"), "{first:?}");
    let has = |text: &str| first.iter().any(|line| line.starts_with(text));
    assert!(has("the API is described at http://") && has("data is in data"), "{first:?}");
    assert!(has("admin token, shown this once: rdl_"), "{first:?}");
    assert!(first.last().unwrap().starts_with("next: keep that token"), "{first:?}");
    let second = start();
    assert!(!second.iter().any(|line| line.contains("rdl_")), "{second:?}");
}

#[tokio::test]
async fn a_server_that_logs_goes_on_answering() {
    let directory = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", "data", "--set"]);
    command.arg(format!("admin_token={ADMIN}")).current_dir(directory.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let address = listening(child.stdout.take().unwrap());
    let server = Running::at(address, directory);
    let app = server.application().await;
    // Refusing a URL is logged, for the operator.
    let endpoint = serde_json::json!({ "url": "https://10.0.0.1/" });
    let answered = server.post(&format!("/app/{app}/endpoint"), endpoint).await;
    answered.refused(400, "destination_not_allowed");
    server.get(&format!("/app/{app}")).await.expect(200);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("10.0.0.1 is in 10.0.0.0/8") && !log.contains(ADMIN), "{log}");
}

#[tokio::test]
async fn a_server_whose_log_cannot_be_written_goes_on_answering() {
    let directory = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_redial"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", "data", "--set"]);
    command.arg(format!("admin_token={ADMIN}")).current_dir(directory.path());
    // Whatever is written there finds no space.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(full).spawn().unwrap();
    let address = listening(child.stdout.take().unwrap());
    let server = Running::at(address, directory);
    let app = server.application().await;
    // Refusing a URL is logged, for the operator.
    let endpoint = serde_json::json!({ "url": "https://10.0.0.1/" });
    let answered = server.post(&format!("/app/{app}/endpoint"), endpoint).await;
    answered.refused(400, "destination_not_allowed");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
