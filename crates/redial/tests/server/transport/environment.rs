//! Proxies that the environment names are for other programs: a server that used one would send past
//! its own guard.

use serde_json::json;
use tempfile::TempDir;
use testkit::server::{Launch, Server, free_ports};

use crate::api::{ADMIN, Running};
use crate::sdk::receiver::Receiver;

use super::scene::closed_port;

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
    let (directory, [port]) = (TempDir::new().unwrap(), free_ports().unwrap());
    let _server = Server::start(launch, directory.path().to_owned(), port).await.unwrap();
    let (receiver, server) =
        (Receiver::start().await, Running::at(format!("http://127.0.0.1:{port}"), directory));
    let application = server.application().await;
    let endpoint = json!({ "url": receiver.url("direct") });
    server.post(&format!("/app/{application}/endpoint"), endpoint).await.expect(201);
    let message = server.message(&application).await;
    receiver.wait("direct", &message, 1).await;
}
