//! Endpoints: what is plain, what is confidential, and what a fan-out needs of both.

use std::collections::BTreeMap;
use std::fmt;

use domain::endpoint::State;
use domain::ids::{ApplicationId, EndpointId};
use domain::partition::Partition;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::keys::{ApplicationKey, EndpointKey};
use crate::page::json_bytes;
use crate::queue::{Order, Running};

/// A URL with its secrets, filters and limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// Its row.
    pub key: EndpointKey,
    /// Whose it is.
    pub application: ApplicationKey,
    /// Its id.
    pub id: EndpointId,
    /// The owner's own id for it.
    pub uid: Option<String>,
    /// Its share of the fleet.
    pub partition: Partition,
    /// Where it stands.
    pub state: State,
    /// What decides the turn of its deliveries.
    pub order: Order,
    /// What is kept plain.
    pub settings: EndpointSettings,
    /// What is kept encrypted.
    pub confidential: Confidential,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Endpoint {
    /// Returns how many bytes it has that somebody chose.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let uid = self.uid.as_ref().map_or(0, String::len);
        uid + json_bytes(&self.settings) + json_bytes(&self.confidential)
    }
}

/// What is kept plain of an endpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointSettings {
    /// Scheme, host and port of its URL.
    pub origin: String,
    /// A text for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The event types it gets; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event_types: Vec<String>,
    /// The channels it listens on; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// The most attempts per second, if it sets its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// The most attempts in flight, if it sets its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// Its policy, as a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<serde_json::Value>,
    /// Its signature profiles, if it sets its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<String>,
    /// Its headers that are not sensitive.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whatever its owner wants to remember.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// How often it was enabled after it had been disabled. The store counts it, whatever a change says.
    #[serde(skip_serializing_if = "is_zero")]
    pub enabled: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a field over by reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// What is kept encrypted of an endpoint. It never shows itself.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Confidential {
    /// Path and query of its URL; they often hold a token.
    pub path_and_query: String,
    /// Its sensitive headers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How attempts authenticate themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// How attempts authenticate themselves.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credentials {
    /// A bearer token.
    Bearer(String),
    /// A user and a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
}

/// A signing secret, as text with its prefix. It never shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// `whsec_…` or `whsk_…`.
    pub text: String,
    /// When it became the current one.
    pub created_at: Timestamp,
    /// When it stops signing; none for the current one.
    pub expires_at: Option<Timestamp>,
}

/// An endpoint that is not in the store yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEndpoint {
    /// Whose it is.
    pub application: ApplicationKey,
    /// Its id.
    pub id: EndpointId,
    /// The owner's own id for it.
    pub uid: Option<String>,
    /// Where it stands.
    pub state: State,
    /// What decides the turn of its deliveries.
    pub order: Order,
    /// What is kept plain.
    pub settings: EndpointSettings,
    /// What is kept encrypted.
    pub confidential: Confidential,
    /// Its first secret.
    pub secret: Secret,
    /// When.
    pub at: Timestamp,
}

/// All endpoints of an application, as of one version.
#[derive(Debug, Clone, PartialEq)]
pub struct FanOut {
    /// The application's id.
    pub application: ApplicationId,
    /// The revision: it counts the changes that a fan-out sees.
    pub revision: i64,
    /// The version: it counts all changes that accepting or sending sees.
    pub version: i64,
    /// The application's policy, as a document.
    pub policy: Option<serde_json::Value>,
    /// The application's limit on each of its endpoints, per second.
    pub rate: Option<u32>,
    /// Its endpoints that are not deleted, by row.
    pub endpoints: Vec<EndpointView>,
}

/// An endpoint with what sending to it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointView {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The secrets that sign now, newest first.
    pub secrets: Vec<Secret>,
    /// Its running state as its owner last wrote it.
    pub running: Running,
}

impl Endpoint {
    /// Tells whether what a receiver said in an attempt on another version of this endpoint is said
    /// about this one: it has the same URL, and nobody has enabled it since.
    #[must_use]
    pub fn is_concerned(&self, tried: &Self) -> bool {
        self.settings.origin == tried.settings.origin
            && self.confidential.path_and_query == tried.confidential.path_and_query
            && self.settings.enabled == tried.settings.enabled
    }
}

impl fmt::Debug for Confidential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confidential(…)")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("created_at", &self.created_at)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
