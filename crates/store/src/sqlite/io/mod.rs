//! What only a store in a file has: the file, and the threads that work with it.
//!
//! # Layout
//! - `directory`: the data directory, its lock and its key; `connection`: how the file is opened
//! - `writer`, `reader`, `checkpoint`: the threads
//! - `seats`: their connections, and what is done when the file is in doubt; `presence`: whether it
//!   is still there
//! - `memo`: what the writer remembers; `hot`: the statements that it keeps at hand

pub(super) mod checkpoint;
pub(super) mod connection;
pub(super) mod directory;
pub(super) mod hot;
pub(super) mod memo;
pub(super) mod presence;
pub(super) mod reader;
pub(super) mod seats;
pub(super) mod writer;
