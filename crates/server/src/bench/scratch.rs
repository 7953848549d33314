//! Places that vanish afterwards: a directory for files, and databases on somebody's PostgreSQL
//! server. Nothing that was there before is touched.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tokio_postgres::{Client, NoTls};
use url::Url;

use super::shapes;
use super::subject::Postgres;
use crate::dice;

/// A directory of our own.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes a directory inside of another one.
    pub(super) fn inside(parent: &Path) -> anyhow::Result<Self> {
        let path = parent.join(format!("redial_bench_{}", word()));
        let made = std::fs::create_dir_all(&path);
        made.with_context(|| format!("cannot write to {}", parent.display()))?;
        Ok(Self { path })
    }

    /// Returns its name, which nothing else has.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What cannot be removed now is in a directory for such things.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// A database of our own.
#[derive(Debug)]
pub(super) struct Database {
    server: String,
    name: String,
    url: String,
}

impl Database {
    /// Makes a database on the server that a URL leads to.
    pub(super) async fn beside(server: &str, name: &str) -> anyhow::Result<Self> {
        let mut url = Url::parse(server).context("the database's URL cannot be read")?;
        url.set_path(name);
        connect(server).await?.batch_execute(&format!("create database {name}")).await?;
        Ok(Self { server: server.to_owned(), name: name.to_owned(), url: url.into() })
    }

    /// Returns its URL.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns how many bytes it has on disk.
    pub(super) async fn bytes(&self) -> anyhow::Result<u64> {
        let client = connect(&self.server).await?;
        let row =
            client.query_one("select pg_database_size($1::text::name)", &[&self.name]).await?;
        Ok(u64::try_from(row.get::<_, i64>(0))?)
    }

    /// Returns how many partitions each node owns that owns some.
    pub(super) async fn shares(&self) -> anyhow::Result<Vec<i64>> {
        let rows = connect(&self.url).await?.query(shapes::SHARES, &[]).await?;
        Ok(rows.iter().map(|row| row.get("owned")).collect())
    }

    /// Removes it, together with whoever is still connected.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        let statement = format!("drop database if exists {} with (force)", self.name);
        Ok(connect(&self.server).await?.batch_execute(&statement).await?)
    }
}

/// Removes all databases whose names begin so: a scenario that failed leaves its own behind.
pub(super) async fn remove_all(server: &str, beginning: &str) -> anyhow::Result<()> {
    let client = connect(server).await?;
    let statement = "select datname::text from pg_database where starts_with(datname, $1)";
    for row in client.query(statement, &[&beginning]).await? {
        let name: String = row.get(0);
        client.batch_execute(&format!("drop database if exists {name} with (force)")).await?;
    }
    Ok(())
}

/// Asks a PostgreSQL server what it is.
pub(super) async fn about(server: &str) -> anyhow::Result<Postgres> {
    let statement = "select current_setting('server_version'), current_setting('shared_buffers')";
    let row = connect(server).await?.query_one(statement, &[]).await?;
    Ok(Postgres { version: row.get(0), shared_buffers: row.get(1) })
}

/// Returns the port of a database on this machine.
pub(super) fn local_port(server: &str) -> Option<u16> {
    let url = Url::parse(server).ok()?;
    let local = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    local.then(|| url.port().unwrap_or(5_432))
}

async fn connect(server: &str) -> anyhow::Result<Client> {
    let connected = tokio_postgres::connect(server, NoTls).await;
    let (client, connection) = connected.context("cannot connect to the database")?;
    // Its end is told to whoever asks next.
    tokio::spawn(async { drop(connection.await) });
    Ok(client)
}

/// Returns eight letters and digits that nobody else has.
fn word() -> String {
    let mut random = [0; 4];
    dice::entropy(&mut random);
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_vanishes_with_what_is_in_it() {
        let parent = tempfile::TempDir::new().unwrap();
        let directory = Directory::inside(parent.path()).unwrap();
        std::fs::write(directory.path().join("x"), "x").unwrap();
        drop(directory);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_a_database_on_this_machine_has_a_local_port() {
        assert_eq!(local_port("postgres://a@127.0.0.1:6000/b"), Some(6_000));
        assert_eq!(local_port("postgres://a@localhost/b"), Some(5_432));
        assert_eq!(local_port("postgres://a@db.example.com/b"), None);
        assert_eq!(local_port("postgres://a@%2Fvar%2Frun/b"), None);
        assert_eq!(local_port("postgres:///b?host=/var/run"), None);
    }
}
