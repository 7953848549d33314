//! The items of the settle lane as columns, in the order in which the statement names them.

use bytes::Bytes;
use domain::time::Timestamp;
use tokio_postgres::types::Type;

use super::super::codes::{self, OutcomeColumns};
use super::super::columns::{Column, column};
use super::super::queue::number;
use crate::limits;
use crate::queue::{AttemptRecord, NextState, Running, Settle};

/// Lease, delivery, and where it goes.
pub(super) fn verdicts(settles: &[Settle]) -> Vec<Column<'_>> {
    vec![
        column(settles, Type::INT2_ARRAY, |settle| number(settle.lease.partition)),
        column(settles, Type::INT8_ARRAY, |settle| settle.lease.epoch.0),
        column(settles, Type::INT8_ARRAY, |settle| settle.key.application.0),
        column(settles, Type::INT8_ARRAY, |settle| settle.key.endpoint.0),
        column(settles, Type::INT8_ARRAY, |settle| settle.key.message.0),
        column(settles, Type::INT8_ARRAY, |settle| i64::from(settle.recorded)),
        column(settles, Type::INT2_ARRAY, |settle| next(settle.next).0),
        column(settles, Type::INT2_ARRAY, |settle| next(settle.next).1),
        column(settles, Type::INT8_ARRAY, |settle| next(settle.next).2),
        column(settles, Type::INT8_ARRAY, |settle| i64::from(settle.budget.attempts)),
        column(settles, Type::INT8_ARRAY, |settle| i64::from(settle.budget.ambiguous)),
        column(settles, Type::INT8_ARRAY, |settle| codes::micros(settle.budget.last_wait)),
        column(settles, Type::INT8_ARRAY, |settle| {
            settle.budget.expires_at.map(Timestamp::as_micros)
        }),
    ]
}

/// Returns state, cause and due time.
fn next(next: NextState) -> (i16, Option<i16>, Option<i64>) {
    match next {
        NextState::Pending { due } => (codes::PENDING, None, Some(due.as_micros())),
        NextState::Delivered => (codes::DELIVERED, None, None),
        NextState::Dead(cause) => (codes::DEAD, Some(codes::cause(cause)), None),
    }
}

/// The attempts.
pub(super) fn attempts(settles: &[Settle]) -> Vec<Column<'_>> {
    let outcome = |settle: &Settle| codes::outcome(settle.attempt.outcome);
    let micros = |span: Option<std::time::Duration>| span.map(codes::micros);
    vec![
        column(settles, Type::BYTEA_ARRAY, |settle| settle.attempt.id.as_bytes().as_slice()),
        column(settles, Type::INT8_ARRAY, |settle| settle.attempt.began_at.as_micros()),
        column(settles, Type::INT8_ARRAY, |settle| settle.attempt.ended_at.as_micros()),
        column(settles, Type::INT2_ARRAY, |settle| codes::trigger(settle.attempt.trigger)),
        column(settles, Type::INT2_ARRAY, move |settle| outcome(settle).outcome),
        column(settles, Type::INT4_ARRAY, move |settle| outcome(settle).status),
        column(settles, Type::INT8_ARRAY, move |settle| outcome(settle).retry_after_seconds),
        column(settles, Type::INT8_ARRAY, move |settle| outcome(settle).retry_after_at),
        column(settles, Type::INT8_ARRAY, move |settle| micros(settle.attempt.phases.dns)),
        column(settles, Type::INT8_ARRAY, move |settle| micros(settle.attempt.phases.connect)),
        column(settles, Type::INT8_ARRAY, move |settle| micros(settle.attempt.phases.tls)),
        column(settles, Type::INT8_ARRAY, move |settle| micros(settle.attempt.phases.first_byte)),
        column(settles, Type::TEXT_ARRAY, |settle| settle.attempt.error.as_deref().map(keepable)),
        column(settles, Type::TEXT_ARRAY, |settle| settle.attempt.request_headers.stored()),
        column(settles, Type::TEXT_ARRAY, |settle| settle.attempt.response_headers.stored()),
        column(settles, Type::BYTEA_ARRAY, |settle| kept(&settle.attempt)),
    ]
}

/// PostgreSQL keeps no text with a NUL character. An attempt is recorded all the same.
fn keepable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Returns as much of the response's body as is kept.
fn kept(attempt: &AttemptRecord) -> &[u8] {
    let OutcomeColumns { status, .. } = codes::outcome(attempt.outcome);
    let most = match status {
        Some(200..=299) => limits::KEPT_OF_SUCCESS,
        Some(_) | None => limits::KEPT_OF_FAILURE,
    };
    let body: &Bytes = &attempt.response_body;
    &body[..body.len().min(most)]
}

/// When the deliveries had ended before they were replayed.
pub(super) fn ended_before(settles: &[Settle]) -> Column<'_> {
    column(settles, Type::INT8_ARRAY, |settle| settle.ended_before.map(Timestamp::as_micros))
}

/// Whether their connections had been used before.
pub(super) fn reused(settles: &[Settle]) -> Column<'_> {
    column(settles, Type::BOOL_ARRAY, |settle| settle.attempt.phases.reused)
}

/// How long those of their Retry-Afters count that asked for more.
pub(super) fn retry_after_kept(settles: &[Settle]) -> Column<'_> {
    column(settles, Type::INT8_ARRAY, |settle| settle.attempt.retry_after_kept.map(codes::micros))
}

/// The running states; without one, all of them are missing.
pub(super) fn running(settles: &[Settle]) -> Vec<Column<'_>> {
    let breaker = |settle: &Settle| settle.running.map(|running| codes::breaker(running.breaker));
    let health = |settle: &Settle| settle.running.map(|Running { health, .. }| health);
    vec![
        column(settles, Type::INT2_ARRAY, move |settle| breaker(settle).map(|b| b.0)),
        column(settles, Type::INT8_ARRAY, move |settle| breaker(settle).map(|b| b.1)),
        column(settles, Type::INT8_ARRAY, move |settle| breaker(settle).and_then(|b| b.2)),
        column(settles, Type::INT8_ARRAY, move |settle| breaker(settle).and_then(|b| b.3)),
        column(settles, Type::INT8_ARRAY, move |settle| {
            health(settle).map(|health| i64::from(health.permanent_streak))
        }),
        column(settles, Type::INT8_ARRAY, move |settle| {
            health(settle).and_then(|health| health.failing_since).map(Timestamp::as_micros)
        }),
        column(settles, Type::INT2_ARRAY, move |settle| {
            health(settle).and_then(|health| health.warned).map(codes::level)
        }),
        column(settles, Type::INT8_ARRAY, |settle| {
            settle.running.and_then(|running| running.paused_until).map(Timestamp::as_micros)
        }),
    ]
}
