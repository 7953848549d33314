//! A database of a test's own, on the PostgreSQL server that `scripts/with-postgres` starts.

use tokio_postgres::NoTls;

/// What seals secrets in it.
pub(crate) const KEY: [u8; 32] = *b"0123456789abcdef0123456789abcdef";
const KEY_TEXT: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A database that is there for one test. The server goes away with all of them.
pub(crate) struct Database {
    url: String,
    options: [String; 2],
}

impl Database {
    #[expect(clippy::disallowed_methods, reason = "the script has no other way to say it")]
    pub(crate) async fn create(name: &str) -> Self {
        let url = std::env::var("REDIAL_TEST_POSTGRES")
            .expect("run the tests with scripts/with-postgres, which starts a PostgreSQL server");
        let name = format!("redial_{name}_{}", std::process::id());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let driven = tokio::spawn(connection);
        client.batch_execute(&format!("create database {name}")).await.unwrap();
        drop(client);
        driven.await.unwrap().unwrap();
        let mut own: url::Url = url.parse().unwrap();
        own.set_path(&name);
        let options = [format!("--database={own}"), format!("--set=encryption_key={KEY_TEXT}")];
        Self { url: own.into(), options }
    }

    /// Returns where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns what `redial serve` is told.
    pub(crate) fn options(&self) -> [&str; 2] {
        self.options.each_ref().map(String::as_str)
    }

    /// Returns the same as settings.
    pub(crate) fn settings(&self) -> [(&str, &str); 2] {
        [("database", self.url.as_str()), ("encryption_key", KEY_TEXT)]
    }
}
