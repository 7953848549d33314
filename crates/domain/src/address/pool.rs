//! Which kept-alive connections may be used again.
//!
//! A connection was vetted for one application under one state of the guard; a key that holds both
//! keeps it from being handed to another. Nor may two names share one because their certificate
//! covers both. The pool itself lives in the transport.

use std::time::Duration;

use super::host::Host;
use super::url::Scheme;
use crate::ids::ApplicationId;

/// The age at which a connection is closed, so that a name is resolved and vetted again.
pub const POOL_MAX_AGE: Duration = Duration::from_secs(60);

/// Two requests may share a connection only if their keys are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolKey {
    /// The application the connection was vetted for.
    pub application: ApplicationId,
    /// With TLS or without.
    pub scheme: Scheme,
    /// The host as it was asked for, not as it was resolved.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// The state of the guard that vetted it.
    pub policy_version: PolicyVersion,
}

/// Counts the changes of a guard; connections vetted before a change are not used after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyVersion(u64);

impl PolicyVersion {
    /// The version after this one.
    #[must_use]
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}
