//! Proxies that the environment names are for other programs: a server that used one would send past
//! its own guard.

use std::process::Child;

use redial::process::{Launch, free_port};
use serde_json::json;
use tempfile::TempDir;

use crate::api::{ADMIN, Running};
use crate::sdk::receiver::{Receiver, eventually};

use super::scene::closed_port;

/// A process that ends with the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn a_proxy_in_the_environment_is_not_used() {
    let nobody = format!("http://{}", closed_port().await);
    let names =
        ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let launch = Launch {
        executable: env!("CARGO_BIN_EXE_redial").into(),
        database: None,
        token: ADMIN,
        settings: names.into_iter().map(|name| (name, nobody.clone())).collect(),
    };
    let (directory, port) = (TempDir::new().unwrap(), free_port().unwrap());
    let _server = Ending(launch.spawn(directory.path(), port).unwrap());
    eventually("the server listens", async || {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()
    })
    .await;
    let (receiver, server) =
        (Receiver::start().await, Running::at(format!("http://127.0.0.1:{port}"), directory));
    let application = server.application().await;
    let endpoint = json!({ "url": receiver.url("direct") });
    server.post(&format!("/app/{application}/endpoint"), endpoint).await.expect(201);
    let message = server.message(&application).await;
    receiver.wait("direct", &message, 1).await;
}
