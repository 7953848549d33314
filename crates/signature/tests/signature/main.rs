//! What the crate promises, seen from outside: published examples, properties, refusals and the
//! judgement of other people's libraries.

#![expect(clippy::unwrap_used, reason = "the helpers of these tests fail the test they serve")]

mod oracles;
mod profiles;
mod properties;
mod refusals;
mod request;
mod rust_oracles;
mod vectors;
