//! Every decision that Redial makes, as pure functions of their arguments.
//!
//! There is no clock, no randomness, no SQL, no logging and no async here: time and dice are
//! arguments, and what is decided is returned. So the whole retry table is a unit test, and the
//! server, the policy lab and the simulator run the very same rules.
//!
//! # Layout
//! - [`judge`](mod@judge): what an attempt's [`outcome`] means, as a [`verdict`]
//! - [`policy`]: schedules, jitter, limits, classification, Retry-After, and the presets
//! - [`delivery`], [`endpoint`]: states and transitions
//! - [`breaker`], [`concurrency`], [`rate`], [`health`]: what keeps an endpoint from being hammered
//! - [`partition`]: the share of endpoints that one node owns
//! - [`filter`]: what an endpoint lists, [`index`]: which endpoints get a message; [`replay`]: which deliveries a replay means
//! - [`address`]: where a request may go
//! - [`ids`], [`names`], [`time`], [`span`], [`dice`], [`retry_after`], [`nearest`]: small values

pub mod address;
pub mod breaker;
pub mod concurrency;
pub mod delivery;
pub mod dice;
pub mod endpoint;
pub mod filter;
pub mod health;
pub mod ids;
pub mod index;
pub mod judge;
pub mod names;
pub mod nearest;
pub mod outcome;
pub mod partition;
pub mod policy;
pub mod rate;
pub mod replay;
pub mod retry_after;
pub mod span;
pub mod time;
pub mod verdict;

pub use judge::{explain, judge};
