//! What PostgreSQL says went wrong, by what can be done about it.
//!
//! The lanes look at this before it becomes an [`Error`]: a deadlock repeats a batch, a bad value
//! bisects it, one that takes too long is cut up, a lost connection repeats it on a fresh one.

use tokio_postgres::error::SqlState;

use crate::Error;

/// What is said of a value that cannot be stored. It is hardly ever another one.
const UNFIT: &str =
    "the database cannot hold one of the values; no text may have the character U+0000";

/// Why a statement or a transaction failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection is gone, and with it what was not committed.
    Lost(tokio_postgres::Error),
    /// The connection is gone, and whether the commit that was under way took effect is unknown.
    Unknown(tokio_postgres::Error),
    /// Another transaction was in the way: deadlock, serialisation, a lock that was not waited for
    /// any longer. The same again may work.
    Conflict(tokio_postgres::Error),
    /// A statement took longer than it may. Less of it may work.
    Slow(tokio_postgres::Error),
    /// A value or a constraint: the same again fails again.
    Data {
        /// The constraint or index that was violated, if it was one.
        constraint: Option<String>,
        /// What the database said.
        source: tokio_postgres::Error,
    },
    /// Everything else, and what the store itself decided.
    Final(Error),
}

impl Failure {
    /// Tells whether the statement failed because of this unique index.
    pub(crate) fn violates(&self, index: &str) -> bool {
        match self {
            Self::Data { constraint, .. } => constraint.as_deref() == Some(index),
            Self::Lost(_)
            | Self::Unknown(_)
            | Self::Conflict(_)
            | Self::Slow(_)
            | Self::Final(_) => false,
        }
    }

    /// Returns what it means if it was a commit that failed.
    pub(crate) fn of_commit(self) -> Self {
        match self {
            // Without an answer nobody knows.
            Self::Lost(error) => Self::Unknown(error),
            Self::Unknown(_)
            | Self::Conflict(_)
            | Self::Slow(_)
            | Self::Data { .. }
            | Self::Final(_) => self,
        }
    }

    /// Tells whether the connection that reported it is of no more use.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Unknown(_) => true,
            Self::Conflict(_) | Self::Slow(_) | Self::Data { .. } | Self::Final(_) => false,
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            // A value that cannot be encoded is ours; anything else without an answer is the wire.
            return if error.is_closed() || error.code().is_none() && is_wire(&error) {
                Self::Lost(error)
            } else {
                Self::Data { constraint: None, source: error }
            };
        };
        let code = db.code().code();
        match code.get(..2) {
            Some("40") => Self::Conflict(error),
            _ if *db.code() == SqlState::LOCK_NOT_AVAILABLE => Self::Conflict(error),
            Some("21" | "22" | "23" | "54") => {
                Self::Data { constraint: db.constraint().map(str::to_owned), source: error }
            }
            _ if *db.code() == SqlState::QUERY_CANCELED => Self::Slow(error),
            // Shut down, terminated, or idle for too long: the connection closes behind it. A server
            // that became read-only is no longer the one to talk to.
            Some("57" | "08") => Self::Lost(error),
            _ if *db.code() == SqlState::READ_ONLY_SQL_TRANSACTION
                || *db.code() == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT =>
            {
                Self::Lost(error)
            }
            _ => {
                let text = format!("{} ({code})", db.message());
                Self::Final(Error::unavailable(text, error))
            }
        }
    }
}

/// Tells whether an error without an SQLSTATE comes from the connection.
fn is_wire(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    match error.source() {
        // Unexpected messages and the like have no source, and leave the connection in no good state.
        None => true,
        Some(source) => source.is::<std::io::Error>(),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Lost(error) | Failure::Unknown(error) => {
                Self::unavailable(format!("the connection to PostgreSQL was lost: {error}"), error)
            }
            Failure::Conflict(error) => {
                Self::unavailable(format!("transactions stood in each other's way: {error}"), error)
            }
            Failure::Slow(error) => Self::unavailable(said(&error), error),
            // What the database says about values is not for those who call.
            Failure::Data { constraint: Some(_), source } => {
                Self::unavailable(format!("a row stood in the way: {source}"), source)
            }
            Failure::Data { constraint: None, .. } => Self::Refused(UNFIT.to_owned()),
            Failure::Final(error) => error,
        }
    }
}

/// Says why a store could not be opened: for want of a right, which does not come by itself, or because
/// the database cannot be reached.
pub(crate) fn at_opening(error: Error) -> Error {
    let Error::Unavailable { text, source } = error else { return error };
    let database = source.as_ref().and_then(|it| it.downcast_ref::<tokio_postgres::Error>());
    let code = database.and_then(|error| error.code());
    if code == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        return Error::CannotOpen(format!(
            "{text}; have a user who may create tables run redial migrate, or grant this one CREATE \
             on the schema and the rights on its tables"
        ));
    }
    Error::Unavailable { text, source }
}

/// Returns what the database said, without the values it said it about.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        // The detail often quotes a whole row; the message does not.
        Some(db) => format!("PostgreSQL refused it: {} ({})", db.message(), db.code().code()),
        None => format!("PostgreSQL cannot take it: {error}"),
    }
}
