//! A second opinion on which addresses are public, written to share nothing with the first: text,
//! shifts and a linear scan instead of typed tables and a search.

pub(crate) mod ipv4;
pub(crate) mod ipv6;
