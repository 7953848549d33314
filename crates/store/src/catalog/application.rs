//! Applications.

use std::collections::BTreeMap;

use domain::ids::ApplicationId;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keys::ApplicationKey;
use crate::page::json_bytes;

/// A customer of the sender.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// Its row.
    pub key: ApplicationKey,
    /// Its id.
    pub id: ApplicationId,
    /// The sender's own id for it.
    pub uid: Option<String>,
    /// Counts the changes that matter to a fan-out.
    pub revision: i64,
    /// Counts all changes that matter to accepting or sending: of the application itself, of its
    /// endpoints, their headers and secrets.
    pub version: i64,
    /// What its owner set.
    pub settings: ApplicationSettings,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Application {
    /// Returns how many bytes it has that somebody chose.
    pub(crate) fn bytes(&self) -> usize {
        self.uid.as_ref().map_or(0, String::len) + json_bytes(&self.settings)
    }
}

/// What an application's owner can set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ApplicationSettings {
    /// A name for people.
    pub name: String,
    /// The most messages per second, if limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// Its policy, as a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<serde_json::Value>,
    /// Whatever its owner wants to remember.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// An application that is not in the store yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewApplication {
    /// Its id.
    pub id: ApplicationId,
    /// The sender's own id for it.
    pub uid: Option<String>,
    /// What its owner set.
    pub settings: ApplicationSettings,
    /// When.
    pub at: Timestamp,
}

/// What a change of an application, or of anything that is its, touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touches {
    /// What a fan-out uses: it raises revision and version. What was fanned out before is refused, and
    /// fanned out again.
    FanOut,
    /// Nothing that a fan-out uses: it raises the version only.
    Rest,
}

impl Touches {
    /// Returns by how much it raises the revision, and by how much the count of other changes.
    pub(crate) const fn raises(self) -> (i64, i64) {
        match self {
            Self::FanOut => (1, 0),
            Self::Rest => (0, 1),
        }
    }
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// What the store's clock said before this was read. All that was committed before is in it.
    pub now: Timestamp,
    /// How often event types were changed. What they set applies to every application.
    pub event_types: i64,
    /// The applications that were changed, the longest unchanged first.
    pub applications: Vec<Change>,
}

/// An application that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Which one. It may be deleted.
    pub application: ApplicationKey,
    /// Its version now.
    pub version: i64,
    /// When it was last changed, on the store's clock.
    pub at: Timestamp,
}
