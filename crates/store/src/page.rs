//! Pages of a list: by id, in both directions, never by offset.
//!
//! A page ends with its last entry, with its limit, or before the entry with which it would have more than
//! [`PAGE_BYTES`]. No list reads further than that.

use std::io::{self, Write};

use serde::Serialize;

use crate::ledger::MOST_WALKED;
use crate::limits::PAGE_BYTES;

/// Which part of a list is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<Id> {
    /// Where the page begins.
    pub from: From<Id>,
    /// The most entries it may have.
    pub limit: u32,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From<Id> {
    /// At the beginning of the list.
    Start,
    /// Behind this entry.
    After(Id),
    /// So that it ends just before this entry.
    Before(Id),
}

/// A page. Its entries are in the list's natural order, whichever way it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T, Id> {
    /// The entries.
    pub entries: Vec<T>,
    /// How far the walk got: where the next page in the same direction begins. With filters, a
    /// page may be short or even empty and still not be the last.
    pub reached: Option<Id>,
    /// Whether the list ends here, in the direction of the walk.
    pub done: bool,
}

/// How many bytes a page has, as it fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    bytes: usize,
    most: usize,
    begun: bool,
}

impl Default for Fill {
    fn default() -> Self {
        Self::up_to(PAGE_BYTES)
    }
}

impl Fill {
    /// Begins an empty page.
    #[must_use]
    pub const fn up_to(most: usize) -> Self {
        Self { bytes: 0, most, begun: false }
    }

    /// Tells whether an entry of so many bytes fits, and counts it if it does. The first one always fits.
    pub const fn takes(&mut self, bytes: usize) -> bool {
        let sum = self.bytes.saturating_add(bytes);
        if self.begun && sum > self.most {
            return false;
        }
        (self.bytes, self.begun) = (sum, true);
        true
    }
}

/// Makes a page of rows that are given by ascending id, of those that `keep` makes an entry of. A list has
/// its natural order, and its entries have their bytes.
pub(crate) fn of_rows<Id: Ord + Clone, Row, Entry, Refused>(
    rows: impl DoubleEndedIterator<Item = (Id, Row)>,
    (direction, bytes): (Direction, fn(&Entry) -> usize),
    page: &Page<Id>,
    mut keep: impl FnMut(&Id, Row) -> Result<Option<Entry>, Refused>,
) -> Result<Listed<Entry, Id>, Refused> {
    let backwards = matches!(page.from, From::Before(_));
    let upwards = direction.is_upwards(&page.from);
    let ahead = |id: &Id| match &page.from {
        From::Start => true,
        From::After(start) | From::Before(start) if upwards => id > start,
        From::After(start) | From::Before(start) => id < start,
    };
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let most = usize::try_from(MOST_WALKED).unwrap_or(usize::MAX);
    let rows: Box<dyn Iterator<Item = (Id, Row)> + '_> =
        if upwards { Box::new(rows) } else { Box::new(rows.rev()) };
    let mut fill = Fill::default();
    let mut listed = Listed { entries: Vec::new(), reached: None, done: true };
    for (walked, (id, row)) in rows.filter(|(id, _)| ahead(id)).enumerate() {
        if walked == most || listed.entries.len() == limit {
            listed.done = false;
            break;
        }
        let entry = keep(&id, row)?;
        if entry.as_ref().is_some_and(|entry| !fill.takes(bytes(entry))) {
            listed.done = false;
            break;
        }
        listed.entries.extend(entry);
        listed.reached = Some(id);
    }
    if backwards {
        listed.entries.reverse();
    }
    Ok(listed)
}

/// Returns how many bytes a value has as JSON.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);

    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // What cannot be written was never read from a row.
    serde_json::to_writer(&mut count, value).map_or(0, |()| count.0)
}

/// The natural order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Smallest id first.
    Ascending,
    /// Largest id first.
    Descending,
}

impl Direction {
    /// Tells whether a walk for a page goes from smaller ids to larger ones.
    pub(crate) fn is_upwards<Id>(self, from: &From<Id>) -> bool {
        let backwards = matches!(from, From::Before(_));
        (self == Self::Ascending) != backwards
    }
}

/// Writes the way of a walk into its statement, for `{compare}` and `{direction}`.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn direct(statement: &str, upwards: bool) -> String {
    let (compare, direction) = if upwards { (">", "asc") } else { ("<", "desc") };
    statement.replace("{compare}", compare).replace("{direction}", direction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_what_fits_and_always_a_first_entry() {
        let mut fill = Fill::up_to(10);
        assert!(fill.takes(4) && fill.takes(6));
        assert!(!fill.takes(1) && fill.takes(0));
        let mut fill = Fill::up_to(10);
        assert!(fill.takes(11) && !fill.takes(1));
    }

    #[test]
    fn bytes_are_counted_as_they_are_written() {
        let value = serde_json::json!({ "a": [1, "ü\"", null] });
        assert_eq!(json_bytes(&value), value.to_string().len());
    }
}
