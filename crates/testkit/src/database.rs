//! Databases that vanish afterwards, on somebody's PostgreSQL server. What was there before is not
//! touched.

use anyhow::Context as _;
use tokio_postgres::{Client, NoTls};
use url::Url;

/// A database of our own.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    /// Makes a database on the server that a URL leads to.
    pub async fn beside(server: &str, name: &str) -> anyhow::Result<Self> {
        let mut url = Url::parse(server).context("the database's URL cannot be read")?;
        url.set_path(name);
        connect(server).await?.batch_execute(&format!("create database {name}")).await?;
        Ok(Self { server: server.to_owned(), name: name.to_owned(), url: url.into() })
    }

    /// Returns its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns how many bytes it has on disk.
    pub async fn bytes(&self) -> anyhow::Result<u64> {
        let client = connect(&self.server).await?;
        let row =
            client.query_one("select pg_database_size($1::text::name)", &[&self.name]).await?;
        Ok(u64::try_from(row.get::<_, i64>(0))?)
    }

    /// Removes it, and ends the connections that it still has.
    pub async fn remove(self) -> anyhow::Result<()> {
        let statement = format!("drop database if exists {} with (force)", self.name);
        Ok(connect(&self.server).await?.batch_execute(&statement).await?)
    }
}

/// Removes all databases whose names begin so: a run that failed leaves its own behind.
pub async fn remove_all(server: &str, beginning: &str) -> anyhow::Result<()> {
    let client = connect(server).await?;
    let statement = "select datname::text from pg_database where starts_with(datname, $1)";
    for row in client.query(statement, &[&beginning]).await? {
        let name: String = row.get(0);
        client.batch_execute(&format!("drop database if exists {name} with (force)")).await?;
    }
    Ok(())
}

/// Connects to a database.
pub async fn connect(url: &str) -> anyhow::Result<Client> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.context("cannot connect to the database")?;
    // The next statement on a broken connection fails, and says so.
    tokio::spawn(async { drop(connection.await) });
    Ok(client)
}

/// Returns the URL of the server that `scripts/with-postgres` starts for tests.
///
/// # Panics
/// If the test was started without that script.
#[expect(clippy::disallowed_methods, reason = "the script has no other way to say it")]
#[expect(clippy::expect_used, reason = "a test without its database has failed")]
pub fn of_tests() -> String {
    std::env::var("REDIAL_TEST_POSTGRES")
        .expect("run the tests with scripts/with-postgres, which starts a PostgreSQL server")
}
