//! Values as they are stored: states as small numbers, spans as microseconds, ids as bytes.
//!
//! The numbers are part of the schema and never change their meaning.

use std::time::Duration;

use domain::delivery::{Budget, Cause, Delivery, Pending};
use domain::endpoint::{Reason, State};
use domain::ids::Id;
use domain::partition::Partition;
use domain::time::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Result, Row, RowIndex};

use crate::Headers;
use crate::keys::EndpointKey;
use crate::queue::Order;
use crate::vault::KEY_BYTES;

/// States of deliveries. The partial indexes name the first and the third as numbers.
pub(super) const PENDING: i64 = 0;
pub(super) const DELIVERED: i64 = 1;
pub(super) const DEAD: i64 = 2;
pub(super) const CANCELLED: i64 = 3;

/// Says that a column does not hold what it should.
pub(super) fn odd(column: &str, value: impl std::fmt::Display) -> rusqlite::Error {
    let text = format!("`{column}` holds {value}");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Null, text.into())
}

pub(super) fn id<N: domain::ids::Noun>(row: &Row<'_>, column: impl RowIndex) -> Result<Id<N>> {
    row.get::<_, [u8; 20]>(column).map(Id::from_bytes)
}

pub(super) fn id_if_any<N: domain::ids::Noun>(
    row: &Row<'_>,
    column: &str,
) -> Result<Option<Id<N>>> {
    Ok(row.get::<_, Option<[u8; 20]>>(column)?.map(Id::from_bytes))
}

pub(super) fn time(row: &Row<'_>, column: impl RowIndex) -> Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(super) fn time_if_any(row: &Row<'_>, column: impl RowIndex) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(super) fn micros_if_any(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::as_micros)
}

pub(super) fn span(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn span_of(row: &Row<'_>, column: impl RowIndex) -> Result<Duration> {
    row.get(column).map(Duration::from_micros)
}

pub(super) fn partition(row: &Row<'_>) -> Result<Partition> {
    partition_at(row, "partition")
}

pub(super) fn partition_at(row: &Row<'_>, column: impl RowIndex) -> Result<Partition> {
    let number = row.get(column)?;
    Partition::from_number(number).ok_or_else(|| odd("partition", number))
}

pub(super) const fn order(order: Order) -> i64 {
    match order {
        Order::Due => 0,
        Order::Fifo => 1,
    }
}

pub(super) fn order_of(row: &Row<'_>) -> Result<Order> {
    match row.get("turn_order")? {
        0 => Ok(Order::Due),
        1 => Ok(Order::Fifo),
        number => Err(odd("turn_order", number)),
    }
}

pub(super) const fn cause(cause: Cause) -> i64 {
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

fn cause_of(row: &Row<'_>) -> Result<Cause> {
    let number: i64 = row.get("cause")?;
    let known = Cause::ALL.into_iter().find(|known| cause(*known) == number);
    known.ok_or_else(|| odd("cause", number))
}

/// Returns the number of a delivery's state.
pub(super) const fn delivery(state: Delivery) -> i64 {
    match state {
        Delivery::Pending(_) => PENDING,
        Delivery::Delivered => DELIVERED,
        Delivery::Dead(_) => DEAD,
        Delivery::Cancelled => CANCELLED,
    }
}

/// Reads where a delivery stands from its columns.
pub(super) fn delivery_of(row: &Row<'_>) -> Result<Delivery> {
    match row.get("state")? {
        PENDING => pending_of(row).map(Delivery::Pending),
        DELIVERED => Ok(Delivery::Delivered),
        DEAD => cause_of(row).map(Delivery::Dead),
        CANCELLED => Ok(Delivery::Cancelled),
        number => Err(odd("state", number)),
    }
}

/// Reads due time and budget of a pending delivery from its columns.
fn pending_of(row: &Row<'_>) -> Result<Pending> {
    let budget = Budget {
        attempts: row.get("attempts")?,
        ambiguous: row.get("ambiguous")?,
        last_wait: span_of(row, "last_wait")?,
        expires_at: time_if_any(row, "expires_at")?,
    };
    Ok(Pending { due: time(row, "due")?, budget })
}

/// Returns an endpoint's state and, if it is disabled, the reason. The partial index of tombstones
/// names the last one as a number.
pub(super) const fn endpoint_state(state: State) -> (i64, Option<i64>) {
    match state {
        State::Active => (0, None),
        State::Paused => (1, None),
        State::Disabled(Reason::Gone) => (2, Some(0)),
        State::Disabled(Reason::PermanentStreak) => (2, Some(1)),
        State::Disabled(Reason::WithoutSuccess) => (2, Some(2)),
        State::Disabled(Reason::ByPerson) => (2, Some(3)),
        State::Deleted => (3, None),
    }
}

pub(super) fn endpoint_state_of(row: &Row<'_>) -> Result<State> {
    let stored: (i64, Option<i64>) = (row.get("state")?, row.get("reason")?);
    let known = [
        State::Active,
        State::Paused,
        State::Disabled(Reason::Gone),
        State::Disabled(Reason::PermanentStreak),
        State::Disabled(Reason::WithoutSuccess),
        State::Disabled(Reason::ByPerson),
        State::Deleted,
    ];
    let known = known.into_iter().find(|known| endpoint_state(*known) == stored);
    known.ok_or_else(|| odd("state", stored.0))
}

/// Writes the endpoints that a message went to: eight bytes each.
pub(super) fn fan_out(endpoints: impl Iterator<Item = EndpointKey>) -> Vec<u8> {
    endpoints.flat_map(|endpoint| endpoint.0.to_be_bytes()).collect()
}

pub(super) fn fan_out_of(row: &Row<'_>) -> Result<Vec<EndpointKey>> {
    let bytes = row.get_ref("fan_out")?.as_blob()?;
    let (chunks, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(odd("fan_out", format_args!("{} bytes", bytes.len())));
    }
    Ok(chunks.iter().map(|chunk| EndpointKey(i64::from_be_bytes(*chunk))).collect())
}

/// Reads a column that holds a document.
pub(super) fn document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| odd(column, error))
}

/// Reads headers.
pub(super) fn headers(row: &Row<'_>, column: &str) -> Result<Headers> {
    Headers::from_stored(row.get(column)?).map_err(|error| odd(column, error))
}

/// Writes a document.
pub(super) fn text_of<T: serde::Serialize>(document: &T) -> Result<String> {
    serde_json::to_string(document)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Writes a key as text.
pub(super) fn hex(key: &[u8; KEY_BYTES]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a key from text.
pub(super) fn from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    if text.len() != KEY_BYTES * 2 || !text.is_ascii() {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (place, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[place * 2..place * 2 + 2], 16).ok()?;
    }
    Some(key)
}

/// Writes a moment for people, to the second, in UTC.
pub(super) fn readable(time: Timestamp) -> String {
    let (days, seconds) =
        (time.as_seconds().div_euclid(86_400), time.as_seconds().rem_euclid(86_400));
    // Days are counted from 0000-03-01, so that a leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (year + era * 400, month + 3),
        _ => (year + era * 400 + 1, month - 9),
    };
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_for_people() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_800_000_000, "2027-01-15T08:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(readable(Timestamp::from_seconds(seconds)), text);
        }
    }

    #[test]
    fn a_key_reads_as_it_was_written_and_nothing_else_does() {
        let key: [u8; KEY_BYTES] = std::array::from_fn(|place| u8::try_from(place * 8).unwrap());
        assert_eq!(from_hex(&hex(&key)), Some(key));
        for text in ["", "00", &"g0".repeat(32), &"é".repeat(32), &"+1".repeat(32)[..63]] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn stored_numbers_keep_their_meaning() {
        assert_eq!(Cause::ALL.map(cause), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!([order(Order::Due), order(Order::Fifo)], [0, 1]);
        assert_eq!(endpoint_state(State::Deleted), (3, None));
        assert_eq!(fan_out([EndpointKey(258)].into_iter()), [0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
