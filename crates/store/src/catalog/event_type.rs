//! Event types. They belong to the sender, not to one of its applications.

use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::page::json_bytes;

/// A kind of message.
#[derive(Debug, Clone, PartialEq)]
pub struct EventType {
    /// Its name.
    pub name: String,
    /// What the sender set.
    pub settings: EventTypeSettings,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether a list of event types shows their schemas: they are nearly all that an event type has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schemas {
    /// It does.
    Shown,
    /// It leaves them out.
    Omitted,
}

impl EventType {
    /// Leaves its schemas out if they are not wanted.
    pub(crate) fn with(mut self, schemas: Schemas) -> Self {
        match schemas {
            Schemas::Shown => {}
            Schemas::Omitted => self.settings.schemas = None,
        }
        self
    }

    /// Returns how many bytes it has that somebody chose.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + json_bytes(&self.settings)
    }
}

/// What the sender can set about an event type.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventTypeSettings {
    /// A text for people.
    pub description: String,
    /// Hidden from lists.
    pub archived: bool,
    /// Not to be used any more.
    pub deprecated: bool,
    /// JSON schemas by version, with examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schemas: Option<serde_json::Value>,
    /// Shown only to tokens with this flag, or one of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature_flag: Option<String>,
    /// The other flags, if it has more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_flags: Vec<String>,
    /// The group it is listed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its policy, as a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<serde_json::Value>,
}

impl EventTypeSettings {
    /// Lists the flags of which a token needs one to see it; with none of them every token does.
    pub fn flags(&self) -> impl Iterator<Item = &String> {
        self.feature_flag.iter().chain(&self.other_flags)
    }
}
