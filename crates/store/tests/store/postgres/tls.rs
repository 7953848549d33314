//! Encrypted connections: only to a server whose certificate somebody trusted has signed, for the
//! very name that was asked for. The server of the other tests does not encrypt, so that these have
//! one of their own.

use std::path::PathBuf;
use std::process::Command;

use domain::partition::Partition;
use store::Queue;
use store::keys::Node;
use store::postgres::{Postgres, Settings};

use super::server::{Schema, told, url, vault};

/// Starts a server that encrypts, and runs the tests below on it.
#[test]
fn certificates_are_verified() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/with-postgres");
    let status = Command::new(script)
        .arg(std::env::current_exe().unwrap())
        .args(["postgres::tls::served::", "--nocapture"])
        .env("REDIAL_TEST_TLS", "1")
        .env_remove("REDIAL_TEST_POSTGRES")
        .status();
    assert!(status.unwrap().success());
}

/// What the test above runs. Each does nothing if it was not started by that.
mod served {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the script says that the server encrypts")]
    fn encrypts() -> bool {
        std::env::var_os("REDIAL_TEST_POSTGRES_CA").is_some()
    }

    fn settings(schema: &Schema, server: &str, authority: Option<&str>) -> Settings {
        let url = schema.url_at(server).replace("sslmode=disable", "sslmode=require");
        let authorities = authority.map(|name| PathBuf::from(told(name)));
        Settings { authorities, ..Settings::new(url, vault(7)) }
    }

    #[tokio::test]
    async fn a_store_works_over_connections_that_are_all_encrypted() {
        if !encrypts() {
            return;
        }
        let schema = Schema::create().await;
        let settings = settings(&schema, &url(), Some("REDIAL_TEST_POSTGRES_CA"));
        let store = Postgres::connect(settings).await.unwrap();
        let node = Node("encrypted".to_owned());
        store.renew(node.clone()).await.unwrap();
        assert_eq!(store.take(node, 64).await.unwrap().len(), 64);
        assert_eq!(store.waiting(Partition::all().collect()).await.unwrap(), []);
        // Those of the store have the schema's name; one of them listens.
        let name = schema.text("select current_schema()::text").await;
        let connections = format!(
            "from pg_stat_ssl join pg_stat_activity using (pid) where application_name = '{name}'"
        );
        let plain = format!("select count(*) {connections} and not ssl");
        let encrypted = format!("select count(*) {connections} and ssl and version >= 'TLSv1.2'");
        assert_eq!(schema.number(&plain).await, 0);
        assert!(schema.number(&encrypted).await >= 2);
    }

    #[tokio::test]
    async fn a_certificate_that_nobody_trusted_has_signed_is_refused() {
        if !encrypts() {
            return;
        }
        let schema = Schema::create().await;
        for authority in [None, Some("REDIAL_TEST_POSTGRES_STRANGER")] {
            let refused = Postgres::connect(settings(&schema, &url(), authority)).await;
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("certificate"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_certificate_for_another_name_is_refused() {
        if !encrypts() {
            return;
        }
        let schema = Schema::create().await;
        // The name is wrong, the address is right.
        let server = url().replace("127.0.0.1", "database.example");
        let mut settings = settings(&schema, &server, Some("REDIAL_TEST_POSTGRES_CA"));
        settings.url.push_str("&hostaddr=127.0.0.1");
        let text = Postgres::connect(settings).await.unwrap_err().to_string();
        assert!(text.contains("certificate"), "{text}");
    }

    #[tokio::test]
    async fn a_file_without_authorities_is_refused() {
        if !encrypts() {
            return;
        }
        let schema = Schema::create().await;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("empty.pem");
        std::fs::write(&file, "nothing").unwrap();
        let settings = Settings { authorities: Some(file), ..settings(&schema, &url(), None) };
        let text = Postgres::connect(settings).await.unwrap_err().to_string();
        assert!(text.contains("empty.pem") && text.contains("authority"), "{text}");
    }
}
