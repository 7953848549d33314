//! Pages of a list, for every kind of row alike.
//!
//! A list is one statement for both ways. It walks one index from behind a start value, and takes as
//! parameters: whose list it is (if it is anybody's), the start value, and the most rows to look at.
//! Rows are read one by one, so a page that is full early costs no more than it shows, and one that
//! takes too long ends early.

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Row, params_from_iter};

use crate::Error;
use crate::damage::Notes;
use crate::ledger::MOST_WALKED;
use crate::page::{Direction, Fill, From, Listed, Page, direct};
use crate::sqlite::row;

/// A list, and which part of it is wanted.
pub(crate) struct List<'a, Id, Entry> {
    /// The statement that walks, with `{compare}` and `{direction}` for its way.
    pub(crate) statement: &'static str,
    /// Its natural order.
    pub(crate) direction: Direction,
    /// Whose list it is.
    pub(crate) whose: Option<i64>,
    /// A start value before the whole list.
    pub(crate) beginning: Vec<Value>,
    /// Makes a start value of an id.
    pub(crate) at: fn(&Id) -> Vec<Value>,
    /// Returns how many bytes an entry has.
    pub(crate) bytes: fn(&Entry) -> usize,
    /// Which part is wanted.
    pub(crate) page: &'a Page<Id>,
}

/// Walks a list, and keeps what `read` makes an entry of. A row that does not read as what it
/// should be is passed over and noted.
pub(crate) fn page<Id, Entry>(
    connection: &Connection,
    notes: &Notes,
    list: List<'_, Id, Entry>,
    mut read: impl FnMut(&Row<'_>) -> Result<(Id, Option<Entry>), Error>,
) -> Result<Listed<Entry, Id>, Error> {
    let List { statement, direction, whose, beginning, at, bytes, page } = list;
    let start = match &page.from {
        From::Start => beginning,
        From::After(id) | From::Before(id) => at(id),
    };
    let sql = direct(statement, direction.is_upwards(&page.from));
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let most = i64::from(MOST_WALKED);
    let whose = whose.map(Value::Integer);
    let parameters = whose.into_iter().chain(start).chain([Value::Integer(most + 1)]);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(parameters))?;
    let mut listed = Listed { entries: Vec::new(), reached: None, done: true };
    let (mut walked, mut fill) = (0, Fill::default());
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => break,
            Err(error) if listed.reached.is_some() && is_interrupted(&error) => {
                listed.done = false;
                break;
            }
            Err(error) => return Err(error.into()),
        };
        if walked == most || listed.entries.len() == limit {
            listed.done = false;
            break;
        }
        walked += 1;
        if let Some((id, entry)) = row::readable(notes, row, read(row))? {
            if entry.as_ref().is_some_and(|entry| !fill.takes(bytes(entry))) {
                listed.done = false;
                break;
            }
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

/// Tells whether a read was ended because it took too long.
fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

/// A start value before all ids, for a list that ascends.
pub(crate) fn before_all_ids() -> Vec<Value> {
    vec![Value::Blob(Vec::new())]
}

/// A start value behind all ids, for a list that descends.
pub(crate) fn behind_all_ids() -> Vec<Value> {
    vec![Value::Blob(vec![0xff; 21])]
}

/// A start value at an id.
pub(crate) fn at_id<N: domain::ids::Noun>(id: &domain::ids::Id<N>) -> Vec<Value> {
    vec![Value::Blob(id.as_bytes().to_vec())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_takes_too_long_ends_early_and_the_next_goes_on_from_there() {
        let mut connection = Connection::open_in_memory().unwrap();
        let numbers = "CREATE TABLE one (id INTEGER PRIMARY KEY);
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
            INSERT INTO one SELECT i FROM n";
        connection.execute_batch(numbers).unwrap();
        let mut looks = 0;
        let is_over = move || {
            looks += 1;
            looks % 50 == 0
        };
        connection.progress_handler(100, Some(is_over)).unwrap();
        for forwards in [true, false] {
            let (mut found, mut pages) = (Vec::new(), 0);
            let mut from = if forwards { From::Start } else { From::Before(5_001) };
            loop {
                let list = List {
                    statement: "SELECT id FROM one
                        WHERE id {compare} ?1 ORDER BY id {direction} LIMIT ?2",
                    direction: Direction::Ascending,
                    whose: None,
                    beginning: vec![Value::Integer(0)],
                    at: |id: &i64| vec![Value::Integer(*id)],
                    bytes: |_| 0,
                    page: &Page { from, limit: 10_000 },
                };
                let read = |row: &Row<'_>| {
                    let id: i64 = row.get(0)?;
                    Ok((id, Some(id)))
                };
                let listed = page(&connection, &Notes::default(), list, read).unwrap();
                pages += 1;
                found.extend(listed.entries);
                if listed.done {
                    break;
                }
                let reached = listed.reached.unwrap();
                from = if forwards { From::After(reached) } else { From::Before(reached) };
            }
            assert!(pages > 2, "{pages} pages");
            found.sort_unstable();
            assert!(found.iter().copied().eq(1..=5_000), "{} entries", found.len());
        }
    }
}
