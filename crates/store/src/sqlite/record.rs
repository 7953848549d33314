//! Attempts as they are stored.

use std::time::Duration;

use bytes::Bytes;
use domain::outcome::{Outcome, Unreachable};
use domain::retry_after::RetryAfter;
use domain::time::Timestamp;
use rusqlite::{Result, Row, Statement, params};

use super::codec::{self, odd};
use crate::limits;
use crate::queue::{AttemptRecord, NextState, Phases, Settle, Trigger};

/// The statement of [`insert`]. `OR FAIL` because it writes one row: there is nothing to take back,
/// and SQLite need not keep copies of the pages it changes.
pub(super) const INSERT: &str = "INSERT OR FAIL INTO attempts (
        endpoint, id, message, number, previous, applied, began_at, ended_at, trigger,
        outcome, status, retry_after, retry_after_at, next_due, dns, connect, tls, first_byte,
        error, request_headers, response_headers, response_body, reused, retry_after_kept
    ) SELECT endpoint, ?1, message, recorded + 1, last_attempt, ?2, ?3, ?4, ?5,
        ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?24, ?25
    FROM deliveries
    WHERE endpoint = ?19 AND message = ?20 AND application = ?21
        AND (NOT ?2 OR (state = 0 AND recorded = ?22 AND settled_at IS ?23))
    ON CONFLICT DO NOTHING";

/// Inserts an attempt behind the last one of its delivery; `applied` says that it moves it, and
/// then it is inserted only if the delivery is as it was loaded. Returns the number of rows.
///
/// Needs the primary keys of `deliveries` and `attempts`; writes to the latter.
pub(super) fn insert(
    statement: &mut Statement<'_>,
    settle: &Settle,
    applied: bool,
) -> Result<usize> {
    let attempt = &settle.attempt;
    let next_due = match settle.next {
        NextState::Pending { due } if applied => Some(due.as_micros()),
        NextState::Pending { .. } | NextState::Delivered | NextState::Dead(_) => None,
    };
    let (outcome, retry_after, retry_after_at) = outcome(&attempt.outcome);
    let span = |span: Option<Duration>| span.map(codec::span);
    statement.execute(params![
        attempt.id.as_bytes(),
        applied,
        attempt.began_at.as_micros(),
        attempt.ended_at.as_micros(),
        trigger(attempt.trigger),
        outcome,
        status(&attempt.outcome),
        retry_after,
        retry_after_at,
        next_due,
        span(attempt.phases.dns),
        span(attempt.phases.connect),
        span(attempt.phases.tls),
        span(attempt.phases.first_byte),
        attempt.error,
        attempt.request_headers.stored(),
        attempt.response_headers.stored(),
        kept(attempt),
        settle.key.endpoint.0,
        settle.key.message.0,
        settle.key.application.0,
        settle.recorded,
        codec::micros_if_any(settle.ended_before),
        attempt.phases.reused,
        span(attempt.retry_after_kept),
    ])
}

/// Reads an attempt from its columns.
pub(super) fn of(row: &Row<'_>) -> Result<AttemptRecord> {
    let span = |column| {
        Ok::<_, rusqlite::Error>(row.get::<_, Option<u64>>(column)?.map(Duration::from_micros))
    };
    Ok(AttemptRecord {
        id: codec::id(row, "id")?,
        began_at: codec::time(row, "began_at")?,
        ended_at: codec::time(row, "ended_at")?,
        trigger: trigger_of(row)?,
        outcome: outcome_of(row)?,
        retry_after_kept: span("retry_after_kept")?,
        phases: Phases {
            dns: span("dns")?,
            connect: span("connect")?,
            tls: span("tls")?,
            first_byte: span("first_byte")?,
            reused: row.get("reused")?,
        },
        request_headers: codec::headers(row, "request_headers")?,
        response_headers: codec::headers(row, "response_headers")?,
        response_body: Bytes::from(row.get::<_, Vec<u8>>("response_body")?),
        error: row.get("error")?,
    })
}

/// Returns the status that an attempt was answered with.
pub(super) const fn status(outcome: &Outcome) -> Option<u16> {
    match outcome {
        Outcome::Answered { status, .. } => Some(*status),
        Outcome::TimedOut
        | Outcome::Unreachable(_)
        | Outcome::TlsFailed
        | Outcome::BrokenAnswer
        | Outcome::Blocked
        | Outcome::Interrupted => None,
    }
}

/// Returns as much of the response's body as is kept.
fn kept(attempt: &AttemptRecord) -> &[u8] {
    let most = match status(&attempt.outcome) {
        Some(200..=299) => limits::KEPT_OF_SUCCESS,
        Some(_) | None => limits::KEPT_OF_FAILURE,
    };
    &attempt.response_body[..attempt.response_body.len().min(most)]
}

const fn trigger(trigger: Trigger) -> i64 {
    match trigger {
        Trigger::Scheduled => 0,
        Trigger::Manual => 1,
    }
}

fn trigger_of(row: &Row<'_>) -> Result<Trigger> {
    match row.get("trigger")? {
        0 => Ok(Trigger::Scheduled),
        1 => Ok(Trigger::Manual),
        number => Err(odd("trigger", number)),
    }
}

/// Returns the outcome's number, and what Retry-After asked for: seconds, or a moment.
fn outcome(outcome: &Outcome) -> (i64, Option<i64>, Option<i64>) {
    let number = match outcome {
        Outcome::Answered { retry_after, .. } => {
            return match retry_after {
                None => (0, None, None),
                // Bit by bit: a receiver may ask for more seconds than a signed number holds.
                Some(RetryAfter::Seconds(seconds)) => (0, Some(seconds.cast_signed()), None),
                Some(RetryAfter::At(moment)) => (0, None, Some(moment.as_micros())),
            };
        }
        Outcome::TimedOut => 1,
        Outcome::Unreachable(Unreachable::Dns) => 2,
        Outcome::Unreachable(Unreachable::Refused) => 3,
        Outcome::Unreachable(Unreachable::Reset) => 4,
        Outcome::Unreachable(Unreachable::Other) => 5,
        Outcome::TlsFailed => 6,
        Outcome::BrokenAnswer => 7,
        Outcome::Blocked => 8,
        Outcome::Interrupted => 9,
    };
    (number, None, None)
}

fn outcome_of(row: &Row<'_>) -> Result<Outcome> {
    Ok(match row.get("outcome")? {
        0 => {
            let seconds: Option<i64> = row.get("retry_after")?;
            let moment: Option<i64> = row.get("retry_after_at")?;
            let moment = moment.map(|moment| RetryAfter::At(Timestamp::from_micros(moment)));
            let seconds = seconds.map(|seconds| RetryAfter::Seconds(seconds.cast_unsigned()));
            Outcome::Answered { status: row.get("status")?, retry_after: seconds.or(moment) }
        }
        1 => Outcome::TimedOut,
        2 => Outcome::Unreachable(Unreachable::Dns),
        3 => Outcome::Unreachable(Unreachable::Refused),
        4 => Outcome::Unreachable(Unreachable::Reset),
        5 => Outcome::Unreachable(Unreachable::Other),
        6 => Outcome::TlsFailed,
        7 => Outcome::BrokenAnswer,
        8 => Outcome::Blocked,
        9 => Outcome::Interrupted,
        number => return Err(odd("outcome", number)),
    })
}
