//! The small numbers that rows keep instead of words. They never change their meaning.

use std::time::Duration;

use domain::breaker::Breaker;
use domain::delivery::{Cause, Delivery};
use domain::endpoint::{Reason, State};
use domain::health::Level;
use domain::outcome::{Outcome, Unreachable};
use domain::retry_after::RetryAfter;
use domain::time::Timestamp;

use crate::Error;
use crate::keys::MessageKey;
use crate::ledger::{TaskKind, TaskState};
use crate::queue::{Order, RequestKind, Trigger};

/// A pending delivery. The partial index on pending rows names it, too.
pub(crate) const PENDING: i16 = 0;
/// A delivered one.
pub(crate) const DELIVERED: i16 = 1;
/// A dead letter. The partial index on dead rows names it, too.
pub(crate) const DEAD: i16 = 2;
/// A cancelled one.
pub(crate) const CANCELLED: i16 = 3;
/// A deleted endpoint. The partial index on deleted endpoints names it, too.
pub(crate) const ENDPOINT_DELETED: i16 = 3;

/// Reports a number that no version of this store wrote.
pub(crate) fn unknown(what: &str, number: impl std::fmt::Display) -> Error {
    Error::Damaged { what: what.to_owned(), text: format!("{number} is none that is known") }
}

pub(crate) const fn delivery(state: Delivery) -> i16 {
    match state {
        Delivery::Pending(_) => PENDING,
        Delivery::Delivered => DELIVERED,
        Delivery::Dead(_) => DEAD,
        Delivery::Cancelled => CANCELLED,
    }
}

pub(crate) const fn cause(cause: Cause) -> i16 {
    match cause {
        Cause::Permanent => 0,
        Cause::Exhausted => 1,
        Cause::Expired => 2,
        Cause::EndpointDisabled => 3,
        Cause::EndpointDeleted => 4,
        Cause::Blocked => 5,
        Cause::BreakerOpen => 6,
        Cause::Poison => 7,
    }
}

pub(crate) fn read_cause(number: i16) -> Result<Cause, Error> {
    let found = Cause::ALL.into_iter().find(|candidate| cause(*candidate) == number);
    found.ok_or_else(|| unknown("the cause of a dead letter", number))
}

pub(crate) const fn order(order: Order) -> i16 {
    match order {
        Order::Due => 0,
        Order::Fifo => 1,
    }
}

pub(crate) fn read_order(number: i16) -> Result<Order, Error> {
    match number {
        0 => Ok(Order::Due),
        1 => Ok(Order::Fifo),
        _ => Err(unknown("the order of an endpoint", number)),
    }
}

/// Returns the state of an endpoint and, if it is disabled, why.
pub(crate) const fn state(state: State) -> (i16, Option<i16>) {
    match state {
        State::Active => (0, None),
        State::Paused => (1, None),
        State::Disabled(Reason::Gone) => (2, Some(0)),
        State::Disabled(Reason::PermanentStreak) => (2, Some(1)),
        State::Disabled(Reason::WithoutSuccess) => (2, Some(2)),
        State::Disabled(Reason::ByPerson) => (2, Some(3)),
        State::Deleted => (ENDPOINT_DELETED, None),
    }
}

pub(crate) fn read_state(number: i16, reason: Option<i16>) -> Result<State, Error> {
    match (number, reason) {
        (0, _) => Ok(State::Active),
        (1, _) => Ok(State::Paused),
        (2, Some(0)) => Ok(State::Disabled(Reason::Gone)),
        (2, Some(1)) => Ok(State::Disabled(Reason::PermanentStreak)),
        (2, Some(2)) => Ok(State::Disabled(Reason::WithoutSuccess)),
        (2, Some(3)) => Ok(State::Disabled(Reason::ByPerson)),
        (ENDPOINT_DELETED, _) => Ok(State::Deleted),
        _ => Err(unknown("the state of an endpoint", number)),
    }
}

/// An outcome as the columns of an attempt.
pub(crate) struct OutcomeColumns {
    pub(crate) outcome: i16,
    pub(crate) status: Option<i32>,
    pub(crate) retry_after_seconds: Option<i64>,
    pub(crate) retry_after_at: Option<i64>,
}

pub(crate) fn outcome(outcome: Outcome) -> OutcomeColumns {
    let bare = |number| OutcomeColumns {
        outcome: number,
        status: None,
        retry_after_seconds: None,
        retry_after_at: None,
    };
    match outcome {
        Outcome::Answered { status, retry_after } => {
            let (seconds, at) = match retry_after {
                None => (None, None),
                // Kept bit by bit: a wish of more seconds than a bigint has still reads back.
                Some(RetryAfter::Seconds(seconds)) => (Some(seconds.cast_signed()), None),
                Some(RetryAfter::At(at)) => (None, Some(at.as_micros())),
            };
            OutcomeColumns {
                status: Some(status.into()),
                retry_after_seconds: seconds,
                retry_after_at: at,
                ..bare(0)
            }
        }
        Outcome::TimedOut => bare(1),
        Outcome::Unreachable(Unreachable::Dns) => bare(2),
        Outcome::Unreachable(Unreachable::Refused) => bare(3),
        Outcome::Unreachable(Unreachable::Reset) => bare(4),
        Outcome::Unreachable(Unreachable::Other) => bare(5),
        Outcome::TlsFailed => bare(6),
        Outcome::BrokenAnswer => bare(7),
        Outcome::Blocked => bare(8),
        Outcome::Interrupted => bare(9),
    }
}

pub(crate) fn read_outcome(columns: &OutcomeColumns) -> Result<Outcome, Error> {
    Ok(match columns.outcome {
        0 => {
            let seconds = columns.retry_after_seconds;
            let retry_after = match (seconds, columns.retry_after_at) {
                (Some(seconds), _) => Some(RetryAfter::Seconds(seconds.cast_unsigned())),
                (None, Some(at)) => Some(RetryAfter::At(Timestamp::from_micros(at))),
                (None, None) => None,
            };
            let status = columns.status.and_then(|status| u16::try_from(status).ok());
            let status = status.ok_or_else(|| unknown("the status of an attempt", "none"))?;
            Outcome::Answered { status, retry_after }
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
        other => return Err(unknown("the outcome of an attempt", other)),
    })
}

pub(crate) const fn trigger(trigger: Trigger) -> i16 {
    match trigger {
        Trigger::Scheduled => 0,
        Trigger::Manual => 1,
    }
}

pub(crate) fn read_trigger(number: i16) -> Result<Trigger, Error> {
    match number {
        0 => Ok(Trigger::Scheduled),
        1 => Ok(Trigger::Manual),
        _ => Err(unknown("the trigger of an attempt", number)),
    }
}

/// Returns the kind of a request and the message it is about, if it is about one.
pub(crate) const fn request(kind: RequestKind) -> (i16, Option<i64>) {
    match kind {
        RequestKind::ResetBreaker => (0, None),
        RequestKind::Refresh => (1, None),
        RequestKind::RetryNow(MessageKey(message)) => (2, Some(message)),
        RequestKind::Cancel(MessageKey(message)) => (3, Some(message)),
        RequestKind::EndPause => (4, None),
    }
}

pub(crate) fn read_request(number: i16, message: Option<i64>) -> Result<RequestKind, Error> {
    match (number, message) {
        (0, _) => Ok(RequestKind::ResetBreaker),
        (1, _) => Ok(RequestKind::Refresh),
        (2, Some(message)) => Ok(RequestKind::RetryNow(MessageKey(message))),
        (3, Some(message)) => Ok(RequestKind::Cancel(MessageKey(message))),
        (4, _) => Ok(RequestKind::EndPause),
        _ => Err(unknown("the kind of a request", number)),
    }
}

pub(crate) const fn task_kind(kind: TaskKind) -> i16 {
    match kind {
        TaskKind::Recover => 0,
        TaskKind::ReplayMissing => 1,
        TaskKind::BulkReplay => 2,
    }
}

pub(crate) fn read_task_kind(number: i16) -> Result<TaskKind, Error> {
    match number {
        0 => Ok(TaskKind::Recover),
        1 => Ok(TaskKind::ReplayMissing),
        2 => Ok(TaskKind::BulkReplay),
        _ => Err(unknown("the kind of a task", number)),
    }
}

pub(crate) const fn task_state(state: TaskState) -> i16 {
    match state {
        TaskState::Running => 0,
        TaskState::Finished => 1,
    }
}

pub(crate) fn read_task_state(number: i16) -> Result<TaskState, Error> {
    match number {
        0 => Ok(TaskState::Running),
        1 => Ok(TaskState::Finished),
        _ => Err(unknown("the state of a task", number)),
    }
}

/// A breaker as columns: state, failures, end of the cooldown, cooldown.
pub(crate) fn breaker(breaker: Breaker) -> (i16, i64, Option<i64>, Option<i64>) {
    match breaker {
        Breaker::Closed { failures } => (0, failures.into(), None, None),
        Breaker::Open { until, cooldown } => {
            (1, 0, Some(until.as_micros()), Some(micros(cooldown)))
        }
        Breaker::HalfOpen { cooldown } => (2, 0, None, Some(micros(cooldown))),
    }
}

pub(crate) fn read_breaker(
    columns: (i16, i64, Option<i64>, Option<i64>),
) -> Result<Breaker, Error> {
    match columns {
        (0, failures, _, _) => Ok(Breaker::Closed { failures: count(failures) }),
        (1, _, Some(until), Some(cooldown)) => {
            Ok(Breaker::Open { until: Timestamp::from_micros(until), cooldown: span(cooldown) })
        }
        (2, _, _, Some(cooldown)) => Ok(Breaker::HalfOpen { cooldown: span(cooldown) }),
        (number, ..) => Err(unknown("the state of a breaker", number)),
    }
}

pub(crate) const fn level(level: Level) -> i16 {
    match level {
        Level::Half => 0,
        Level::Most => 1,
        Level::Nearly => 2,
    }
}

pub(crate) fn read_level(number: i16) -> Result<Level, Error> {
    match number {
        0 => Ok(Level::Half),
        1 => Ok(Level::Most),
        2 => Ok(Level::Nearly),
        _ => Err(unknown("a warning level", number)),
    }
}

/// Returns a span in microseconds; what is too long for the column is as long as it can be.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Reads a span.
pub(crate) fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Reads a count.
pub(crate) fn count(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX })
}
