//! Reading and writing columns: spans as microseconds, ids as bytes. Enums are in `codes`.

use std::time::Duration;

use domain::delivery::{Budget, Delivery, Pending};
use domain::endpoint::State;
use domain::ids::Id;
use domain::partition::Partition;
use domain::time::Timestamp;
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Result, Row, RowIndex};

use crate::damage::Notes;
use crate::keys::EndpointKey;
use crate::queue::Order;
use crate::{Error, Headers, codes};

/// Says that a column does not hold what it should.
pub(crate) fn odd(column: &str, value: impl std::fmt::Display) -> rusqlite::Error {
    let text = format!("`{column}` holds {value}");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Null, text.into())
}

pub(crate) fn id<N: domain::ids::Noun>(row: &Row<'_>, column: impl RowIndex) -> Result<Id<N>> {
    row.get::<_, [u8; 20]>(column).map(Id::from_bytes)
}

pub(crate) fn id_if_any<N: domain::ids::Noun>(
    row: &Row<'_>,
    column: &str,
) -> Result<Option<Id<N>>> {
    Ok(row.get::<_, Option<[u8; 20]>>(column)?.map(Id::from_bytes))
}

pub(crate) fn time(row: &Row<'_>, column: impl RowIndex) -> Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(crate) fn time_if_any(row: &Row<'_>, column: impl RowIndex) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(crate) fn micros_if_any(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::as_micros)
}

pub(crate) fn span_of(row: &Row<'_>, column: impl RowIndex) -> Result<Duration> {
    row.get(column).map(Duration::from_micros)
}

pub(crate) fn partition(row: &Row<'_>) -> Result<Partition> {
    partition_at(row, "partition")
}

pub(crate) fn partition_at(row: &Row<'_>, column: impl RowIndex) -> Result<Partition> {
    let number = row.get(column)?;
    Partition::from_number(number).ok_or_else(|| odd("partition", number))
}

pub(crate) fn order_of(row: &Row<'_>) -> Result<Order> {
    Ok(codes::read_order(row.get("turn_order")?)?)
}

/// Reads where a delivery stands from its columns.
pub(crate) fn delivery_of(row: &Row<'_>) -> Result<Delivery> {
    codes::read_delivery(row.get("state")?, || pending_of(row), || row.get("cause"))
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

pub(crate) fn endpoint_state_of(row: &Row<'_>) -> Result<State> {
    Ok(codes::read_state(row.get("state")?, row.get("reason")?)?)
}

/// Writes the endpoints that a message went to: eight bytes each.
pub(crate) fn fan_out(endpoints: impl Iterator<Item = EndpointKey>) -> Vec<u8> {
    endpoints.flat_map(|endpoint| endpoint.0.to_be_bytes()).collect()
}

pub(crate) fn fan_out_of(row: &Row<'_>) -> Result<Vec<EndpointKey>> {
    let bytes = row.get_ref("fan_out")?.as_blob()?;
    let (chunks, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(odd("fan_out", format_args!("{} bytes", bytes.len())));
    }
    Ok(chunks.iter().map(|chunk| EndpointKey(i64::from_be_bytes(*chunk))).collect())
}

/// Reads a column that holds a document.
pub(crate) fn document<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| odd(column, error))
}

/// Reads a column that may hold a document.
pub(crate) fn document_if_any<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: &str,
) -> Result<Option<T>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(serde_json::from_str).transpose().map_err(|error| odd(column, error))
}

/// Reads headers.
pub(crate) fn headers(row: &Row<'_>, column: &str) -> Result<Headers> {
    Headers::from_stored(row.get(column)?).map_err(|error| odd(column, error))
}

/// Writes a document.
pub(crate) fn text_of<T: serde::Serialize>(document: &T) -> Result<String> {
    serde_json::to_string(document)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Passes over a row that does not read as what it should be, and notes it.
pub(crate) fn readable<T>(
    notes: &Notes,
    row: &Row<'_>,
    read: Result<T, Error>,
) -> Result<Option<T>, Error> {
    notes.readable(read.map_err(|error| at_row(row, error)))
}

/// Says of a damaged row which one it is, as far as its columns tell.
pub(crate) fn at_row(row: &Row<'_>, error: Error) -> Error {
    let Error::Damaged { text, .. } = error else {
        return error;
    };
    let statement: &rusqlite::Statement<'_> = row.as_ref();
    let keys = ["key", "id", "application", "hash", "endpoint", "message", "name", "minute"];
    let told = keys.iter().filter_map(|column| {
        let value = row.get_ref(statement.column_index(column).ok()?).ok()?;
        Some(format!("{column} {}", told(value)))
    });
    Error::Damaged { what: format!("the row of {}", told.collect::<Vec<_>>().join(", ")), text }
}

/// Tells a value that is part of a key.
fn told(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ValueRef::Null | ValueRef::Real(_) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fan_out_is_eight_bytes_for_each_endpoint() {
        assert_eq!(fan_out([EndpointKey(258)].into_iter()), [0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
