//! Applications.

use std::collections::BTreeMap;

use domain::ids::ApplicationId;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keys::ApplicationKey;

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
    /// What its owner set.
    pub settings: ApplicationSettings,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
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
