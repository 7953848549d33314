//! Settling: under the current epoch only, and each attempt once.
//!
//! The attempt is inserted from the delivery's own row, if that is still as it was loaded; then the
//! row is written. Only if nothing was inserted it is looked up why not.

use rusqlite::{Connection, OptionalExtension, params};

use super::codec;
use super::hot::Hot;
use super::record;
use super::running;
use super::writer::Writing;
use crate::Error;
use crate::queue::{NextState, Settle, Settled};

pub(super) fn settle(
    writing: &mut Writing<'_>,
    hot: &mut Hot<'_>,
    settle: &Settle,
) -> Result<Settled, Error> {
    if !writing.memo.is_current(settle.lease) {
        return Ok(Settled::Fenced);
    }
    let connection = writing.connection;
    if record::insert(&mut hot.attempt, settle, true)? == 0 {
        return beside(connection, hot, settle);
    }
    run(connection, settle)?;
    let turn = match settle.next {
        NextState::Pending { due } => Some(send_again(connection, settle, due.as_micros())?),
        NextState::Delivered => {
            finish(hot, settle, codec::DELIVERED, None)?;
            None
        }
        NextState::Dead(cause) => {
            finish(hot, settle, codec::DEAD, Some(codec::cause(cause)))?;
            None
        }
    };
    Ok(Settled::Applied { turn })
}

/// Writes the running state that a settle brings along. One that is known wrote it then; there may
/// be a newer one since.
fn run(connection: &Connection, settle: &Settle) -> Result<(), Error> {
    let Some(running) = &settle.running else { return Ok(()) };
    running::put(connection, settle.key.application, settle.key.endpoint, running)?;
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
        Some(true) => Ok(Settled::Applied { turn: (state == codec::PENDING).then_some(turn) }),
        Some(false) => Ok(Settled::LeftAlone),
        None => {
            run(connection, settle)?;
            record::insert(&mut hot.attempt, settle, false)?;
            count(connection, settle)?;
            Ok(Settled::LeftAlone)
        }
    }
}

/// Needs the primary key of `deliveries`; writes to it and to `deliveries_pending`.
fn send_again(connection: &Connection, settle: &Settle, due: i64) -> Result<i64, Error> {
    let sql = "UPDATE deliveries SET
            due = ?1, turn = CASE turn_order WHEN 0 THEN ?1 ELSE turn END,
            attempts = ?2, ambiguous = ?3, last_wait = ?4, expires_at = ?5,
            recorded = recorded + 1, last_attempt = ?6, last_attempt_at = ?7, last_status = ?8
        WHERE endpoint = ?9 AND message = ?10
        RETURNING turn";
    let parameters = params![
        due,
        settle.budget.attempts,
        settle.budget.ambiguous,
        codec::span(settle.budget.last_wait),
        codec::micros_if_any(settle.budget.expires_at),
        settle.attempt.id.as_bytes(),
        settle.attempt.ended_at.as_micros(),
        record::status(&settle.attempt.outcome),
        settle.key.endpoint.0,
        settle.key.message.0,
    ];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0))?)
}

/// Needs the primary key of `deliveries`; writes to it, to `deliveries_pending`, and for a dead
/// letter to `deliveries_dead`.
pub(super) const FINISH: &str = "UPDATE deliveries SET
        state = ?1, cause = ?2, settled_at = ?3,
        recorded = recorded + 1, last_attempt = ?4, last_attempt_at = ?3, last_status = ?5
    WHERE endpoint = ?6 AND message = ?7";

fn finish(hot: &mut Hot<'_>, settle: &Settle, state: i64, cause: Option<i64>) -> Result<(), Error> {
    hot.finish.execute(params![
        state,
        cause,
        settle.attempt.ended_at.as_micros(),
        settle.attempt.id.as_bytes(),
        record::status(&settle.attempt.outcome),
        settle.key.endpoint.0,
        settle.key.message.0,
    ])?;
    Ok(())
}

/// Counts an attempt without moving its delivery. Needs the primary key of `deliveries`.
fn count(connection: &Connection, settle: &Settle) -> Result<(), Error> {
    let sql = "UPDATE deliveries SET
            recorded = recorded + 1, last_attempt = ?1, last_attempt_at = ?2, last_status = ?3
        WHERE endpoint = ?4 AND message = ?5";
    connection.prepare_cached(sql)?.execute(params![
        settle.attempt.id.as_bytes(),
        settle.attempt.ended_at.as_micros(),
        record::status(&settle.attempt.outcome),
        settle.key.endpoint.0,
        settle.key.message.0,
    ])?;
    Ok(())
}

/// Returns state and turn. Needs the primary key of `deliveries`.
fn find_delivery(connection: &Connection, settle: &Settle) -> Result<Option<(i64, i64)>, Error> {
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
