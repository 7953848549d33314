//! The store as the configuration names it: in a file, or in PostgreSQL.

use std::sync::Arc;

use anyhow::Context as _;
use store::postgres::{self, Postgres};
use store::sqlite::{self, Sqlite};
use store::{Catalog, Ledger, Queue, Vault};

use crate::clock::Clock;
use crate::config::{Configuration, Database, Hidden};
use crate::dice;

/// A store, by what it is used for.
pub(in crate::cli) struct Store {
    pub(super) catalog: Arc<dyn Catalog>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) queue: Arc<dyn Queue>,
    pub(super) vault: Arc<Vault>,
}

/// Opens it, and brings its schema up to date.
pub(in crate::cli) async fn open_store(
    configuration: &Configuration,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Store> {
    if let Some(database) = &configuration.database {
        return open_postgres(configuration, database).await;
    }
    let rows = Arc::clone(clock);
    let timeline: sqlite::Clock = Arc::new(move || rows.now());
    let mut settings = sqlite::Settings::new(&configuration.data, dice::entropy, timeline);
    settings.key = configuration.encryption_key.as_ref().map(|Hidden(key)| *key);
    settings.dead_letters_kept = configuration.retention.dead_letters;
    settings.sync_delay = configuration.sync_delay.unwrap_or_default();
    let opened = tokio::task::spawn_blocking(move || Sqlite::open(settings)).await?;
    let store = Arc::new(opened?);
    let vault = store.vault();
    let (catalog, ledger) = (Arc::clone(&store) as _, Arc::clone(&store) as _);
    Ok(Store { catalog, ledger, queue: store, vault })
}

async fn open_postgres(
    configuration: &Configuration,
    database: &Database,
) -> anyhow::Result<Store> {
    let key = configuration.encryption_key.as_ref().context("encryption_key is missing")?;
    let mut key = key.0;
    let vault = Vault::new(&mut key, dice::entropy);
    let mut settings = postgres::Settings::new(&database.url.0, vault);
    settings.listen_url = database.listen_url.as_ref().map(|Hidden(url)| url.clone());
    settings.connections = database.connections;
    settings.dead_letters_kept = configuration.retention.dead_letters;
    let store = Arc::new(Postgres::connect(settings).await?);
    let vault = store.vault();
    let (catalog, ledger) = (Arc::clone(&store) as _, Arc::clone(&store) as _);
    Ok(Store { catalog, ledger, queue: store, vault })
}
