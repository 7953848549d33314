//! A running server as others call it: with the published SDKs, and with what the README says.
//!
//! The scripts are in `tests/sdk`. They play sender and receiver, and judge the answers themselves;
//! here they are only started, waited for, and quoted if they fail. `scripts/install-oracles` fetches
//! what they import. If that is missing the tests fail: a test that skips itself proves nothing.

pub(crate) mod database;
mod files;
mod process;
mod readme;
pub(crate) mod receiver;
mod rust_pages;
mod rust_tour;
mod schemathesis;

use std::path::{Path, PathBuf};
use std::process::Command;

use database::Database;
use process::{Running, Server};
use rust_tour::Tour;
use testkit::server::free_ports;

const TOKEN: &str = "a-token-for-the-tour-of-an-sdk";

fn oracles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oracles")
}

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk").join(name)
}

/// Returns a path below the oracles, which must be there.
fn installed(path: &str) -> PathBuf {
    let whole = oracles().join(path);
    assert!(whole.exists(), "{} is missing: run scripts/install-oracles", whole.display());
    whole
}

/// Returns the Python of the oracles, with one version of the SDK.
pub(crate) fn python(major: u8) -> Command {
    let mut command = Command::new(installed("venv/bin/python"));
    command
        .env("PYTHONPATH", installed(&format!("svix-{major}")))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SVIX_MAJOR", major.to_string());
    command
}

/// Runs a tour against a server of its own, to its end.
fn tour(mut command: Command) {
    let server = Server::start(&["--allow-egress", "127.0.0.0/8"], TOKEN);
    command
        .env("URL", server.url())
        .env("TOKEN", TOKEN)
        .env("RECEIVER_PORT", free_ports::<1>().unwrap()[0].to_string());
    let (status, out) = Running::start(command).end();
    let worked = status.is_some_and(|it| it.success()) && out.ends_with("done\n");
    assert!(worked, "the tour ended with {status:?}:\n{out}\nthe server said:\n{}", server.log());
}

#[test]
fn the_python_sdk_1_works_unchanged() {
    let mut command = python(1);
    command.arg(script("sdk_tour.py"));
    tour(command);
}

#[test]
fn the_python_sdk_2_works_unchanged() {
    let mut command = python(2);
    command.arg(script("sdk_tour.py"));
    tour(command);
}

#[test]
fn the_javascript_sdk_works_unchanged() {
    installed("node_modules/svix");
    let mut command = Command::new("node");
    command.arg(script("sdk_tour.mjs")).env("ORACLES", oracles());
    tour(command);
}

#[tokio::test]
async fn the_rust_sdk_works_unchanged() {
    go_round(Tour::start().await).await;
}

#[tokio::test]
async fn the_rust_sdk_works_unchanged_on_postgresql() {
    let database = Database::create("tour").await;
    go_round(Tour::start_with(&database.options()).await).await;
}

async fn go_round(tour: Tour) {
    tour.create().await;
    tour.upsert().await;
    tour.event_types().await;
    tour.sending().await;
    tour.pages().await;
    tour.filters().await;
    tour.retry_and_resend().await;
    tour.recover().await;
    tour.replay_missing().await;
    tour.headers().await;
    tour.rotate().await;
    tour.delete().await;
}
