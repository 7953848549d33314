//! API tokens. Only a hash is kept: whoever reads the store cannot use them.

use std::collections::BTreeSet;

use domain::ids::ApplicationId;
use domain::rights::{Grant, Right, Rights};
use domain::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Vault};

/// The place that the hash of the configured admin token is sealed for.
const ADMIN_TOKEN: &str = "meta, admin token";

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its public part, by which it is found.
    pub id: String,
    /// SHA-256 of the whole token.
    pub hash: [u8; 32],
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// Whether it may only read.
    pub read_only: bool,
    /// What else it was made with.
    pub granted: Granted,
    /// What the sender calls the session that it was made for.
    pub session: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops working, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

impl Token {
    /// Returns how many bytes it has that somebody chose.
    pub(crate) const fn bytes(&self) -> usize {
        self.name.len()
    }
}

/// What a token reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Admin,
    /// One application.
    Application(ApplicationId),
}

/// What a token for one application was made with. A row of before has none of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Granted {
    /// What it may do beside reading.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub rights: Grant,
    /// Which event types it sees beside those that need no flag.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub feature_flags: BTreeSet<String>,
}

/// Which tokens of an application end, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    /// Whose they are.
    pub application: ApplicationId,
    /// Those of these sessions alone; all if none is named.
    pub sessions: Vec<String>,
    /// When they end.
    pub ends: Ends,
}

/// When tokens end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// They are revoked, as of this moment.
    Now(Timestamp),
    /// They expire at this moment, unless they do so before.
    Later(Timestamp),
}

impl Expiry {
    /// Revokes all tokens of an application.
    #[must_use]
    pub const fn of_all(application: ApplicationId, at: Timestamp) -> Self {
        Self { application, sessions: Vec::new(), ends: Ends::Now(at) }
    }
}

/// Rights as they are written: by their words, so that a version that knows fewer grants fewer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Within(Vec<String>),
    Exactly(Vec<String>),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn write<S: Serializer>(grant: &Grant, serializer: S) -> Result<S::Ok, S::Error> {
    let words = |rights: Rights| rights.each().map(|it| it.word().to_owned());
    let written = match *grant {
        Grant::Usual => None,
        Grant::Within(rights) => Some(Written::Within(words(rights).collect())),
        Grant::Exactly(rights) => Some(Written::Exactly(words(rights).collect())),
    };
    written.serialize(serializer)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Grant, D::Error> {
    let rights = |words: Vec<String>| -> Rights {
        words.iter().filter_map(|word| word.parse::<Right>().ok()).collect()
    };
    Ok(match Option::deserialize(deserializer)? {
        None => Grant::Usual,
        Some(Written::Within(words)) => Grant::Within(rights(words)),
        Some(Written::Exactly(words)) => Grant::Exactly(rights(words)),
    })
}

/// Encrypts the hash of the configured admin token.
pub(crate) fn seal_admin(vault: &Vault, hash: &[u8; 32]) -> Result<Vec<u8>, Error> {
    vault.seal(ADMIN_TOKEN, hash)
}

/// Decrypts it. What does not read counts as if there was none: it only serves a warning.
pub(crate) fn open_admin(vault: &Vault, sealed: &[u8]) -> Option<[u8; 32]> {
    vault.open(ADMIN_TOKEN, sealed).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_granted_reads_as_it_was_written() {
        let rights = Rights::from_iter([Right::Secrets, Right::Send]);
        for grant in [Grant::Usual, Grant::Within(rights), Grant::Exactly(Rights::NONE)] {
            let granted = Granted { rights: grant, feature_flags: ["beta".to_owned()].into() };
            let text = serde_json::to_string(&granted).unwrap();
            assert_eq!(serde_json::from_str::<Granted>(&text).unwrap(), granted, "{text}");
        }
    }

    #[test]
    fn a_right_of_a_later_version_is_not_granted() {
        let written = json!({ "rights": { "exactly": ["send", "rule"] }, "later": 1 });
        let granted: Granted = serde_json::from_value(written).unwrap();
        assert_eq!(granted.rights, Grant::Exactly(Rights::from_iter([Right::Send])));
    }
}
