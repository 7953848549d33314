//! Everything in PostgreSQL, shared by any number of nodes.
//!
//! # Layout
//! Outside of `io` each path is here as it is in the store in a file.
//! - `queue`, `upkeep`: the three lanes of a batch, each a transaction on a connection of its own;
//!   loading, leases
//! - `catalog`, `ledger`: what people set up and look at
//! - `row`, `page`: values and lists as they are stored; `failure`: errors
//! - `migrate`: the schema; `plans`: how its statements are carried out
//! - [`Bare`]: the yardstick for benchmarks; [`inspect`]: a look from outside
//! - `io`: connections, other nodes, and batches as columns
//!
//! # Poolers
//! Everything but LISTEN works through a pooler that hands out connections by transaction: no
//! statement is prepared by name, and nothing is set for longer than a transaction. Such a pooler
//! needs [`Settings::listen_url`] to lead past it, or nodes find each other's work by looking.
//!
//! # Fencing
//! What an owner writes is written by statements that lock its partitions `FOR SHARE` where the
//! epoch is its own, and touch only rows joined to them. A take-over needs the same rows
//! `FOR UPDATE`. So nothing commits under an epoch that is not current at the commit.

mod bare;
mod catalog;
mod failure;
mod inspect;
mod io;
mod ledger;
mod migrate;
mod page;
#[cfg(test)]
mod plans;
mod queue;
mod row;
mod upkeep;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_postgres::Row;

pub use self::bare::Bare;
use self::failure::Failure;
pub use self::inspect::{Inspection, inspect};
use self::io::link::{Access, Parameter, Pool, Transaction};
use self::io::loading::Loads;
use self::io::tls::Connector;
use self::io::wake::Wake;
use crate::damage::Notes;
use crate::turns::Turns;
use crate::{Answer, Error, Vault, limits};

/// How many connections look up single rows.
const URGENT: usize = 2;

/// How a store in PostgreSQL is opened.
#[derive(Debug)]
pub struct Settings {
    /// Where the database is.
    pub url: String,
    /// Where to listen for other nodes, if not at the same place.
    pub listen_url: Option<String>,
    /// A PEM file with the authorities whose certificates are trusted, instead of the system's.
    pub authorities: Option<PathBuf>,
    /// What seals secrets. It is configured, never generated: all nodes need the same.
    pub vault: Vault,
    /// The most connections for reading and for the catalog, besides those of the lanes.
    pub connections: usize,
    /// How long a statement may take. A transaction in which nothing happens is ended after half
    /// of it, and a call is given up after three times as long.
    pub patience: Duration,
    /// How long dead letters are kept.
    pub dead_letters_kept: Duration,
}

impl Settings {
    /// Makes settings with the usual limits.
    #[must_use]
    pub fn new(url: impl Into<String>, vault: Vault) -> Self {
        Self {
            url: url.into(),
            listen_url: None,
            authorities: None,
            vault,
            connections: 8,
            patience: Duration::from_secs(10),
            dead_letters_kept: limits::DEAD_LETTERS,
        }
    }
}

/// A store in PostgreSQL. It belongs to one node.
pub struct Postgres {
    accepts: Pool,
    settles: Pool,
    upkeep: Pool,
    leases: Pool,
    /// For hearing of changes, which what is sent waits for, and for look-ups of one row that every request waits
    /// for. Neither may wait for lists.
    urgent: Pool,
    /// For reading, and for the catalog.
    pool: Arc<Pool>,
    /// How many of those connections changes of applications may hold: they may have to wait for
    /// others, and reading goes on.
    changing: Semaphore,
    /// Of one application, one change at a time holds such a connection.
    turns: Turns,
    wake: Wake,
    vault: Arc<Vault>,
    notes: Arc<Notes>,
    loads: Loads,
    patience: Duration,
    dead_letters_kept: Duration,
}

impl Postgres {
    /// Connects, brings the schema up to date, and begins to listen for other nodes.
    ///
    /// # Errors
    /// If the server cannot be reached, is too old or unsafe, has a schema that this version does
    /// not know, or was encrypted with another key.
    pub async fn connect(settings: Settings) -> Result<Self, Error> {
        let Settings {
            url,
            listen_url,
            authorities,
            vault,
            connections,
            patience,
            dead_letters_kept,
        } = settings;
        let connector = Connector::new(&url, authorities.as_deref())?;
        let listener = match listen_url {
            Some(url) => Connector::new(&url, authorities.as_deref())?,
            None => connector.clone(),
        };
        let lane = || Pool::new(connector.clone(), 1, patience);
        let urgent = Pool::new(connector.clone(), URGENT, patience);
        let pool = Arc::new(Pool::new(connector.clone(), connections.max(1), patience));
        migrate::migrate(&pool, &vault).await.map_err(failure::at_opening)?;
        let wake = Wake::start(Arc::clone(&pool), listener).await?;
        let notes = Arc::<Notes>::default();
        let loads = Loads::new(Arc::clone(&pool), Arc::clone(&notes), patience * 3);
        Ok(Self {
            accepts: lane(),
            settles: lane(),
            upkeep: lane(),
            leases: lane(),
            urgent,
            pool,
            changing: Semaphore::new(connections.div_ceil(2).max(1)),
            turns: Turns::default(),
            wake,
            vault: Arc::new(vault),
            notes,
            loads,
            patience,
            dead_letters_kept,
        })
    }

    /// Begins a transaction that looks up a row, past all who read more than that.
    async fn look_up(&self) -> Result<Transaction<'_>, Failure> {
        self.urgent.begin(Access::Read).await
    }

    /// Returns what seals secrets.
    #[must_use]
    pub fn vault(&self) -> Arc<Vault> {
        Arc::clone(&self.vault)
    }

    /// Begins a transaction that reads.
    async fn read(&self) -> Result<Transaction<'_>, Failure> {
        self.pool.begin(Access::Read).await
    }

    /// Begins a transaction of the catalog or the ledger that writes.
    async fn write(&self) -> Result<Transaction<'_>, Failure> {
        self.pool.begin(Access::Write).await
    }

    /// Reads in a transaction: as of one moment.
    async fn reading<T>(
        &self,
        work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut transaction = self.read().await?;
        let result = work(&mut transaction).await;
        transaction.end(result).await
    }

    /// Writes in a transaction: all of it, or nothing.
    async fn writing<T>(
        &self,
        work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut transaction = self.write().await?;
        let result = work(&mut transaction).await;
        transaction.end(result).await
    }

    /// Reads rows with a single statement.
    async fn query(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Failure> {
        self.pool.query(Access::Read, statement, parameters).await
    }

    /// Reads at most one row with a single statement.
    async fn one(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.query(statement, parameters).await?.pop())
    }

    /// Writes with a single statement; returns how many rows it changed.
    async fn execute(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<u64, Failure> {
        let mut transaction = self.write().await?;
        let result = transaction.execute(statement, parameters).await;
        transaction.end(result).await
    }

    /// Boxes an answer, and limits how long it may be waited for: a network that swallows packets
    /// does not tell that it does. What is given up closes its connection, and so rolls back.
    fn answer<'a, T: Send + 'a>(
        &'a self,
        work: impl Future<Output = Result<T, Failure>> + Send + 'a,
    ) -> Answer<'a, T> {
        let longest = self.patience * 3;
        Box::pin(async move {
            match tokio::time::timeout(longest, work).await {
                Ok(result) => Ok(result?),
                Err(_) => {
                    let text = format!("PostgreSQL did not answer within {longest:?}");
                    Err(Error::Unavailable { text, source: None })
                }
            }
        })
    }
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postgres(…)")
    }
}
