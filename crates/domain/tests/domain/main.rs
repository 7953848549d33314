//! The rules as a user of the crate sees them: presets against their published numbers, the
//! classifier over every status, and policies as documents.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod address;
mod classifier;
mod documents;
mod presets;
mod scenarios;
