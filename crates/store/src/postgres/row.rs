//! Reading columns. What does not read as it should is reported, never a panic.

use domain::delivery::{Budget, Delivery, Pending};
use domain::ids::{Id, Noun};
use domain::partition::Partition;
use domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::damage::Notes;
use crate::{Error, Headers, codes};

/// Reads a column.
pub(crate) fn field<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, Error> {
    row.try_get(name).map_err(|error| damaged(name, error))
}

/// Reads an id.
pub(crate) fn id<N: Noun>(row: &Row, name: &str) -> Result<Id<N>, Error> {
    read_id(field(row, name)?, name)
}

/// Reads an id that may be missing.
pub(crate) fn optional_id<N: Noun>(row: &Row, name: &str) -> Result<Option<Id<N>>, Error> {
    field::<Option<&[u8]>>(row, name)?.map(|bytes| read_id(bytes, name)).transpose()
}

/// Tells whether there is no id in a column: what was to be joined is gone.
pub(crate) fn is_missing(row: &Row, name: &str) -> Result<bool, Error> {
    Ok(field::<Option<&[u8]>>(row, name)?.is_none())
}

fn read_id<N: Noun>(bytes: &[u8], name: &str) -> Result<Id<N>, Error> {
    let bytes = bytes.try_into().map_err(|_| damaged(name, "an id has 20 bytes"))?;
    Ok(Id::from_bytes(bytes))
}

/// Reads a moment.
pub(crate) fn moment(row: &Row, name: &str) -> Result<Timestamp, Error> {
    field(row, name).map(Timestamp::from_micros)
}

/// Reads a moment that may be missing.
pub(crate) fn optional_moment(row: &Row, name: &str) -> Result<Option<Timestamp>, Error> {
    Ok(field::<Option<i64>>(row, name)?.map(Timestamp::from_micros))
}

/// Reads a count.
pub(crate) fn count(row: &Row, name: &str) -> Result<u32, Error> {
    field(row, name).map(codes::count)
}

/// Reads a status that may be missing.
pub(crate) fn status(row: &Row, name: &str) -> Result<Option<u16>, Error> {
    Ok(field::<Option<i32>>(row, name)?.and_then(|status| u16::try_from(status).ok()))
}

/// Reads a partition.
pub(crate) fn partition(row: &Row, name: &str) -> Result<Partition, Error> {
    let number: i16 = field(row, name)?;
    let partition = u8::try_from(number).ok().and_then(Partition::from_number);
    partition.ok_or_else(|| unknown("a partition", number))
}

/// Reads a document.
pub(crate) fn document<T: serde::de::DeserializeOwned>(row: &Row, name: &str) -> Result<T, Error> {
    serde_json::from_str(field(row, name)?).map_err(|error| damaged(name, error))
}

/// Reads a document that may be missing.
pub(crate) fn optional_document<T: serde::de::DeserializeOwned>(
    row: &Row,
    name: &str,
) -> Result<Option<T>, Error> {
    let text = field::<Option<&str>>(row, name)?;
    text.map(serde_json::from_str).transpose().map_err(|error| damaged(name, error))
}

/// Reads headers.
pub(crate) fn headers(row: &Row, name: &str) -> Result<Headers, Error> {
    Headers::from_stored(field(row, name)?).map_err(|error| damaged(name, error))
}

/// Reads the columns that say when a delivery is due and what is left of its budget.
pub(crate) fn pending(row: &Row) -> Result<Pending, Error> {
    let budget = Budget {
        attempts: count(row, "attempts")?,
        ambiguous: count(row, "ambiguous")?,
        last_wait: codes::span(field(row, "last_wait")?),
        expires_at: optional_moment(row, "expires_at")?,
    };
    Ok(Pending { due: moment(row, "due")?, budget })
}

/// Reads the columns that say where a delivery stands.
pub(crate) fn delivery(row: &Row) -> Result<Delivery, Error> {
    codes::read_delivery(field(row, "state")?, || pending(row), || field(row, "cause"))
}

/// Writes a document.
pub(crate) fn write<T: serde::Serialize>(what: &str, document: &T) -> Result<String, Error> {
    serde_json::to_string(document).map_err(|error| damaged(what, error))
}

/// Reads rows; those that do not read as what they should be are passed over and noted.
pub(crate) fn readable<T>(
    notes: &Notes,
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let read = rows.iter().map(|row| notes.readable(read(row).map_err(|error| at_row(row, error))));
    read.filter_map(Result::transpose).collect()
}

/// Says of a damaged row which one it is, as far as its columns tell.
pub(crate) fn at_row(row: &Row, error: Error) -> Error {
    let Error::Damaged { what, text } = error else {
        return error;
    };
    let numbers = ["application", "endpoint", "message", "key", "minute"];
    let mut told: Vec<String> = numbers
        .iter()
        .filter_map(|name| Some(format!("{name} {}", row.try_get::<_, i64>(*name).ok()?)))
        .collect();
    for name in ["id", "hash"] {
        if let Ok(bytes) = row.try_get::<_, &[u8]>(name) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            told.push(format!("{name} {hex}"));
        }
    }
    Error::Damaged { what: format!("{what} of the row of {}", told.join(", ")), text }
}

/// Reports a column that does not read as it should.
pub(crate) fn damaged(what: &str, text: impl std::fmt::Display) -> Error {
    Error::Damaged { what: format!("column `{what}`"), text: text.to_string() }
}

/// Reports something that no version of this store wrote.
pub(crate) fn unknown(what: &str, number: impl std::fmt::Display) -> Error {
    Error::Damaged { what: what.to_owned(), text: format!("{number} is none that is known") }
}
