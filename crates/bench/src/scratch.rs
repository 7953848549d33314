//! Where servers write: a directory that is removed afterwards, and the facts about a PostgreSQL server that
//! a report names.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use host::dice;
use testkit::database::{Database, connect};
use url::Url;

use super::shapes;
use super::subject::Postgres;

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

/// Returns how many partitions each node of a fleet owns that owns some.
pub(super) async fn shares(database: &Database) -> anyhow::Result<Vec<i64>> {
    let rows = connect(database.url()).await?.query(shapes::SHARES, &[]).await?;
    Ok(rows.iter().map(|row| row.get("owned")).collect())
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
