//! `redial doctor` finds what is wrong and changes nothing; `redial migrate` changes what it says.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::Running;
use super::commands::redial;
use crate::sdk::database::Database;

/// Where nothing listens.
const NOWHERE: &str = "127.0.0.1:1";
/// Whoever opens a range may do without name servers, as the machines of tests may have to.
const OPENED: [&str; 2] = ["--allow-egress", "127.0.0.0/8"];

/// What a doctor said.
struct Diagnosis {
    code: Option<i32>,
    findings: Value,
}

impl Diagnosis {
    async fn of(arguments: &[&str]) -> Self {
        let seen = redial(&[&["doctor", "--json"], &OPENED[..], arguments].concat()).await;
        let findings = serde_json::from_str(&seen.out);
        let findings = findings.unwrap_or_else(|_| panic!("{}{}", seen.out, seen.err));
        Self { code: seen.code, findings }
    }

    #[track_caller]
    fn about(&self, subject: &str) -> (&str, &str) {
        let all = self.findings.as_array().unwrap();
        let found = all.iter().find(|it| it["subject"] == subject);
        let found = found.unwrap_or_else(|| panic!("nothing about {subject}: {:#}", self.findings));
        (found["state"].as_str().unwrap(), found["text"].as_str().unwrap())
    }

    /// Makes sure that nothing is wrong.
    #[track_caller]
    fn well(&self) {
        assert_eq!(self.code, Some(0), "{:#}", self.findings);
    }

    /// Makes sure that something is wrong, and that it is said how.
    #[track_caller]
    fn ill(&self, subject: &str, text: &str) {
        let (state, told) = self.about(subject);
        assert_eq!((state, self.code), ("error", Some(1)), "{:#}", self.findings);
        assert!(told.contains(text), "{told}");
    }
}

/// Lists what is in a directory, with sizes and times of change.
fn contents(directory: &Path) -> BTreeSet<(PathBuf, u64, std::time::SystemTime)> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let facts = entries.map(|entry| {
        let metadata = entry.metadata().unwrap();
        (entry.path(), metadata.len(), metadata.modified().unwrap())
    });
    facts.collect()
}

#[tokio::test]
async fn a_doctor_finds_what_is_there_and_makes_nothing() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data").display().to_string();
    let file = directory.path().join("redial.toml");
    let text = format!("data = \"{data}\"\nlisten = \"{NOWHERE}\"\n");
    fs::write(&file, text).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let seen = Diagnosis::of(&config).await;
    seen.well();
    assert_eq!((seen.about("store").0, seen.about("server").0), ("ok", "warning"));
    assert!(!Path::new(&data).exists());
    let migrated = redial(&[&["migrate"], &config[..]].concat()).await;
    assert_eq!((migrated.code, migrated.err.as_str()), (Some(0), "the schema is up to date\n"));
    assert!(Path::new(&data).join("redial.db").exists());
    fs::write(&file, "lissen = 1\n").unwrap();
    let refused = redial(&[&["doctor"], &config[..]].concat()).await;
    assert_eq!(refused.code, Some(2), "{}", refused.err);
}

#[tokio::test]
async fn a_server_that_runs_is_looked_at_and_not_disturbed() {
    let server = Running::start().await;
    let app = server.application().await;
    server.message(&app).await;
    let data = server.data().display().to_string();
    let place = server.address().strip_prefix("http://").unwrap();
    let seen = Diagnosis::of(&["--data", &data, "--listen", place]).await;
    seen.well();
    let (state, text) = seen.about("store");
    assert_eq!(state, "ok");
    assert!(text.contains(&format!("in use by process {}", std::process::id())), "{text}");
    assert!(text.ends_with("sound"), "{text}");
    for subject in ["schema", "encryption key", "key file", "clock", "server"] {
        assert_eq!(seen.about(subject).0, "ok", "{subject}");
    }
    server.message(&app).await;
}

#[tokio::test]
async fn a_server_that_shows_its_figures_is_asked_for_damaged_rows() {
    let server = Running::with(&[("metrics.listen", "127.0.0.1:0")]).await;
    let data = server.data().display().to_string();
    let place = server.address().strip_prefix("http://").unwrap();
    let figures = format!("metrics.listen={}", server.others().1.unwrap());
    let seen = Diagnosis::of(&["--data", &data, "--listen", place, "--set", &figures]).await;
    seen.well();
    assert_eq!(seen.about("damaged rows").0, "ok");
}

#[tokio::test]
async fn what_is_wrong_with_a_store_in_a_file_is_found() {
    let mut server = Running::start().await;
    server.application().await;
    server.stop().await;
    let data = server.data();
    let text = data.display().to_string();
    let ask = async |more: &[&str]| {
        Diagnosis::of(&[&["--data", &text, "--listen", NOWHERE], more].concat()).await
    };
    // The store lets go of its files a moment after the server has ended.
    let mut before = contents(&data);
    for _ in 0..100 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let now = contents(&data);
        if now == before && !now.iter().any(|(path, ..)| path.ends_with("redial.db-wal")) {
            break;
        }
        before = now;
    }
    let seen = ask(&[]).await;
    seen.well();
    assert!(!seen.about("store").1.contains("in use"), "{:#}", seen.findings);
    assert_eq!(contents(&data), before, "looking leaves nothing behind");
    let key = "encryption_key=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    ask(&["--set", key]).await.ill("encryption key", "was made with another key");
    let (key, aside) = (data.join("redial.key"), data.join("aside"));
    fs::rename(&key, &aside).unwrap();
    ask(&[]).await.ill("encryption key", "restore it from a backup");
    fs::rename(&aside, &key).unwrap();
    let mut permissions = fs::metadata(&key).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o644);
    fs::set_permissions(&key, permissions).unwrap();
    ask(&[]).await.ill("key file", "chmod 600");
    let mut file = fs::OpenOptions::new().write(true).open(data.join("redial.db")).unwrap();
    // Some pages behind the first few, which hold the schema.
    file.seek(SeekFrom::Start(4_096 * 4)).unwrap();
    file.write_all(&[0xa5; 4_096 * 6]).unwrap();
    ask(&[]).await.ill("store", "restore a backup");
}

#[tokio::test]
async fn a_database_is_really_asked() {
    let database = Database::create("doctor").await;
    let [url, key] = database.options();
    let ask =
        async |options: &[&str]| Diagnosis::of(&[options, &["--listen", NOWHERE]].concat()).await;
    let empty = ask(&[url, key]).await;
    empty.well();
    assert!(empty.about("schema").1.contains("redial migrate"), "{:#}", empty.findings);
    let migrated = redial(&["migrate", url, key]).await;
    assert_eq!(migrated.code, Some(0), "{}", migrated.err);
    let seen = ask(&[url, key]).await;
    seen.well();
    assert!(seen.about("store").1.starts_with("PostgreSQL 1"), "{:#}", seen.findings);
    for subject in ["store", "schema", "encryption key", "clocks", "clock"] {
        assert_eq!(seen.about(subject).0, "ok", "{subject}");
    }
    assert!(seen.about("schema").1.contains("this version's"), "{:#}", seen.findings);
    let other = "--set=encryption_key=MTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    ask(&[url, other]).await.ill("encryption key", "configure the key it was created with");
    let nobody = "--database=postgres://redial:secret@127.0.0.1:1/redial";
    let seen = ask(&[nobody, key]).await;
    seen.ill("store", "check database");
    assert!(!seen.findings.to_string().contains("secret"), "{:#}", seen.findings);
}

#[tokio::test]
async fn the_way_out_is_looked_at() {
    let ask =
        async |options: &[&str]| Diagnosis::of(&[options, &["--listen", NOWHERE]].concat()).await;
    let seen = ask(&["--url", "https://127.0.0.1:9000/hook"]).await;
    seen.well();
    assert!(seen.about("egress").1.contains("127.0.0.0/8"), "{:#}", seen.findings);
    assert!(seen.about("url").1.contains("127.0.0.1:9000"), "{:#}", seen.findings);
    ask(&["--url", "https://10.0.0.1/hook"]).await.ill("url", "10.0.0.0/8");
    let proxy = ["--set", "egress.proxy=127.0.0.1:1"];
    ask(&proxy).await.ill("proxy", "correct egress.proxy");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("egress.proxy={}", listener.local_addr().unwrap());
    ask(&["--set", &proxy]).await.well();
}
