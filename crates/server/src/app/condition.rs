//! Which version of a row a request means: what `ETag` tells, and `If-Match` and `If-None-Match` ask.
//!
//! A condition is checked inside the transaction that changes the row, so that nothing comes between
//! the check and the change.

use std::fmt::Display;

use domain::time::Timestamp;
use sha2::{Digest as _, Sha256};
use store::catalog::{Application, Endpoint, EventType};

use super::Error;

/// How many bytes of its hash a tag shows.
const TAG_BYTES: usize = 12;

/// A version of a row: a strong entity tag, with its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(String);

/// Which version of a row must be there for a request to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// Any, or none.
    #[default]
    Always,
    /// One of these: `If-Match` with tags.
    Matches(Vec<String>),
    /// Any: `If-Match: *`.
    Exists,
    /// None: `If-None-Match: *`.
    Missing,
}

impl Tag {
    /// The store gives each version of a row a later time than the one before it.
    fn of(kind: &str, name: impl Display, updated_at: Timestamp) -> Self {
        let version = format!("{kind} {name} {}", updated_at.as_micros());
        let hash = Sha256::digest(version.as_bytes());
        let text: String = hash.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Self(format!("\"{text}\""))
    }

    /// Returns it as a header has it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<&Application> for Tag {
    fn from(row: &Application) -> Self {
        Self::of("application", row.id, row.updated_at)
    }
}

impl From<&Endpoint> for Tag {
    fn from(row: &Endpoint) -> Self {
        Self::of("endpoint", row.id, row.updated_at)
    }
}

impl From<&EventType> for Tag {
    fn from(row: &EventType) -> Self {
        let created = row.created_at.as_micros();
        Self::of("event type", format!("{} {created}", row.name), row.updated_at)
    }
}

impl Condition {
    /// Checks the version of a row that is there.
    ///
    /// # Errors
    /// If another one, or none, must be there.
    pub fn check(&self, tag: impl Into<Tag>) -> Result<(), Error> {
        let tag = tag.into();
        let holds = match self {
            Self::Always | Self::Exists => true,
            Self::Matches(tags) => tags.contains(&tag.0),
            Self::Missing => false,
        };
        if holds { Ok(()) } else { Err(Error::Outdated { current: Some(tag) }) }
    }

    /// Checks that a row need not be there.
    ///
    /// # Errors
    /// If it must be.
    pub fn check_missing(&self) -> Result<(), Error> {
        match self {
            Self::Always | Self::Missing => Ok(()),
            Self::Matches(_) | Self::Exists => Err(Error::Outdated { current: None }),
        }
    }
}
