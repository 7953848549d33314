//! What only a store in PostgreSQL has: connections, other nodes, and batches as columns.
//!
//! # Layout
//! - `link`, `tls`: transactions, and how a connection is made; `unreachable`: why it could not be
//! - `wake`: telling other nodes about work, and hearing of it
//! - `gate`: whose turn it is at an application
//! - `loading`: loads that share a statement; `rounds`: what the items of a batch decide about each
//!   other
//! - `columns`, `partitions`: values as parameters of a statement

pub(super) mod columns;
pub(super) mod gate;
pub(super) mod link;
pub(super) mod loading;
pub(super) mod partitions;
pub(super) mod rounds;
pub(super) mod tls;
mod unreachable;
pub(super) mod wake;
