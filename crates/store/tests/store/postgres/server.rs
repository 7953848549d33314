//! The server that the tests run on, and a schema of it for each of them.

use std::sync::atomic::{AtomicU8, Ordering};

use store::Vault;
use store::postgres::{Postgres, Settings};
use tokio_postgres::{Client, NoTls};

/// Where the server is.
pub(crate) fn url() -> String {
    told("REDIAL_TEST_POSTGRES")
}

/// Returns what the script that starts the server says about it.
#[expect(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "the script has no other way to say it"
)]
pub(crate) fn told(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "these tests need a PostgreSQL server, and {name} does not say where one is. \
             Run them as: scripts/with-postgres cargo nextest run -p redial-store"
        )
    })
}

/// Tells whether the suite is to go by way of a pooler.
#[expect(clippy::disallowed_methods, reason = "the test's own setting, not the server's")]
pub(crate) fn is_pooled() -> bool {
    std::env::var_os("REDIAL_TEST_POOLED").is_some()
}

/// Returns host and port of the server.
pub(crate) fn address() -> String {
    let url = url();
    let behind = url.split_once('@').unwrap().1;
    behind.split_once('/').unwrap().0.to_owned()
}

/// Returns the URL with another host and port.
pub(crate) fn url_with_address(address: &str) -> String {
    url().replace(&self::address(), address)
}

/// A schema of one test.
pub(crate) struct Schema {
    client: Client,
    name: String,
}

impl Schema {
    /// Creates a schema that no other test has.
    pub(crate) async fn create() -> Self {
        let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let name = "select 't_' || replace(gen_random_uuid()::text, '-', '')";
        let name: String = client.query_one(name, &[]).await.unwrap().get(0);
        client
            .batch_execute(&format!("create schema {name}; set search_path to {name}"))
            .await
            .unwrap();
        Self { client, name }
    }

    /// Opens one more connection to it.
    pub(crate) async fn beside(&self) -> Self {
        let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("set search_path to {}", self.name)).await.unwrap();
        Self { client, name: self.name.clone() }
    }

    /// Returns the URL of the schema, on this server or on what stands in front of it.
    pub(crate) fn url_at(&self, server: &str) -> String {
        self.url_with(server, "")
    }

    /// Returns the URL of the schema, with one more option for its sessions.
    pub(crate) fn url_with(&self, server: &str, option: &str) -> String {
        let name = &self.name;
        let options = format!("-csearch_path%3D{name}{option}");
        format!("{server}?options={options}&sslmode=disable&application_name={name}")
    }

    /// Opens a store in it.
    pub(crate) async fn open(&self) -> Postgres {
        Postgres::connect(self.settings(&url())).await.unwrap()
    }

    /// Returns what opening a store in it takes.
    pub(crate) fn settings(&self, server: &str) -> Settings {
        Settings::new(self.url_at(server), vault(7))
    }

    /// Ends all connections of the stores in it, as an operator or a restart does.
    pub(crate) async fn terminate(&self) {
        let statement = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{}'",
            self.name
        );
        self.client.batch_execute(&statement).await.unwrap();
    }

    /// Runs statements in it, past the store.
    pub(crate) async fn run(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    /// Returns the one text that a query in it answers with.
    pub(crate) async fn text(&self, query: &str) -> String {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }

    /// Returns the one number that a query in it answers with.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }
}

/// Makes a vault whose nonces only differ, which is enough for a test.
pub(crate) fn vault(key: u8) -> Vault {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    Vault::new(&mut [key; 32], |bytes| bytes.fill(NEXT.fetch_add(1, Ordering::Relaxed)))
}
