//! The numbers that every implementation shares.

use std::time::Duration;

/// How long a node's lease lasts after it was renewed.
pub const LEASE: Duration = Duration::from_secs(10);

/// How long an idempotency key counts, from the receipt of its message on.
pub const IDEMPOTENCY: Duration = Duration::from_secs(12 * 60 * 60);

/// How long dead letters are kept, unless the operator says otherwise.
pub const DEAD_LETTERS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How many old secrets of an endpoint may be live when another one is to join them.
pub const OLD_SECRETS: usize = 10;

/// The bytes that are kept of a response's body if its status is 2xx.
pub const KEPT_OF_SUCCESS: usize = 1024;

/// The bytes that are kept of any other response's body.
pub const KEPT_OF_FAILURE: usize = 16 * 1024;
