//! Whether a server says that it can be sent messages: exactly while it can take them in.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::commands::{listening, redial};
use super::{ADMIN, Answered, Running};

/// A server as a process of its own, whose files may be kept from growing, or from being written to.
struct Limited {
    server: Running,
    child: Child,
    data: String,
}

impl Limited {
    fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data").display().to_string();
        let mut command = Command::new("sh");
        // The limit is told by an error then, as a full disk is, and not by a signal.
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_redial")]);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", &data]);
        command.args(["--set", &format!("admin_token={ADMIN}")]).current_dir(directory.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let address = listening(child.stdout.take().unwrap());
        Self { server: Running::at(address, directory), child, data }
    }

    /// Sets how large a file may become.
    fn limit(&self, current: Option<u64>) {
        let limit = Rlimit { current, maximum: None };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit).unwrap();
    }

    /// Asks again and again until the server is ready, or is not.
    async fn becomes(&self, ready: bool) -> Answered {
        for _ in 0..400 {
            let health = self.server.get("/health").await;
            if health.status.is_success() == ready {
                return health;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("it does not become {}", if ready { "ready" } else { "unready" });
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
        drop(self.child.wait());
    }
}

fn parts(health: &Answered) -> [Value; 2] {
    let health = health.json();
    ["database", "queue"].map(|part| health[part]["status"].clone())
}

#[tokio::test]
async fn a_server_that_cannot_write_is_not_ready_until_it_can_again() {
    let limited = Limited::start();
    let server = &limited.server;
    let app = server.application().await;
    let send = async || {
        let body = json!({ "eventType": "a.b", "payload": {} });
        server.post(&format!("/app/{app}/msg"), body).await.status.as_u16()
    };
    for sends in [true, false] {
        limited.becomes(true).await;
        assert_eq!(send().await, 202);
        limited.limit(Some(1));
        if sends {
            assert_eq!(send().await, 503);
        }
        // Without a message it finds out by itself.
        let health = limited.becomes(false).await;
        assert_eq!(health.status, 503, "{}", health.text);
        assert_eq!(parts(&health), ["ok", "error"], "what is there can still be read");
        assert_eq!(send().await, 503);
        assert!(!server.get("/health").await.status.is_success());
        let address = server.address().strip_prefix("http://").unwrap();
        let doctor = ["doctor", "--data", &limited.data, "--listen", address, "--json"];
        let seen = redial(&doctor).await;
        let said: Value = serde_json::from_str(&seen.out).unwrap();
        let of = |subject| said.as_array().unwrap().iter().find(|it| it["subject"] == subject);
        assert_eq!((&of("server").unwrap()["state"], seen.code), (&json!("error"), Some(1)));
        assert!(of("disk").unwrap()["text"].as_str().unwrap().contains("free for"), "{said:#}");
        limited.limit(None);
    }
    limited.becomes(true).await;
    assert_eq!(send().await, 202);
}

#[tokio::test]
async fn a_server_without_room_for_the_largest_message_is_not_ready() {
    // No disk has so much.
    let server = Running::with(&[("limits.body_bytes", "8000000GiB")]).await;
    let health = server.get("/health").await;
    assert_eq!(health.status, 503, "{}", health.text);
    assert_eq!(parts(&health), ["ok", "error"]);
}
