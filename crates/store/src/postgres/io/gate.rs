//! The gate in front of an application's row.
//!
//! Accepts and replays hold that row `FOR SHARE`. PostgreSQL grants this at once where others share it,
//! whoever waits to change it: while several nodes accept for one application without a pause, a
//! change would wait until its patience ends. Advisory locks are granted in the order in which they
//! were asked for. So whoever shares the row passes a gate first, and a change that waited for the row
//! in vain closes it: those inside come out one after the other, and those who come later wait behind
//! the change.
//!
//! A gate only says whose turn it is; what is promised rests on the row. It is passed before anything
//! is locked, and gates are passed in one order: nobody who is inside waits for somebody who stands at
//! a gate.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::SemaphorePermit;

use crate::keys::ApplicationKey;
use crate::postgres::Postgres;
use crate::postgres::failure::Failure;
use crate::postgres::io::link::{Transaction, closed};
use crate::turns::Turn as Alone;

/// How many gates all applications share. A batch may be for any number of applications, and the
/// server has room for some thousand locks.
const GATES: i64 = 64;
/// How long a change waits for a moment without accepts before it closes the gate. That holds up
/// the accepts of every application behind the same one.
const BEFORE_CLOSING: Duration = Duration::from_millis(200);

/// Has a transaction that is about to begin pass the gates of these applications. It costs no way to
/// the server and back.
pub(crate) fn pass(
    transaction: &mut Transaction<'_>,
    applications: impl IntoIterator<Item = ApplicationKey>,
) {
    let gates: BTreeSet<i64> = applications.into_iter().map(gate).collect();
    if gates.is_empty() {
        return;
    }
    let gates: Vec<String> = gates.iter().map(i64::to_string).collect();
    transaction.open_with(&format!(
        "SELECT pg_advisory_xact_lock_shared({LOCK}) FROM unnest('{{{}}}'::bigint[]) gate",
        gates.join(",")
    ));
}

/// The lock of a gate: each schema has its own.
const LOCK: &str = "hashtextextended('redial gate ' || current_schema(), gate)";

fn gate(application: ApplicationKey) -> i64 {
    application.0.rem_euclid(GATES)
}

impl Postgres {
    /// Waits until an application may be changed by one more. Only so many of the connections for
    /// reading are held by those who may have to wait for others, and one of them for each application:
    /// its changes follow each other at its row anyway, and leave the other connections to others.
    pub(crate) async fn turn(&self, application: ApplicationKey) -> Result<Turn<'_>, Failure> {
        let alone = self.turns.take(application).await;
        let place = self.changing.acquire().await.map_err(|_| closed())?;
        Ok(Turn { store: self, application, alone, place, closes: false })
    }
}

/// A change of an application, on its way to the row.
pub(crate) struct Turn<'a> {
    store: &'a Postgres,
    application: ApplicationKey,
    /// Held until the change has been made.
    #[expect(dead_code, reason = "dropping it is what it is for")]
    alone: Alone<'a>,
    /// Held as long.
    #[expect(dead_code, reason = "dropping it is what it is for")]
    place: SemaphorePermit<'a>,
    /// Whether the next try closes the gate.
    closes: bool,
}

impl<'a> Turn<'a> {
    /// Begins a try, in which the application's row is to be locked before any other.
    pub(crate) async fn begin(&self) -> Result<Transaction<'a>, Failure> {
        let mut transaction = self.store.write().await?;
        if self.closes {
            let gate = gate(self.application);
            transaction.open_with(&format!(
                "SELECT pg_advisory_xact_lock({LOCK}) FROM (VALUES ({gate}::bigint)) gates (gate)"
            ));
        } else {
            // No lock_timeout: a row is waited for by one holder after the other, each of them for a
            // moment.
            let longest = BEFORE_CLOSING.min(self.store.patience / 4).as_millis().max(1);
            transaction.open_with(&format!("SET LOCAL statement_timeout = {longest}"));
        }
        Ok(transaction)
    }

    /// Tells whether there is to be another try after this failure.
    pub(crate) fn again(&mut self, failure: &Failure) -> bool {
        let repeats = match failure {
            Failure::Slow(_) | Failure::Conflict(_) => !self.closes,
            Failure::Lost(_) | Failure::Unknown(_) | Failure::Data { .. } | Failure::Final(_) => {
                false
            }
        };
        self.closes = true;
        repeats
    }
}
