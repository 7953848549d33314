//! API tokens. Only a hash is kept: whoever reads the store cannot use them.

use domain::ids::ApplicationId;
use domain::time::Timestamp;

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
