//! Pages of a list, for every kind of row alike.
//!
//! A list is two statements, one for each way. Each walks one index from behind a start value, and
//! takes as parameters: whose list it is (if it is anybody's), the start value, and the most rows
//! to look at. Rows are read one by one, so a page that is full early costs no more than it shows.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::failure;
use crate::Error;
use crate::damage::Notes;
use crate::ledger::MOST_WALKED;
use crate::page::{From, Listed, Page};

/// A list, and which part of it is wanted.
pub(super) struct List<'a, Id> {
    /// The statement that walks in the list's natural order.
    pub(super) onwards: &'static str,
    /// The statement that walks against it.
    pub(super) backwards: &'static str,
    /// Whose list it is.
    pub(super) whose: Option<i64>,
    /// A start value before the whole list.
    pub(super) beginning: Vec<Value>,
    /// Makes a start value of an id.
    pub(super) at: fn(&Id) -> Vec<Value>,
    /// Which part is wanted.
    pub(super) page: &'a Page<Id>,
}

/// Walks a list, and keeps what `read` makes an entry of. A row that does not read as what it
/// should be is passed over and noted.
pub(super) fn page<Id, Entry>(
    connection: &Connection,
    notes: &Notes,
    list: List<'_, Id>,
    mut read: impl FnMut(&Row<'_>) -> Result<(Id, Option<Entry>), Error>,
) -> Result<Listed<Entry, Id>, Error> {
    let List { onwards, backwards, whose, beginning, at, page } = list;
    let (sql, start) = match &page.from {
        From::Start => (onwards, beginning),
        From::After(id) => (onwards, at(id)),
        From::Before(id) => (backwards, at(id)),
    };
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let most = i64::from(MOST_WALKED);
    let whose = whose.map(Value::Integer);
    let parameters = whose.into_iter().chain(start).chain([Value::Integer(most + 1)]);
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(parameters))?;
    let mut listed = Listed { entries: Vec::new(), reached: None, done: true };
    let mut walked = 0;
    while let Some(row) = rows.next()? {
        if walked == most || listed.entries.len() == limit {
            listed.done = false;
            break;
        }
        walked += 1;
        if let Some((id, entry)) = readable(notes, row, read(row))? {
            listed.entries.extend(entry);
            listed.reached = Some(id);
        }
    }
    match page.from {
        From::Start | From::After(_) => {}
        From::Before(_) => listed.entries.reverse(),
    }
    Ok(listed)
}

/// Passes over a row that does not read as what it should be, and notes it.
pub(super) fn readable<T>(
    notes: &Notes,
    row: &Row<'_>,
    read: Result<T, Error>,
) -> Result<Option<T>, Error> {
    notes.readable(read.map_err(|error| failure::at_row(row, error)))
}

/// A start value before all ids, for a list that ascends.
pub(super) fn before_all_ids() -> Vec<Value> {
    vec![Value::Blob(Vec::new())]
}

/// A start value behind all ids, for a list that descends.
pub(super) fn behind_all_ids() -> Vec<Value> {
    vec![Value::Blob(vec![0xff; 21])]
}

/// A start value at an id.
pub(super) fn at_id<N: domain::ids::Noun>(id: &domain::ids::Id<N>) -> Vec<Value> {
    vec![Value::Blob(id.as_bytes().to_vec())]
}
