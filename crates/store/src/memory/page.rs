//! Pages of a list, for every kind of row alike.

use std::convert::Infallible;

use crate::page::{Direction, Listed, Page, of_rows};

/// Walks rows that are given by ascending id, and keeps those that `keep` makes an entry of. A list has
/// its natural order, and its entries have their bytes.
pub(super) fn page<Id: Ord + Clone, Row, Entry>(
    rows: impl DoubleEndedIterator<Item = (Id, Row)>,
    list: (Direction, fn(&Entry) -> usize),
    page: &Page<Id>,
    keep: impl Fn(&Id, Row) -> Option<Entry>,
) -> Listed<Entry, Id> {
    let kept = |id: &Id, row| Ok::<_, Infallible>(keep(id, row));
    of_rows(rows, list, page, kept).unwrap_or_else(|never| match never {})
}
