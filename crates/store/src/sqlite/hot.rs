//! The statements of the hot path, found once for a batch.
//!
//! A cached statement is found by its text, which takes longer than some of them take to run.

use rusqlite::{CachedStatement, Connection, Result};

use super::{accept, record, settle};

/// The statements that nearly every batch needs many times.
pub(super) struct Hot<'a> {
    pub(super) message: CachedStatement<'a>,
    pub(super) delivery: CachedStatement<'a>,
    pub(super) attempt: CachedStatement<'a>,
    pub(super) finish: CachedStatement<'a>,
}

impl<'a> Hot<'a> {
    /// Prepares them, or finds them prepared.
    pub(super) fn find(connection: &'a Connection) -> Result<Self> {
        Ok(Self {
            message: connection.prepare_cached(accept::INSERT_MESSAGE)?,
            delivery: connection.prepare_cached(accept::INSERT_DELIVERY)?,
            attempt: connection.prepare_cached(record::INSERT)?,
            finish: connection.prepare_cached(settle::FINISH)?,
        })
    }
}
