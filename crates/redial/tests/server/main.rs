//! Tests of the `redial` binary from outside, and of the house it lives in.
//!
//! One test binary for all of them, with a module per command, because each further one would be
//! linked anew.

#[cfg(test)]
mod api;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod binary;
#[cfg(test)]
mod committer;
#[cfg(test)]
mod config;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod node;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod sdk;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod transport;
