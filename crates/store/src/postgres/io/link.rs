//! Connections and transactions.
//!
//! A [`Pool`] of one is a lane. Every call is one transaction that says for itself how long its
//! statements may take and that its commit waits for the disk: nothing is left behind in a session,
//! and no statement is prepared by name, so that a transaction pooler may sit in between.
//!
//! A transaction whose future is dropped half-way closes its connection, and with it rolls back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::Error;
use crate::postgres::failure::Failure;
use crate::postgres::io::tls::Connector;

/// A parameter of a statement, with its type.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Looking at one state of everything.
    Read,
    /// As [`Access::Read`], by way of the index of pending deliveries whatever the statistics say:
    /// they lag behind a queue that fills and empties.
    ReadPending,
    /// Changing something.
    Write,
}

/// Connections that are opened when they are needed, and opened again when they are lost.
pub(crate) struct Pool {
    connector: Connector,
    /// How long a statement may take.
    patience: Duration,
    slots: Semaphore,
    idle: Mutex<Vec<Client>>,
}

impl Pool {
    pub(crate) fn new(connector: Connector, size: usize, patience: Duration) -> Self {
        Self { connector, patience, slots: Semaphore::new(size), idle: Mutex::default() }
    }

    /// Begins a transaction, waiting for a free connection if there is none.
    pub(crate) async fn begin(&self, access: Access) -> Result<Transaction<'_>, Failure> {
        let slot = self.slots.acquire().await.map_err(|_| closed())?;
        let idle = self.idle().pop();
        let client = match idle {
            Some(client) if !client.is_closed() => client,
            Some(_) | None => self.connector.connect().await?,
        };
        let opening = Some(self.opening(access));
        Ok(Transaction { pool: self, slot, client, opening })
    }

    /// Reads rows with a single statement, in a transaction of its own.
    pub(crate) async fn query(
        &self,
        access: Access,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let mut transaction = self.begin(access).await?;
        let result = transaction.query(statement, parameters).await;
        transaction.end(result).await
    }

    /// Forgets the connections at rest: one of them was found dead, and the others were opened to
    /// the same server.
    pub(crate) fn forget(&self) {
        self.idle().clear();
    }

    fn opening(&self, access: Access) -> String {
        let begin = match access {
            Access::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Access::ReadPending => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                 SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off"
            }
            // A role may have other defaults: these are the ones that the promises rest on.
            Access::Write => {
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
                 SET LOCAL synchronous_commit = on"
            }
        };
        let patience = self.patience.as_millis().max(1);
        // A node that froze inside a transaction must not keep its partitions from the others.
        let idle = self.patience.as_millis().div_ceil(2).max(1);
        // Every statement has its index. Left to itself the planner reads whole tables as long as
        // it takes them for small, which a growing store soon regrets.
        format!(
            "{begin}; SET LOCAL statement_timeout = {patience}; \
             SET LOCAL idle_in_transaction_session_timeout = {idle}; \
             SET LOCAL enable_seqscan = off; SET LOCAL random_page_cost = 1.1; SET LOCAL jit = off"
        )
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transaction on a connection of its own.
pub(crate) struct Transaction<'a> {
    pool: &'a Pool,
    /// Held until the transaction is dropped.
    #[expect(dead_code, reason = "dropping it is what it is for")]
    slot: SemaphorePermit<'a>,
    client: Client,
    /// What has to be sent before the first statement; it travels together with it.
    opening: Option<String>,
}

impl Transaction<'_> {
    /// Adds a statement without parameters to those that are sent before the first.
    pub(super) fn open_with(&mut self, statement: &str) {
        if let Some(opening) = &mut self.opening {
            opening.push_str("; ");
            opening.push_str(statement);
        }
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(
        &mut self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let Some(opening) = self.opening.take() else {
            return Ok(self.client.query_typed(statement, parameters).await?);
        };
        let (opened, rows) = tokio::join!(
            biased;
            self.client.batch_execute(&opening),
            self.client.query_typed(statement, parameters),
        );
        opened?;
        Ok(rows?)
    }

    /// Runs a statement that returns at most one row.
    pub(crate) async fn one(
        &mut self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.query(statement, parameters).await?.pop())
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn execute(
        &mut self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, Failure> {
        let Some(opening) = self.opening.take() else {
            return Ok(self.client.execute_typed(statement, parameters).await?);
        };
        let (opened, changed) = tokio::join!(
            biased;
            self.client.batch_execute(&opening),
            self.client.execute_typed(statement, parameters),
        );
        opened?;
        Ok(changed?)
    }

    /// Runs statements without parameters, as migrations are.
    pub(crate) async fn run(&mut self, statements: &str) -> Result<(), Failure> {
        if let Some(opening) = self.opening.take() {
            self.client.batch_execute(&opening).await?;
        }
        Ok(self.client.batch_execute(statements).await?)
    }

    /// Commits what went well and rolls back what did not.
    pub(crate) async fn end<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Ok(value) => {
                self.client.batch_execute("COMMIT").await.map_err(|error| {
                    let failure = Failure::from(error).of_commit();
                    if failure.ends_connection() {
                        // Those at rest are as old as this one.
                        self.pool.forget();
                    }
                    failure
                })?;
                self.rest();
                Ok(value)
            }
            Err(failure) if failure.ends_connection() => {
                self.pool.forget();
                Err(failure)
            }
            Err(failure) => {
                if self.client.batch_execute("ROLLBACK").await.is_ok() {
                    self.rest();
                }
                Err(failure)
            }
        }
    }

    fn rest(self) {
        self.pool.idle().push(self.client);
    }
}

pub(crate) fn closed() -> Failure {
    let text = "the store is closed".to_owned();
    Failure::Final(Error::Unavailable { text, source: None })
}
