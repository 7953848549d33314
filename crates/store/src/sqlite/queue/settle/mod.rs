//! Settling: under the current epoch only, and each attempt once.
//!
//! The attempt is inserted from the delivery's own row, if that is still as it was loaded; then the
//! row is written. Only if nothing was inserted it is looked up why not.

pub(crate) mod write;

use rusqlite::{Connection, OptionalExtension, params};

use crate::queue::{NextState, Settle, Settled};
use crate::sqlite::io::hot::Hot;
use crate::sqlite::io::writer::Writing;
use crate::sqlite::upkeep::run;
use crate::{Error, codes};

pub(crate) fn settle(
    writing: &mut Writing<'_>,
    hot: &mut Hot<'_>,
    settle: &Settle,
) -> Result<Settled, Error> {
    if !writing.memo.is_current(settle.lease) {
        return Ok(Settled::Fenced);
    }
    let connection = writing.connection;
    if write::insert(&mut hot.attempt, settle, true)? == 0 {
        return beside(connection, hot, settle);
    }
    run(connection, settle)?;
    let turn = match settle.next {
        NextState::Pending { due } => Some(write::send_again(connection, settle, due.as_micros())?),
        NextState::Delivered => {
            write::finish(hot, settle, codes::DELIVERED, None)?;
            None
        }
        NextState::Dead(cause) => {
            write::finish(hot, settle, codes::DEAD, Some(codes::cause(cause)))?;
            None
        }
    };
    Ok(Settled::Applied { turn })
}

/// Writes the running state that a settle brings along. One that is known wrote it then; there may
/// be a newer one since.
fn run(connection: &Connection, settle: &Settle) -> Result<(), Error> {
    let Some(running) = &settle.running else { return Ok(()) };
    run::put(connection, settle.key.application, settle.key.endpoint, running)?;
    Ok(())
}

/// Answers for a delivery that is not as it was loaded.
fn beside(connection: &Connection, hot: &mut Hot<'_>, settle: &Settle) -> Result<Settled, Error> {
    let Some((state, turn)) = find_delivery(connection, settle)? else {
        run(connection, settle)?;
        return Ok(Settled::Missing);
    };
    match was_applied(connection, settle)? {
        // Not the verdict but what it did then: a cancel in between must look the same again.
        Some(true) => Ok(Settled::Applied { turn: (state == codes::PENDING).then_some(turn) }),
        Some(false) => Ok(Settled::LeftAlone),
        None => {
            run(connection, settle)?;
            write::insert(&mut hot.attempt, settle, false)?;
            write::count(connection, settle)?;
            Ok(Settled::LeftAlone)
        }
    }
}

/// Returns state and turn. Needs the primary key of `deliveries`.
fn find_delivery(connection: &Connection, settle: &Settle) -> Result<Option<(i16, i64)>, Error> {
    let sql = "SELECT state, turn FROM deliveries
        WHERE endpoint = ?1 AND message = ?2 AND application = ?3";
    let key = settle.key;
    let parameters = params![key.endpoint.0, key.message.0, key.application.0];
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?)
}

/// Tells, for an attempt that is recorded, whether it moved its delivery. Needs the primary key of
/// `attempts`.
fn was_applied(connection: &Connection, settle: &Settle) -> Result<Option<bool>, Error> {
    let sql = "SELECT applied FROM attempts WHERE endpoint = ?1 AND id = ?2";
    let parameters = params![settle.key.endpoint.0, settle.attempt.id.as_bytes()];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0)).optional()?)
}
