//! API tokens. Only a hash is kept: whoever reads the store cannot use them.

use domain::ids::ApplicationId;
use domain::time::Timestamp;

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
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops working, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// What a token reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Admin,
    /// One application.
    Application(ApplicationId),
}

/// Encrypts the hash of the configured admin token.
pub(crate) fn seal_admin(vault: &Vault, hash: &[u8; 32]) -> Result<Vec<u8>, Error> {
    vault.seal(ADMIN_TOKEN, hash)
}

/// Decrypts it. What does not read counts as if there was none: it only serves a warning.
pub(crate) fn open_admin(vault: &Vault, sealed: &[u8]) -> Option<[u8; 32]> {
    vault.open(ADMIN_TOKEN, sealed).ok()?.try_into().ok()
}
