//! The statements of the hot path, found once for a batch.
//!
//! A cached statement is found by its text, which takes longer than some of them take to run.

use rusqlite::{CachedStatement, Connection, Result};

use crate::sqlite::queue::{accept, settle};

/// The statements that nearly every batch needs many times.
pub(crate) struct Hot<'a> {
    pub(crate) message: CachedStatement<'a>,
    pub(crate) delivery: CachedStatement<'a>,
    pub(crate) attempt: CachedStatement<'a>,
    pub(crate) finish: CachedStatement<'a>,
}

impl<'a> Hot<'a> {
    /// Prepares them, or finds them prepared.
    pub(crate) fn find(connection: &'a Connection) -> Result<Self> {
        Ok(Self {
            message: connection.prepare_cached(accept::write::INSERT_MESSAGE)?,
            delivery: connection.prepare_cached(accept::write::INSERT_DELIVERY)?,
            attempt: connection.prepare_cached(settle::write::INSERT)?,
            finish: connection.prepare_cached(settle::write::FINISH)?,
        })
    }
}
