//! Steps that come again, and answers that are given again.

use domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::ledger::StoredAnswer;
use crate::sqlite::io::reader::Reading;
use crate::sqlite::io::writer::Writing;
use crate::{Error, limits};

/// Remembers an answer, unless another one is remembered; returns the one that is.
pub(super) fn remember(
    writing: &Writing<'_>,
    hash: &[u8; 32],
    answer: &StoredAnswer,
    at: Timestamp,
) -> Result<StoredAnswer, Error> {
    if let Some(sealed) = sealed(writing.connection, hash, at)? {
        return StoredAnswer::open(writing.vault, hash, &sealed);
    }
    put(writing.connection, hash, &answer.seal(writing.vault, hash)?, at)?;
    Ok(answer.clone())
}

/// Returns the answer that is remembered under a hash.
pub(crate) fn recall(
    reading: &Reading<'_>,
    hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<StoredAnswer>, Error> {
    let sealed = sealed(reading.connection, hash, now)?;
    sealed.map(|sealed| StoredAnswer::open(reading.vault, hash, &sealed)).transpose()
}

/// Forgets what was remembered under a hash at a moment or before it. Needs the primary key of
/// `answers`; writes to `answers_at`.
pub(crate) fn forget(
    writing: &Writing<'_>,
    hash: &[u8; 32],
    until: Timestamp,
) -> Result<(), Error> {
    let sql = "DELETE FROM answers WHERE hash = ?1 AND at <= ?2";
    writing.connection.prepare_cached(sql)?.execute(params![hash, until.as_micros()])?;
    Ok(())
}

/// Returns an answer that still counts. Needs the primary key of `answers`.
fn sealed(
    connection: &Connection,
    hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<Vec<u8>>, Error> {
    let sql = "SELECT sealed FROM answers WHERE hash = ?1 AND at > ?2";
    let since = now.before(limits::IDEMPOTENCY).as_micros();
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params![hash, since], |row| row.get(0)).optional()?)
}

/// Writes an answer over one that no longer counts. Needs the primary key of `answers`; writes to
/// `answers_at`.
fn put(
    connection: &Connection,
    hash: &[u8; 32],
    sealed: &[u8],
    at: Timestamp,
) -> Result<(), Error> {
    let sql = "INSERT INTO answers (hash, at, sealed) VALUES (?1, ?2, ?3)
        ON CONFLICT (hash) DO UPDATE SET at = excluded.at, sealed = excluded.sealed";
    connection.prepare_cached(sql)?.execute(params![hash, at.as_micros(), sealed])?;
    Ok(())
}
