//! Where stores are: directories below one, or schemas of a database.

use std::path::PathBuf;
use std::sync::Arc;

use store::conformance::Handle;
use store::postgres::Postgres;
use store::sqlite::Sqlite;
use store::{Error, Vault};
use tokio_postgres::{Client, NoTls};

/// A place for a store.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A directory.
    Sqlite(PathBuf),
    /// A URL.
    Postgres(String),
}

impl Place {
    /// Reads what the command line says.
    pub(crate) fn named(store: &str, directory: Option<String>) -> Result<Self, String> {
        match (store, directory) {
            ("sqlite", Some(directory)) => Ok(Self::Sqlite(directory.into())),
            ("sqlite", None) => Err("say where: --place DIRECTORY".to_owned()),
            ("postgres", Some(url)) => Ok(Self::Postgres(url)),
            ("postgres", None) => served().map(Self::Postgres),
            (other, _) => Err(format!("there is no store `{other}`")),
        }
    }

    /// Returns an empty place in it.
    pub(crate) async fn at(&self, name: &str) -> Result<Self, Error> {
        match self {
            Self::Sqlite(directory) => {
                let directory = directory.join(name);
                // What an earlier run left there is in the way.
                drop(std::fs::remove_dir_all(&directory));
                Ok(Self::Sqlite(directory))
            }
            Self::Postgres(url) => {
                let client = client(&format!("{url}?sslmode=disable")).await?;
                let text = format!(
                    "drop schema if exists place_{name} cascade; create schema place_{name}"
                );
                client.batch_execute(&text).await.map_err(failed)?;
                Ok(Self::Postgres(format!(
                    "{url}?sslmode=disable&options=-csearch_path%3Dplace_{name}"
                )))
            }
        }
    }

    /// Opens the store there.
    pub(crate) async fn open(&self) -> Result<Handle, Error> {
        match self {
            Self::Sqlite(directory) => {
                let clock = Arc::new(crate::moment);
                let settings = store::sqlite::Settings::new(directory, entropy, clock);
                Ok(Handle::new(Arc::new(Sqlite::open(settings)?)))
            }
            Self::Postgres(url) => {
                let vault = Vault::new(&mut [7; 32], entropy);
                let settings = store::postgres::Settings::new(url, vault);
                Ok(Handle::new(Arc::new(Postgres::connect(settings).await?)))
            }
        }
    }
}

/// Connects past the store.
pub(crate) async fn client(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

/// Wraps an error of the database.
pub(crate) fn failed(error: tokio_postgres::Error) -> Error {
    Error::unavailable("PostgreSQL said no", error)
}

#[expect(clippy::disallowed_methods, reason = "the script that starts the server says where it is")]
fn served() -> Result<String, String> {
    std::env::var("REDIAL_TEST_POSTGRES").map_err(|_| {
        "run it as: scripts/with-postgres …, or say where: --place URL (without options)".to_owned()
    })
}

/// Bytes that are never the same twice; nothing here is secret.
fn entropy(bytes: &mut [u8]) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for chunk in bytes.chunks_mut(8) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        chunk.copy_from_slice(&number[..chunk.len()]);
    }
}
