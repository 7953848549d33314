//! What can go wrong in a store, by what the caller can do about it.

use crate::catalog::Refusal;

/// Why a call did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Try again later: disk full, connection lost, fsync failed, too busy. Nothing of the call is
    /// acknowledged; some of it may have taken effect, and repeating it is safe.
    #[error("the store is not available: {text}")]
    Unavailable {
        /// What happened, for the operator.
        text: String,
        /// What the database said.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Something of that name is there already.
    #[error("{what} `{name}` is taken")]
    Taken {
        /// The kind of name: a uid, an event type.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// No such thing, or not in this application.
    #[error("there is no such {0}")]
    Missing(&'static str),
    /// The state of things does not allow it; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The function that a change was given, or its admission, declines; this is what it said.
    #[error("{0}")]
    Declined(#[source] Refusal),
    /// The store cannot be opened: wrong key, wrong schema, owned by another process, unsafe
    /// settings. The text says what to do.
    #[error("{0}")]
    CannotOpen(String),
    /// A row does not read as what it should be. The rest of the store goes on.
    #[error("{what} cannot be read: {text}")]
    Damaged {
        /// Which row.
        what: String,
        /// What is wrong with it.
        text: String,
    },
}

impl Error {
    /// Wraps a database's error that is worth another try.
    pub fn unavailable(
        text: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable { text: text.into(), source: Some(source.into()) }
    }

    /// Tells whether the same call may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Taken { .. }
            | Self::Missing(_)
            | Self::Refused(_)
            | Self::Declined(_)
            | Self::CannotOpen(_)
            | Self::Damaged { .. } => false,
        }
    }
}
