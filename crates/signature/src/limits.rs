//! The limits that sender and receiver share. What a [`Signer`](crate::Signer) makes is always within
//! what a [`Verifier`](crate::Verifier) takes.

/// How many secrets a signer or verifier holds at most: the current one and those being rotated out.
pub const MAX_SECRETS: usize = 16;

/// How many profiles sign one request: two formats with all their companions, while an endpoint moves
/// from one to the other, take about ten.
pub const MAX_PROFILES: usize = 16;

/// How many characters a plain secret has, at least and at most.
pub const PLAIN_SECRET_CHARACTERS: std::ops::RangeInclusive<usize> = 16..=256;

/// How many signatures of one header a verifier looks at; a header with more is refused.
pub const MAX_SIGNATURES: usize = MAX_SECRETS;

/// How long a signature header may be. Sixteen ed25519 signatures take less than half of it.
pub const MAX_SIGNATURE_HEADER_BYTES: usize = 4096;

/// How long an id or an event type in a header may be.
pub const MAX_VALUE_BYTES: usize = 256;

/// How long a brand may be.
pub const MAX_BRAND_BYTES: usize = 32;

/// How long the name of a header may be.
pub const MAX_HEADER_NAME_BYTES: usize = 64;

/// Up to which size a body is hashed again to find out why a signature does not fit. Larger bodies
/// are refused without a suspicion, so that a stranger cannot buy much work with a wrong signature.
pub const MAX_DIAGNOSED_BODY_BYTES: usize = 256 * 1024;
