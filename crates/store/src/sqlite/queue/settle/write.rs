//! Writing an attempt and what it moves.

use std::time::Duration;

use rusqlite::{Connection, Result, Statement, params};

use crate::queue::{NextState, Settle};
use crate::sqlite::io::hot::Hot;
use crate::sqlite::row;
use crate::{Error, codes};

/// The statement of [`insert`]. `OR FAIL` because it writes one row: there is nothing to take back,
/// and SQLite need not keep copies of the pages it changes.
pub(crate) const INSERT: &str = "INSERT OR FAIL INTO attempts (
        endpoint, id, message, number, previous, applied, began_at, ended_at, trigger,
        outcome, status, retry_after, retry_after_at, next_due, dns, connect, tls, first_byte,
        error, request_headers, response_headers, response_body, reused, retry_after_kept,
        hops, refusal
    ) SELECT endpoint, ?1, message, recorded + 1, last_attempt, ?2, ?3, ?4, ?5,
        ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?24, ?25, ?26, ?27
    FROM deliveries
    WHERE endpoint = ?19 AND message = ?20 AND application = ?21
        AND (NOT ?2 OR (state = 0 AND recorded = ?22 AND settled_at IS ?23))
    ON CONFLICT DO NOTHING";

/// Inserts an attempt behind the last one of its delivery; `applied` says that it moves it, and
/// then it is inserted only if the delivery is as it was loaded. Returns the number of rows.
///
/// Needs the primary keys of `deliveries` and `attempts`; writes to the latter.
pub(crate) fn insert(
    statement: &mut Statement<'_>,
    settle: &Settle,
    applied: bool,
) -> Result<usize> {
    let attempt = &settle.attempt;
    let next_due = match settle.next {
        NextState::Pending { due } if applied => Some(due.as_micros()),
        NextState::Pending { .. } | NextState::Delivered | NextState::Dead(_) => None,
    };
    let outcome = codes::outcome(attempt.outcome);
    let span = |span: Option<Duration>| span.map(codes::micros);
    statement.execute(params![
        attempt.id.as_bytes(),
        applied,
        attempt.began_at.as_micros(),
        attempt.ended_at.as_micros(),
        codes::trigger(attempt.trigger),
        outcome.outcome,
        outcome.status,
        outcome.retry_after,
        outcome.retry_after_at,
        next_due,
        span(attempt.phases.dns),
        span(attempt.phases.connect),
        span(attempt.phases.tls),
        span(attempt.phases.first_byte),
        attempt.error,
        attempt.request_headers.stored(),
        attempt.response_headers.stored(),
        attempt.kept_body(),
        settle.key.endpoint.0,
        settle.key.message.0,
        settle.key.application.0,
        settle.recorded,
        row::micros_if_any(settle.ended_before),
        attempt.phases.reused,
        span(attempt.retry_after_kept),
        (!attempt.hops.is_empty()).then(|| row::text_of(&attempt.hops)).transpose()?,
        attempt.refusal,
    ])
}

/// Needs the primary key of `deliveries`; writes to it and to `deliveries_pending`.
pub(super) fn send_again(connection: &Connection, settle: &Settle, due: i64) -> Result<i64, Error> {
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
        codes::micros(settle.budget.last_wait),
        row::micros_if_any(settle.budget.expires_at),
        settle.attempt.id.as_bytes(),
        settle.attempt.ended_at.as_micros(),
        settle.attempt.outcome.status(),
        settle.key.endpoint.0,
        settle.key.message.0,
    ];
    Ok(connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0))?)
}

/// Needs the primary key of `deliveries`; writes to it, to `deliveries_pending`, and for a dead
/// letter to `deliveries_dead`.
pub(crate) const FINISH: &str = "UPDATE deliveries SET
        state = ?1, cause = ?2, settled_at = ?3,
        recorded = recorded + 1, last_attempt = ?4, last_attempt_at = ?3, last_status = ?5
    WHERE endpoint = ?6 AND message = ?7";

pub(super) fn finish(
    hot: &mut Hot<'_>,
    settle: &Settle,
    state: i16,
    cause: Option<i16>,
) -> Result<(), Error> {
    hot.finish.execute(params![
        state,
        cause,
        settle.attempt.ended_at.as_micros(),
        settle.attempt.id.as_bytes(),
        settle.attempt.outcome.status(),
        settle.key.endpoint.0,
        settle.key.message.0,
    ])?;
    Ok(())
}

/// Counts an attempt without moving its delivery. Needs the primary key of `deliveries`.
pub(super) fn count(connection: &Connection, settle: &Settle) -> Result<(), Error> {
    let sql = "UPDATE deliveries SET
            recorded = recorded + 1, last_attempt = ?1, last_attempt_at = ?2, last_status = ?3
        WHERE endpoint = ?4 AND message = ?5";
    connection.prepare_cached(sql)?.execute(params![
        settle.attempt.id.as_bytes(),
        settle.attempt.ended_at.as_micros(),
        settle.attempt.outcome.status(),
        settle.key.endpoint.0,
        settle.key.message.0,
    ])?;
    Ok(())
}
