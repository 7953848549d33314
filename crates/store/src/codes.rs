//! The small numbers that rows keep instead of words, alike in a file and in PostgreSQL. They never
//! change their meaning. An enum is written and read nowhere else.

use std::time::Duration;

use domain::breaker::Breaker;
use domain::delivery::{Cause, Delivery, Pending};
use domain::endpoint::{Reason, State};
use domain::health::Level;
use domain::outcome::{Outcome, Unreachable};
use domain::retry_after::RetryAfter;
use domain::time::Timestamp;

use crate::Error;
use crate::keys::{ApplicationKey, EndpointKey, MessageKey};
use crate::ledger::{TaskKind, TaskState};
use crate::queue::{Order, RequestKind, Subject, Trigger};

/// A pending delivery. The partial index on pending rows names it, too.
pub(crate) const PENDING: i16 = 0;
/// A delivered one.
pub(crate) const DELIVERED: i16 = 1;
/// A dead letter. The partial index on dead rows names it, too.
pub(crate) const DEAD: i16 = 2;
/// A cancelled one.
pub(crate) const CANCELLED: i16 = 3;
/// An attempt that was answered.
const ANSWERED: i16 = 0;
/// A deleted endpoint. The partial index on deleted endpoints names it, too.
const ENDPOINT_DELETED: i16 = 3;

/// All levels of warning.
const LEVELS: [Level; 3] = [Level::Half, Level::Most, Level::Nearly];

/// A number that no version of this store wrote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    what: &'static str,
    number: i16,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} is none that is known", self.number, self.what)
    }
}

impl From<Unknown> for Error {
    fn from(unknown: Unknown) -> Self {
        let text = format!("{} is none that is known", unknown.number);
        Self::Damaged { what: unknown.what.to_owned(), text }
    }
}

const fn unknown(what: &'static str, number: i16) -> Unknown {
    Unknown { what, number }
}

pub(crate) const fn delivery(state: Delivery) -> i16 {
    match state {
        Delivery::Pending(_) => PENDING,
        Delivery::Delivered => DELIVERED,
        Delivery::Dead(_) => DEAD,
        Delivery::Cancelled => CANCELLED,
    }
}

/// Reads where a delivery stands. Only what its state has is asked for.
pub(crate) fn read_delivery<E: From<Unknown>>(
    number: i16,
    pending: impl FnOnce() -> Result<Pending, E>,
    cause: impl FnOnce() -> Result<i16, E>,
) -> Result<Delivery, E> {
    match number {
        PENDING => pending().map(Delivery::Pending),
        DELIVERED => Ok(Delivery::Delivered),
        DEAD => Ok(Delivery::Dead(read_cause(cause()?)?)),
        CANCELLED => Ok(Delivery::Cancelled),
        other => Err(unknown("the state of a delivery", other).into()),
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

fn read_cause(number: i16) -> Result<Cause, Unknown> {
    let found = Cause::ALL.into_iter().find(|candidate| cause(*candidate) == number);
    found.ok_or_else(|| unknown("the cause of a dead letter", number))
}

pub(crate) const fn order(order: Order) -> i16 {
    match order {
        Order::Due => 0,
        Order::Fifo => 1,
    }
}

pub(crate) fn read_order(number: i16) -> Result<Order, Unknown> {
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

pub(crate) fn read_state(number: i16, reason: Option<i16>) -> Result<State, Unknown> {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutcomeColumns {
    pub(crate) outcome: i16,
    pub(crate) status: Option<u16>,
    /// What Retry-After asked for: seconds, or a moment.
    pub(crate) retry_after: Option<i64>,
    pub(crate) retry_after_at: Option<i64>,
}

pub(crate) const fn outcome(outcome: Outcome) -> OutcomeColumns {
    let number = match outcome {
        Outcome::Answered { status, retry_after } => {
            let (seconds, at) = match retry_after {
                None => (None, None),
                // Kept bit by bit: a wish of more seconds than a bigint has still reads back.
                Some(RetryAfter::Seconds(seconds)) => (Some(seconds.cast_signed()), None),
                Some(RetryAfter::At(at)) => (None, Some(at.as_micros())),
            };
            return OutcomeColumns {
                outcome: ANSWERED,
                status: Some(status),
                retry_after: seconds,
                retry_after_at: at,
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
    OutcomeColumns { outcome: number, status: None, retry_after: None, retry_after_at: None }
}

pub(crate) fn read_outcome(columns: OutcomeColumns) -> Result<Outcome, Unknown> {
    Ok(match columns.outcome {
        ANSWERED => {
            let seconds = columns.retry_after.map(|it| RetryAfter::Seconds(it.cast_unsigned()));
            let at = columns.retry_after_at.map(|it| RetryAfter::At(Timestamp::from_micros(it)));
            let status = columns.status.ok_or(unknown("an answer without a status", ANSWERED))?;
            Outcome::Answered { status, retry_after: seconds.or(at) }
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

pub(crate) fn read_trigger(number: i16) -> Result<Trigger, Unknown> {
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

pub(crate) fn read_request(number: i16, message: Option<i64>) -> Result<RequestKind, Unknown> {
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

pub(crate) fn read_task_kind(number: i16) -> Result<TaskKind, Unknown> {
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

pub(crate) fn read_task_state(number: i16) -> Result<TaskState, Unknown> {
    match number {
        0 => Ok(TaskState::Running),
        1 => Ok(TaskState::Finished),
        _ => Err(unknown("the state of a task", number)),
    }
}

/// A breaker as columns: state, failures, end of the cooldown, cooldown.
pub(crate) type BreakerColumns = (i16, i64, Option<i64>, Option<i64>);

pub(crate) fn breaker(breaker: Breaker) -> BreakerColumns {
    match breaker {
        Breaker::Closed { failures } => (0, failures.into(), None, None),
        Breaker::Open { until, cooldown } => {
            (1, 0, Some(until.as_micros()), Some(micros(cooldown)))
        }
        Breaker::HalfOpen { cooldown } => (2, 0, None, Some(micros(cooldown))),
    }
}

pub(crate) fn read_breaker(columns: BreakerColumns) -> Result<Breaker, Unknown> {
    match columns {
        (0, failures, _, _) => Ok(Breaker::Closed { failures: count(failures) }),
        (1, _, Some(until), Some(cooldown)) => {
            Ok(Breaker::Open { until: Timestamp::from_micros(until), cooldown: span(cooldown) })
        }
        (2, _, _, Some(cooldown)) => Ok(Breaker::HalfOpen { cooldown: span(cooldown) }),
        (number, ..) => Err(unknown("the state of a breaker", number)),
    }
}

/// The subject of a sum as its two columns: what it is, and its key.
pub(crate) const fn subject(subject: Subject) -> (i16, i64) {
    match subject {
        Subject::Whole => (0, 0),
        Subject::Application(ApplicationKey(key)) => (1, key),
        Subject::Endpoint(EndpointKey(key)) => (2, key),
    }
}

/// The subject of an hour's sum as its two columns.
pub(crate) const fn hours_of(subject: Subject) -> (i16, i64) {
    let (number, key) = self::subject(subject);
    (number + 3, key)
}

/// Reads the subject of a minute's sum; those of hours are none.
pub(crate) const fn read_subject((number, key): (i16, i64)) -> Option<Subject> {
    match number {
        0 => Some(Subject::Whole),
        1 => Some(Subject::Application(ApplicationKey(key))),
        2 => Some(Subject::Endpoint(EndpointKey(key))),
        _ => None,
    }
}

/// Returns a level of warning as PostgreSQL keeps it. A file keeps its percentage.
#[cfg(feature = "postgres")]
pub(crate) const fn level(level: Level) -> i16 {
    match level {
        Level::Half => 0,
        Level::Most => 1,
        Level::Nearly => 2,
    }
}

#[cfg(feature = "postgres")]
pub(crate) fn read_level(number: i16) -> Result<Level, Unknown> {
    let found = LEVELS.into_iter().find(|candidate| level(*candidate) == number);
    found.ok_or(unknown("a warning level", number))
}

/// Reads a level of warning as a file keeps it.
#[cfg(feature = "sqlite")]
pub(crate) fn read_percent(percent: i16) -> Result<Level, Unknown> {
    let found = LEVELS.into_iter().find(|candidate| i16::from(candidate.percent()) == percent);
    found.ok_or(unknown("a warning level", percent))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_numbers_keep_their_meaning() {
        assert_eq!(Cause::ALL.map(cause), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!([order(Order::Due), order(Order::Fifo)], [0, 1]);
        assert_eq!(state(State::Deleted), (3, None));
        assert_eq!([PENDING, DELIVERED, DEAD, CANCELLED], [0, 1, 2, 3]);
    }

    #[test]
    fn numbers_read_as_they_were_written_and_others_are_reported() {
        for number in 0..=10 {
            let columns = OutcomeColumns {
                outcome: number,
                status: (number == 0).then_some(503),
                retry_after: (number == 0).then_some(-1),
                retry_after_at: None,
            };
            let read = read_outcome(columns).map(outcome);
            assert_eq!(read.is_ok(), number < 10, "{number}");
            assert!(read.is_err() || read == Ok(columns), "{number}");
        }
        for (number, reason) in [(0, None), (1, None), (2, Some(0)), (2, Some(3)), (3, None)] {
            assert_eq!(read_state(number, reason).map(state), Ok((number, reason)));
        }
        assert_eq!(read_state(2, None), Err(unknown("the state of an endpoint", 2)));
        assert_eq!(read_order(2), Err(unknown("the order of an endpoint", 2)));
    }
}
