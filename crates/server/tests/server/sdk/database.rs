//! A database of a test's own, on the PostgreSQL server that `scripts/with-postgres` starts.

use tokio_postgres::NoTls;

/// A database that is there for one test. The server goes away with all of them.
pub(super) struct Database {
    options: [String; 2],
}

impl Database {
    #[expect(clippy::disallowed_methods, reason = "the script has no other way to say it")]
    pub(super) async fn create(name: &str) -> Self {
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
        let key = "encryption_key=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
        Self { options: [format!("--database={own}"), format!("--set={key}")] }
    }

    /// Returns what `redial serve` is told.
    pub(super) fn options(&self) -> [&str; 2] {
        self.options.each_ref().map(String::as_str)
    }
}
